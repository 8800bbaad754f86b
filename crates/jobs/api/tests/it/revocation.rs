//! What was opened with a token ends when the token does.

use std::time::Duration;

use nagaya_jobs::QueueName;
use nagaya_jobs::service::Config;
use nagaya_jobs_api::proto::{
    SubscribeHello, SubscribeRequest, WatchRequest, WorkHello, WorkRequest, subscribe_request, work_request,
};
use nagaya_jobs_api::{ApiConfig, AuthConfig, REVOCATION_BOUND};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status};

use super::test_server::TestServer;

/// A busy machine may take a moment longer to run a task that is due.
const SLACK: Duration = Duration::from_secs(2);

async fn closed_server() -> TestServer {
    let auth = AuthConfig {
        server_token: Some("the house's".into()),
        open: false,
    };
    TestServer::with(auth, ApiConfig::default(), Config::default()).await
}

async fn make(server: &TestServer, name: &str, expires_in: Option<Duration>) -> String {
    let admin = server.client().with_token("the house's");
    let expires_at = expires_in.map(|span| {
        let at = std::time::SystemTime::now() + span;
        let since = at.duration_since(std::time::UNIX_EPOCH).unwrap();
        let ms = i64::try_from(since.as_millis()).unwrap();
        jiff::Timestamp::from_millisecond(ms).unwrap().to_string()
    });
    let form = json!({"tenant": "shop", "name": name, "scopes": ["enqueue", "work", "read"],
                      "expires_at": expires_at});
    let made = admin.post("/v1/tokens", form).await.is(201);
    made["token"].as_str().unwrap().to_owned()
}

fn with<T>(token: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    let value = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", value);
    request
}

/// Reads a stream of a server to its end.
async fn end_of<T>(mut answers: tonic::Streaming<T>) -> Code {
    loop {
        match answers.message().await {
            Ok(Some(_)) => (),
            Ok(None) => return Code::Ok,
            Err(status) => return Status::code(&status),
        }
    }
}

/// Opens everything that stays open, says so, and returns when all of it has ended.
async fn all_open_calls_end(server: &TestServer, token: &str, open: oneshot::Sender<()>) {
    let client = server.client().with_token(token);
    let id = client.enqueue(json!({"queue": "other", "payload": 1})).await;
    let mut events = client.events("/v1/events", None).await;
    let mut of_job = client.events(&format!("/v1/jobs/{id}/events"), None).await;
    let wait = {
        let (client, path) = (client.clone(), format!("/v1/jobs/{id}?wait=60s"));
        tokio::spawn(async move { client.get(&path).await.status })
    };
    let claim = {
        let client = client.clone();
        let form = json!({"worker": "w", "wait_seconds": 60});
        tokio::spawn(async move { client.post("/v1/queues/none/claim", form).await.status })
    };
    let socket = {
        let url = format!("ws://{}/v1/ws", server.address);
        let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
        let hello = json!({"type": "hello", "token": token}).to_string();
        futures_util::SinkExt::send(&mut socket, tokio_tungstenite::tungstenite::Message::text(hello))
            .await
            .unwrap();
        tokio::spawn(async move {
            let mut last = String::new();
            while let Some(Ok(message)) = futures_util::StreamExt::next(&mut socket).await {
                if let Ok(text) = message.to_text() {
                    last = text.to_owned();
                }
            }
            last
        })
    };
    let mut grpc = server.grpc().await;
    let watch = grpc.watch(with(token, WatchRequest::default())).await.unwrap();
    let (work, requests) = mpsc::channel(1);
    let hello = WorkHello {
        worker: "w".into(),
        queues: vec!["none".into()],
        credits: 1,
        ..Default::default()
    };
    let message = Some(work_request::Message::Hello(hello));
    work.send(WorkRequest { tag: 0, message }).await.unwrap();
    let working = grpc
        .work(with(token, ReceiverStream::new(requests)))
        .await
        .unwrap();
    let (acks, requests) = mpsc::channel(1);
    let hello = SubscribeHello {
        name: "reader".into(),
        ..Default::default()
    };
    let message = Some(subscribe_request::Message::Hello(hello));
    acks.send(SubscribeRequest { message }).await.unwrap();
    let subscribed = grpc
        .subscribe(with(token, ReceiverStream::new(requests)))
        .await
        .unwrap();
    // The claim and the work stream wait for jobs of this queue. The wait for a result was sent before both.
    let none = QueueName::new("none").unwrap();
    while server.jobs.waiting_workers(&none) < 2 {
        tokio::task::yield_now().await;
    }
    // Nobody listens when the token ends by itself.
    open.send(()).ok();
    tokio::join!(
        async { while events.next().await.is_some() {} },
        async { while of_job.next().await.is_some() {} },
        async { assert_eq!(wait.await.unwrap(), 401, "a wait for a result") },
        async { assert_eq!(claim.await.unwrap(), 401, "a waiting claim") },
        async { assert!(!socket.await.unwrap().is_empty(), "a socket") },
        async { assert_eq!(end_of(watch.into_inner()).await, Code::Unauthenticated, "Watch") },
        async { assert_eq!(end_of(working.into_inner()).await, Code::Unauthenticated, "Work") },
        async {
            assert_eq!(
                end_of(subscribed.into_inner()).await,
                Code::Unauthenticated,
                "Subscribe"
            )
        },
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_and_waits_end_after_their_token_is_revoked() {
    let server = closed_server().await;
    let token = make(&server, "reader", None).await;
    let admin = server.client().with_token("the house's");
    let (opened, all_open) = oneshot::channel();
    let open = all_open_calls_end(&server, &token, opened);
    let revoke = async {
        all_open.await.unwrap();
        admin.delete("/v1/tokens/shop/reader").await.is(204);
        tokio::time::Instant::now()
    };
    let (revoked, ()) = tokio::join!(revoke, open);
    let took = revoked.elapsed();
    assert!(took < REVOCATION_BOUND + SLACK, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_and_waits_end_when_their_token_expires() {
    let server = closed_server().await;
    let life = Duration::from_secs(3);
    let token = make(&server, "reader", Some(life)).await;
    let made = tokio::time::Instant::now();
    let (opened, _) = oneshot::channel();
    all_open_calls_end(&server, &token, opened).await;
    let took = made.elapsed();
    assert!(took < life + REVOCATION_BOUND + SLACK, "{took:?}");
}
