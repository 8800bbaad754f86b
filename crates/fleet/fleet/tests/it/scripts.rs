//! Every script, with its refusals.

use nagaya_fleet::store::{
    Beat, Capabilities, Error, InstanceState, ListedState, Pass, PlaceState, Pulse, Running, Store, pass_gate,
};
use nagaya_fleet::timing::Timing;
use nagaya_redis_client::Need;
use nagaya_testkit::shared;

use crate::support::{
    SHOWN, block_on, install, installs, instance, join, place_of, quick, shared_store, whole, worker,
};

async fn beat(store: &Store, name: &str, inc: u64, run: &str, running: &Running) -> Beat {
    let name = instance(name);
    let pulse = Pulse {
        inc,
        run: run.to_owned(),
        running: running.clone(),
        ..Pulse::default()
    };
    let beat = store.heartbeat(&name, &pulse, SHOWN, Need::PRIMARY_ONLY);
    beat.await.unwrap().1
}

#[test]
fn a_worker_goes_from_install_to_removal_through_acknowledged_steps() {
    let store = shared_store();
    block_on(async {
        let (a, b) = (join(&store, "a", "ta").await, join(&store, "b", "tb").await);
        assert!(b.inc > a.inc);
        store.put(&installs(1)).await.unwrap();
        let pending = place_of(&store, "w0000").await.unwrap();
        assert_eq!((pending.state, pending.owner), (PlaceState::Pending, None));
        let items = [(worker("w0000"), pending.epoch)];
        assert_eq!(
            store
                .assign(&instance("a"), a.inc + 1, "t", &items)
                .await
                .unwrap(),
            None
        );
        assert_eq!(
            store.assign(&instance("a"), a.inc, "t", &items).await.unwrap(),
            Some(1)
        );
        // The same decision again finds nothing to do.
        assert_eq!(
            store.assign(&instance("b"), b.inc, "t", &items).await.unwrap(),
            Some(0)
        );
        let placed = place_of(&store, "w0000").await.unwrap();
        assert!(placed.epoch > pending.epoch);

        let version = whole(&store).await.version;
        let revoke = [(worker("w0000"), placed.epoch, None)];
        assert_eq!(store.revoke(version - 1, "t", &revoke).await.unwrap(), None);
        assert_eq!(store.revoke(version, "t", &revoke).await.unwrap(), Some(1));
        let Beat::Alive { list, .. } = beat(&store, "a", a.inc, "", &Running::new()).await else {
            panic!("refused");
        };
        assert_eq!(list.unwrap()[&worker("w0000")].state, ListedState::Stop);
        // Only the owner, with that incarnation and epoch, can acknowledge.
        for (name, inc, epoch) in [
            ("b", b.inc, placed.epoch),
            ("a", b.inc, placed.epoch),
            ("a", a.inc, 1),
        ] {
            let stopped = [(worker("w0000"), epoch)].into();
            store.stopped(&instance(name), inc, &stopped).await.unwrap();
            assert_eq!(
                place_of(&store, "w0000").await.unwrap().state,
                PlaceState::Revoking
            );
        }
        let stopped = [(worker("w0000"), placed.epoch)].into();
        store.stopped(&instance("a"), a.inc, &stopped).await.unwrap();
        assert_eq!(
            place_of(&store, "w0000").await.unwrap().state,
            PlaceState::Pending
        );
        store.uninstall_one(&worker("w0000")).await.unwrap();
        assert_eq!(place_of(&store, "w0000").await, None);
    });
}

#[test]
fn uninstall_and_install_never_forget_the_copy_that_still_runs() {
    let store = shared_store();
    block_on(async {
        let a = join(&store, "a", "t").await;
        store.install(&install("w")).await.unwrap();
        let epoch = place_of(&store, "w").await.unwrap().epoch;
        store.uninstall_one(&worker("w")).await.unwrap();
        let again = store.uninstall_one(&worker("w")).await.unwrap_err();
        assert_eq!(again.code(), Some("NOT_INSTALLED"));
        let place = place_of(&store, "w").await.unwrap();
        assert!(place.remove && place.state == PlaceState::Revoking && place.owner.is_some());
        store.install(&install("w")).await.unwrap();
        let place = place_of(&store, "w").await.unwrap();
        assert!(!place.remove && place.state == PlaceState::Revoking);
        let stopped = [(worker("w"), epoch)].into();
        store.stopped(&instance("a"), a.inc, &stopped).await.unwrap();
        assert_eq!(place_of(&store, "w").await.unwrap().state, PlaceState::Pending);
    });
}

