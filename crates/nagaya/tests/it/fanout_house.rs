//! The fan-out as a part of the server.

use super::*;
use crate::fanout_serve::Endpoint;
use nagaya_testkit::{RespClient, http};
use serde_json::Value;

/// A server that fans out to two endpoints.
fn fanning_house(more: &[&str]) -> (Nagaya, [Endpoint; 2]) {
    let endpoints = [Endpoint::start("one"), Endpoint::start("two")];
    let words = format!("fanout.endpoints=a={},b={}", endpoints[0].url, endpoints[1].url);
    let house = house()
        .listener("fanout")
        .args(["--set", &words, "--set", "fanout.timeout=5s"])
        .args(more)
        .start();
    (house, endpoints)
}

fn ask(house: &Nagaya, path: &str) -> Value {
    let answer = http::get(house.address("fanout"), path).unwrap();
    serde_json::from_str(&answer.body).unwrap()
}

#[test]
fn answers_are_in_the_room_for_every_redis_client() {
    let (house, _endpoints) = fanning_house(&["--set", "room.password=secret"]);
    let reply = ask(&house, "/p?q=1");
    let id = reply["request_id"].as_str().unwrap();
    let request = ask(&house, &format!("/requests/{id}?wait=all"));
    assert_eq!(request["results"]["a"]["body"], "one", "{request}");
    let mut redis = RespClient::connect(house.address("room")).unwrap();
    redis.cmd(&["AUTH", "secret"]).unwrap();
    assert_eq!(redis.cmd(&["HGET", id, "b"]).unwrap().text(), "two");
    let expiry = redis.cmd(&["PTTL", id]).unwrap().int();
    assert!((1..=60_000).contains(&expiry), "{expiry}");
}

#[test]
fn metrics_and_status_tell_of_it() {
    let (house, _endpoints) = fanning_house(&[]);
    let reply = ask(&house, "/");
    let id = reply["request_id"].as_str().unwrap();
    ask(&house, &format!("/requests/{id}?wait=all"));
    let metrics = house.get("/metrics").unwrap().body;
    for line in [
        "nagaya_fanout_requests_total 1",
        "nagaya_fanout_outcomes_total{endpoint=\"a\",outcome=\"ok\"} 1",
        "nagaya_fanout_store_records_total{store=\"embedded\"} 1",
        "nagaya_fanout_fetch_seconds_count{endpoint=\"b\"} 1",
        "nagaya_fanout_endpoint_down{endpoint=\"a\"} 0",
        "nagaya_fanout_jobs_open 0",
    ] {
        let is_there = metrics.lines().any(|found| found.trim_end_matches(".0") == line);
        assert!(is_there, "{line} is missing in\n{metrics}");
    }
    let readyz = house.get("/readyz").unwrap().body;
    assert!(readyz.contains("2 endpoints, store embedded"), "{readyz}");
    assert!(house.shut_down().success());
}

#[test]
fn ids_come_from_the_number_of_the_house() {
    let endpoint = Endpoint::start("one");
    let words = format!("fanout.endpoints=a={}", endpoint.url);
    let house = house()
        .listener("fanout")
        .listener("ids")
        .args(["--set", &words, "--set", "fanout.request_id=minted"])
        .start();
    let id = nagaya_testkit::wait::value("a number is held", LIMIT, || {
        ask(&house, "/")["request_id"].as_str().map(str::to_owned)
    });
    assert!(id.parse::<u64>().is_ok(), "{id}");
    let request = ask(&house, &format!("/requests/{id}?wait=all"));
    assert_eq!(request["complete"], true);
}

#[test]
fn switched_off_there_is_no_listener() {
    let house = house()
        .listener("fanout")
        .args(["--set", "fanout.enabled=false"])
        .start();
    assert!(TcpStream::connect(house.address("fanout")).is_err());
    assert!(!house.get("/metrics").unwrap().body.contains("nagaya_fanout"));
}

#[test]
fn what_does_not_fit_the_house_is_refused() {
    let check = |settings: &[&str], told: &str| {
        let mut args = vec!["config", "check", "--set", "fanout.endpoints=a=http://h"];
        settings
            .iter()
            .for_each(|setting| args.extend(["--set", setting]));
        let ran = run(args);
        assert_ne!(ran.code, Some(0));
        assert!(ran.stderr.contains(told), "{}", ran.stderr);
    };
    check(&["fanout.listen=0.0.0.0:7401"], "fanout.token");
    check(&["room.require_hash_tag=true"], "room.require_hash_tag");
    check(&["fanout.request_id=minted", "ids.enabled=false"], "ids.enabled");
    check(&["fanout.store=redis"], "fanout.redis");
    check(&["fanout.endpoints=_id=http://h"], "taken");
}
