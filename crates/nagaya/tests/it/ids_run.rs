//! `nagaya ids run`: a command with a number, its signals and its exit code.

use super::*;
use nagaya_testkit::{Redis, Signal, wait};

/// Short enough for tests; the delay that follows from it is about a second.
const QUICK: [&str; 4] = ["--interval", "100ms", "--grace", "300ms"];

fn pool() -> Redis {
    let redis = Redis::start();
    let ran = run(["ids", "init", "--redis", &redis.url(), "--max", "9", "--unused"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    redis
}

fn words<'a>(url: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["ids", "run", "--redis", url];
    words.extend(QUICK);
    words.extend(rest);
    words
}

fn start(folder: &Folder, url: &str, rest: &[&str]) -> Process {
    let launch = Launch::new("nagaya", BINARY).args(words(url, rest));
    Process::start(launch, folder.path()).unwrap()
}

fn in_use(redis: &Redis) -> usize {
    let ran = run(["ids", "list", "--redis", &redis.url()]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout.lines().count() - 1
}

#[test]
fn the_command_gets_its_number_and_its_exit_code_is_ours() {
    let redis = pool();
    let url = redis.url();
    let script = "echo {} {}.$NAGAYA_ID; test $NAGAYA_FENCE -gt 0 && exit 7";
    let ran = run(words(&url, &["--", "sh", "-c", script]));
    assert_eq!(ran.code, Some(7), "{}", ran.stderr);
    assert_eq!(ran.stdout, "1 1.1\n");
    assert_eq!(in_use(&redis), 0, "it was given back");
}

#[test]
fn yarauss_flags_are_taken_with_one_dash() {
    let redis = pool();
    let url = format!("{}/0?ns=yaraus", redis.url());
    let ran = run([
        "ids",
        "run",
        "-server",
        &url,
        "-interval=100ms",
        "-expire",
        "30m",
        "-delay",
        "1s",
        "-replacement",
        "NUMBER",
        "-min",
        "1",
        "-max",
        "9",
        "sh",
        "-c",
        "echo NUMBER {}",
    ]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stdout, "1 {}\n");
}

#[test]
fn what_cannot_be_run_ends_as_in_a_shell() {
    let redis = pool();
    let url = redis.url();
    let missing = run(words(&url, &["--", "no-such-command"]));
    assert_eq!(missing.code, Some(127), "{}", missing.stderr);
    assert!(missing.stderr.contains("no-such-command"), "{}", missing.stderr);
    let killed = run(words(&url, &["--", "sh", "-c", "kill -9 $$"]));
    assert_eq!(killed.code, Some(137), "{}", killed.stderr);
    assert_eq!(run(["ids", "run", "--redis", &url]).code, Some(2));
    assert_eq!(in_use(&redis), 0);
    let other = format!("{url}/0?ns=other");
    let ran = run(words(&other, &["--", "true"]));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("nagaya ids init"), "{}", ran.stderr);
}

#[test]
fn a_mistyped_flag_is_not_taken_for_the_command() {
    let redis = pool();
    let ran = run(words(&redis.url(), &["--nmae", "x", "--", "true"]));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("--nmae"), "{}", ran.stderr);
    let own = run(words(&redis.url(), &["sh", "-c", "exit 4", "--nmae"]));
    assert_eq!(
        own.code,
        Some(4),
        "flags of the command are its own: {}",
        own.stderr
    );
}

#[test]
fn lengths_that_others_would_not_wait_for_are_refused() {
    let redis = pool();
    let url = redis.url();
    let ran = run(["ids", "run", "--redis", &url, "--grace", "10s", "--", "true"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("the largest grace is 1.5s"), "{}", ran.stderr);
    let ran = run(words(&url, &["--use-max", "20s", "--", "true"]));
    assert_eq!(ran.code, Some(122), "{}", ran.stderr);
    assert!(ran.stderr.contains("use_max"), "{}", ran.stderr);
    let ran = run(words(&url, &["--use-max", "2m", "--", "true"]));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

#[test]
fn a_full_pool_is_told_and_an_operator_can_free_a_number() {
    let redis = Redis::start();
    let url = redis.url();
    let made = run(["ids", "init", "--redis", &url, "--max", "1", "--unused"]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let folder = Folder::new("full");
    let script = "echo up; while :; do sleep 0.05; done";
    let first = start(&folder, &url, &["--name", "first", "--", "sh", "-c", script]);
    wait::until("the command runs", LIMIT, || first.stdout().contains("up"));
    let other = Folder::new("full-other");
    let second = start(&other, &url, &["--", "echo", "mine"]);
    wait::until("the full pool is told", LIMIT, || {
        second.stderr().contains("all numbers are reserved")
    });
    let freed = run(["ids", "release", "1", "--redis", &url]);
    assert_eq!(
        (freed.code, freed.stdout.as_str()),
        (Some(0), "number 1, which first had last, is free\n"),
        "{}",
        freed.stderr
    );
    assert_eq!(
        first.wait(LIMIT).unwrap().code(),
        Some(121),
        "its number was lost"
    );
    assert_eq!(second.wait(LIMIT).unwrap().code(), Some(0));
    assert!(second.stdout().contains("mine"));
    let missing = run(["ids", "release", "7", "--redis", &url]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("no number 7"), "{}", missing.stderr);
}

#[test]
fn too_few_replicas_are_a_failure_that_is_told() {
    let redis = pool();
    let folder = Folder::new("replicas");
    let process = start(&folder, &redis.url(), &["--min-replicas", "1", "--", "true"]);
    wait::until("the missing replica is told", LIMIT, || {
        process.stderr().contains("0 of 1 required replicas")
    });
    process.terminate();
    assert_eq!(process.wait(LIMIT).unwrap().code(), Some(143));
    assert_eq!(in_use(&redis), 0, "the grant was given back");
}

#[test]
fn signals_reach_the_command_and_the_number_is_given_back() {
    let redis = pool();
    let folder = Folder::new("signals");
    let script = "trap 'echo got; exit 3' HUP; echo up; while :; do sleep 0.05; done";
    let process = start(&folder, &redis.url(), &["--", "sh", "-c", script]);
    wait::until("the command runs", LIMIT, || process.stdout().contains("up"));
    assert_eq!(in_use(&redis), 1);
    process.signal(Signal::HUP);
    assert_eq!(process.wait(LIMIT).unwrap().code(), Some(3));
    assert!(process.stdout().contains("got"));
    assert_eq!(in_use(&redis), 0);
}

#[test]
fn a_name_with_state_gets_its_number_back() {
    let redis = pool();
    let folder = Folder::new("sticky");
    let state = folder.path().join("state");
    let flags = ["--name", "web-1", "--state-dir", state.to_str().unwrap(), "--"];
    let url = redis.url();
    let first = run(words(&url, &[&flags[..], &["echo", "{}"]].concat()));
    assert_eq!(
        (first.code, first.stdout.as_str()),
        (Some(0), "1\n"),
        "{}",
        first.stderr
    );
    let other = run(words(&url, &["--", "echo", "{}"]));
    assert_eq!(other.stdout, "2\n", "{}", other.stderr);
    let again = run(words(&url, &[&flags[..], &["echo", "{}"]].concat()));
    assert_eq!(
        (again.code, again.stdout.as_str()),
        (Some(0), "1\n"),
        "{}",
        again.stderr
    );
}
