//! `nagaya fanout serve` and `get`: the fan-out alone.

use super::*;
use nagaya_testkit::{Redis, Signal, free_port, http, wait};
use serde_json::Value;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

/// An endpoint that answers everything with its name, after a while if it is told so.
pub(crate) struct Endpoint {
    pub(crate) url: String,
    asked: Arc<AtomicUsize>,
}

impl Endpoint {
    pub(crate) fn start(name: &str) -> Endpoint {
        Endpoint::after(name, Duration::ZERO)
    }

    fn after(name: &str, wait: Duration) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let (name, count) = (name.to_owned(), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (name, count) = (name.clone(), Arc::clone(&count));
                std::thread::spawn(move || serve(stream, &name, wait, &count));
            }
        });
        Endpoint { url, asked }
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

/// Answers until the other side is gone.
fn serve(mut stream: TcpStream, name: &str, wait: Duration, count: &AtomicUsize) {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(length) = stream.read(&mut chunk) {
        bytes.extend_from_slice(&chunk[..length]);
        if length == 0 {
            return;
        }
        if bytes.ends_with(b"\r\n\r\n") {
            bytes.clear();
            count.fetch_add(1, Ordering::Relaxed);
            // This wait only delays an answer.
            let (_never, over) = mpsc::channel::<()>();
            let _ = over.recv_timeout(wait);
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{name}", name.len());
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

pub(crate) struct Served {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    folder: Folder,
}

impl Served {
    /// Starts it on a free port, with a file in its folder.
    fn start(file: Option<(&str, &str)>, args: &[&str]) -> Served {
        let folder = Folder::new("fanout");
        let mut launch = Launch::new("nagaya", BINARY);
        if let Some((name, text)) = file {
            let path = folder.write(name, text);
            launch = if name.ends_with(".toml") {
                launch.args(["--config"]).args([path]).args(["fanout", "serve"])
            } else {
                launch.args(["fanout", "serve", "--serinin-config"]).args([path])
            };
        } else {
            launch = launch.args(["fanout", "serve"]);
        }
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let launch = launch.args(["--listen", &address.to_string()]).args(args);
        let process = Process::start(launch, folder.path()).unwrap();
        Served {
            process,
            address,
            folder,
        }
    }

    fn wait_ready(&self) {
        wait::until("the fan-out listens", LIMIT, || {
            TcpStream::connect(self.address).is_ok()
        });
    }

    /// Fans a request out and returns its id.
    pub(crate) fn ask(&self) -> String {
        let answer = http::get(self.address, "/p?q=1").unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        let answer: Value = serde_json::from_str(&answer.body).unwrap();
        answer["request_id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn read(&self, id: &str) -> Value {
        let answer = http::get(self.address, &format!("/requests/{id}?wait=all&timeout=4s")).unwrap();
        serde_json::from_str(&answer.body).unwrap()
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// serinin's own sample, with other ports.
fn sample(port: u16, endpoint: &Endpoint, redis: &Redis) -> String {
    let endpoints: Vec<String> = (1..=6)
        .map(|n| format!(r#""dst{n}": {{ "url": "{}" }}"#, endpoint.url))
        .collect();
    format!(
        r#"{{"addr": ":{port}", "shutdown_timeout": "30s", "max_handlers": 16, "worker_num": 96,
            "http_client_timeout": "2s", "endpoints": {{ {} }}, "store_type": "discard",
            "redis": {{ "addr": "{}", "expire_in": "60s" }},
            "memcache": {{ "addrs": [ "127.0.0.1:11211" ], "expire_in": "60s" }},
            "binmemcache": {{ "addrs": [ "127.0.0.1:11211" ], "expire_in": "60s" }},
            "gocache": {{ "expire_in": "60s" }} }}"#,
        endpoints.join(", "),
        redis.address()
    )
}

#[test]
fn serinins_sample_and_flags_start_it() {
    let (redis, endpoint) = (Redis::start(), Endpoint::start("one"));
    let folder = Folder::new("serinin");
    let port = free_port();
    let file = folder.write("serinin_config.json", &sample(port, &endpoint, &redis));
    let launch = Launch::new("nagaya", BINARY)
        .args([
            "fanout",
            "serve",
            "-storetype",
            "redis",
            "-handler=8",
            "-worker",
            "48",
            "-monitor",
            "1",
        ])
        .args(["--serinin-config"])
        .args([file]);
    let process = Process::start(launch, folder.path()).unwrap();
    let served = Served {
        process,
        address: SocketAddr::from(([127, 0, 0, 1], port)),
        folder,
    };
    served.wait_ready();
    let id = served.ask();
    let request = served.read(&id);
    assert_eq!(request["results"]["dst6"]["body"], "one", "{request}");
    assert_eq!(redis.cmd(&["HGET", &id, "dst1"]).text(), "one");
    assert_eq!(redis.cmd(&["HGET", &id, "_url"]).text(), "/p?q=1");
    wait::until("serinin's counters are logged", LIMIT, || {
        let output = served.process.output();
        output.contains("accept:6 fail:0 timeout:0 goroutine:")
    });
    let output = served.process.output();
    assert!(output.contains("only this machine is let in"), "{output}");
    served.process.terminate();
    assert_eq!(served.process.wait(LIMIT).unwrap().code(), Some(0));
}

#[test]
fn requests_are_read_back_in_the_terminal() {
    let endpoint = Endpoint::start("one");
    let endpoint = format!("a b={}", endpoint.url);
    let served = Served::start(None, &["--endpoint", &endpoint, "--storetype", "memory"]);
    served.wait_ready();
    let id = served.ask();
    let ran = run(["fanout", "get", "--wait", "a b", "--url", &served.url(), &id]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let request: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(request["results"]["a b"]["body"], "one");
    let unknown = run(["fanout", "get", "--url", &served.url(), "1"]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("no such request"), "{}", unknown.stderr);
}

#[test]
fn a_hangup_reads_the_endpoints_again_and_loses_nothing() {
    let (old, new) = (
        Endpoint::after("old", Duration::from_millis(500)),
        Endpoint::start("new"),
    );
    let config = |endpoint: &Endpoint, name: &str| {
        format!(
            "[fanout]\nstore = \"memory\"\ntimeout = \"5s\"\n[fanout.endpoints]\n{name} = \"{}\"\n",
            endpoint.url
        )
    };
    let served = Served::start(Some(("nagaya.toml", &config(&old, "old"))), &[]);
    served.wait_ready();
    let before = served.ask();
    served.folder.write("nagaya.toml", &config(&new, "new"));
    served.process.signal(Signal::HUP);
    wait::until("the new endpoint is asked", LIMIT, || {
        served.ask();
        new.asked() > 0
    });
    assert_eq!(served.read(&before)["results"]["old"]["body"], "old");
    served.folder.write("nagaya.toml", "[fanout]\nendpoints = 5\n");
    served.process.signal(Signal::HUP);
    wait::until("the bad file is told of", LIMIT, || {
        served.process.output().contains("endpoints stay as they are")
    });
    let id = served.ask();
    assert_eq!(served.read(&id)["results"]["new"]["body"], "new");
}

#[test]
fn the_first_signal_drains_and_the_second_ends_at_once() {
    let redis = Redis::start();
    let endpoint = Endpoint::after("late", Duration::from_millis(700));
    let flags = |endpoint: &Endpoint| {
        let endpoint = format!("a={}", endpoint.url);
        [
            "--endpoint".to_owned(),
            endpoint,
            "--redis".to_owned(),
            redis.url(),
        ]
    };
    let start = |endpoint: &Endpoint, timeout: &str| {
        let flags = flags(endpoint);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let config = format!("[fanout]\ntimeout = \"{timeout}\"\n[house]\ndrain_timeout = \"60s\"\n");
        let served = Served::start(Some(("nagaya.toml", &config)), &flags);
        served.wait_ready();
        served
    };
    let served = start(&endpoint, "5s");
    let id = served.ask();
    served.process.terminate();
    assert_eq!(served.process.wait(LIMIT).unwrap().code(), Some(0));
    assert_eq!(redis.cmd(&["HGET", &id, "a"]).text(), "late");
    assert_eq!(redis.cmd(&["HEXISTS", &id, "_complete"]).int(), 1);

    let stalls = Endpoint::after("never", Duration::from_secs(3600));
    let served = start(&stalls, "1m");
    served.ask();
    served.process.terminate();
    wait::until("it drains", LIMIT, || TcpStream::connect(served.address).is_err());
    assert!(served.process.is_running());
    served.process.terminate();
    assert_eq!(served.process.wait(LIMIT).unwrap().code(), Some(1));
}

#[test]
fn what_is_unfinished_when_the_time_is_up_is_marked() {
    let redis = Redis::start();
    let stalls = Endpoint::after("never", Duration::from_secs(3600));
    let endpoint = format!("a={}", stalls.url);
    let config = "[fanout]\ntimeout = \"1m\"\n[house]\ndrain_timeout = \"300ms\"\n";
    let flags = ["--endpoint", &endpoint, "--redis", &redis.url()];
    let served = Served::start(Some(("nagaya.toml", config)), &flags);
    served.wait_ready();
    let id = served.ask();
    served.process.terminate();
    assert_eq!(served.process.wait(LIMIT).unwrap().code(), Some(0));
    let outcome = redis.cmd(&["HGET", &id, "_outcome:a"]).text();
    assert!(outcome.contains("the service was stopped"), "{outcome}");
    assert!(served.process.output().contains("1 requests, marked as stopped"));
}

#[test]
fn ids_can_be_minted() {
    let endpoint = format!("a={}", Endpoint::start("one").url);
    let flags = [
        "--endpoint",
        &endpoint,
        "--storetype",
        "memory",
        "--worker-id",
        "5",
    ];
    let served = Served::start(None, &flags);
    served.wait_ready();
    let ids: Vec<u64> = (0..5).map(|_| served.ask().parse().unwrap()).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    let decoded = run(["ids", "decode", "--json", &ids[0].to_string()]);
    let decoded: Value = serde_json::from_str(&decoded.stdout).unwrap();
    assert_eq!(decoded[0]["worker"], 5);
    assert_eq!(served.read(&ids[0].to_string())["results"]["a"]["body"], "one");
}

#[test]
fn what_cannot_work_is_refused_at_once() {
    let check = |args: &[&str], code: i32, told: &str| {
        let ran = run(["fanout", "serve"].iter().chain(args));
        assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(told), "{args:?}: {}", ran.stderr);
    };
    let endpoint = ["--endpoint", "a=http://h"];
    let with = |more: &[&'static str]| [&endpoint[..], more].concat();
    check(&[], 1, "there are no endpoints");
    check(&endpoint, 1, "\"embedded\"");
    check(&with(&["--storetype", "none"]), 1, "--storetype none");
    check(
        &with(&["--storetype", "memory", "--listen", "0.0.0.0:1"]),
        1,
        "--insecure",
    );
    check(&with(&["--redis", "http://h"]), 1, "fanout.redis");
    check(
        &["--endpoint", "a=ftp://h", "--storetype", "memory"],
        1,
        "no URL to fetch",
    );
    check(
        &["--endpoint", "_id=http://h", "--storetype", "memory"],
        1,
        "taken",
    );
    check(&["--endpoint", "a"], 2, "NAME=URL");
    check(&["--serinin-config", "nowhere.json"], 1, "nowhere.json");
    check(
        &with(&["--storetype", "memory", "--worker-id", "1024"]),
        1,
        "greatest is 1023",
    );
}

/// Asks over a connection that stays open, and returns the status of the answer.
fn ask_and_stay(address: SocketAddr) -> std::io::Result<(u16, TcpStream)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(b"GET /?q=1 HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    let status = String::from_utf8_lossy(&head[9..12]).parse();
    Ok((status.map_err(std::io::Error::other)?, stream))
}

#[test]
fn with_few_file_descriptors_every_request_is_answered_and_every_loss_named() {
    let endpoint = Endpoint::start("one");
    let folder = Folder::new("files");
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let endpoints: Vec<String> = (1..=6)
        .map(|n| format!("--endpoint=dst{n}={}", endpoint.url))
        .collect();
    let launch = Launch::new("nagaya", "/bin/sh")
        .args([
            "-c",
            "ulimit -n 128; exec \"$0\" \"$@\"",
            BINARY,
            "fanout",
            "serve",
        ])
        .args(["-storetype", "gocache", "--listen", &address.to_string()])
        .args(endpoints);
    let served = Served {
        process: Process::start(launch, folder.path()).unwrap(),
        address,
        folder,
    };
    served.wait_ready();
    let clients: Vec<_> = (0..200)
        .map(|_| std::thread::spawn(move || ask_and_stay(address)))
        .collect();
    let answers: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    for answer in &answers {
        match answer {
            Ok((status, _)) => assert!([200, 503].contains(status), "{status}"),
            Err(error) => panic!("no answer: {error}"),
        }
    }
    let good = answers
        .iter()
        .flatten()
        .filter(|(status, _)| *status == 200)
        .count();
    assert!(good > 0, "some are answered well");
    drop(answers);
    let result = served.read(&served.ask());
    assert_eq!(result["complete"], true, "{result}");
    for outcome in result["results"].as_object().unwrap().values() {
        assert_eq!(outcome["state"], "ok", "there is room again: {result}");
    }
}
