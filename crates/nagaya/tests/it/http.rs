//! The HTTP listener: routes, errors, limits and the token.

use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_fresh_house_is_ready_private_and_quiet_on_stdout() {
    let house = house().start();
    assert_eq!(house.get("/healthz").unwrap().body, r#"{"status":"ok"}"#);
    let readyz = house.get("/readyz").unwrap();
    assert!(
        readyz
            .body
            .contains(r#""components":[{"name":"room","state":"ready"},{"name":"jobs","state":"ready","#),
        "{}",
        readyz.body
    );
    let version = house.get("/version").unwrap().body;
    assert!(
        version.contains(concat!("\"", env!("CARGO_PKG_VERSION"), "\"")),
        "{version}"
    );
    let mode = fs::metadata(house.data()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);

    let stderr = nagaya_testkit::wait::value("the whole banner", LIMIT, || {
        Some(house.process().stderr()).filter(|stderr| stderr.contains("Ctrl-C stops it."))
    });
    let address = house.address("http");
    assert!(
        stderr.contains(&format!("  console  http://{address}/\n")),
        "{stderr}"
    );
    assert!(
        stderr.contains(&format!("status --url http://{address}")),
        "{stderr}"
    );
    assert!(stderr.contains(house.data().to_str().unwrap()), "{stderr}");
    assert!(!stderr.contains('\x1b'), "colour is for terminals");
    assert_eq!(house.process().stdout(), "");
}

#[test]
fn metrics_count_requests_by_route_and_not_by_path() {
    let house = house().start();
    house.get("/healthz").unwrap();
    house.get("/secret-name").unwrap();
    let answer = house.get("/metrics").unwrap();
    assert!(
        answer.head.contains("application/openmetrics-text"),
        "{}",
        answer.head
    );
    let healthz = r#"nagaya_http_requests_total{method="GET",route="/healthz",status="200"} 1"#;
    let unmatched = r#"nagaya_http_requests_total{method="GET",route="unmatched",status="404"} 1"#;
    assert!(answer.body.contains(healthz), "{}", answer.body);
    assert!(answer.body.contains(unmatched), "{}", answer.body);
    assert!(!answer.body.contains("secret-name"));
}

#[test]
fn errors_are_problem_documents() {
    let house = house().start();
    let address = house.address("http");
    let check = |head: &str, status: &str, parts: &[&str]| {
        let answer = ask(address, head);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{answer}");
        assert!(
            answer.contains("\r\ncontent-type: application/problem+json\r\n"),
            "{answer}"
        );
        for part in parts {
            assert!(answer.contains(part), "{part} is missing in {answer}");
        }
    };
    check(
        "GET /nothing HTTP/1.1",
        "404 Not Found",
        &[r#""status":404"#, "nothing at /nothing"],
    );
    check(
        "DELETE /healthz HTTP/1.1",
        "405 Method Not Allowed",
        &["allow: GET,HEAD", r#""status":405"#],
    );
    check(
        "POST /healthz HTTP/1.1\r\ncontent-length: 3000000",
        "413 Payload Too Large",
        &["`http.body_max` allows 2mb"],
    );
}

#[test]
fn a_token_guards_all_but_the_probes() {
    let house = house().env("NAGAYA_HTTP__TOKEN", "hunter2-hunter2-2").start();
    let address = house.address("http");
    let check = |head: &str, status: &str| {
        let answer = ask(address, head);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{head}: {answer}"
        );
        answer
    };
    check("GET /healthz HTTP/1.1", "200");
    check("GET /readyz HTTP/1.1", "200");
    let refused = check("GET /metrics HTTP/1.1", "401");
    assert!(refused.contains("\r\nwww-authenticate: Bearer\r\n"), "{refused}");
    check("GET /nothing HTTP/1.1", "401");
    check(
        "GET /metrics HTTP/1.1\r\nauthorization: Bearer hunter2-hunter2-3",
        "401",
    );
    check(
        "GET /metrics HTTP/1.1\r\nauthorization: Bearer hunter2-hunter2-2",
        "200",
    );
    assert!(!house.process().output().contains("hunter2-hunter2-2"));
}

#[test]
fn slow_heads_and_silent_connections_are_closed() {
    let house = house().args(["--set", "http.head_timeout=100ms"]).start();
    let mut slow = send(house.address("http"), "GET /healthz HTTP/1.1\r\nhost");
    let mut silent = send(house.address("http"), "");
    let mut half_preface = send(house.address("http"), "PRI * HT");
    assert_eq!(read_all(&mut silent), "");
    assert_eq!(read_all(&mut half_preface), "");
    assert!(!read_all(&mut slow).contains(" 200 "));
}

#[test]
fn a_large_head_is_answered_431() {
    let house = house().args(["--set", "http.head_max=8kb"]).start();
    let large = "x".repeat(20_000);
    let answer = ask(
        house.address("http"),
        &format!("GET /healthz HTTP/1.1\r\nx-large: {large}"),
    );
    assert!(
        answer.starts_with("HTTP/1.1 431 ") || answer.is_empty(),
        "{answer}"
    );
    assert_eq!(house.get("/healthz").unwrap().status, 200);
}

#[test]
fn one_connection_too_many_is_told_so_and_probes_are_answered() {
    let house = house().args(["--set", "http.connections_max=1"]).start();
    let address = house.address("http");
    // The kit's own connection may still be closing: the first try that is served holds the place.
    let _stream = nagaya_testkit::wait::value("a served connection", LIMIT, || {
        let mut stream = send(address, "GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let mut start = [0; 12];
        stream.read_exact(&mut start).unwrap();
        (&start == b"HTTP/1.1 200").then_some(stream)
    });
    let refused = ask(address, "GET /version HTTP/1.1");
    assert!(
        refused.starts_with("HTTP/1.1 503 Service Unavailable\r\n"),
        "{refused}"
    );
    assert!(refused.contains("http.connections_max"), "{refused}");
    for path in ["/healthz", "/readyz", "/metrics"] {
        let answer = ask(address, &format!("GET {path} HTTP/1.1"));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    }
}

#[test]
fn json_logs_are_json_from_the_first_line() {
    let house = house().args(["--log-format", "json"]).start();
    house.shut_down();
    let stderr = house.process().stderr();
    assert!(!stderr.is_empty());
    for line in stderr.lines() {
        let event: serde_json::Value = serde_json::from_str(line).expect(line);
        assert!(
            event["level"].is_string() && event["message"].is_string(),
            "{line}"
        );
    }
}
