//! Agents, and the lifecycle of their workers.

use std::sync::Arc;
use std::time::Duration;

use nagaya_clock::boot_now;
use nagaya_fleet::agent::{AgentError, AgentOptions, CodeRunner, Health};
use nagaya_fleet::ask::ask;

use crate::ledger::Ledger;
use crate::support::{
    TestAgent, TestManager, block_on, eventually, install, installs, instance, options, shared_store, worker,
};

#[test]
fn workers_run_evenly_and_a_leaving_agent_hands_over_within_a_second() {
    let (store, ledger) = (shared_store(), Ledger::default());
    block_on(async {
        let manager = TestManager::start(&store, "m");
        let first = TestAgent::start(&store, "a", &ledger);
        let second = TestAgent::start(&store, "b", &ledger);
        store.put(&installs(10)).await.unwrap();
        eventually("five run on each", || async {
            ledger.running_on("a") == 5 && ledger.running_on("b") == 5
        })
        .await;
        let left_at = boot_now();
        first.leave().await.unwrap();
        assert_eq!(ledger.running_on("a"), 0);
        eventually("all run on the other", || async { ledger.running_on("b") == 10 }).await;
        let dark = boot_now().since(left_at);
        assert!(dark < Duration::from_secs(3), "{dark:?} on a busy machine");
        ledger.check();
        second.leave().await.unwrap();
        manager.end().await;
        ledger.check();
        assert!(store.snapshot(None).await.unwrap().instances.is_empty());
    });
}

#[test]
fn a_joining_agent_gets_its_share_and_nothing_moves_between_the_old_ones() {
    let (store, ledger) = (shared_store(), Ledger::default());
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let _a = TestAgent::start(&store, "a", &ledger);
        let _b = TestAgent::start(&store, "b", &ledger);
        store.put(&installs(9)).await.unwrap();
        eventually("all run evenly", || async {
            ledger.running().len() == 9 && ledger.running_on("a") >= 4 && ledger.running_on("b") >= 4
        })
        .await;
        let before = ledger.copies().len();
        let _c = TestAgent::start(&store, "c", &ledger);
        eventually("the new one has three", || async {
            ledger.running_on("c") == 3 && ledger.running().len() == 9
        })
        .await;
        let moved: Vec<_> = ledger.copies().split_off(before);
        assert_eq!(moved.len(), 3, "{moved:#?}");
        assert!(moved.iter().all(|copy| copy.instance == "c"));
        ledger.check();
    });
}

#[test]
fn b6_b10_p9_workers_that_hang_or_fail_hold_up_nobody() {
    let (store, ledger) = (shared_store(), Ledger::default());
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let mut narrow = options("a");
        narrow.limits.starts_at_once = 2;
        let runner = Arc::new(CodeRunner::new(ledger.maker()));
        let agent = TestAgent::with_options(&store, narrow, runner);
        let mut list = installs(10);
        for (at, config) in [(0, "hang"), (1, "hang"), (2, "fail")] {
            list[at].config = config.into();
        }
        store.put(&list).await.unwrap();
        eventually("the healthy seven run", || async { ledger.running().len() == 7 }).await;
        eventually("the failing one is quarantined", || async {
            let workers = agent.handle.workers();
            matches!(
                workers.get(&worker("w0002")).map(|status| &status.health),
                Some(Health::Quarantined { .. })
            )
        })
        .await;
        // A hanging start can be stopped, too.
        store.uninstall_one(&worker("w0000")).await.unwrap();
        eventually("the hanging one is removed", || async {
            crate::support::place_of(&store, "w0000").await.is_none()
        })
        .await;
        // A new config heals it.
        list[2].config = b"{}".to_vec();
        store.put(&list[2..3]).await.unwrap();
        store.announce().await;
        eventually("the healed one runs", || async {
            ledger.running().contains_key("w0002")
        })
        .await;
        ledger.check();
    });
}

