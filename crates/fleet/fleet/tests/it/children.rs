//! Workers as child processes of a real agent process.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nagaya_fleet::agent::{AgentOptions, ExecOptions};
use nagaya_fleet::commands::{RunnerOptions, StoreOptions, run_agent};
use nagaya_fleet::name::AppName;
use nagaya_testkit::{Redis, is_alive, wait};
use rustix::process::{Pid, Signal, kill_process};
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
    let name = std::env::var("FLEET_TEST_NAME").unwrap();
    block_on(async {
        let exec = ExecOptions {
            command: format!("sh {}/worker.sh {{}}", folder.display()),
            request: Some("echo {key}={}".into()),
            progress_limit: std::env::var("FLEET_TEST_PROGRESS")
                .ok()
                .map(|_| Duration::from_secs(30)),
            watchdog,
        };
        let store = StoreOptions::new(url.parse().unwrap(), AppName::new("app").unwrap());
        let options = AgentOptions {
            state_dir: Some(folder),
            ..options(&name)
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

/// Not a test of its own: the watchdog's process.
#[test]
fn watchdog_process() {
    if std::env::var("FLEET_TEST_WATCHDOG").is_ok() {
        nagaya_leash::watch().unwrap();
    }
}

fn watchdog() -> std::io::Result<Command> {
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["--exact", "children::watchdog_process", "--nocapture"])
        .args(["--test-threads", "1"])
        .env("FLEET_TEST_WATCHDOG", "1")
        .env_remove("FLEET_TEST_URL");
    Ok(command)
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
    agent_command(redis, folder, "a").spawn().unwrap()
}

fn agent_command(redis: &Redis, folder: &Path, name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "children::agent_process", "--nocapture"])
        .env("FLEET_TEST_URL", redis.url())
        .env("FLEET_TEST_FOLDER", folder)
        .env("FLEET_TEST_NAME", name)
        .stdout(Stdio::null());
    command
}

/// A folder with the worker's script.
fn stage() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("worker.sh"), WORKER).unwrap();
    folder
}

fn signal(process: u32, signal: Signal) {
    let pid = Pid::from_raw(process.cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// A process that the test ends, frozen or not.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        signal(self.0.id(), Signal::CONT);
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn parent_of(process: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1;
    fields.split_whitespace().nth(1).unwrap().parse().unwrap()
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
    let folder = stage();
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
        signal(agent.id(), Signal::TERM);
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

#[test]
fn workers_of_an_agent_that_is_frozen_alone_are_dead_before_they_run_elsewhere() {
    let redis = Redis::start();
    let (here, there) = (stage(), stage());
    let store = store_of(&redis.url(), "app");
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let frozen = Ends(agent_command(&redis, here.path(), "a").spawn().unwrap());
        let mut stubborn = install("stubborn");
        stubborn.config = b"{\"id\":\"stubborn\"}".to_vec();
        store.put(&[stubborn, install("plain")]).await.unwrap();
        let names = ["stubborn", "plain"];
        eventually("both run", || async {
            names.iter().all(|name| written(here.path(), name).is_some())
        })
        .await;
        let before: Vec<_> = names
            .iter()
            .map(|name| written(here.path(), name).unwrap())
            .collect();
        signal(frozen.0.id(), Signal::STOP);
        let _other = Ends(agent_command(&redis, there.path(), "b").spawn().unwrap());
        eventually("they run elsewhere", || async {
            names.iter().any(|name| written(there.path(), name).is_some())
        })
        .await;
        for (child, grandchild, _) in &before {
            assert!(
                !is_alive(*child) && !is_alive(*grandchild),
                "two copies: {before:?}"
            );
        }
        signal(frozen.0.id(), Signal::CONT);
        eventually("both run, and the thawed agent is back", || async {
            let snapshot = store.snapshot(None).await.unwrap();
            names.iter().all(|name| written(there.path(), name).is_some())
                || snapshot.instances.values().filter(|one| one.count > 0).count() == 2
        })
        .await;
    });
}

#[test]
fn a_killed_watchdog_is_replaced_and_its_workers_run_again() {
    let redis = Redis::start();
    let folder = stage();
    let store = store_of(&redis.url(), "app");
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let agent = Ends(start_agent(&redis, folder.path()));
        store.put(&[install("one"), install("two")]).await.unwrap();
        let names = ["one", "two"];
        eventually("both run", || async {
            names.iter().all(|name| written(folder.path(), name).is_some())
        })
        .await;
        let before: Vec<_> = names
            .iter()
            .map(|name| written(folder.path(), name).unwrap())
            .collect();
        let watchdog = parent_of(before[0].0);
        assert_ne!(watchdog, agent.0.id(), "the watchdog is the parent");
        signal(watchdog, Signal::KILL);
        eventually("both run again, with higher epochs", || async {
            names.iter().zip(&before).all(|(name, (_, _, epoch))| {
                written(folder.path(), name).is_some_and(|(_, _, now)| now > *epoch)
            })
        })
        .await;
        for (child, grandchild, _) in &before {
            assert!(!is_alive(*child) && !is_alive(*grandchild), "{before:?}");
        }
        let (child, _, _) = written(folder.path(), "one").unwrap();
        assert_ne!(parent_of(child), watchdog);
        assert_ne!(parent_of(child), agent.0.id());
    });
}

#[test]
fn a_changed_config_ends_a_worker_with_the_whole_grace() {
    let redis = Redis::start();
    let folder = stage();
    // Takes most of its grace to end, and says so.
    let slow = "cd \"$(dirname \"$0\")\"; trap 'sleep 0.25; echo $NAGAYA_EPOCH > ended; exit 0' TERM\n\
                echo \"$$ $$ $NAGAYA_EPOCH\" > \"$1.part\" && mv \"$1.part\" \"$1\"\nwhile :; do sleep 0.02; done\n";
    std::fs::write(folder.path().join("worker.sh"), slow).unwrap();
    let store = store_of(&redis.url(), "app");
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let _agent = Ends(start_agent(&redis, folder.path()));
        let mut one = install("one");
        store.put(std::slice::from_ref(&one)).await.unwrap();
        eventually("it runs", || async { written(folder.path(), "one").is_some() }).await;
        let (_, _, epoch) = written(folder.path(), "one").unwrap();
        one.config = b"{\"id\":\"one\",\"new\":1}".to_vec();
        store.update(&one).await.unwrap();
        eventually("it runs again", || async {
            written(folder.path(), "one").is_some_and(|(_, _, now)| now > epoch)
        })
        .await;
        let ended = std::fs::read_to_string(folder.path().join("ended")).unwrap_or_default();
        assert_eq!(ended.trim(), epoch.to_string(), "it ended by itself");
    });
}

#[test]
fn output_is_kept_when_it_is_watched_for_progress() {
    let redis = Redis::start();
    let folder = stage();
    std::fs::write(
        folder.path().join("worker.sh"),
        "echo said by $1\nexec sleep 1000\n",
    )
    .unwrap();
    let store = store_of(&redis.url(), "app");
    block_on(async {
        let _manager = TestManager::start(&store, "m");
        let output = std::fs::File::create(folder.path().join("output")).unwrap();
        let mut command = agent_command(&redis, folder.path(), "a");
        let _agent = Ends(
            command
                .env("FLEET_TEST_PROGRESS", "1")
                .stdout(output)
                .spawn()
                .unwrap(),
        );
        store.put(&[install("one")]).await.unwrap();
        eventually("its words are there", || async {
            let output = std::fs::read_to_string(folder.path().join("output")).unwrap();
            output.contains("said by one\n")
        })
        .await;
    });
}
