//! Reading requests back: at once, by waiting, and as events.

use std::time::Duration;

use nagaya_config::Secret;
use nagaya_fanout::StoreKind;
use nagaya_testkit::Redis;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fan::{Fan, config, state};
use crate::scripted::{Behaviour, Scripted};

/// A service with one quick endpoint and one that takes half a second.
async fn quick_and_slow() -> Fan {
    let quick = Scripted::saying("quick").await;
    let slow = Scripted::start(Behaviour::SayAfter(Duration::from_millis(500), "slow".into())).await;
    Fan::start(config(&[("quick", quick.url()), ("slow", slow.url())])).await
}

async fn read(fan: &Fan, id: &str, query: &str) -> Value {
    fan.get(&format!("/requests/{id}?{query}")).await.json()
}

#[tokio::test]
async fn without_waiting_there_is_what_there_is() {
    let fan = quick_and_slow().await;
    let id = fan.ask().await;
    let request = read(&fan, &id, "").await;
    assert_eq!(request["complete"], false);
    assert!(request["pending"].as_array().unwrap().contains(&json!("slow")));
    assert_eq!(
        (&request["method"], &request["url"]),
        (&json!("GET"), &json!("/?q=1"))
    );
}

#[tokio::test]
async fn a_wait_ends_with_what_is_wanted() {
    let fan = quick_and_slow().await;
    let id = fan.ask().await;
    let began = Instant::now();
    for wait in ["wait=1", "wait=quick"] {
        let request = read(&fan, &id, wait).await;
        assert_eq!(request["results"]["quick"]["body"], "quick", "{wait}");
        assert_eq!(request["pending"], json!(["slow"]), "{wait}");
    }
    assert!(
        began.elapsed() < Duration::from_millis(450),
        "{:?}",
        began.elapsed()
    );
    for wait in ["wait=2", "wait=slow,quick", "wait=all", "wait=9"] {
        let request = read(&fan, &id, wait).await;
        assert_eq!(request["results"]["slow"]["body"], "slow", "{wait}");
        assert_eq!(request["complete"], true, "{wait}");
        assert_eq!(request["pending"], json!([]), "{wait}");
    }
}

#[tokio::test]
async fn a_wait_ends_with_its_time() {
    let fan = quick_and_slow().await;
    let id = fan.ask().await;
    let began = Instant::now();
    let request = read(&fan, &id, "wait=all&timeout=100ms").await;
    assert_eq!(request["complete"], false);
    let took = began.elapsed();
    assert!(
        took >= Duration::from_millis(100) && took < Duration::from_millis(450),
        "{took:?}"
    );
    let bad = fan.get(&format!("/requests/{id}?timeout=soon")).await;
    assert_eq!(bad.status, 400);
}

#[tokio::test]
async fn an_unknown_request_is_404_and_other_paths_are_fanned_out() {
    let endpoint = Scripted::saying("x").await;
    let fan = Fan::start(config(&[("a", endpoint.url())])).await;
    let unknown = fan
        .get("/requests/0b0f8b1e-6a3c-4f3b-9a57-0d6a2f7c1e11?wait=all")
        .await;
    assert_eq!(unknown.status, 404);
    assert_eq!(
        unknown.header("content-type").as_deref(),
        Some("application/problem+json")
    );
    assert_eq!(fan.get("/requests/other").await.status, 200);
    assert_eq!(fan.send("POST /requests/1 HTTP/1.1", b"x").await.status, 200);
}

#[tokio::test]
async fn events_come_as_the_answers_do() {
    let fan = quick_and_slow().await;
    let id = fan.ask().await;
    let head = format!("GET /requests/{id} HTTP/1.1\r\naccept: text/event-stream");
    let answer = fan.send(&head, b"").await;
    assert_eq!(
        answer.header("content-type").as_deref(),
        Some("text/event-stream")
    );
    let events: Vec<(&str, Value)> = answer
        .body
        .split_terminator("\n\n")
        .map(|event| {
            let (name, data) = event.split_once('\n').unwrap();
            let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            (name.strip_prefix("event: ").unwrap(), data)
        })
        .collect();
    let told: Vec<_> = events
        .iter()
        .map(|(name, data)| (*name, data["endpoint"].as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("answer", Some("quick")),
            ("answer", Some("slow")),
            ("complete", None)
        ]
    );
    assert_eq!(events[1].1["body"], "slow");
}

#[tokio::test]
async fn events_end_with_the_time() {
    let endpoint = Scripted::start(Behaviour::Stall).await;
    let fan = Fan::start(config(&[("a", endpoint.url())])).await;
    let id = fan.ask().await;
    let head = format!("GET /requests/{id}?timeout=50ms HTTP/1.1\r\naccept: text/event-stream");
    assert!(fan.send(&head, b"").await.body.starts_with("event: timeout\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_another_process_can_be_waited_for() {
    let redis = Redis::start();
    let slow = Scripted::start(Behaviour::SayAfter(Duration::from_millis(400), "slow".into())).await;
    let shared = || {
        let mut config = config(&[("slow", slow.url())]);
        config.store = StoreKind::Redis;
        config.redis = Some(Secret::new(redis.url()));
        config
    };
    let [first, second] = [Fan::start(shared()).await, Fan::start(shared()).await];
    let id = first.ask().await;
    assert_eq!(state(&second.finished(&id).await, "slow"), "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_serinins_is_read_too() {
    let redis = Redis::start();
    let endpoint = Scripted::saying("x").await;
    let mut config = config(&[("a", endpoint.url())]);
    config.store = StoreKind::Redis;
    config.redis = Some(Secret::new(redis.url()));
    let fan = Fan::start(config).await;
    let id = "0b0f8b1e-6a3c-4f3b-9a57-0d6a2f7c1e11";
    redis.cmd(&[
        "HSET", id, "_id", id, "_method", "GET", "_url", "/x", "dst1", "body",
    ]);
    let request = read(&fan, id, "").await;
    assert_eq!(request["results"]["dst1"]["body"], "body");
    assert_eq!(request["url"], "/x");
}

#[tokio::test]
async fn a_body_that_is_no_text_is_shown_in_base64() {
    let endpoint = Scripted::start(Behaviour::Send(
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n\xff\xfe".to_vec(),
    ))
    .await;
    let fan = Fan::start(config(&[("a", endpoint.url())])).await;
    assert_eq!(fan.whole().await["results"]["a"]["body_base64"], "//4=");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_others_are_not_read_back() {
    let redis = Redis::start();
    let endpoint = Scripted::saying("fine").await;
    let mut config = config(&[("a", endpoint.url())]);
    config.store = StoreKind::Redis;
    config.redis = Some(Secret::new(redis.url()));
    let fan = Fan::start(config).await;
    redis.cmd(&["HSET", "4711", "user", "alice"]);
    redis.cmd(&["HSET", "4712", "user", "alice", "_id", "4711"]);
    redis.cmd(&["SET", "4713", "alice"]);
    for id in ["4711", "4712", "4713"] {
        let answer = fan.get(&format!("/requests/{id}")).await;
        assert_eq!(answer.status, 404, "{id}");
        assert!(!answer.json().to_string().contains("alice"));
    }
    let id = fan.ask().await;
    assert_eq!(read(&fan, &id, "wait=all").await["complete"], true);
}
