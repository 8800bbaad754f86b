//! A simulated manager: the real watch and the real decision.

use super::Guard;
use super::world::{Clock, Event, MILLI, World, worker_name};
use crate::name::{InstanceName, WorkerId};
use crate::protocol::{Care, Rebalance, Watch, decide};
use crate::store::FleetSnapshot;
use nagaya_clock::BootTime;

/// How often the external list is read, in milliseconds.
const SYNC_EVERY_MS: u64 = 5000;
/// Time between two consecutive requests of a manager, in microseconds.
const BETWEEN_SENDS: u64 = 100;

#[derive(Clone, Debug)]
pub(super) enum ManagerRequest {
    Snapshot,
    Dead {
        name: InstanceName,
        inc: u64,
        beat: u64,
    },
    Settle {
        run: String,
        birth: String,
    },
    Assign {
        name: InstanceName,
        inc: u64,
        workers: Vec<(WorkerId, u64)>,
    },
    Revoke {
        version: u64,
        workers: Vec<(WorkerId, u64, Option<InstanceName>)>,
    },
    Put {
        worker: WorkerId,
    },
}

pub(super) struct Manager {
    pub(super) clock: Clock,
    watch: Watch,
    process: u64,
    next_sync: BootTime,
}

impl Manager {
    pub(super) fn new(clock: Clock) -> Manager {
        Manager {
            clock,
            watch: Watch::default(),
            process: 0,
            next_sync: BootTime::ZERO,
        }
    }

    /// Restarts the manager, which loses all its observations.
    pub(super) fn restart(&mut self) {
        self.watch = Watch::default();
        self.process += 1;
    }
}

impl World<'_> {
    pub(super) fn wake_manager(&mut self, at: usize) {
        self.send(at, ManagerRequest::Snapshot, 0);
        let poll = u64::try_from(self.settings.timing.poll.as_micros()).unwrap_or(u64::MAX);
        let late = self.random.below(poll / 4);
        self.at(self.now + poll + late, Event::ManagerWake(at));
    }

    fn send(&mut self, at: usize, request: ManagerRequest, after: u64) {
        let (process, run) = (self.managers[at].process, self.store.run.clone());
        let sent = self.now + after;
        let moment = sent + self.delay();
        let event = Event::ManagerRequest {
            manager: at,
            process,
            sent,
            run,
            request,
        };
        self.at(moment, event);
    }

    pub(super) fn serve_manager(
        &mut self,
        at: usize,
        process: u64,
        sent: u64,
        run: String,
        request: ManagerRequest,
    ) {
        if run != self.store.run || self.is_lost() {
            return;
        }
        match request {
            ManagerRequest::Snapshot => {
                let snapshot = Box::new(self.store.snapshot());
                let moment = self.now + self.delay();
                let event = Event::ManagerReply {
                    manager: at,
                    process,
                    sent,
                    snapshot,
                };
                self.at(moment, event);
            }
            ManagerRequest::Dead { name, inc, beat } => {
                if self.store.declare_dead(&name, inc, beat).is_some() {
                    self.outcome.deaths += 1;
                }
            }
            ManagerRequest::Settle { run, birth } => self.store.settle(&run, &birth),
            ManagerRequest::Assign { name, inc, workers } => {
                self.store.assign(&name, inc, "place", &workers);
            }
            ManagerRequest::Revoke { version, workers } => {
                self.outcome.moves += self.store.revoke(version, "balance", &workers).unwrap_or(0);
            }
            ManagerRequest::Put { worker } => self.store.put(&worker, "c"),
        }
        self.check_records();
        if self.is_without(Guard::ListWithLease) {
            self.send_orders();
        }
    }

    /// Sends every agent its list, in a message that may arrive late.
    fn send_orders(&mut self) {
        for agent in 0..self.agents.len() {
            let (name, process) = (self.agents[agent].name.clone(), self.agents[agent].process);
            let list = self.store.list(&name);
            let moment = self.now + self.delay();
            let event = Event::Order { agent, process, list };
            self.at(moment, event);
        }
    }

    pub(super) fn manager_receives(&mut self, at: usize, process: u64, sent: u64, snapshot: FleetSnapshot) {
        // A late reply from another run is dropped: its connection is closed.
        if self.managers[at].process != process || snapshot.run != self.store.run {
            return;
        }
        let timing = self.settings.timing;
        let manager = &mut self.managers[at];
        let now = manager.clock.local(self.now);
        let seen = match self.settings.without {
            Some(Guard::SeenAtReceipt) => manager.clock.local(sent),
            _ => now,
        };
        manager.watch.observe(&snapshot, seen);
        let mut requests = Vec::new();
        for overdue in manager.watch.overdue(now, &timing) {
            requests.push(ManagerRequest::Dead {
                name: overdue.name,
                inc: overdue.inc,
                beat: overdue.beat,
            });
        }
        if let Some(run) = manager.watch.to_settle(&snapshot, now, &timing) {
            requests.push(ManagerRequest::Settle {
                run: run.to_owned(),
                birth: snapshot.birth.clone(),
            });
        }
        let sync = now >= manager.next_sync;
        if sync {
            manager.next_sync = now + std::time::Duration::from_millis(SYNC_EVERY_MS);
        }
        let places = snapshot.places.clone().unwrap_or_default();
        if sync {
            for worker in (0..self.settings.workers).map(worker_name) {
                if places.get(&worker).is_none_or(|place| place.remove) {
                    requests.push(ManagerRequest::Put { worker });
                }
            }
        }
        let rebalance = Rebalance {
            on: snapshot.settled == snapshot.run,
            ..Rebalance::default()
        };
        let decision = decide(&snapshot.instances, &places, &Care::default(), rebalance);
        if decision.assigns.is_empty() && !decision.revokes.is_empty() {
            let workers = decision.revokes.into_iter();
            requests.push(ManagerRequest::Revoke {
                version: snapshot.version,
                workers: workers.map(|(worker, epoch)| (worker, epoch, None)).collect(),
            });
        }
        for (name, (inc, workers)) in decision.assigns {
            requests.push(ManagerRequest::Assign { name, inc, workers });
        }
        for (index, request) in requests.into_iter().enumerate() {
            self.send(at, request, index as u64 * BETWEEN_SENDS.min(MILLI));
        }
    }
}