#[test]
fn b3_a_death_is_declared_only_of_the_very_heartbeat_that_was_seen() {
    let store = shared_store();
    block_on(async {
        let a = join(&store, "a", "t").await;
        store.install(&install("w")).await.unwrap();
        let seen = whole(&store).await.instances[&instance("a")].clone();
        beat(&store, "a", a.inc, "", &Running::new()).await;
        let name = instance("a");
        assert_eq!(
            store.declare_dead(&name, seen.inc, seen.beat).await.unwrap(),
            None
        );
        // A restart under the same name is another incarnation.
        let again = join(&store, "a", "t2").await;
        assert_eq!(again.before, ["t"]);
        assert_eq!(
            store.declare_dead(&name, seen.inc, seen.beat + 1).await.unwrap(),
            None
        );
        let now = whole(&store).await.instances[&name].clone();
        assert_eq!(
            store.declare_dead(&name, now.inc, now.beat).await.unwrap(),
            Some(1)
        );
        assert_eq!(store.declare_dead(&name, now.inc, now.beat).await.unwrap(), None);
        let refused = beat(&store, "a", again.inc, "", &Running::new()).await;
        assert!(matches!(
            refused,
            Beat::Refused {
                state: Some(InstanceState::Dead),
                ..
            }
        ));
        assert_eq!(place_of(&store, "w").await.unwrap().state, PlaceState::Pending);
    });
}

#[test]
fn a_join_renews_all_epochs_and_an_older_incarnation_is_refused() {
    let store = shared_store();
    block_on(async {
        let first = join(&store, "a", "t1").await;
        store.install(&install("w")).await.unwrap();
        let before = place_of(&store, "w").await.unwrap().epoch;
        let second = join(&store, "a", "t2").await;
        assert!(second.list[&worker("w")].epoch > before);
        let refused = beat(&store, "a", first.inc, "", &Running::new()).await;
        let by = "t2".to_owned();
        assert_eq!(
            refused,
            Beat::Refused {
                state: Some(InstanceState::Live),
                token: by,
                inc: second.inc,
            }
        );
        assert_eq!(store.leave(&instance("a"), first.inc).await.unwrap(), None);
    });
}

#[test]
fn a_join_carried_out_twice_forgets_nobody_until_they_were_waited_for() {
    let store = shared_store();
    block_on(async {
        assert!(join(&store, "a", "t1").await.before.is_empty());
        assert_eq!(join(&store, "a", "t2").await.before, ["t1"]);
        let again = join(&store, "a", "t2").await;
        assert_eq!(again.before, ["t1"]);
        assert_eq!(join(&store, "a", "t3").await.before, ["t1", "t2"]);
        let last = join(&store, "a", "t3").await;
        let (name, inc) = (instance("a"), last.inc);
        let pulse = Pulse {
            inc,
            waited: true,
            ..Pulse::default()
        };
        let beat = store.heartbeat(&name, &pulse, SHOWN, Need::PRIMARY_ONLY);
        beat.await.unwrap();
        assert_eq!(join(&store, "a", "t4").await.before, ["t3"]);
    });
}

#[test]
fn a_new_run_renews_the_epochs_of_what_does_not_run() {
    let store = shared_store();
    block_on(async {
        let a = join(&store, "a", "t").await;
        store.put(&installs(2)).await.unwrap();
        let snapshot = whole(&store).await;
        let items: Vec<_> = snapshot
            .places
            .unwrap()
            .iter()
            .map(|(w, p)| (w.clone(), p.epoch))
            .collect();
        store.assign(&instance("a"), a.inc, "t", &items).await.unwrap();
        // As if another run had written them.
        let places = format!("{{{}}}:fleet:places", store.app());
        for name in ["w0000", "w0001"] {
            let line = shared::redis().cmd(&["HGET", &places, name]).text();
            let mut words: Vec<&str> = line.split(' ').collect();
            words[2] = "older";
            shared::redis().cmd(&["HSET", &places, name, &words.join(" ")]);
        }
        let epoch = place_of(&store, "w0000").await.unwrap().epoch;
        let running = [(worker("w0000"), epoch)].into();
        let version = whole(&store).await.version;
        let Beat::Alive { list, .. } = beat(&store, "a", a.inc, "other", &running).await else {
            panic!("refused");
        };
        let list = list.unwrap();
        assert_eq!(list[&worker("w0000")].epoch, epoch);
        assert!(list[&worker("w0001")].epoch > epoch);
        // A manager that decided by the old epochs would be refused forever if it did not see the change.
        assert!(whole(&store).await.version > version);
    });
}

#[test]
fn epochs_rise_over_a_lost_store() {
    let redis = nagaya_testkit::Redis::start();
    let store = crate::support::store_at(&redis.url());
    block_on(async {
        let first = join(&store, "a", "t").await.inc;
        assert!(join(&store, "a", "t").await.inc > first);
        redis.cmd(&["FLUSHALL"]);
        assert!(join(&store, "a", "t").await.inc > first);
    });
}

