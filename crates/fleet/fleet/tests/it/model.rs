//! The simulator's store against the real scripts: random calls, with every reply compared.

use std::collections::BTreeMap;

use nagaya_fleet::name::{InstanceName, WorkerId};
use nagaya_fleet::simulator::ModelStore;
use nagaya_fleet::store::{
    Beat, Capabilities, FleetSnapshot, InstanceState, Joined, Place, Pulse, Running, Store,
};
use nagaya_redis_client::Need;

use crate::support::{SHOWN, block_on, install, instance, quick, shared_store, whole, worker};

/// Numbers that depend only on the seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Both stores, and a map between their epochs, which come from clocks.
struct Pair {
    real: Store,
    model: ModelStore,
    run: String,
    /// Model epoch to real epoch.
    epochs: BTreeMap<u64, u64>,
}

impl Pair {
    fn real_epoch(&self, epoch: u64) -> u64 {
        self.epochs.get(&epoch).copied().unwrap_or(epoch)
    }

    /// Both stores draw epochs in the same order, so each model epoch maps to exactly one real one.
    fn pair_epochs(&mut self, model: u64, real: u64) {
        let known = *self.epochs.entry(model).or_insert(real);
        assert_eq!(known, real, "epoch {model} of the model stands for two");
    }

    fn pair_all_epochs(&mut self, real: &FleetSnapshot) {
        let places: Vec<(u64, u64)> = {
            let mine = self.model.snapshot().places.unwrap();
            let yours = real.places.as_ref().unwrap();
            assert_eq!(mine.keys().collect::<Vec<_>>(), yours.keys().collect::<Vec<_>>());
            mine.iter()
                .map(|(worker, place)| (place.epoch, yours[worker].epoch))
                .collect()
        };
        for (model, real) in places {
            self.pair_epochs(model, real);
        }
        let incs: Vec<(u64, u64)> = {
            let mine = self.model.snapshot().instances;
            assert_eq!(
                mine.keys().collect::<Vec<_>>(),
                real.instances.keys().collect::<Vec<_>>()
            );
            mine.iter()
                .map(|(name, record)| (record.inc, real.instances[name].inc))
                .collect()
        };
        for (model, real) in incs {
            self.pair_epochs(model, real);
        }
    }

    /// Compares all stored data except times and epochs.
    async fn compare(&mut self, after: &str) {
        let real = whole(&self.real).await;
        self.pair_all_epochs(&real);
        let mut mine = self.model.snapshot();
        assert_eq!(mine.version, real.version, "{after}");
        assert_eq!(mine.settled == mine.run, real.settled == real.run, "{after}");
        for (worker, place) in mine.places.as_mut().unwrap() {
            let yours = &real.places.as_ref().unwrap()[worker];
            place.epoch = self.real_epoch(place.epoch);
            place.since_ms = yours.since_ms;
            place.config.clone_from(&yours.config);
            place.run = self.real_run(&place.run);
            assert_eq!(place, yours, "{after}: {worker}");
        }
        for (name, record) in &mut mine.instances {
            let yours = &real.instances[name];
            record.inc = self.real_epoch(record.inc);
            record.since_ms = yours.since_ms;
            assert_eq!(record, yours, "{after}: {name}");
        }
    }

    fn real_run(&self, run: &str) -> String {
        if run == self.model.run {
            self.run.clone()
        } else {
            run.to_owned()
        }
    }

    fn inc(&self, name: &InstanceName, random: &mut Random) -> u64 {
        let known = self
            .model
            .snapshot()
            .instances
            .get(name)
            .map_or(1, |record| record.inc);
        // Sometimes an older one.
        if random.below(8) == 0 { 1 } else { known }
    }

    fn some_places(&self, random: &mut Random) -> Vec<(WorkerId, Place)> {
        let places = self.model.snapshot().places.unwrap();
        places.into_iter().filter(|_| random.below(2) == 0).collect()
    }

