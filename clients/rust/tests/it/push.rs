//! Jobs passed on to an HTTP endpoint.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use nagaya_client::{CancellationToken, Endpoint, NewJob, Push, Secret, Worker};
use serde_json::json;

use crate::fake::Fake;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

type Seen = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// Answers by the payload: a number is returned as the status, everything else is echoed.
async fn endpoint() -> (String, Seen) {
    let seen = Seen::default();
    let calls = Arc::clone(&seen);
    let answer = async move |headers: HeaderMap, body: Bytes| {
        calls.lock().unwrap().push((headers, body.clone()));
        let status = std::str::from_utf8(&body).unwrap().parse::<u16>().ok();
        (
            status.map_or(StatusCode::OK, |status| StatusCode::from_u16(status).unwrap()),
            body,
        )
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/take", listener.local_addr().unwrap());
    let router = Router::new().route("/take", post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, seen)
}

#[tokio::test]
async fn each_job_is_posted_signed_and_its_answer_ends_it() {
    let fake = Fake::start().await;
    let (url, seen) = endpoint().await;
    let jobs = [json!({"a": 1}), json!(422), json!(500)];
    for job in &jobs {
        fake.client()
            .enqueue(NewJob::new("q", job).unwrap())
            .await
            .unwrap();
    }
    let shutdown = CancellationToken::new();
    let secret = Secret::parse(SECRET).unwrap();
    let push = Push::new(
        Endpoint::new(&url)
            .unwrap()
            .secret(secret.clone())
            .header("x-app", "shop")
            .unwrap(),
    );
    let running = tokio::spawn(Worker::new(fake.client(), "q").run(push, shutdown.clone()));
    fake.until(|server| {
        server
            .jobs
            .values()
            .all(|job| job.state == "succeeded" || job.state == "failed")
    })
    .await;
    shutdown.cancel();
    running.await.unwrap().unwrap();
    let server = fake.server();
    assert_eq!(server.jobs[&1].result, Some(json!({"a": 1})));
    assert_eq!(server.jobs[&2].failure.as_ref().unwrap()["permanent"], true);
    let failure = server.jobs[&3].failure.as_ref().unwrap();
    assert_eq!(failure["permanent"], false);
    assert_eq!(
        failure["error"],
        "the endpoint answered 500 Internal Server Error: 500"
    );
    let (headers, body) = seen.lock().unwrap()[0].clone();
    let of = |name: &str| headers[name].to_str().unwrap().to_owned();
    assert_eq!(&body[..], b"{\"a\":1}");
    assert_eq!(
        (of("nagaya-job-id"), of("nagaya-job-attempt")),
        ("1".to_owned(), "1".to_owned())
    );
    assert_eq!(
        (of("nagaya-job-token"), of("x-app")),
        ("1-1".to_owned(), "shop".to_owned())
    );
    assert_eq!(of("webhook-id"), "job_1_1");
    let seconds = of("webhook-timestamp").parse().unwrap();
    assert_eq!(of("webhook-signature"), secret.sign("job_1_1", seconds, &body));
}

#[tokio::test]
async fn an_endpoint_that_is_away_is_worth_a_retry() {
    let fake = Fake::start().await;
    fake.client()
        .enqueue(NewJob::new("q", &1).unwrap())
        .await
        .unwrap();
    let shutdown = CancellationToken::new();
    let push = Push::new(Endpoint::new("http://127.0.0.1:1/").unwrap());
    let running = tokio::spawn(Worker::new(fake.client(), "q").run(push, shutdown.clone()));
    fake.until(|server| server.jobs[&1].state == "failed").await;
    shutdown.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(
        fake.server().jobs[&1].failure.as_ref().unwrap()["permanent"],
        false
    );
}

#[test]
fn addresses_that_cannot_be_called_are_refused() {
    for url in ["nowhere", "ftp://a/", "http:///x"] {
        assert!(Endpoint::new(url).is_err(), "{url}");
    }
}
