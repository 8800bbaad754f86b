//! `config show` and `config check`.

use super::*;
use serde_json::{Value, json};

const FILE: &str = "[http]\ntoken = \"hunter2-hunter2-2\"\nhead_timeout = \"5000ms\"\n";

#[test]
fn show_tells_value_and_origin_and_hides_secrets() {
    let folder = Folder::new("show");
    let config = folder.write("house.toml", FILE);
    let config = config.to_str().unwrap();
    let args = [
        "--config",
        config,
        "config",
        "show",
        "--http-listen",
        "127.0.0.1:1",
        "--set",
        "http.body_max=1kb",
    ];
    let ran = run_with(args, &[("NAGAYA_TELEMETRY__LOG_LEVEL", "debug")]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let origin_of = |line: &str| {
        let found = ran.stdout.lines().find(|found| found.starts_with(line));
        let found = found.unwrap_or_else(|| panic!("{line} is missing in\n{}", ran.stdout));
        found.split_once('#').unwrap().1.trim().to_owned()
    };
    assert_eq!(origin_of("listen = \"127.0.0.1:1\" "), "flag --http-listen");
    assert_eq!(origin_of("body_max = \"1kb\" "), "flag --set");
    assert_eq!(origin_of("token = \"***\" "), format!("{config}:2"));
    assert_eq!(origin_of("head_timeout = \"5s\" "), format!("{config}:3"));
    assert_eq!(
        origin_of("log_level = \"debug\" "),
        "environment NAGAYA_TELEMETRY__LOG_LEVEL"
    );
    assert_eq!(origin_of("drain_timeout = \"10s\" "), "default");
    assert!(!ran.stdout.contains("hunter2-hunter2-2"));
}

#[test]
fn show_speaks_json_too() {
    let folder = Folder::new("show");
    let config = folder.write("house.toml", FILE);
    let config = config.to_str().unwrap();
    let ran = run(["--config", config, "config", "show", "--json"]);
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
    let token = json!({"value": "***", "origin": {"kind": "file", "name": config, "line": 2}});
    assert_eq!(shown["http"]["token"], token);
    assert_eq!(
        shown["house"]["insecure"],
        json!({"value": false, "origin": {"kind": "default"}})
    );
    assert_eq!(shown["telemetry"]["otlp_endpoint"]["value"], Value::Null);
}

#[test]
fn what_show_prints_is_a_valid_config_file() {
    let folder = Folder::new("show");
    let shown = folder.write("shown.toml", &run(["config", "show"]).stdout);
    let ran = run(["--config", shown.to_str().unwrap(), "config", "check"]);
    assert_eq!(
        (ran.code, ran.stdout.lines().next()),
        (Some(0), Some("the configuration is valid")),
        "{}",
        ran.stderr
    );
}

#[test]
fn check_applies_the_rules_that_span_settings() {
    let ran = run(["config", "check", "--http-listen", "0.0.0.0:1"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("--insecure"), "{}", ran.stderr);
    assert_eq!(
        run(["config", "check", "--http-listen", "0.0.0.0:1", "--insecure"]).code,
        Some(0)
    );
}

#[test]
fn an_encrypted_port_that_other_machines_reach_asks_for_something_as_well() {
    let open = ["config", "check", "--set", "room.tls_listen=0.0.0.0:1"];
    let ran = run(open);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("`room.tls_listen` is 0.0.0.0:1") && ran.stderr.contains("`room.password`"),
        "{}",
        ran.stderr
    );
    for with in [
        "room.password=a-long-password",
        "room.tls_client_ca=ca.pem",
        "house.insecure=true",
    ] {
        let ran = run(open.into_iter().chain(["--set", with]));
        assert_eq!(ran.code, Some(0), "{with}: {}", ran.stderr);
    }
}

#[test]
fn unknown_names_in_our_part_of_the_environment_are_refused() {
    let ran = run_with(
        ["config", "check"],
        &[("NAGAYA_HTTP__LISTN", "x"), ("NAGAYA_TEST_LONG", "1")],
    );
    assert_eq!(ran.code, Some(1));
    let expected =
        "environment NAGAYA_HTTP__LISTN: no setting has this name; did you mean NAGAYA_HTTP__LISTEN?";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
}

#[test]
fn the_environment_may_name_the_file_and_the_flag_wins() {
    let folder = Folder::new("variable");
    let file = |name: &str, port: u16| {
        let path = folder.write(name, &format!("[http]\nlisten = \"127.0.0.1:{port}\"\n"));
        path.to_str().unwrap().to_owned()
    };
    let (named, flagged) = (file("named.toml", 1), file("flagged.toml", 2));
    let variable = [("NAGAYA_CONFIG", named.as_str())];
    let shown = run_with(["config", "show"], &variable);
    assert!(shown.stdout.contains("127.0.0.1:1\""), "{}", shown.stdout);
    assert!(!shown.stderr.contains("NAGAYA_CONFIG"), "{}", shown.stderr);
    let shown = run_with(["--config", &flagged, "config", "show"], &variable);
    assert!(shown.stdout.contains("127.0.0.1:2\""), "{}", shown.stdout);
    let missing = run_with(["config", "check"], &[("NAGAYA_CONFIG", "nowhere.toml")]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("nowhere.toml"), "{}", missing.stderr);
}
