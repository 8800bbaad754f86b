//! Managers and the external list.

use std::path::Path;
use std::time::Duration;

use nagaya_clock::boot_now;
use nagaya_fleet::commands;
use nagaya_fleet::manager::{ManagerOptions, Source, difference};
use nagaya_fleet::protocol::{Care, Rebalance, decide};
use nagaya_fleet::store::Store;

use crate::ledger::Ledger;
use crate::support::{
    TestAgent, TestManager, block_on, counts, eventually, installs, join, manager_options, shared_store,
    whole, worker,
};

fn write_list(path: &Path, ids: std::ops::Range<usize>) {
    let objects: Vec<String> = ids.map(|at| format!("{{\"id\":\"d{at}\"}}")).collect();
    let written = path.with_extension("new");
    std::fs::write(&written, format!("[{}]", objects.join(","))).unwrap();
    std::fs::rename(written, path).unwrap();
}

fn with_file(path: &Path) -> ManagerOptions {
    let source = format!("file:{}", path.display()).parse::<Source>().unwrap();
    ManagerOptions {
        source: Some(source),
        ..manager_options("m")
    }
}

async fn installed(store: &Store) -> usize {
    let places = whole(store).await.places.unwrap();
    places.values().filter(|place| !place.remove).count()
}

#[test]
fn b9_p8_the_list_is_followed_and_a_broken_or_empty_one_stops_nothing() {
    let (store, ledger) = (shared_store(), Ledger::default());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("list.json");
    write_list(&path, 0..10);
    block_on(async {
        let manager = TestManager::with_options(&store, with_file(&path));
        let _agent = TestAgent::start(&store, "a", &ledger);
        eventually("ten run", || async { ledger.running().len() == 10 }).await;
        write_list(&path, 1..12);
        eventually("one is gone and two came", || async {
            let running = ledger.running();
            running.len() == 11 && !running.contains_key("d0")
        })
        .await;
        let failures = |manager: &TestManager| manager.handle.status().borrow().sync_failures;
        for broken in ["", "[{\"id\":\"d1\"}"] {
            let before = failures(&manager);
            std::fs::write(&path, broken).unwrap();
            eventually("a failed reading", || async { failures(&manager) > before + 1 }).await;
        }
        std::fs::remove_file(&path).unwrap();
        let before = failures(&manager);
        eventually("a failed reading", || async { failures(&manager) > before + 1 }).await;
        assert_eq!(installed(&store).await, 11);
        // An object that does not say which worker it is may be any of them.
        std::fs::write(&path, "[{\"name\":\"d1\"}]").unwrap();
        let left_out = || manager.handle.status().borrow().left_out;
        eventually("it is left out", || async { left_out() == 1 }).await;
        assert_eq!(installed(&store).await, 11);
        // An empty list is valid, so its stops are held.
        std::fs::write(&path, "[]").unwrap();
        eventually("the stops are held", || async {
            store.held_stops().await.unwrap().is_some()
        })
        .await;
        assert_eq!(installed(&store).await, 11);
        let held = store.held_stops().await.unwrap().unwrap();
        assert_eq!((held.stops, held.of), (11, 11));
        store.confirm_stops(&held.digest).await.unwrap();
        eventually("confirmed, they stop", || async { ledger.running().is_empty() }).await;
        eventually("nothing is left", || async { installed(&store).await == 0 }).await;
        ledger.check();
    });
}

#[test]
fn confirmed_stops_do_not_wait_for_the_next_interval() {
    let store = shared_store();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("list.json");
    write_list(&path, 0..6);
    block_on(async {
        let options = ManagerOptions {
            source_interval: Duration::from_secs(3600),
            ..with_file(&path)
        };
        let manager = TestManager::with_options(&store, options);
        eventually("the first list", || async { installed(&store).await == 6 }).await;
        write_list(&path, 0..1);
        manager.handle.trigger();
        let held = || async { store.held_stops().await.unwrap() };
        eventually("the stops are held", || async { held().await.is_some() }).await;
        let digest = held().await.unwrap().digest;
        assert!(
            commands::confirm_in(&store, Some("another"))
                .await
                .unwrap()
                .is_none()
        );
        commands::confirm_in(&store, Some(&digest))
            .await
            .unwrap()
            .unwrap();
        eventually("they happen", || async { installed(&store).await == 1 }).await;
    });
}

#[test]
fn a_trigger_reads_the_list_at_once() {
    let store = shared_store();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("list.json");
    write_list(&path, 0..1);
    block_on(async {
        let options = ManagerOptions {
            source_interval: Duration::from_secs(3600),
            ..with_file(&path)
        };
        let manager = TestManager::with_options(&store, options);
        assert!(manager.handle.ready().await, "no other manager was there");
        eventually("the first list", || async { installed(&store).await == 1 }).await;
        write_list(&path, 0..3);
        manager.handle.trigger();
        eventually("the second list", || async { installed(&store).await == 3 }).await;
        let second = TestManager::start(&store, "m2");
        assert!(!second.handle.ready().await);
    });
}

