//! `ids run`: signals, exit codes and what is left behind. The supervisor is this test binary,
//! started again as a process of its own.

use std::ffi::OsString;
use std::process::ExitStatus;
use std::time::Duration;

use nagaya_ids::lease::{Holder, HolderOptions};
use nagaya_ids::permit::Permit;
use nagaya_ids::run::{LOST_CODE, RunOptions, run};
use nagaya_testkit::{Folder, Launch, Process, Redis, Reply, Signal, is_alive, wait};

use crate::stage::{opened, options};
use crate::support::{block_on, make, pool_at, pool_of, quick_timing};

const URL: &str = "NAGAYA_TEST_RUN_URL";
const COMMAND: &str = "NAGAYA_TEST_RUN_COMMAND";
const STATE: &str = "NAGAYA_TEST_RUN_STATE";
const DELAY_S: &str = "NAGAYA_TEST_RUN_DELAY_S";
const GRACE: Duration = Duration::from_millis(300);
/// For what a command leaves behind: longer than its grace, and than a window.
const STOP_TIMEOUT: Duration = Duration::from_secs(4);
const WATCHDOG: &str = "NAGAYA_TEST_RUN_WATCHDOG";
const PATIENCE: Duration = Duration::from_secs(30);
/// Runs until it is told to end.
const FOREVER: &str = "while :; do sleep 0.05; done";

/// The other process: does nothing when it runs as an ordinary test.
#[test]
fn supervisor_process() {
    let (Ok(url), Ok(command)) = (std::env::var(URL), std::env::var(COMMAND)) else {
        return;
    };
    let mut timing = quick_timing();
    if let Ok(seconds) = std::env::var(DELAY_S) {
        timing.delay = Duration::from_secs(seconds.parse().unwrap());
    }
    let options = RunOptions {
        command: command.split('\u{1f}').map(OsString::from).collect(),
        placeholder: "{}".into(),
        grace: GRACE,
        stop_timeout: STOP_TIMEOUT,
        watchdog,
        holder: HolderOptions {
            name: Some("runner".into()),
            state_dir: std::env::var_os(STATE).map(Into::into),
            timing,
            ..HolderOptions::default()
        },
    };
    let code = match block_on(run(pool_at(&url), options)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            error.exit_code()
        }
    };
    std::process::exit(code.into());
}

/// The watchdog's process: does nothing when it runs as an ordinary test.
#[test]
fn watchdog_process() {
    if std::env::var_os(WATCHDOG).is_some() {
        nagaya_leash::watch().unwrap();
    }
}

fn watchdog() -> std::io::Result<std::process::Command> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command
        .args(["--exact", "run::watchdog_process", "--nocapture"])
        .env(WATCHDOG, "1");
    Ok(command)
}

fn launch(redis: &Redis, state: &Folder, command: &[&str]) -> Launch {
    Launch::new("ids-run", std::env::current_exe().unwrap())
        .args(["--exact", "run::supervisor_process", "--nocapture"])
        .env(URL, format!("{}?ns=t", redis.url()))
        .env(STATE, state.path())
        .env(COMMAND, command.join("\u{1f}"))
}

struct Case {
    redis: Redis,
    folder: Folder,
    supervisor: Process,
}

impl Case {
    fn start(command: &[&str]) -> Case {
        let redis = Redis::start();
        block_on(make(&pool_of(&redis), 1, 3)).unwrap();
        let folder = Folder::new("ids-run");
        let supervisor = Process::start(launch(&redis, &folder, command), folder.path()).unwrap();
        Case {
            redis,
            folder,
            supervisor,
        }
    }

    /// The same instance once more.
    fn launch(&self, command: &[&str]) -> Launch {
        launch(&self.redis, &self.folder, command)
    }

    fn shell(script: &str) -> Case {
        Case::start(&["sh", "-c", script])
    }

    fn wait_for(&self, text: &str) {
        wait::until(&format!("{text:?} is printed"), PATIENCE, || {
            self.supervisor.output().contains(text)
        });
    }

    fn end(&self) -> ExitStatus {
        self.supervisor.wait(PATIENCE).unwrap()
    }

    fn check_released(&self) {
        assert_eq!(
            self.redis.cmd(&["HLEN", "t:clients"]),
            Reply::Int(0),
            "{}",
            self.supervisor.output()
        );
    }

    fn printed_pid(&self) -> u32 {
        let output = self.supervisor.output();
        let (_, rest) = output.split_once("left ").unwrap();
        rest.split_whitespace().next().unwrap().parse().unwrap()
    }
}

