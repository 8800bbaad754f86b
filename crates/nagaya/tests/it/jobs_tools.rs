//! `nagaya jobs`: registering, looking and mending from the command line.

use std::sync::Arc;

use nagaya_client::CancellationToken;
use nagaya_jobs::clock::SystemClock;
use nagaya_jobs::service::{Config, Jobs};
use nagaya_jobs_api::{Api, ApiConfig, AuthConfig, routes};
use nagaya_jobs_sqlite::{Options, SqliteJobs};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::*;

/// The interface over a SQLite file, with upkeep, and nothing else of a server.
pub(crate) struct Server {
    pub(crate) url: String,
    _runtime: Runtime,
    _folder: Folder,
}

impl Server {
    pub(crate) fn start() -> Server {
        let folder = Folder::new("jobs");
        let runtime = Runtime::new().unwrap();
        let file = folder.path().join("jobs.sqlite");
        let url = runtime.block_on(async {
            let store = SqliteJobs::open(file, &Options::default(), Arc::new(SystemClock)).unwrap();
            let jobs = Jobs::start(Arc::new(store), Config::default()).await.unwrap();
            let auth = AuthConfig {
                server_token: None,
                open: true,
            };
            let api = Api::new(jobs.clone(), auth, ApiConfig::default(), CancellationToken::new());
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            tokio::spawn(async move {
                let _upkeep = jobs;
                axum::serve(listener, routes(api)).await.unwrap();
            });
            url
        });
        Server {
            url,
            _runtime: runtime,
            _folder: folder,
        }
    }

    /// Runs `nagaya jobs WORDS` against it.
    #[track_caller]
    pub(crate) fn jobs(&self, words: &[&str]) -> Ran {
        let mut all = vec!["jobs"];
        all.extend(words);
        run_with(
            all,
            &[("NAGAYA_HTTP__LISTEN", self.url.trim_start_matches("http://"))],
        )
    }

    #[track_caller]
    pub(crate) fn fine(&self, words: &[&str]) -> String {
        let ran = self.jobs(words);
        assert_eq!(ran.code, Some(0), "{words:?}: {}", ran.stderr);
        ran.stdout
    }

    /// A job as `show --json` has it.
    #[track_caller]
    pub(crate) fn show(&self, id: &str) -> Value {
        serde_json::from_str(&self.fine(&["show", id.trim(), "--json"])).unwrap()
    }
}

#[test]
fn jobs_are_registered_listed_and_shown_with_their_reason() {
    let server = Server::start();
    let id = server.fine(&[
        "enqueue",
        "mail",
        "{\"to\": \"a\"}",
        "--priority",
        "-3",
        "--tag",
        "x",
    ]);
    let listed = server.fine(&["list", "--queue", "mail", "--state", "waiting"]);
    assert!(
        listed.contains(id.trim()) && listed.contains("waiting"),
        "{listed}"
    );
    server.fine(&["queues", "--pause", "mail"]);
    let shown = server.fine(&["show", id.trim()]);
    assert!(shown.contains("paused"), "{shown}");
    let queues = server.fine(&["queues", "--resume", "mail"]);
    assert!(queues.contains("mail") && queues.contains("open"), "{queues}");
    let job = server.show(&id);
    assert_eq!(
        (&job["priority"], &job["payload"]["to"]),
        (&Value::from(-3), &Value::from("a"))
    );
    let later = server.fine(&["enqueue", "mail", "1", "--delay", "1h"]);
    assert_eq!(server.show(&later)["state"], "scheduled");
}

#[test]
fn many_jobs_come_from_lines() {
    let server = Server::start();
    let folder = Folder::new("lines");
    let file = folder.path().join("jobs.jsonl");
    let lines: String = (0..1234).map(|n| format!("{{\"n\": {n}}}\n")).collect();
    std::fs::write(&file, lines).unwrap();
    let ids = server.fine(&["enqueue", "crawl", "--lines", file.to_str().unwrap()]);
    assert_eq!(ids.lines().count(), 1234);
    let listed = server.fine(&["list", "--limit", "2000", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 1234);
    std::fs::write(&file, "1\nnot json\n").unwrap();
    let ran = server.jobs(&["enqueue", "crawl", "--lines", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("line 2"), "{}", ran.stderr);
}

#[test]
fn many_jobs_are_cancelled_and_retried_only_when_somebody_agrees() {
    let server = Server::start();
    for n in ["1", "2", "3"] {
        server.fine(&["enqueue", "mail", n]);
    }
    let ran = server.jobs(&["cancel", "--queue", "mail", "--state", "waiting"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("3 jobs would be changed"), "{}", ran.stderr);
    server.fine(&["cancel", "--queue", "mail", "--state", "waiting", "--yes"]);
    let cancelled = server.fine(&["list", "--state", "cancelled"]);
    assert_eq!(cancelled.lines().count(), 4, "{cancelled}");
    server.fine(&["retry", "--queue", "mail", "--state", "cancelled", "--yes"]);
    assert_eq!(server.fine(&["list", "--state", "waiting"]).lines().count(), 4);
    let ran = server.jobs(&["retry", "99"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let ran = server.jobs(&["cancel"]);
    assert!(ran.stderr.contains("name jobs by id"), "{}", ran.stderr);
}

#[test]
fn schedules_are_set_listed_and_removed() {
    let server = Server::start();
    let set = [
        "schedule",
        "set",
        "nightly",
        "0 3 * * *",
        "report",
        "{}",
        "--time-zone",
        "Asia/Tokyo",
    ];
    server.fine(&set);
    let listed = server.fine(&["schedule", "list"]);
    assert!(
        listed.contains("nightly") && listed.contains("Asia/Tokyo"),
        "{listed}"
    );
    server.fine(&["schedule", "remove", "nightly"]);
    assert_eq!(server.fine(&["schedule", "list"]).lines().count(), 1);
    let ran = server.jobs(&["schedule", "set", "odd", "never", "report"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("cron"), "{}", ran.stderr);
}

#[test]
fn a_house_that_is_not_there_and_words_that_are_no_json_are_told() {
    let ran = run(["jobs", "queues", "--url", "http://127.0.0.1:1"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("nothing answers at http://127.0.0.1:1"),
        "{}",
        ran.stderr
    );
    let ran = run([
        "jobs",
        "enqueue",
        "q",
        "plain words",
        "--url",
        "http://127.0.0.1:1",
    ]);
    assert!(ran.stderr.contains("--text takes plain text"), "{}", ran.stderr);
}