#[test]
fn lists_come_from_commands_and_from_pages_of_a_server() {
    let page = |body: &str, link: &str| {
        format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{link}connection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answers = [
        page(r#"[{"id":"a"}]"#, "link: </2>; rel=\"next\"\r\n"),
        page(r#"{"items":[{"id":"b"}],"next":"/3"}"#, ""),
        page(r#"[{"id":"c"}]"#, ""),
        page(r#"[{"id":"a"}]"#, "link: </2>; rel=\"next\"\r\n"),
        "HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n".to_owned(),
    ];
    let server = std::thread::spawn(move || {
        use std::io::{Read, Write};
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    block_on(async {
        let source: Source = format!("http://{address}/list").parse().unwrap();
        let list = source.read().await.unwrap().installs;
        let ids: Vec<&str> = list.iter().map(|one| one.worker.as_str()).collect();
        assert_eq!(ids, ["a", "b", "c"]);
        // One failing page makes the whole list unreadable.
        assert!(source.read().await.is_err());
        let source: Source = r#"exec:echo '[{"id":"x"}]'"#.parse().unwrap();
        assert_eq!(source.read().await.unwrap().installs[0].worker, worker("x"));
        let failing: Source = r#"exec:sh -c 'echo "[]"; exit 3'"#.parse().unwrap();
        assert!(failing.read().await.is_err());
    });
    server.join().unwrap();
}

#[test]
fn p7_several_managers_place_as_one_would() {
    let store = shared_store();
    block_on(async {
        let mut managers = Vec::new();
        for name in ["m1", "m2", "m3"] {
            managers.push(TestManager::start(&store, name));
        }
        for name in ["a", "b", "c", "d"] {
            join(&store, name, "t").await;
        }
        store.put(&installs(42)).await.unwrap();
        store.announce().await;
        eventually("all are placed evenly", || async {
            let counts = counts(&store).await;
            counts.len() == 4 && counts.iter().all(|count| (10..=11).contains(count))
        })
        .await;
        let history = store.history(None, 1000).await.unwrap();
        let assigned = history.iter().filter(|event| event.what == "assigned").count();
        assert_eq!(assigned, 42, "each was placed once");
    });
}

#[test]
fn b2_the_only_instances_death_loses_no_worker() {
    let (store, ledger) = (shared_store(), Ledger::default());
    block_on(async {
        let manager = TestManager::start(&store, "m");
        let agent = TestAgent::start(&store, "only", &ledger);
        store.put(&installs(3)).await.unwrap();
        eventually("all run", || async { ledger.running().len() == 3 }).await;
        agent.crash().await;
        eventually("its death is seen", || async {
            manager.handle.status().borrow().deaths_total == 1
        })
        .await;
        assert_eq!(installed(&store).await, 3);
        let _next = TestAgent::start(&store, "next", &ledger);
        eventually("all run again", || async { ledger.running().len() == 3 }).await;
        ledger.check();
    });
}

#[test]
fn p11_ten_thousand_workers_are_placed_in_few_calls_whatever_else_is_stored() {
    let redis = nagaya_testkit::Redis::with_config(&["enable-debug-command yes"]);
    let store = crate::support::store_at(&redis.url());
    redis.cmd(&["DEBUG", "POPULATE", "1000000"]);
    block_on(async {
        for at in 0..100 {
            join(&store, &format!("i{at:03}"), "t").await;
        }
        let list = installs(10_000);
        let begun = boot_now();
        store.put(&list).await.unwrap();
        let snapshot = whole(&store).await;
        let decision = decide(
            &snapshot.instances,
            snapshot.places.as_ref().unwrap(),
            &Care::default(),
            Rebalance::default(),
        );
        for (name, (inc, workers)) in &decision.assigns {
            store.assign(name, *inc, "place", workers).await.unwrap();
        }
        let took = boot_now().since(begun);
        println!("10000 workers on 100 instances beside a million keys: {took:?}");
        assert!(counts(&store).await.iter().all(|count| *count == 100));
        // A list without changes needs one read of the fleet.
        let snapshot = whole(&store).await;
        let same = difference(&list, snapshot.places.as_ref().unwrap(), &snapshot.unreadable);
        assert!(same.puts.is_empty() && same.stops.is_empty());
        let known = store.snapshot(Some(snapshot.version)).await.unwrap();
        assert!(known.places.is_none(), "unchanged workers are not sent again");
        // A generous limit, because other tests run at the same time.
        assert!(took < Duration::from_secs(10), "{took:?}");
    });
}
