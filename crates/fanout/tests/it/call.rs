//! Clients that wait for the answers instead of an id.

use std::time::Duration;

use futures_util::StreamExt;
use nagaya_config::{ByteSize, Secret};
use nagaya_fanout::StoreKind;
use nagaya_testkit::{Redis, RespClient};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::fan::{Answer, Fan, config, eventually, state};
use crate::scripted::{Behaviour, Scripted, answer_with};

/// Three shops that answer at once and one that never does.
async fn shops() -> Fan {
    let mut endpoints = Vec::new();
    for (name, body) in [
        ("cheap", r#"{"price": 900}"#),
        ("dear", r#"{"price": "1200"}"#),
        ("odd", "sold out"),
    ] {
        endpoints.push((name, Scripted::saying(body).await.url()));
    }
    endpoints.push(("silent", Scripted::start(Behaviour::Stall).await.url()));
    Fan::start(config(&endpoints)).await
}

async fn call(fan: &Fan, prefer: &str) -> Answer {
    fan.send(&format!("POST /call?q=1 HTTP/1.1\r\nprefer: {prefer}"), b"x")
        .await
}

#[tokio::test]
async fn a_call_returns_all_answers_in_one_document() {
    let [json, text] = [
        Scripted::saying("{\"price\":\n 7}").await,
        Scripted::saying("plain").await,
    ];
    let broken = Scripted::start(Behaviour::Send(
        b"HTTP/1.1 500 X\r\ncontent-length: 4\r\n\r\noops".to_vec(),
    ))
    .await;
    let gone = "http://127.0.0.1:1".to_owned();
    let fan = Fan::start(config(&[
        ("json", json.url()),
        ("text", text.url()),
        ("broken", broken.url()),
        ("gone", gone),
    ]))
    .await;
    let answer = fan.send("POST /call?q=1 HTTP/1.1", b"body").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let whole = answer.json();
    assert_eq!(
        (&whole["complete"], &whole["met"], &whole["late"]),
        (&json!(true), &json!(true), &json!([]))
    );
    assert_eq!(whole["results"]["json"]["json"], json!({"price": 7}));
    assert_eq!(whole["results"]["text"]["body"], "plain");
    assert_eq!(
        (state(&whole, "broken"), &whole["results"]["broken"]["body"]),
        ("http_error", &json!("oops"))
    );
    assert_eq!(state(&whole, "gone"), "refused");
    assert_eq!(
        (json.seen()[0].line.as_str(), &*json.seen()[0].body),
        ("POST /?q=1 HTTP/1.1", &b"body"[..])
    );
    let id = whole["request_id"].as_str().unwrap();
    assert_eq!(
        state(&fan.finished(id).await, "json"),
        "ok",
        "it is stored as well"
    );
}

#[tokio::test]
async fn what_is_late_is_named_and_can_be_read_back() {
    let quick = Scripted::saying("quick").await;
    let slow = Scripted::start(Behaviour::SayAfter(Duration::from_millis(700), "slow".into())).await;
    let fan = Fan::start(config(&[("quick", quick.url()), ("slow", slow.url())])).await;
    let answer = fan
        .send("GET /any/path HTTP/1.1\r\nprefer: wait=300ms", b"")
        .await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("preference-applied").as_deref(), Some("wait=300ms"));
    let whole = answer.json();
    assert_eq!(
        (&whole["late"], &whole["complete"]),
        (&json!(["slow"]), &json!(false))
    );
    assert_eq!(whole["results"]["quick"]["body"], "quick");
    let id = whole["request_id"].as_str().unwrap();
    assert_eq!(fan.finished(id).await["results"]["slow"]["body"], "slow");
}

#[tokio::test]
async fn other_requests_get_their_id_at_once_whatever_else_they_prefer() {
    let fan = shops().await;
    let answer = fan
        .send("GET / HTTP/1.1\r\nprefer: respond-async, first", b"")
        .await
        .json();
    assert_eq!(answer["endpoints"], json!(["cheap", "dear", "odd", "silent"]));
    assert!(answer.get("results").is_none());
}

#[tokio::test]
async fn the_first_good_answers_end_the_wait() {
    let fan = shops().await;
    let first = call(&fan, "first").await;
    assert_eq!(first.status, 200);
    let bodies = |whole: &Value| {
        let results = whole["results"].as_object().unwrap().values();
        results
            .filter(|result| result.get("json").or(result.get("body")).is_some())
            .count()
    };
    assert_eq!(bodies(&first.json()), 1);
    let three = call(&fan, "quorum=3").await.json();
    assert_eq!((bodies(&three), &three["late"]), (3, &json!(["silent"])));
    assert_eq!((&three["met"], &three["complete"]), (&json!(true), &json!(false)));
}

#[tokio::test]
async fn the_best_answer_is_chosen() {
    let fan = shops().await;
    for (prefer, name, value) in [
        ("quorum=3, min=price", "cheap", 900),
        ("quorum=3, max=\"/price\"", "dear", 1200),
    ] {
        let whole = call(&fan, prefer).await.json();
        assert_eq!(
            whole["best"],
            json!({"endpoint": name, "value": value}),
            "{prefer}"
        );
        assert!(whole["results"][name].get("json").is_some());
        assert!(
            whole["results"]["odd"].get("body").is_none(),
            "only the best has its body"
        );
        assert_eq!(state(&whole, "odd"), "ok");
    }
}

#[tokio::test]
async fn a_rule_that_is_not_met_is_told_by_the_status() {
    let fan = shops().await;
    let late = call(&fan, "quorum=4, wait=200ms").await;
    assert_eq!((late.status, &late.json()["met"]), (504, &json!(false)));
    let gone = "http://127.0.0.1:1".to_owned();
    let fan = Fan::start(config(&[("gone", gone)])).await;
    let missed = call(&fan, "first").await;
    assert_eq!((missed.status, &missed.json()["met"]), (502, &json!(false)));
    assert_eq!(state(&missed.json(), "gone"), "refused");
}

#[tokio::test]
async fn preferences_without_sense_are_refused_before_anybody_is_asked() {
    let endpoint = Scripted::saying("x").await;
    let fan = Fan::start(config(&[("a", endpoint.url())])).await;
    for bad in ["wait=soon", "quorum=2", "quorum=0", "max=\"a", "first, quorum=1"] {
        let answer = call(&fan, bad).await;
        assert_eq!(answer.status, 400, "{bad}");
        assert!(
            answer.json()["detail"].as_str().unwrap().contains("`Prefer"),
            "{bad}"
        );
    }
    assert!(endpoint.seen().is_empty());
}

#[tokio::test]
async fn bodies_come_as_parts_as_they_are() {
    let image = answer_with(200, "content-type: image/png\r\n", b"\xff\xfe--");
    let image = Scripted::start(Behaviour::Send(image)).await;
    let gone = "http://127.0.0.1:1".to_owned();
    let fan = Fan::start(config(&[("image", image.url()), ("gone", gone)])).await;
    let answer = fan
        .send("POST /call HTTP/1.1\r\naccept: multipart/mixed", b"x")
        .await;
    let kind = answer.header("content-type").unwrap();
    let boundary = kind.strip_prefix("multipart/mixed; boundary=").unwrap();
    let parts: Vec<&str> = answer.body.split(&format!("--{boundary}")).collect();
    assert_eq!(parts.len(), 4, "{answer:?}");
    let summary: Value = serde_json::from_str(parts[1].split_once("\r\n\r\n").unwrap().1.trim()).unwrap();
    assert_eq!(
        (state(&summary, "image"), state(&summary, "gone")),
        ("ok", "refused")
    );
    assert!(parts[2].contains("nagaya-endpoint: image\r\nnagaya-status: 200\r\ncontent-type: image/png\r\n"));
}

#[tokio::test]
async fn a_call_streams_its_answers_as_events() {
    let fan = shops().await;
    let head = "POST /call HTTP/1.1\r\naccept: text/event-stream\r\nprefer: wait=300ms";
    let answer = fan.send(head, b"x").await;
    let names: Vec<&str> = answer
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("event: "))
        .collect();
    assert_eq!(names, ["request", "answer", "answer", "answer", "timeout"]);
    assert!(answer.body.contains(r#""json":{"price": 900}"#), "{answer:?}");
    assert!(answer.body.contains(r#""late":["silent"]"#));
}

/// Reads all messages of a WebSocket.
async fn listen(fan: &Fan, path: &str) -> Result<Vec<Value>, Error> {
    let stream = TcpStream::connect(fan.address).await.unwrap();
    let request = format!("ws://localhost{path}").into_client_request().unwrap();
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await?;
    let mut messages = Vec::new();
    while let Some(message) = socket.next().await {
        match message? {
            Message::Text(text) => messages.push(serde_json::from_str(&text).unwrap()),
            Message::Close(_) => break,
            _ => (),
        }
    }
    Ok(messages)
}

fn types(messages: &[Value]) -> Vec<&str> {
    messages
        .iter()
        .map(|message| message["type"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn answers_come_over_a_web_socket() {
    let [one, two] = [Scripted::saying("{\"a\":1}").await, Scripted::saying("2").await];
    let fan = Fan::start(config(&[("one", one.url()), ("two", two.url())])).await;
    let called = listen(&fan, "/call?q=3").await.unwrap();
    assert_eq!(types(&called), ["request", "answer", "answer", "complete"]);
    assert_eq!(one.seen()[0].line, "GET /?q=3 HTTP/1.1");
    let id = called[0]["request_id"].as_str().unwrap();
    fan.finished(id).await;
    let read = listen(&fan, &format!("/requests/{id}")).await.unwrap();
    assert_eq!(types(&read), ["answer", "answer", "complete"]);
    assert_eq!(
        (&read[0]["endpoint"], &read[0]["body"]),
        (&json!("one"), &json!("{\"a\":1}"))
    );
    let unknown = listen(&fan, "/requests/4711").await;
    assert!(matches!(unknown, Err(Error::Http(reply)) if reply.status() == 404));
}

#[tokio::test]
async fn web_sockets_keep_the_rules_of_the_listener() {
    let endpoint = Scripted::saying("x").await;
    let mut config = config(&[("a", endpoint.url())]);
    let open = Fan::start(config.clone()).await;
    let upgrade = "GET /call HTTP/1.1\r\nupgrade: websocket\r\nsec-websocket-key: x";
    let foreign = format!("{upgrade}\r\nsec-websocket-version: 13\r\norigin: http://evil.test");
    assert_eq!(open.send(&foreign, b"").await.status, 403);
    let old = open
        .send(&format!("{upgrade}\r\nsec-websocket-version: 8"), b"")
        .await;
    assert_eq!(
        (old.status, old.header("sec-websocket-version").as_deref()),
        (426, Some("13"))
    );
    let half = open
        .send(&format!("{upgrade}\r\nsec-websocket-version: 13"), b"")
        .await;
    assert_eq!(half.status, 400, "its connection is to be closed");
    config.token = Some(Secret::new("a-token-for-tests"));
    let closed = Fan::start(config).await;
    let refused = listen(&closed, "/call").await;
    assert!(matches!(refused, Err(Error::Http(reply)) if reply.status() == 401));
    assert_eq!(closed.send("POST /call HTTP/1.1", b"x").await.status, 401);
    assert!(endpoint.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_takes_nothing_with_it() {
    let slow = Scripted::start(Behaviour::SayAfter(Duration::from_millis(300), "slow".into())).await;
    let fan = Fan::start(config(&[("slow", slow.url())])).await;
    let gone = tokio::time::timeout(Duration::from_millis(100), fan.send("POST /call HTTP/1.1", b"x")).await;
    assert!(gone.is_err());
    eventually("the request is run to its end", || {
        fan.fanout
            .recent(1)
            .first()
            .is_some_and(|request| request.ok == 1)
    });
}

#[tokio::test]
async fn replies_have_limits() {
    let large = Scripted::saying(&"x".repeat(3000)).await;
    let small = Scripted::saying("small").await;
    let mut config = config(&[("large", large.url()), ("small", small.url())]);
    config.reply_max = ByteSize(2000);
    let fan = Fan::start(config.clone()).await;
    let whole = fan.send("POST /call HTTP/1.1", b"x").await.json();
    assert_eq!(whole["results"]["large"]["left_out"], true);
    assert_eq!(whole["results"]["small"]["body"], "small");
    config.reply_max = ByteSize(1 << 20);
    config.replies_max = ByteSize(2000);
    let fan = Fan::start(config.clone()).await;
    for _ in 0..5 {
        let whole = fan.send("POST /call HTTP/1.1", b"x").await.json();
        assert_eq!(whole["results"]["large"]["left_out"], true);
        assert_eq!(
            whole["results"]["small"]["body"], "small",
            "the memory is given back"
        );
    }
    config.replies_max = ByteSize(100);
    let full = Fan::start(config).await;
    let full = full.send("POST /call HTTP/1.1", b"x").await;
    assert_eq!(full.status, 503);
    assert!(
        full.json()["detail"]
            .as_str()
            .unwrap()
            .contains("`fanout.replies_max`")
    );
}

#[tokio::test]
async fn calls_need_no_store() {
    let endpoint = Scripted::saying("fine").await;
    let mut config = config(&[("a", endpoint.url())]);
    config.store = StoreKind::Discard;
    let fan = Fan::start(config).await;
    let whole = fan.send("POST /call HTTP/1.1", b"x").await.json();
    assert_eq!(whole["results"]["a"]["body"], "fine");
}

#[tokio::test]
async fn a_hundred_endpoints_are_merged() {
    let endpoint = Scripted::saying("{\"fine\":true}").await;
    let names: Vec<String> = (0..100).map(|number| format!("e{number:03}")).collect();
    let endpoints: Vec<(&str, String)> = names.iter().map(|name| (name.as_str(), endpoint.url())).collect();
    let fan = Fan::start(config(&endpoints)).await;
    let whole = fan.send("POST /call HTTP/1.1", b"x").await.json();
    assert!(
        names
            .iter()
            .all(|name| whole["results"][name]["json"]["fine"] == true),
        "{whole}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_under_way_is_answered_while_the_service_drains() {
    let slow = Scripted::start(Behaviour::SayAfter(Duration::from_millis(500), "slow".into())).await;
    let fan = Fan::start(config(&[("slow", slow.url())])).await;
    let draining = async {
        while fan.fanout.in_flight().1 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        fan.begin_draining();
    };
    let (answer, ()) = tokio::join!(fan.send("POST /call HTTP/1.1", b"x"), draining);
    assert_eq!(answer.json()["results"]["slow"]["body"], "slow");
    assert_eq!(fan.ended().await.connections, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_request_is_published() {
    let redis = Redis::start();
    let [good, gone] = [Scripted::saying("x").await.url(), "http://127.0.0.1:1".to_owned()];
    let mut config = config(&[("good", good), ("gone", gone)]);
    config.store = StoreKind::Redis;
    config.redis = Some(Secret::new(redis.url()));
    config.publish = Some("fanout:{id}".to_owned());
    let fan = Fan::start(config).await;
    let mut subscriber = RespClient::connect(redis.address()).unwrap();
    subscriber.cmd(&["PSUBSCRIBE", "fanout:*"]).unwrap();
    let id = fan.ask().await;
    let told = tokio::task::block_in_place(|| subscriber.receive()).unwrap();
    let told: Vec<String> = told.items().iter().map(|item| item.text()).collect();
    assert_eq!(
        told[..3],
        [
            "pmessage".to_owned(),
            "fanout:*".to_owned(),
            format!("fanout:{id}")
        ]
    );
    let message: Value = serde_json::from_str(&told[3]).unwrap();
    assert_eq!((&message["ok"], &message["endpoints"]), (&json!(1), &json!(2)));
    let request = fan.get(&format!("/requests/{id}")).await.json();
    assert_eq!(request["complete"], true, "who is told finds everything");
}
