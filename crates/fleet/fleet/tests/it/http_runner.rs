//! Workers as HTTP callbacks.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nagaya_fleet::agent::{Health, HttpRunner};
use nagaya_fleet::ask::ask;
use serde_json::Value;

use crate::support::{
    TestAgent, TestManager, block_on, eventually, install, options, quick, shared_store, worker,
};

/// A server that runs workers as told and records the calls.
#[derive(Clone, Default)]
struct Callbacks {
    told: Arc<Mutex<Vec<(String, Value)>>>,
    running: Arc<Mutex<BTreeSet<String>>>,
    /// Verbs that are answered with an error.
    broken: Arc<Mutex<BTreeSet<String>>>,
}

impl Callbacks {
    fn serve(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let server = server.clone();
                std::thread::spawn(move || server.answer(stream.unwrap()));
            }
        });
        address
    }

    fn answer(&self, mut stream: TcpStream) {
        let mut bytes = Vec::new();
        let mut buffer = [0; 4096];
        let (head, body) = loop {
            let read = stream.read(&mut buffer).unwrap();
            if read == 0 {
                return;
            }
            bytes.extend_from_slice(&buffer[..read]);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: "));
                if body.len() >= length.unwrap().parse::<usize>().unwrap() {
                    break (head.to_owned(), body.to_owned());
                }
            }
        };
        let verb = head
            .split(' ')
            .nth(1)
            .unwrap()
            .rsplit('/')
            .next()
            .unwrap()
            .to_owned();
        let body: Value = serde_json::from_str(&body).unwrap();
        let worker = body["worker"].as_str().unwrap().to_owned();
        let is_broken = self.broken.lock().unwrap().contains(&verb);
        let status = if is_broken { "500 Oops" } else { "200 OK" };
        let mut answer = String::new();
        match verb.as_str() {
            _ if is_broken => (),
            "start" => drop(self.running.lock().unwrap().insert(worker.clone())),
            "stop" => drop(self.running.lock().unwrap().remove(&worker)),
            // Until the caller gives up.
            "request" if body["key"] == "hang" => drop(stream.read(&mut buffer)),
            "request" => answer = format!("{} of {worker}", body["key"].as_str().unwrap()),
            _ => (),
        }
        self.told.lock().unwrap().push((verb, body));
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
            answer.len()
        );
        // A caller that gave up does not read the answer.
        let _ = stream.write_all(answer.as_bytes());
    }

    fn verbs(&self) -> Vec<String> {
        self.told
            .lock()
            .unwrap()
            .iter()
            .map(|(verb, _)| verb.clone())
            .collect()
    }

    fn running(&self) -> usize {
        self.running.lock().unwrap().len()
    }

    fn is_broken(&self, verb: &str, broken: bool) {
        let mut verbs = self.broken.lock().unwrap();
        if broken {
            verbs.insert(verb.to_owned());
        } else {
            verbs.remove(verb);
        }
    }
}

fn agent(store: &nagaya_fleet::store::Store, server: &Callbacks) -> TestAgent {
    let url = format!("http://{}/workers", server.serve());
    let runner = HttpRunner::new(&url, quick().lease, quick().heartbeat).unwrap();
    TestAgent::with_options(store, options("a"), Arc::new(runner))
}

#[test]
fn a_server_is_told_to_start_renew_update_answer_and_stop() {
    let (store, server) = (shared_store(), Callbacks::default());
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let agent = agent(&store, &server);
        let mut odd = install("odd");
        odd.config = br#"{"id":"odd","n":1234567890123456789012,"a":[]}"#.to_vec();
        store.put(&[odd.clone()]).await.unwrap();
        store.announce().await;
        eventually("it runs", || async { server.running() == 1 }).await;
        let (_, start) = server.told.lock().unwrap()[0].clone();
        assert_eq!(
            (&start["app"], &start["instance"]),
            (&store.app().as_str().into(), &"a".into())
        );
        assert!(
            start["epoch"].as_u64().unwrap() > 0 && start["lease_ms"] == 2400,
            "{start}"
        );
        eventually("it is renewed", || async {
            server.verbs().contains(&"renew".to_owned())
        })
        .await;
        odd.config = br#"{"id":"odd","new":true}"#.to_vec();
        store.update(&odd).await.unwrap();
        eventually("it has the new config", || async {
            let told = server.told.lock().unwrap();
            told.iter()
                .any(|(verb, body)| verb == "update" && body["config"]["new"] == true)
        })
        .await;
        let said = ask(&store, "color", Some(&worker("odd")), Duration::from_secs(5)).await;
        assert_eq!(said.unwrap().instances[0].answers[&worker("odd")], "color of odd");
        agent.leave().await.unwrap();
        assert_eq!(server.running(), 0);
        assert_eq!(server.verbs().last().map(String::as_str), Some("stop"));
    });
}

#[test]
fn a_stop_is_repeated_until_it_is_confirmed_and_only_then_acknowledged() {
    let (store, server) = (shared_store(), Callbacks::default());
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let _agent = agent(&store, &server);
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
fn a_server_that_hangs_on_a_question_delays_neither_renewals_nor_the_stop() {
    let (store, server) = (shared_store(), Callbacks::default());
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let agent = agent(&store, &server);
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
fn a_start_that_fails_is_stopped_and_tried_again_later() {
    let (store, server) = (shared_store(), Callbacks::default());
    server.is_broken("start", true);
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let agent = agent(&store, &server);
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
        assert_eq!(server.verbs()[..4], ["start", "stop", "start", "stop"]);
        server.is_broken("start", false);
        eventually("it runs", || async { server.running() == 1 }).await;
    });
}