#[test]
fn a_new_config_reaches_a_running_worker_without_a_restart() {
    let (store, ledger) = (shared_store(), Ledger::default());
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let _agent = TestAgent::start(&store, "a", &ledger);
        store.put(&installs(1)).await.unwrap();
        eventually("it runs", || async { ledger.running().len() == 1 }).await;
        let mut changed = install("w0000");
        changed.config = b"{\"id\":\"w0000\",\"new\":[]}".to_vec();
        store.update(&changed).await.unwrap();
        eventually("it has the new config", || async {
            ledger.copies()[0].config == changed.config
        })
        .await;
        assert_eq!(ledger.copies().len(), 1);
    });
}

#[test]
fn two_agents_of_one_name_never_share_and_the_older_one_ends() {
    let (store, ledger) = (shared_store(), Ledger::default());
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let first = TestAgent::start(&store, "same", &ledger);
        store.put(&installs(4)).await.unwrap();
        eventually("all run", || async { ledger.running().len() == 4 }).await;
        let _second = TestAgent::start(&store, "same", &ledger);
        assert!(matches!(first.ended().await, Err(AgentError::NameTaken { .. })));
        eventually("all run again", || async { ledger.running().len() == 4 }).await;
        assert_eq!(ledger.copies().len(), 8);
        ledger.check();
    });
}

#[test]
fn a_restart_with_its_state_directory_keeps_its_work_and_does_not_wait() {
    let (store, ledger) = (shared_store(), Ledger::default());
    let folder = tempfile::tempdir().unwrap();
    let with_state = || AgentOptions {
        state_dir: Some(folder.path().to_owned()),
        ..options("a")
    };
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let runner = Arc::new(CodeRunner::new(ledger.maker()));
        let first = TestAgent::with_options(&store, with_state(), runner.clone());
        let _other = TestAgent::start(&store, "b", &ledger);
        store.put(&installs(4)).await.unwrap();
        eventually("all run, evenly", || async {
            ledger.running().len() == 4 && ledger.running_on("a") == 2
        })
        .await;
        first.crash().await;
        let crashed_at = boot_now();
        let _again = TestAgent::with_options(&store, with_state(), runner);
        eventually("all run again", || async { ledger.running().len() == 4 }).await;
        let dark = boot_now().since(crashed_at);
        assert!(dark < crate::support::quick().lease, "{dark:?}");
        assert_eq!(ledger.running_on("a"), 2);
        ledger.check();
    });
}

#[test]
fn questions_are_answered_and_who_is_silent_is_named() {
    let (store, ledger) = (shared_store(), Ledger::default());
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let _a = TestAgent::start(&store, "a", &ledger);
        let b = TestAgent::start(&store, "b", &ledger);
        store.put(&installs(4)).await.unwrap();
        eventually("two run on each", || async {
            ledger.running_on("a") == 2 && ledger.running_on("b") == 2
        })
        .await;
        let limit = Duration::from_secs(5);
        let all = ask(&store, "color", None, limit).await.unwrap();
        let said: usize = all.instances.iter().map(|one| one.answers.len()).sum();
        assert_eq!((said, all.silent.len()), (4, 0), "{all:?}");
        let one = ask(&store, "color", Some(&worker("w0001")), limit).await.unwrap();
        assert_eq!(one.instances[0].answers[&worker("w0001")], "color of w0001");
        let failed = ask(&store, "fail", Some(&worker("w0001")), limit).await.unwrap();
        assert_eq!(failed.instances[0].failures[&worker("w0001")], "no");
        let nobody = ask(&store, "color", Some(&worker("nobody")), limit).await;
        assert_eq!(nobody.unwrap_err().code(), Some("NOT_INSTALLED"));
        // A dead instance costs its own answers only.
        b.crash().await;
        let rest = ask(&store, "color", None, Duration::from_secs(1)).await.unwrap();
        assert_eq!(rest.instances.len(), 1);
        assert_eq!(rest.silent, [instance("b")].into());
    });
}
