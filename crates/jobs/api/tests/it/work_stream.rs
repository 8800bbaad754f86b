//! The gRPC work stream: credits, heartbeats and reports on one connection.

use nagaya_jobs_api::proto::work_request::Message as Asked;
use nagaya_jobs_api::proto::work_response::Message as Told;
use nagaya_jobs_api::proto::work_response::answer::Outcome;
use nagaya_jobs_api::proto::{
    CompleteRequest, ExtendRequest, FailRequest, LogRequest, ProgressRequest, WorkHello, WorkRequest,
    WorkResponse,
};
use serde_json::json;
use tokio::sync::mpsc::Sender;
use tonic::Streaming;

use super::test_server::TestServer;

async fn open(server: &TestServer, credits: u32) -> (Sender<WorkRequest>, Streaming<WorkResponse>) {
    let (asks, asked) = tokio::sync::mpsc::channel(1_000);
    let hello = WorkHello {
        worker: "w".into(),
        queues: vec!["mail".into()],
        credits,
        ..WorkHello::default()
    };
    say(&asks, 0, Asked::Hello(hello)).await;
    let asked = tokio_stream::wrappers::ReceiverStream::new(asked);
    let stream = server.grpc().await.work(asked).await.unwrap().into_inner();
    (asks, stream)
}

async fn say(asks: &Sender<WorkRequest>, tag: u64, message: Asked) {
    let message = WorkRequest {
        tag,
        message: Some(message),
    };
    asks.send(message).await.unwrap();
}

async fn heard(stream: &mut Streaming<WorkResponse>) -> Told {
    stream.message().await.unwrap().unwrap().message.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn credits_bound_the_jobs_and_everything_is_reported_on_one_stream() {
    let server = TestServer::start().await;
    let client = server.client();
    for n in 0..5 {
        client.enqueue(json!({"queue": "mail", "payload": n})).await;
    }
    let (asks, mut stream) = open(&server, 2).await;
    let mut tokens = Vec::new();
    while tokens.len() < 2 {
        let Told::Job(job) = heard(&mut stream).await else {
            panic!("only jobs come");
        };
        tokens.push(job.token);
    }
    let token = tokens[0].clone();
    let extend = ExtendRequest {
        token: token.clone(),
        timeout_ms: Some(90_000),
    };
    say(&asks, 1, Asked::Extend(extend)).await;
    let progress = ProgressRequest {
        token: token.clone(),
        progress: Some(0.5),
        ..ProgressRequest::default()
    };
    say(&asks, 2, Asked::Progress(progress)).await;
    let log = LogRequest {
        token: token.clone(),
        lines: vec!["line".into()],
    };
    say(&asks, 3, Asked::Log(log)).await;
    let mut tags = Vec::new();
    for _ in 0..3 {
        // Without credits, only answers arrive.
        let Told::Answer(answer) = heard(&mut stream).await else {
            panic!("no credits are left");
        };
        assert!(
            !matches!(answer.outcome, Some(Outcome::Problem(_)) | None),
            "{answer:?}"
        );
        tags.push(answer.tag);
    }
    tags.sort_unstable();
    assert_eq!(tags, [1, 2, 3]);
    let complete = CompleteRequest {
        token: token.clone(),
        result: None,
    };
    say(&asks, 4, Asked::Complete(complete)).await;
    let fail = FailRequest {
        token: tokens[1].clone(),
        error: "no".into(),
        permanent: true,
        ..FailRequest::default()
    };
    say(&asks, 5, Asked::Fail(fail)).await;
    let late = ExtendRequest {
        token: "somebody's".into(),
        timeout_ms: None,
    };
    say(&asks, 6, Asked::Extend(late)).await;
    say(&asks, 0, Asked::Credits(10)).await;
    let (mut jobs, mut problem) = (0, None);
    while jobs < 3 || problem.is_none() {
        match heard(&mut stream).await {
            Told::Job(_) => jobs += 1,
            Told::Answer(answer) if answer.tag == 6 => problem = Some(answer),
            Told::Answer(answer) => assert!(!matches!(answer.outcome, Some(Outcome::Problem(_)))),
            Told::GoAway(_) | Told::Lost(_) => panic!("the server goes on, and so do the jobs"),
        }
    }
    let Some(Outcome::Problem(problem)) = problem.unwrap().outcome else {
        panic!("a foreign token is a problem");
    };
    assert_eq!(
        (problem.name.as_str(), problem.reason.as_str()),
        ("lease-lost", "unknown")
    );
    let counted = client.get("/v1/queues/mail").await.is(200);
    assert_eq!(
        (&counted["depth"]["succeeded"], &counted["depth"]["failed"]),
        (&json!(1), &json!(1))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_come_as_they_are_registered() {
    let server = TestServer::start().await;
    let client = server.client();
    let (_asks, mut stream) = open(&server, 100).await;
    for n in 0..20 {
        let id = client.enqueue(json!({"queue": "mail", "payload": n})).await;
        let Told::Job(job) = heard(&mut stream).await else {
            panic!("only jobs come");
        };
        assert_eq!(job.id.to_string(), id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_without_a_hello_is_refused() {
    let server = TestServer::start().await;
    let (asks, asked) = tokio::sync::mpsc::channel(8);
    say(&asks, 0, Asked::Credits(1)).await;
    let asked = tokio_stream::wrappers::ReceiverStream::new(asked);
    let mut stream = server.grpc().await.work(asked).await.unwrap().into_inner();
    let refused = stream.message().await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_server_asks_workers_to_go() {
    let server = TestServer::start().await;
    let (asks, mut stream) = open(&server, 1).await;
    server.closing.cancel();
    assert!(matches!(heard(&mut stream).await, Told::GoAway(_)));
    drop(asks);
    assert!(stream.message().await.unwrap().is_none());
}