    async fn step(&mut self, random: &mut Random) -> String {
        let name = instance(["a", "b", "c"][random.below(3) as usize]);
        let one = worker(&format!("w{}", random.below(5)));
        match random.below(12) {
            0 => self.join(&name, random).await,
            1..=3 => self.beat(&name, random).await,
            4 => {
                self.model.put(&one, "c");
                self.real.put(&[install(one.as_str())]).await.unwrap();
                format!("put {one}")
            }
            5 => {
                self.model.uninstall(&one);
                self.real.uninstall(std::slice::from_ref(&one)).await.unwrap();
                format!("uninstall {one}")
            }
            6 | 7 => self.assign(&name, random).await,
            8 => self.revoke(random).await,
            9 => self.stopped(&name, random).await,
            10 => self.set_state(&name, random).await,
            _ => self.dead(&name, random).await,
        }
    }

    async fn join(&mut self, name: &InstanceName, random: &mut Random) -> String {
        let token = format!("t{}", random.below(100));
        let mine: Joined = self.model.join(name, &token, &Capabilities::default());
        let (_, yours) = self
            .real
            .join(name, &token, &Capabilities::default(), &quick())
            .await
            .unwrap();
        self.pair_epochs(mine.inc, yours.inc);
        assert_eq!((mine.before, mine.version), (yours.before, yours.version));
        assert_eq!(
            mine.list.keys().collect::<Vec<_>>(),
            yours.list.keys().collect::<Vec<_>>()
        );
        format!("join {name}")
    }

    async fn beat(&mut self, name: &InstanceName, random: &mut Random) -> String {
        let inc = self.inc(name, random);
        let known = self
            .model
            .snapshot()
            .instances
            .get(name)
            .map(|record| record.list_version);
        let known = known.filter(|_| random.below(2) == 0);
        let waited = random.below(4) == 0;
        let own = self.model.snapshot().places.unwrap_or_default();
        let own = own.iter().filter(|(_, place)| place.owner.as_ref() == Some(name));
        // Of one worker at most, so that both sides draw in the same order.
        let again = own.take(1).map(|(worker, place)| (worker.clone(), place.epoch));
        let again: Running = again.filter(|_| random.below(2) == 0).collect();
        let mut pulse = Pulse {
            inc,
            run: self.model.run.clone(),
            version: known,
            running: Running::new(),
            again: again.clone(),
            waited,
            ..Pulse::default()
        };
        let mine = self.model.heartbeat(name, &pulse);
        (pulse.inc, pulse.run) = (self.real_epoch(inc), self.run.clone());
        pulse.again = again
            .iter()
            .map(|(worker, epoch)| (worker.clone(), self.real_epoch(*epoch)))
            .collect();
        let beat = self.real.heartbeat(name, &pulse, SHOWN, Need::PRIMARY_ONLY);
        let yours = beat.await.unwrap().1;
        let real = whole(&self.real).await;
        self.pair_all_epochs(&real);
        match (mine, yours) {
            (Beat::Refused { state, token, inc }, yours) => {
                let inc = self.real_epoch(inc);
                assert_eq!(Beat::Refused { state, token, inc }, yours);
            }
            (
                Beat::Alive { version, list, .. },
                Beat::Alive {
                    version: real_version,
                    list: real_list,
                    ..
                },
            ) => {
                assert_eq!(version, real_version);
                assert_eq!(list.is_some(), real_list.is_some());
                for (worker, listed) in list.unwrap_or_default() {
                    let yours = &real_list.as_ref().unwrap()[&worker];
                    assert_eq!(
                        (self.real_epoch(listed.epoch), listed.state),
                        (yours.epoch, yours.state)
                    );
                }
            }
            (mine, yours) => panic!("{mine:?} but {yours:?}"),
        }
        format!("beat {name}")
    }

