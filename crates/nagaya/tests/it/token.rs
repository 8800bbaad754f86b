//! `nagaya token`, and what its tokens open.

use super::*;

/// Runs `nagaya token WORDS` against a server, with its own token.
#[track_caller]
fn token(house: &Nagaya, words: &[&str]) -> Ran {
    let url = format!("http://{}", house.address("http"));
    let mut all = vec!["token"];
    all.extend(words);
    all.extend(["--url", &url]);
    run_with(all, &[("NAGAYA_TOKEN", "hunter2-hunter2-2")])
}

/// Makes a token and returns it.
#[track_caller]
fn made(house: &Nagaya, words: &[&str]) -> String {
    let mut all = vec!["create"];
    all.extend(words);
    let ran = token(house, &all);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("the only time it is shown"), "{}", ran.stderr);
    assert!(!ran.stderr.contains(ran.stdout.trim()), "{}", ran.stderr);
    ran.stdout.trim().to_owned()
}

fn guarded_house() -> Nagaya {
    house().env("NAGAYA_HTTP__TOKEN", "hunter2-hunter2-2").start()
}

#[track_caller]
fn check(house: &Nagaya, request: &str, token: &str, status: u16) -> String {
    let head = format!("{request} HTTP/1.1\r\nauthorization: Bearer {token}\r\ncontent-length: 0");
    let answer = ask(house.address("http"), &head);
    assert!(
        answer.starts_with(&format!("HTTP/1.1 {status} ")),
        "{request}: {answer}"
    );
    answer
}

#[test]
fn tokens_are_made_listed_and_revoked() {
    let house = guarded_house();
    let bound = [
        "resizer",
        "--tenant",
        "shop",
        "--scope",
        "work",
        "--queue",
        "resize",
        "--expires",
        "30d",
    ];
    let secret = made(&house, &bound);
    made(&house, &["grafana"]);
    let listed = token(&house, &["list"]);
    let lines: Vec<&str> = listed.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", listed.stdout);
    assert!(lines[0].starts_with("NAME"), "{}", listed.stdout);
    assert!(
        lines
            .iter()
            .any(|line| line.contains("shop") && line.contains("work") && line.contains("resize")),
        "{}",
        listed.stdout
    );
    assert!(!listed.stdout.contains(&secret));
    let listed: serde_json::Value = serde_json::from_str(&token(&house, &["list", "--json"]).stdout).unwrap();
    assert_eq!(listed["tokens"].as_array().unwrap().len(), 2, "{listed}");

    let again = token(&house, &["create", "grafana"]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("--replace"), "{}", again.stderr);
    made(&house, &["grafana", "--replace"]);

    let ran = token(&house, &["revoke", "grafana"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ran = token(&house, &["revoke", "grafana"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("no token grafana"), "{}", ran.stderr);
    assert_eq!(token(&house, &["list"]).stdout.lines().count(), 2);
}

#[test]
fn making_tokens_needs_an_administrator_and_a_house() {
    let house = guarded_house();
    let url = format!("http://{}", house.address("http"));
    let reader = made(&house, &["reader"]);
    let ran = run_with(["token", "list", "--url", &url], &[("NAGAYA_TOKEN", &reader)]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("lacks the scope admin"), "{}", ran.stderr);
    let ran = run(["token", "list", "--url", "http://127.0.0.1:1"]);
    assert!(ran.stderr.contains("nothing answers at"), "{}", ran.stderr);
}

#[test]
fn a_token_of_the_store_opens_the_house_as_far_as_its_scopes_go() {
    let house = guarded_house();
    let admin = made(&house, &["boss", "--scope", "admin"]);
    let reader = made(&house, &["reader", "--scope", "read"]);
    let worker = made(&house, &["worker", "--scope", "work"]);
    let tenant = made(&house, &["web", "--tenant", "shop", "--scope", "read"]);
    for (token, status) in [
        (&admin, 200),
        (&reader, 200),
        (&worker, 403),
        (&tenant, 403),
        (&"nagaya_unknown".to_owned(), 401),
        (&"hunter2-hunter2-2".to_owned(), 200),
    ] {
        check(&house, "GET /metrics", token, status);
    }
    let refused = check(&house, "POST /metrics", &reader, 403);
    assert!(refused.contains("application/problem+json"), "{refused}");
    assert!(refused.contains("lacks the scope admin"), "{refused}");
    check(&house, "POST /metrics", &admin, 405);
    let refused = check(&house, "GET /version", &tenant, 403);
    assert!(refused.contains("application/problem+json"), "{refused}");
    check(&house, "GET /healthz", "nagaya_unknown", 200);

    let url = format!("http://{}", house.address("http"));
    let status = run_with(["status", "--url", &url], &[("NAGAYA_TOKEN", &reader)]);
    assert!(
        status.stdout.contains(env!("CARGO_PKG_VERSION")),
        "{}",
        status.stdout
    );

    token(&house, &["revoke", "boss"]);
    check(&house, "GET /metrics", &admin, 401);
}

#[test]
fn a_house_without_a_token_of_its_own_is_open_but_not_to_foreign_pages() {
    let house = house().start();
    let open = |head: &str| ask(house.address("http"), head);
    assert!(open("GET /metrics HTTP/1.1").starts_with("HTTP/1.1 200 "));
    let foreign = open("GET /metrics HTTP/1.1\r\norigin: http://evil.test");
    assert!(foreign.starts_with("HTTP/1.1 403 "), "{foreign}");
    check(&house, "GET /metrics", "nagaya_unknown", 401);
}

#[test]
fn a_random_token_is_long_enough_for_the_settings() {
    let (one, other) = (run(["token", "random"]), run(["token", "random"]));
    assert_eq!(one.stdout.trim().len(), 64, "{}", one.stdout);
    assert_ne!(one.stdout, other.stdout);
    let token = one.stdout.trim();
    let checked = run_with(["config", "check"], &[("NAGAYA_HTTP__TOKEN", token)]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}