#[test]
fn the_command_gets_its_number_and_its_exit_code_is_ours() {
    let case = Case::shell("echo got {}-{} $NAGAYA_ID fence $NAGAYA_FENCE; exit 7");
    assert_eq!(case.end().code(), Some(7));
    let output = case.supervisor.output();
    assert!(output.contains("got 1-1 1 fence "), "{output}");
    let fence = output
        .split("fence ")
        .nth(1)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap();
    assert!(fence.parse::<u64>().unwrap() > 0);
    case.check_released();
}

#[test]
fn a_command_killed_by_a_signal_exits_with_128_and_its_number() {
    let case = Case::shell("kill -9 $$");
    assert_eq!(case.end().code(), Some(137));
    case.check_released();
}

#[test]
fn a_command_that_is_not_there_exits_with_127_and_releases() {
    let case = Case::start(&["/nonexistent/program"]);
    assert_eq!(case.end().code(), Some(127));
    case.check_released();
}

#[test]
fn a_signal_during_the_delay_ends_without_starting_and_releases() {
    let case = Case::shell("echo started; sleep 600");
    wait::until("a number is taken", PATIENCE, || {
        case.redis.cmd(&["HLEN", "t:clients"]) == Reply::Int(1)
    });
    case.supervisor.signal(Signal::TERM);
    assert_eq!(case.end().code(), Some(143));
    assert!(!case.supervisor.output().contains("started"));
    case.check_released();
}

#[test]
fn signals_are_passed_on_to_the_command() {
    let case = Case::shell(&format!(
        "trap 'echo one' USR1; trap 'exit 5' TERM; echo ready; {FOREVER}"
    ));
    case.wait_for("ready");
    case.supervisor.signal(Signal::USR1);
    case.wait_for("one");
    case.supervisor.signal(Signal::TERM);
    case.supervisor.signal(Signal::TERM);
    assert_eq!(case.end().code(), Some(5));
    case.check_released();
}

#[test]
fn a_signal_sent_while_the_command_starts_reaches_it() {
    // Without a handler the signal ends the command, however early it comes.
    let case = Case::shell(&format!("echo ready; {FOREVER}"));
    case.wait_for("ready");
    case.supervisor.signal(Signal::INT);
    let code = case.end().code();
    assert_eq!(code, Some(130), "{}", case.supervisor.output());
    case.check_released();
}

#[test]
fn a_robbed_command_that_ignores_term_is_killed() {
    let case = Case::shell(&format!("trap '' TERM; echo ready; {FOREVER}"));
    case.wait_for("ready");
    case.redis.cmd(&["HSET", "t:clients", "A1", "thief"]);
    assert_eq!(case.end().code(), Some(LOST_CODE.into()));
    assert_eq!(case.redis.cmd(&["HGET", "t:clients", "A1"]), Reply::bulk("thief"));
}

#[test]
fn a_command_is_ended_when_redis_does_not_answer() {
    let case = Case::shell(&format!("trap 'echo asked; exit 9' TERM; echo ready; {FOREVER}"));
    case.wait_for("ready");
    case.redis.stop();
    assert_eq!(case.end().code(), Some(LOST_CODE.into()));
    assert!(case.supervisor.output().contains("asked"));
    case.redis.cont();
}

#[test]
fn a_grandchild_left_behind_is_ended_before_the_release() {
    let case = Case::shell("sleep 600 & echo left $!; exit 3");
    assert_eq!(case.end().code(), Some(3));
    assert!(!is_alive(case.printed_pid()));
    case.check_released();
}

#[test]
fn a_grandchild_that_left_the_group_and_ignores_term_is_ended_too() {
    let script = "setsid sh -c \"trap '' TERM; echo left \\$\\$; sleep 600; sleep 600\" & sleep 0.5; exit 4";
    let case = Case::shell(script);
    assert_eq!(case.end().code(), Some(4));
    assert!(!is_alive(case.printed_pid()));
    case.check_released();
}