    async fn assign(&mut self, name: &InstanceName, random: &mut Random) -> String {
        let inc = self.inc(name, random);
        let items: Vec<_> = self
            .some_places(random)
            .into_iter()
            .map(|(w, place)| (w, place.epoch))
            .collect();
        let mine = self.model.assign(name, inc, "t", &items);
        let items: Vec<_> = items
            .into_iter()
            .map(|(w, epoch)| (w, self.real_epoch(epoch)))
            .collect();
        let real_inc = self.real_epoch(inc);
        let yours = self.real.assign(name, real_inc, "t", &items).await.unwrap();
        // An empty batch is not sent at all.
        assert!(mine == yours || items.is_empty(), "{mine:?} {yours:?}");
        format!("assign {name}")
    }

    async fn revoke(&mut self, random: &mut Random) -> String {
        let version = self.model.snapshot().version + u64::from(random.below(6) == 0);
        let items: Vec<_> = self
            .some_places(random)
            .into_iter()
            .map(|(w, place)| (w, place.epoch, None))
            .collect();
        let mine = self.model.revoke(version, "t", &items);
        let items: Vec<_> = items
            .into_iter()
            .map(|(w, epoch, next_owner)| (w, self.real_epoch(epoch), next_owner))
            .collect();
        assert_eq!(mine, self.real.revoke(version, "t", &items).await.unwrap());
        "revoke".into()
    }

    async fn stopped(&mut self, name: &InstanceName, random: &mut Random) -> String {
        let inc = self.inc(name, random);
        let items: Running = self
            .some_places(random)
            .into_iter()
            .map(|(w, place)| (w, place.epoch))
            .collect();
        let mine = self.model.stopped(name, inc, &items);
        let items: Running = items
            .into_iter()
            .map(|(w, epoch)| (w, self.real_epoch(epoch)))
            .collect();
        let real_inc = self.real_epoch(inc);
        assert_eq!(mine, self.real.stopped(name, real_inc, &items).await.unwrap());
        format!("stopped {name}")
    }

    async fn set_state(&mut self, name: &InstanceName, random: &mut Random) -> String {
        match random.below(3) {
            0 => {
                let inc = self.inc(name, random);
                let mine = self.model.set_state(name, Some(inc), InstanceState::Leaving);
                let real_inc = self.real_epoch(inc);
                assert_eq!(mine, self.real.leave(name, real_inc).await.unwrap());
                format!("leave {name}")
            }
            on => {
                let state = if on == 1 {
                    InstanceState::Draining
                } else {
                    InstanceState::Live
                };
                let mine = self.model.set_state(name, None, state);
                assert_eq!(mine, self.real.drain(name, on == 1).await.ok());
                format!("drain {name} {on}")
            }
        }
    }

    async fn dead(&mut self, name: &InstanceName, random: &mut Random) -> String {
        let inc = self.inc(name, random);
        let beat = self
            .model
            .snapshot()
            .instances
            .get(name)
            .map_or(0, |record| record.beat);
        let beat = beat - u64::from(beat > 0 && random.below(4) == 0);
        let mine = self.model.declare_dead(name, inc, beat);
        let real_inc = self.real_epoch(inc);
        assert_eq!(mine, self.real.declare_dead(name, real_inc, beat).await.unwrap());
        format!("dead {name}")
    }
}

#[test]
fn the_simulators_store_answers_as_the_scripts_do() {
    for seed in 0..12 {
        let real = shared_store();
        block_on(async {
            let run = real.run().await.unwrap();
            let mut pair = Pair {
                real,
                model: ModelStore::new("run", 1_000_000_000),
                run,
                epochs: BTreeMap::new(),
            };
            let mut random = Random(seed);
            let mut steps = Vec::new();
            for _ in 0..120 {
                let step = pair.step(&mut random).await;
                steps.push(step);
                pair.compare(&format!("seed {seed}: {:?}", steps.last())).await;
            }
        });
    }
}
