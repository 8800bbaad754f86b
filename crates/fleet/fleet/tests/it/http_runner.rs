//! Workers in an application that is called over HTTP.

use std::sync::Arc;
use std::time::Duration;

use nagaya_fleet::agent::{Health, HttpOptions, HttpRunner};
use nagaya_fleet::ask::ask;
use nagaya_fleet::store::Store;

use crate::application::{Application, Copies, check};
use crate::support::{
    TestAgent, TestManager, block_on, eventually, install, installs, instance, options, quick, shared_store,
    worker,
};

fn agent_of(store: &Store, name: &str, application: &Application) -> TestAgent {
    let http = HttpOptions {
        url: application.url(),
        token: Some("hunter2".into()),
        app: store.app().clone(),
        instance: instance(name),
        timing: quick(),
    };
    let runner = HttpRunner::new(http).unwrap();
    TestAgent::with_options(store, options(name), Arc::new(runner))
}

fn application(name: &str) -> Application {
    Application::start(name, &Copies::default())
}

#[test]
fn an_application_is_told_to_start_renew_update_answer_and_stop() {
    let (store, server) = (shared_store(), application("x"));
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let agent = agent_of(&store, "a", &server);
        let mut odd = install("odd");
        odd.config = br#"{"id":"odd","n":1234567890123456789012,"a":[]}"#.to_vec();
        store.put(&[odd.clone()]).await.unwrap();
        store.announce().await;
        eventually("it runs", || async { server.running() == 1 }).await;
        let told = server.told();
        let (_, start) = told.iter().find(|(verb, _)| verb == "start").unwrap();
        assert_eq!(
            (&start["app"], &start["instance"]),
            (&store.app().as_str().into(), &"a".into())
        );
        assert!(
            start["epoch"].as_u64().unwrap() > 0 && start["until"].is_u64(),
            "{start}"
        );
        eventually("it is renewed", || async {
            let told = server.told();
            told.iter()
                .any(|(verb, body)| verb == "renew" && body["workers"][0]["worker"] == "odd")
        })
        .await;
        odd.config = br#"{"id":"odd","new":true}"#.to_vec();
        store.update(&odd).await.unwrap();
        eventually("it has the new config", || async {
            let told = server.told();
            told.iter()
                .any(|(verb, body)| verb == "update" && body["config"]["new"] == true)
        })
        .await;
        let said = ask(&store, "color", Some(&worker("odd")), Duration::from_secs(5)).await;
        assert_eq!(said.unwrap().instances[0].answers[&worker("odd")], "color of odd");
        agent.leave().await.unwrap();
        assert_eq!(server.running(), 0);
        let verbs = server.verbs();
        let last = verbs.iter().rfind(|verb| *verb != "renew");
        assert_eq!(last.map(String::as_str), Some("stop"));
        assert_eq!(server.tokens(), ["Bearer hunter2".to_owned()].into());
        assert!(server.connections() < 6, "{} connections", server.connections());
    });
}

#[test]
fn a_stop_is_repeated_until_it_is_confirmed_and_only_then_acknowledged() {
    let (store, server) = (shared_store(), application("x"));
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let _agent = agent_of(&store, "a", &server);
        store.put(&[install("w")]).await.unwrap();
        store.announce().await;
        eventually("it runs", || async { server.running() == 1 }).await;
        server.is_broken("stop", true);
        store.uninstall_one(&worker("w")).await.unwrap();
        eventually("the stop is tried again", || async {
            server.verbs().iter().filter(|verb| *verb == "stop").count() >= 3
        })
        .await;
        assert!(
            crate::support::place_of(&store, "w").await.is_some(),
            "not acknowledged"
        );
        server.is_broken("stop", false);
        eventually("it is gone", || async {
            crate::support::place_of(&store, "w").await.is_none()
        })
        .await;
        assert_eq!(server.running(), 0);
    });
}