/// Signals one process; the testkit's own signals reach the whole family.
fn signal_alone(pid: u32, signal: &str) {
    let sent = std::process::Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

#[test]
fn a_killed_supervisors_command_is_ended_and_its_name_is_free_again() {
    // It ignores TERM, so that only a KILL ends it.
    let case = Case::shell(&format!("trap '' TERM; echo left $$; {FOREVER}"));
    case.wait_for("left ");
    let pid = case.printed_pid();
    signal_alone(case.supervisor.pid().unwrap(), "-9");
    case.supervisor.wait(PATIENCE).unwrap();
    wait::until("the command is ended", PATIENCE, || !is_alive(pid));
    wait::until("the name is free", PATIENCE, || {
        let folder = Folder::new("ids-run-again");
        let again = Process::start(case.launch(&["true"]), folder.path()).unwrap();
        again.wait(PATIENCE).unwrap().code() == Some(0)
    });
}

#[test]
fn a_stopped_supervisors_command_is_ended_before_another_may_use_the_number() {
    let case = Case::shell(&format!("trap '' TERM; echo left $$; {FOREVER}"));
    case.wait_for("left ");
    let pid = case.printed_pid();
    let supervisor = case.supervisor.pid().unwrap();
    signal_alone(supervisor, "-STOP");
    // Another holder waits for the longest use; by then nothing may be left of the command.
    case.redis.cmd(&["ZADD", "t:ids", "1", "A1"]);
    block_on(async {
        let pool = pool_of(&case.redis);
        for name in ["b", "c", "d"] {
            let holder = Holder::start(pool.clone(), options(name)).unwrap();
            let window = opened(&holder).await;
            if window.worker() == 1 {
                assert!(!is_alive(pid), "the number has two users");
                return;
            }
            // It stays reserved, so that the next one gets another number.
            drop(holder);
        }
        panic!("nobody got the number");
    });
    signal_alone(supervisor, "-CONT");
    assert_eq!(case.end().code(), Some(LOST_CODE.into()));
}

#[test]
fn a_command_does_not_outlive_its_watchdog() {
    let case = Case::shell(&format!("trap '' TERM; echo left $$ of $PPID; {FOREVER}"));
    case.wait_for(" of ");
    let pid = case.printed_pid();
    let output = case.supervisor.output();
    let (_, parent) = output.split_once(" of ").unwrap();
    let parent: u32 = parent.split_whitespace().next().unwrap().parse().unwrap();
    assert_ne!(Some(parent), case.supervisor.pid(), "the watchdog is the parent");
    signal_alone(parent, "-9");
    assert_eq!(case.end().code(), Some(1));
    assert!(!is_alive(pid));
    case.check_released();
}

#[test]
fn what_a_command_leaves_behind_may_take_its_time_while_the_lease_is_healthy() {
    // The shell ends at once; what it started takes longer than the grace, and counts how often it is told to end.
    let script =
        "sh -c 'trap \"echo told; sleep 1; echo done\" TERM; echo left $$; sleep 600 & wait; wait' & wait";
    let case = Case::shell(script);
    case.wait_for("left ");
    case.supervisor.signal(Signal::TERM);
    case.end();
    let output = case.supervisor.output();
    assert_eq!(output.matches("told").count(), 1, "{output}");
    assert!(output.contains("done"), "{output}");
    case.check_released();
}

#[test]
fn orphans_are_reaped_while_the_command_runs() {
    let script =
        "i=0; while [ $i -lt 30 ]; do (sleep 0.01 &); i=$((i+1)); done; echo left $$ of $PPID; sleep 600";
    let case = Case::shell(script);
    case.wait_for(" of ");
    let output = case.supervisor.output();
    let (_, watchdog) = output.split_once(" of ").unwrap();
    let watchdog: u32 = watchdog.split_whitespace().next().unwrap().parse().unwrap();
    let families = [case.supervisor.pid().unwrap(), watchdog];
    wait::until("the command is the only child left", PATIENCE, || {
        families.iter().map(|pid| children(*pid)).sum::<usize>() == 2
    });
    case.supervisor.signal(Signal::TERM);
    case.end();
}

/// Counts the children of a process, zombies included.
fn children(pid: u32) -> usize {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists.map(|list| list.split_whitespace().count()).sum()
}

#[test]
fn a_returning_name_starts_at_once() {
    let case = Case::shell("exit 0");
    assert_eq!(case.end().code(), Some(0));
    let folder = Folder::new("ids-run-again");
    // With a delay that nobody here waits for.
    let again = Process::start(
        case.launch(&["echo", "back {}"]).env(DELAY_S, "600"),
        folder.path(),
    )
    .unwrap();
    assert_eq!(
        again.wait(PATIENCE).unwrap().code(),
        Some(0),
        "{}",
        again.output()
    );
    assert!(again.output().contains("back 1"), "{}", again.output());
}