#[test]
fn the_documents_errors_come_in_the_documents_order() {
    let store = shared_store();
    let code = |error: Error| error.code().unwrap_or("none");
    block_on(async {
        let w = install("w");
        assert_eq!(code(store.install(&w).await.unwrap_err()), "NO_ACCEPTABLE_WORKER");
        assert_eq!(
            code(store.relocate(&w.worker, true).await.unwrap_err()),
            "NO_ACCEPTABLE_WORKER"
        );
        join(&store, "a", "t").await;
        assert_eq!(
            code(store.relocate(&w.worker, true).await.unwrap_err()),
            "NOT_INSTALLED"
        );
        assert_eq!(code(store.update(&w).await.unwrap_err()), "NOT_INSTALLED");
        store.install(&w).await.unwrap();
        assert_eq!(code(store.install(&w).await.unwrap_err()), "ALREADY_INSTALLED");
        let no_need = store.relocate(&w.worker, false).await.unwrap_err();
        assert_eq!(code(no_need), "NO_NEED_TO_RELOCATE");
        let no_other = store.relocate(&w.worker, true).await.unwrap_err();
        assert_eq!(code(no_other), "NO_OTHER_ACCEPTABLE_WORKER");
        join(&store, "b", "t").await;
        assert_eq!(store.relocate(&w.worker, true).await.unwrap(), instance("b"));
        assert_eq!(
            place_of(&store, "w").await.unwrap().next_owner,
            Some(instance("b"))
        );
    });
}

#[test]
fn installs_go_to_the_least_busy_also_when_many_come_at_once() {
    let store = shared_store();
    block_on(async {
        for name in ["a", "b", "c"] {
            join(&store, name, "t").await;
        }
        let many = installs(30);
        let calls = many.iter().map(|one| {
            let (store, one) = (store.clone(), one.clone());
            tokio::spawn(async move { store.install(&one).await })
        });
        for call in calls.collect::<Vec<_>>() {
            let placed = call.await.unwrap();
            assert!(matches!(placed, Ok(_) | Err(Error::Contended)), "{placed:?}");
        }
        let counts = crate::support::counts(&store).await;
        assert!(
            counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1,
            "{counts:?}"
        );
    });
}

#[test]
fn p10_records_survive_byte_for_byte() {
    let store = shared_store();
    block_on(async {
        join(&store, "a", "t").await;
        let mut odd = install("odd");
        odd.config =
            b"{\"id\":\"odd\",\"a\":[], \"n\":1234567890123456, \"b\":\"\\u00e9\\n\xff\x00\"}".to_vec();
        store.put(&[install("x"), odd.clone()]).await.unwrap();
        store.install(&install("y")).await.unwrap();
        let read = store.configs(&[worker("odd"), worker("x")]).await.unwrap();
        assert_eq!(read[&worker("odd")], odd.config);
        assert_eq!(read[&worker("x")], install("x").config);
        // Nothing changed, so nothing is written.
        assert_eq!(store.put(&[odd]).await.unwrap(), Default::default());
    });
}

#[test]
fn b5_a_broken_record_is_left_alone_and_harms_no_other() {
    let store = shared_store();
    block_on(async {
        let a = join(&store, "a", "t").await;
        for name in ["bad", "good"] {
            store.install(&install(name)).await.unwrap();
        }
        let places = format!("{{{}}}:fleet:places", store.app());
        shared::redis().cmd(&["HSET", &places, "bad", "poison"]);
        let Beat::Alive { list, .. } = beat(&store, "a", a.inc, "r", &Running::new()).await else {
            panic!("refused");
        };
        let list = list.unwrap();
        assert_eq!(list[&worker("bad")].state, ListedState::Unknown);
        assert_eq!(list[&worker("good")].state, ListedState::Run);
        let snapshot = whole(&store).await;
        assert!(snapshot.unreadable.contains("bad"));
        store.put(&[install("bad")]).await.unwrap();
        assert_eq!(shared::redis().cmd(&["HGET", &places, "bad"]).text(), "poison");
        join(&store, "a", "t2").await;
        store.uninstall_one(&worker("bad")).await.unwrap();
        assert!(whole(&store).await.unreadable.is_empty());
    });
}

#[test]
fn the_gate_lets_no_older_epoch_pass() {
    let store = shared_store();
    block_on(async {
        let gate = store.gate_key("w");
        let pass = |epoch| pass_gate(store.client(), &gate, epoch);
        assert_eq!(pass(5).await.unwrap(), Pass::Granted);
        assert_eq!(pass(5).await.unwrap(), Pass::Granted);
        assert_eq!(pass(1 << 52).await.unwrap(), Pass::Granted);
        let refused = pass((1 << 52) - 1).await.unwrap();
        assert_eq!(refused, Pass::Refused { newer_epoch: 1 << 52 });
    });
}

