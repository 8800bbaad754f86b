//! Workers as child processes of a real agent process.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nagaya_fleet::agent::{AgentOptions, ExecOptions};
use nagaya_fleet::commands::{RunnerOptions, StoreOptions, run_agent};
use nagaya_fleet::name::AppName;
use nagaya_testkit::{Redis, is_alive, wait};
use tokio_util::sync::CancellationToken;

use crate::support::{
    PATIENCE, TestManager, block_on, eventually, install, instance, options, place_of, store_of, worker,
};

/// Not a test of its own: the agent process, which the tests below start from this binary.
#[test]
fn agent_process() {
    let Ok(url) = std::env::var("FLEET_TEST_URL") else {
        return;
    };
    let folder = PathBuf::from(std::env::var("FLEET_TEST_FOLDER").unwrap());
    block_on(async {
        let exec = ExecOptions {
            command: format!("sh {}/worker.sh {{}}", folder.display()),
            request: Some("echo {key}={}".into()),
            progress_limit: None,
        };
        let store = StoreOptions::new(url.parse().unwrap(), AppName::new("app").unwrap());
        let options = AgentOptions {
            state_dir: Some(folder),
            ..options("a")
        };
        let shutdown = CancellationToken::new();
        let asked = shutdown.clone();
        let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
        tokio::spawn(async move {
            term.recv().await;
            asked.cancel();
        });
        run_agent(store, options, RunnerOptions::Exec(exec), shutdown)
            .await
            .unwrap();
    });
}

/// A worker that writes its id, epoch and config to a file, has a child process, and ignores TERM if told to.
const WORKER: &str = r#"
cd "$(dirname "$0")" || exit 1
config=$(cat)
case $config in *stubborn*) trap '' TERM ;; esac
sleep 1000 &
echo "$$ $! $NAGAYA_EPOCH $config" > "$1.part" && mv "$1.part" "$1"
while :; do sleep 0.1; done
"#;

fn start_agent(redis: &Redis, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "children::agent_process", "--nocapture"])
        .env("FLEET_TEST_URL", redis.url())
        .env("FLEET_TEST_FOLDER", folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Returns the processes of a worker and its epoch once it has written them.
fn written(folder: &Path, name: &str) -> Option<(u32, u32, u64)> {
    let text = std::fs::read_to_string(folder.join(name)).ok()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    Some((
        words[0].parse().ok()?,
        words[1].parse().ok()?,
        words[2].parse().ok()?,
    ))
}

#[test]
fn children_die_with_a_killed_agent_and_a_restart_takes_up_the_work_at_once() {
    let redis = Redis::start();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("worker.sh"), WORKER).unwrap();
    let store = store_of(&redis.url(), "app");
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let mut agent = start_agent(&redis, folder.path());
        let mut stubborn = install("stubborn");
        stubborn.config = b"{\"id\":\"stubborn\"}".to_vec();
        store.put(&[stubborn, install("plain")]).await.unwrap();
        let names = ["stubborn", "plain"];
        eventually("both run", || async {
            names.iter().all(|name| written(folder.path(), name).is_some())
        })
        .await;
        let before: Vec<_> = names
            .iter()
            .map(|name| written(folder.path(), name).unwrap())
            .collect();
        let answer = nagaya_fleet::ask::ask(&store, "color", Some(&worker("plain")), PATIENCE)
            .await
            .unwrap();
        assert_eq!(answer.instances[0].answers[&worker("plain")], "color=plain");
        // A killed agent takes its workers along, grandchildren included.
        agent.kill().unwrap();
        agent.wait().unwrap();
        wait::until("all processes are gone", PATIENCE, || {
            before
                .iter()
                .all(|(child, grandchild, _)| !is_alive(*child) && !is_alive(*grandchild))
        });
        let mut agent = start_agent(&redis, folder.path());
        eventually("both run again, with higher epochs", || async {
            names.iter().zip(&before).all(|(name, (_, _, epoch))| {
                written(folder.path(), name).is_some_and(|(_, _, now)| now > *epoch)
            })
        })
        .await;
        let after: Vec<_> = names
            .iter()
            .map(|name| written(folder.path(), name).unwrap())
            .collect();
        // An agent that leaves ends all its workers, including the one that ignores TERM.
        let pid = rustix::process::Pid::from_raw(agent.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(agent.wait().unwrap().success());
        for (child, grandchild, _) in after {
            assert!(!is_alive(child) && !is_alive(grandchild));
        }
        eventually("nobody has them", || async {
            let place = place_of(&store, "plain").await.unwrap();
            place.owner.is_none()
        })
        .await;
        let snapshot = store.snapshot(None).await.unwrap();
        assert!(!snapshot.instances.contains_key(&instance("a")));
    });
}
