//! `nagaya token`, and what its tokens open.

use super::*;

/// Runs `nagaya token WORDS` against a house, with its own token.
#[track_caller]
fn token(house: &Nagaya, words: &[&str]) -> Ran {
    let url = format!("http://{}", house.address("http"));
    let mut all = vec!["token"];
    all.extend(words);
    all.extend(["--url", &url]);
    run_with(all, &[("NAGAYA_TOKEN", "hunter2")])
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
    house().env("NAGAYA_HTTP__TOKEN", "hunter2").start()
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
