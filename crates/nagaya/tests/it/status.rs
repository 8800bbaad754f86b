//! `nagaya status`.

use super::*;
use serde_json::Value;

#[test]
fn a_running_house_is_described() {
    let house = house().start();
    let url = format!("http://{}", house.address("http"));
    let table = run(["status", "--url", &url]);
    assert_eq!(table.code, Some(0), "{}", table.stderr);
    assert!(
        table.stdout.contains("state    ready\n") && table.stdout.contains("\nservices\nroom     ready "),
        "{}",
        table.stdout
    );
    assert!(table.stdout.contains("fanout   off\n"), "{}", table.stdout);
    let ran = run(["status", "--url", &url, "--json"]);
    let status: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(status["state"], "ready");
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(status["components"][0]["name"], "room");
    assert_eq!(status["components"][1]["name"], "jobs");
    assert_eq!(status["components"][2]["name"], "http");
    assert_eq!(status["services"]["room"]["mode"], "embedded");
}

#[test]
fn a_house_is_watched_until_interrupted_and_missed_while_it_is_gone() {
    let house = house().start();
    let url = format!("http://{}", house.address("http"));
    let folder = Folder::new("watch");
    let launch = Launch::new("nagaya", BINARY).args(["status", "--url", &url, "--watch", "0.1"]);
    let watching = Process::start(launch, folder.path()).unwrap();
    nagaya_testkit::wait::until("three blocks", LIMIT, || {
        watching.stdout().matches("state    ready\n").count() >= 3
    });
    assert!(
        watching.stdout().contains("\n\nurl "),
        "blocks have a line between them"
    );
    assert!(!watching.stdout().contains('\x1b'), "a pipe is not drawn on");
    house.shut_down();
    nagaya_testkit::wait::until("the server is missed", LIMIT, || {
        watching.stdout().contains("no answer: nothing answers at")
    });
    watching.signal(nagaya_testkit::Signal::INT);
    assert_eq!(
        watching.wait(LIMIT).unwrap().code(),
        Some(1),
        "it was not ready at last"
    );
    let ran = run(["status", "--url", &url, "--watch"]);
    assert_eq!(ran.code, Some(1), "nothing to watch");
    let ran = run(["status", "--watch", "soon"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}

#[test]
fn the_address_and_token_come_from_the_settings() {
    let house = house().env("NAGAYA_HTTP__TOKEN", "hunter2-hunter2-2").start();
    let address = house.address("http").to_string();
    let variables = [
        ("NAGAYA_HTTP__LISTEN", address.as_str()),
        ("NAGAYA_HTTP__TOKEN", "hunter2-hunter2-2"),
    ];
    let ran = run_with(["status"], &variables);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stdout
            .contains(concat!("version  ", env!("CARGO_PKG_VERSION"))),
        "{}",
        ran.stdout
    );
    let without = run_with(["status"], &variables[..1]);
    assert_eq!(without.code, Some(0), "{}", without.stderr);
    assert!(without.stdout.contains("version  not told"), "{}", without.stdout);
}

#[test]
fn nothing_running_is_said_plainly() {
    let port = nagaya_testkit::free_port();
    let ran = run(["status", "--url", &format!("http://127.0.0.1:{port}")]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("nothing answers at http://127.0.0.1:"),
        "{}",
        ran.stderr
    );
    let ran = run(["status", "--url", "ftp://x"]);
    assert!(
        ran.stderr.contains("does not look like http://ADDRESS:PORT"),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_environment_may_name_the_server_for_every_command() {
    let house = house().start();
    let url = format!("http://{}", house.address("http"));
    for words in [
        &["status"][..],
        &["jobs", "queues"],
        &["jobs", "enqueue", "mail", "7"],
    ] {
        let ran = run_with(words.iter().copied(), &[("NAGAYA_URL", &url)]);
        assert_eq!(ran.code, Some(0), "{words:?}: {}", ran.stderr);
    }
    let wrong = [("NAGAYA_URL", "http://127.0.0.1:9")];
    let ran = run_with(["status", "--url", &url], &wrong);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(run_with(["status"], &wrong).code, Some(1));
}
