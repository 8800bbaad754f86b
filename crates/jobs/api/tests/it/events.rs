//! Readers of the event log: SSE, WebSocket, Watch and Subscribe.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use nagaya_jobs_api::proto::subscribe_request::Message as Asked;
use nagaya_jobs_api::proto::subscribe_response::Message as Told;
use nagaya_jobs_api::proto::watch_response::Message as Watched;
use nagaya_jobs_api::proto::{Ack, EventFilter, EventKind, SubscribeHello, SubscribeRequest, WatchRequest};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::test_server::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn a_jobs_events_come_in_order_from_its_beginning() {
    let server = TestServer::start().await;
    let client = server.client();
    let id = client
        .enqueue(json!({"queue": "mail", "payload": 1, "kind": "k"}))
        .await;
    let mut stream = client.events(&format!("/v1/jobs/{id}/events"), None).await;
    let first = stream.next().await.unwrap();
    assert_eq!(
        (first.event.as_str(), &first.data["job"]),
        ("enqueued", &json!(id))
    );
    client.enqueue(json!({"queue": "mail", "payload": 2})).await;
    client.work("mail", json!({"ok": true})).await;
    assert_eq!(stream.next().await.unwrap().event, "started");
    let last = stream.next().await.unwrap();
    assert_eq!(last.event, "succeeded");
    assert_eq!(last.data["result"], json!({"ok": true}));
    assert_eq!(
        (&last.data["job_kind"], &last.data["id"]),
        (&json!("k"), &json!(last.id))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_after_the_last_event_that_was_seen() {
    let server = TestServer::start().await;
    let client = server.client();
    let id = client.enqueue(json!({"queue": "mail", "payload": 1})).await;
    let path = format!("/v1/jobs/{id}/events");
    let first = client.events(&path, None).await.next().await.unwrap();
    client.work("mail", json!(1)).await;
    let mut stream = client.events(&path, Some(&first.id)).await;
    assert_eq!(stream.next().await.unwrap().event, "started");
    assert_eq!(stream.next().await.unwrap().event, "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_filtered_by_queue_and_kind() {
    let server = TestServer::start().await;
    let client = server.client();
    let mut stream = client
        .events("/v1/events?queue=mail&kind=succeeded,failed", None)
        .await;
    client.enqueue(json!({"queue": "post", "payload": 1})).await;
    client.work("post", json!(1)).await;
    client.enqueue(json!({"queue": "mail", "payload": 1})).await;
    let id = client.work("mail", json!(1)).await;
    let only = stream.next().await.unwrap();
    assert_eq!(
        (only.event.as_str(), &only.data["job"]),
        ("succeeded", &json!(id))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_stream_shows_that_it_is_alive_and_how_far_it_looked() {
    use nagaya_jobs::service::Config;
    use nagaya_jobs_api::{ApiConfig, AuthConfig};
    let api = ApiConfig {
        heartbeat: Duration::from_millis(50),
        ..ApiConfig::default()
    };
    let open = AuthConfig {
        server_token: None,
        open: true,
    };
    let server = TestServer::with(open, api, Config::default()).await;
    let client = server.client();
    client.enqueue(json!({"queue": "mail", "payload": 1})).await;
    let mut stream = client.events("/v1/events?kind=failed&after=0", None).await;
    let text = stream.raw_until(": alive").await;
    assert!(text.contains("id: 1\n: alive\n\n"), "{text}");
    server.closing.cancel();
    assert!(stream.next().await.is_none(), "streams end with the server");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_behind_the_logs_retention_is_told_of_the_gap() {
    let server = TestServer::start().await;
    let client = server.client();
    for _ in 0..3 {
        client.enqueue(json!({"queue": "mail", "payload": 1})).await;
    }
    let far_future = 4_000_000_000_000;
    server.jobs.store().trim_events(far_future, 2).await.unwrap();
    let trimmed = server.jobs.store().log_bounds().await.unwrap().trimmed;
    assert!(trimmed > 0);
    let mut stream = client.events("/v1/events?after=0", None).await;
    let gap = stream.next().await.unwrap();
    assert_eq!((gap.event.as_str(), gap.id), ("gap", trimmed.to_string()));
    assert_eq!(
        (&gap.data["after"], &gap.data["see"]),
        (&json!("0"), &json!("/v1/jobs"))
    );
    if server.jobs.store().log_bounds().await.unwrap().head > trimmed {
        assert_eq!(stream.next().await.unwrap().event, "enqueued");
    }
    let mut stray = client.events("/v1/events?after=999999", None).await;
    assert_eq!(
        stray.next().await.unwrap().event,
        "gap",
        "a position of another log"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_keeps_its_cursor_on_the_server() {
    let server = TestServer::start().await;
    let client = server.client();
    let wish = json!({"queue": "mail", "kinds": ["succeeded"]});
    let made = client.put("/v1/subscriptions/billing", wish).await.is(200);
    assert_eq!(made["kinds"], json!(["succeeded"]));
    // No reader is connected meanwhile.
    let mut done = Vec::new();
    for _ in 0..2 {
        client.enqueue(json!({"queue": "mail", "payload": 1})).await;
        done.push(client.work("mail", json!(1)).await);
    }
    let mut stream = client.events("/v1/events?subscription=billing", None).await;
    let first = stream.next().await.unwrap();
    assert_eq!(first.data["job"], json!(done[0]));
    client
        .post("/v1/subscriptions/billing/ack", json!({"cursor": first.id}))
        .await
        .is(200);
    let mut stream = client.events("/v1/events?subscription=billing", None).await;
    assert_eq!(stream.next().await.unwrap().data["job"], json!(done[1]));
    let listed = client.get("/v1/subscriptions").await.is(200);
    assert_eq!(listed["subscriptions"][0]["cursor"], json!(first.id));
    let beyond = client
        .post("/v1/subscriptions/billing/ack", json!({"cursor": "1000000"}))
        .await;
    assert_eq!(
        beyond.problem(400),
        "bad-request",
        "events nobody has seen cannot be acknowledged"
    );
    client.delete("/v1/subscriptions/billing").await.is(204);
    let gone = client.get("/v1/events?subscription=billing").await;
    assert_eq!(gone.problem(404), "not-found");
}

pub(crate) type Socket = WebSocketStream<TcpStream>;

/// Opens a WebSocket and sends the hello. Returns it after the welcome.
pub(crate) async fn socket(server: &TestServer, hello: Value) -> (Socket, Value) {
    let stream = TcpStream::connect(server.address).await.unwrap();
    let url = format!("ws://{}/v1/ws", server.address);
    let (mut socket, _) = tokio_tungstenite::client_async(url, stream).await.unwrap();
    socket.send(Message::text(hello.to_string())).await.unwrap();
    let welcome = told(&mut socket).await.unwrap();
    (socket, welcome)
}

/// Returns the server's next message; `None` when it has closed.
pub(crate) async fn told(socket: &mut Socket) -> Option<Value> {
    loop {
        let message = tokio::time::timeout(Duration::from_secs(30), socket.next()).await;
        match message.expect("a message in time") {
            Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
            Some(Ok(_)) => (),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_over_a_websocket_and_acks_move_the_cursor() {
    let server = TestServer::start().await;
    let client = server.client();
    let hello = json!({"type": "hello", "subscription": "shop", "kinds": ["succeeded"]});
    let (mut first, welcome) = socket(&server, hello.clone()).await;
    assert_eq!(welcome["type"], "welcome");
    let mut done = Vec::new();
    for _ in 0..2 {
        client.enqueue(json!({"queue": "mail", "payload": 1})).await;
        done.push(client.work("mail", json!(1)).await);
    }
    let event = told(&mut first).await.unwrap();
    assert_eq!(
        (&event["type"], &event["event"]["job"]),
        (&json!("event"), &json!(done[0]))
    );
    let ack = json!({"type": "ack", "id": event["event"]["id"]});
    first.send(Message::text(ack.to_string())).await.unwrap();
    while client.get("/v1/subscriptions").await.is(200)["subscriptions"][0]["cursor"] != event["event"]["id"]
    {
        tokio::task::yield_now().await;
    }
    drop(first);
    let (mut second, _) = socket(&server, hello).await;
    assert_eq!(told(&mut second).await.unwrap()["event"]["job"], json!(done[1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_hello_is_answered_and_the_socket_closed() {
    let server = TestServer::start().await;
    for hello in [
        json!({"type": "ack", "id": "1"}),
        json!({"type": "hello", "x": 1}),
        json!(7),
    ] {
        let (mut socket, answer) = socket(&server, hello).await;
        assert_eq!(answer["type"], "problem");
        assert_eq!(answer["problem"]["status"], 400);
        assert!(told(&mut socket).await.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_streams_events_over_grpc() {
    let server = TestServer::start().await;
    let client = server.client();
    let id = client.enqueue(json!({"queue": "mail", "payload": 1})).await;
    let request = WatchRequest {
        filter: Some(EventFilter {
            job: Some(id.parse().unwrap()),
            ..EventFilter::default()
        }),
        after: Some(0),
        ..Default::default()
    };
    let mut stream = server.grpc().await.watch(request).await.unwrap().into_inner();
    client.work("mail", json!([1])).await;
    for kind in [EventKind::Enqueued, EventKind::Started, EventKind::Succeeded] {
        let message = stream.message().await.unwrap().unwrap().message;
        let Some(Watched::Event(event)) = message else {
            panic!("{message:?}");
        };
        assert_eq!(event.kind(), kind);
        if kind == EventKind::Succeeded {
            assert_eq!(&event.result.unwrap().data[..], b"[1]");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_subscriber_does_not_acknowledge_comes_again() {
    let server = TestServer::start().await;
    let client = server.client();
    let hello = |deadline_ms| {
        Asked::Hello(SubscribeHello {
            name: "shop".into(),
            after: Some(0),
            filter: Some(EventFilter {
                kinds: vec![EventKind::Succeeded.into()],
                ..EventFilter::default()
            }),
            outstanding_max: 2,
            ack_deadline_ms: deadline_ms,
        })
    };
    for _ in 0..3 {
        client.enqueue(json!({"queue": "mail", "payload": 1})).await;
        client.work("mail", json!(1)).await;
    }
    let mut grpc = server.grpc().await;
    let (asks, asked) = tokio::sync::mpsc::channel(16);
    let say = async |asks: &tokio::sync::mpsc::Sender<SubscribeRequest>, message| {
        asks.send(SubscribeRequest {
            message: Some(message),
        })
        .await
        .unwrap();
    };
    say(&asks, hello(200)).await;
    let asked = tokio_stream::wrappers::ReceiverStream::new(asked);
    let mut stream = grpc.subscribe(asked).await.unwrap().into_inner();
    let mut seqs = Vec::new();
    while seqs.len() < 4 {
        match stream.message().await.unwrap().unwrap().message {
            Some(Told::Event(event)) => seqs.push(event.seq),
            Some(Told::Cursor(cursor)) => assert_eq!(cursor, 0),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        seqs[..2],
        seqs[2..],
        "two are in flight, and come again after the deadline"
    );
    say(
        &asks,
        Asked::Ack(Ack {
            seqs: seqs[..2].to_vec(),
            up_to: 0,
        }),
    )
    .await;
    let third = loop {
        match stream.message().await.unwrap().unwrap().message {
            Some(Told::Event(event)) if event.seq > seqs[1] => break event.seq,
            _ => (),
        }
    };
    drop((asks, stream));
    // The server stores the cursor periodically, and when the client disconnects.
    loop {
        let cursor = client.get("/v1/subscriptions").await.is(200)["subscriptions"][0]["cursor"].clone();
        if cursor.as_str().unwrap().parse::<u64>().unwrap() >= seqs[1] {
            break;
        }
        tokio::task::yield_now().await;
    }
    let (asks, asked) = tokio::sync::mpsc::channel(16);
    say(&asks, hello(0)).await;
    let asked = tokio_stream::wrappers::ReceiverStream::new(asked);
    let mut stream = grpc.subscribe(asked).await.unwrap().into_inner();
    let again = loop {
        if let Some(Told::Event(event)) = stream.message().await.unwrap().unwrap().message {
            break event.seq;
        }
    };
    assert_eq!(again, third);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_one_job_ends_with_the_job() {
    let server = TestServer::start().await;
    let client = server.client();
    let id = client.enqueue(json!({"queue": "mail", "payload": 1})).await;
    let path = format!("/v1/jobs/{id}/events");
    let mut live = client.events(&path, None).await;
    assert_eq!(live.next().await.unwrap().event, "enqueued");
    let mut grpc = server.grpc().await;
    let filter = EventFilter {
        job: Some(id.parse().unwrap()),
        ..Default::default()
    };
    let request = WatchRequest {
        filter: Some(filter),
        after: Some(0),
        ..Default::default()
    };
    let mut watched = grpc.watch(request).await.unwrap().into_inner();
    client.work("mail", json!(1)).await;
    assert_eq!(live.next().await.unwrap().event, "started");
    let last = live.next().await.unwrap();
    assert_eq!(last.event, "succeeded");
    assert!(live.next().await.is_none(), "nothing comes after the end");
    while watched.message().await.unwrap().is_some() {}
    // Who asks again from the beginning gets all of it and the end; who has seen the end gets 204.
    let mut again = client.events(&path, None).await;
    for kind in ["enqueued", "started", "succeeded"] {
        assert_eq!(again.next().await.unwrap().event, kind);
    }
    assert!(again.next().await.is_none());
    let seen = [("last-event-id", last.id.as_str())];
    assert_eq!(client.status("GET", &path, None, &seen).await.0, 204);
}