#[test]
fn readers_of_the_documents_keys_find_what_they_expect() {
    let store = shared_store();
    block_on(async {
        join(&store, "a", "t").await;
        store.install(&install("w")).await.unwrap();
        store.manager_beat(&instance("m"), SHOWN).await.unwrap();
        let redis = shared::redis();
        let key = |name: &str| format!("{{{}}}:{name}", store.app());
        let record = redis.cmd(&["HGET", &key("workers:a"), "w"]).text();
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        assert_eq!(record["instanceName"], "a");
        assert!(record["updatedMillisecond"].as_u64().unwrap() > 1_600_000_000_000);
        for name in ["slave:a:heartbeat", "master:m:heartbeat"] {
            let left = redis.cmd(&["PTTL", &key(name)]).int();
            assert!((15_000..=20_000).contains(&left), "{name}: {left}");
        }
    });
}

#[test]
fn the_first_manager_is_the_one_that_finds_no_other() {
    let store = shared_store();
    block_on(async {
        let (one, two) = (instance("one"), instance("two"));
        assert_eq!(store.manager_beat(&one, SHOWN).await.unwrap(), 0);
        // Its own heartbeat of a moment ago is not another manager's.
        assert_eq!(store.manager_beat(&one, SHOWN).await.unwrap(), 0);
        assert_eq!(store.manager_beat(&two, SHOWN).await.unwrap(), 1);
        store.manager_leave(&one).await.unwrap();
        assert_eq!(store.manager_beat(&two, SHOWN).await.unwrap(), 0);
    });
}

#[test]
fn an_instance_with_another_lease_is_refused_until_the_others_are_gone() {
    let store = shared_store();
    let longer = Timing {
        lease: quick().lease * 10,
        ..quick()
    };
    block_on(async {
        let first = join(&store, "a", "t").await;
        let (name, capabilities) = (instance("b"), Capabilities::default());
        let refused = store.join(&name, "t", &capabilities, &longer).await.unwrap_err();
        assert!(matches!(refused, Error::OtherTiming { .. }), "{refused}");
        assert_eq!(whole(&store).await.timing, quick().agreement());
        store.leave(&instance("a"), first.inc).await.unwrap();
        store.join(&name, "t", &capabilities, &longer).await.unwrap();
        assert_eq!(whole(&store).await.timing, longer.agreement());
    });
}

#[test]
fn the_history_tells_what_happened() {
    let store = shared_store();
    block_on(async {
        join(&store, "a", "t").await;
        store.install(&install("w")).await.unwrap();
        store.uninstall_one(&worker("w")).await.unwrap();
        let all = store.history(None, 100).await.unwrap();
        let told: Vec<&str> = all.iter().map(|event| event.what.as_str()).collect();
        assert_eq!(told, ["joined", "assigned", "revoked"]);
        let rest = store.history(Some(&all[0].id), 100).await.unwrap();
        assert_eq!(rest, all[1..]);
    });
}

#[test]
fn who_starts_again_gets_a_new_epoch_in_the_answer_and_only_once() {
    let store = shared_store();
    block_on(async {
        let a = join(&store, "a", "t").await;
        store.put(&installs(2)).await.unwrap();
        let places = whole(&store).await.places.unwrap();
        let items: Vec<_> = places
            .iter()
            .map(|(id, place)| (id.clone(), place.epoch))
            .collect();
        store.assign(&instance("a"), a.inc, "t", &items).await.unwrap();
        let had = place_of(&store, "w0000").await.unwrap().epoch;
        let version = whole(&store).await.version;
        let pulse = Pulse {
            inc: a.inc,
            again: [(worker("w0000"), had), (worker("nobody"), 7)].into(),
            ..Pulse::default()
        };
        let name = instance("a");
        let again = || store.heartbeat(&name, &pulse, SHOWN, Need::PRIMARY_ONLY);
        let Beat::Alive { list: Some(list), .. } = again().await.unwrap().1 else {
            panic!("no list")
        };
        let new = list[&worker("w0000")].epoch;
        assert!(new > had && list.len() == 2, "{list:?}");
        assert_eq!(place_of(&store, "w0000").await.unwrap().epoch, new);
        assert!(whole(&store).await.version > version, "managers read it again");
        // The same call, carried out twice.
        again().await.unwrap();
        assert_eq!(place_of(&store, "w0000").await.unwrap().epoch, new);
    });
}