#[test]
fn an_application_that_hangs_on_a_question_delays_neither_renewals_nor_the_stop() {
    let (store, server) = (shared_store(), application("x"));
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let agent = agent_of(&store, "a", &server);
        store.put(&[install("w")]).await.unwrap();
        store.announce().await;
        eventually("it runs", || async { server.running() == 1 }).await;
        let asking = ask(&store, "hang", None, Duration::from_secs(2));
        let silent = asking.await.unwrap();
        assert_eq!(silent.instances[0].answers.len(), 0, "{silent:?}");
        assert_eq!(server.running(), 1, "it was renewed meanwhile");
        agent.leave().await.unwrap();
        assert_eq!(server.running(), 0);
    });
}

#[test]
fn a_start_that_fails_is_stopped_and_tried_again_with_an_epoch_that_is_obeyed() {
    let (store, server) = (shared_store(), application("x"));
    server.is_broken("start", true);
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let agent = agent_of(&store, "a", &server);
        store.put(&[install("w")]).await.unwrap();
        store.announce().await;
        eventually("it is quarantined", || async {
            let workers = agent.handle.workers();
            matches!(
                workers.get(&worker("w")).map(|status| &status.health),
                Some(Health::Quarantined { .. })
            )
        })
        .await;
        // The worker may have started all the same, so every failed start is followed by a stop.
        let verbs: Vec<String> = server
            .verbs()
            .into_iter()
            .filter(|verb| verb != "renew")
            .collect();
        assert_eq!(verbs[..4], ["start", "stop", "start", "stop"]);
        server.is_broken("start", false);
        eventually("it runs", || async { server.running() == 1 }).await;
    });
}

#[test]
fn workers_run_again_in_an_application_that_was_restarted() {
    let (store, server) = (shared_store(), application("x"));
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let _agent = agent_of(&store, "a", &server);
        store.put(&installs(5)).await.unwrap();
        store.announce().await;
        eventually("all run", || async { server.running() == 5 }).await;
        for _ in 0..2 {
            server.restart();
            eventually("all run again", || async { server.running() == 5 }).await;
        }
        // One that ends by itself is noticed, too.
        server.fail("w0003");
        eventually("it runs again", || async { server.running() == 5 }).await;
        check(&server.copies);
    });
}

#[test]
fn workers_of_an_application_that_died_run_elsewhere_while_its_agent_lives() {
    let store = shared_store();
    let copies = Copies::default();
    let (dying, other) = (Application::start("x", &copies), Application::start("y", &copies));
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let _a = agent_of(&store, "a", &dying);
        let _b = agent_of(&store, "b", &other);
        store.put(&installs(6)).await.unwrap();
        store.announce().await;
        eventually("three run in each", || async {
            dying.running() == 3 && other.running() == 3
        })
        .await;
        dying.die();
        eventually("all run in the other", || async { other.running() == 6 }).await;
        let instances = store.snapshot(None).await.unwrap().instances;
        assert!(!instances.contains_key(&instance("a")), "{instances:?}");
        dying.restart();
        eventually("three run in each again", || async {
            dying.running() == 3 && other.running() == 3
        })
        .await;
        check(&copies);
    });
}

#[test]
fn workers_of_a_killed_agent_have_ended_before_they_run_elsewhere() {
    for has_marks in [true, false] {
        let store = shared_store();
        let copies = Copies::default();
        let (left, other) = (Application::start("x", &copies), Application::start("y", &copies));
        if !has_marks {
            left.without_marks();
            other.without_marks();
        }
        block_on(async {
            let _manager = TestManager::start(&store, "m");
            let a = agent_of(&store, "a", &left);
            store.put(&installs(6)).await.unwrap();
            store.announce().await;
            eventually("all run", || async { left.running() == 6 }).await;
            let renewed = left.verbs().len();
            eventually("they were renewed", || async { left.verbs().len() > renewed + 3 }).await;
            // Nothing of the agent goes on: neither its tasks nor those of its runner.
            a.crash().await;
            let _b = agent_of(&store, "b", &other);
            eventually("all run in the other", || async { other.running() == 6 }).await;
            check(&copies);
        });
    }
}
