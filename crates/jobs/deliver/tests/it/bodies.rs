//! The bodies that receivers get.

use nagaya_deliver::webhook::{BodyConfig, Config};
use nagaya_jobs::delivery::Webhook;
use nagaya_jobs::job::Body;

use crate::fixture::{Fixture, client, config, eventually};
use crate::target::{Got, Target, say};

/// Delivers one result and returns what the target received.
async fn received(webhook: impl FnOnce(&mut Webhook), result: Body, config: Config) -> (Got, String) {
    let fixture = Fixture::new();
    let target = Target::start(|_, _| say(200)).await;
    let mut hook = Webhook::to(target.url());
    webhook(&mut hook);
    let job = fixture.register(hook).await;
    fixture.finish_all(result).await;
    let running = fixture.deliverer_with(client(), config);
    let got = eventually("a request", async || target.got().pop()).await;
    running.stop().await;
    (got, job.to_string())
}

fn linked() -> Config {
    Config {
        body: BodyConfig {
            public_url: Some("https://jobs.test/".into()),
            ..BodyConfig::default()
        },
        ..config()
    }
}

#[tokio::test]
async fn a_body_is_the_event_with_the_result_as_it_was_written() {
    let result = Body::json(r#"{"b": 1.10, "a": 12345678901234567890123}"#);
    let (got, job) = received(|_| (), result, linked()).await;
    let text = String::from_utf8(got.body.clone()).unwrap();
    assert!(
        text.contains(r#""result":{"b": 1.10, "a": 12345678901234567890123}"#),
        "{text}"
    );
    let body = got.json();
    assert_eq!(body["type"], "job.succeeded");
    assert_eq!(body["data"]["job"], job);
    assert_eq!(body["data"]["job_kind"], "k");
    assert_eq!(body["data"]["url"], format!("https://jobs.test/v1/jobs/{job}"));
    assert_eq!(body["timestamp"], body["data"]["at"]);
    assert!(body["data"].get("thin").is_none());
    assert_eq!(got.header("content-type"), Some("application/json"));
    let seq = body["data"]["id"].as_str().unwrap();
    assert_eq!(got.id(), format!("evt_{job}_{seq}"));
}

#[tokio::test]
async fn a_result_that_is_not_json_comes_in_base64() {
    let result = Body {
        content_type: Some("image/png".into()),
        bytes: vec![0, 255, 7].into(),
    };
    let (got, _) = received(|_| (), result, config()).await;
    let data = &got.json()["data"];
    assert_eq!(
        (&data["result_base64"], &data["result_content_type"]),
        (&"AP8H".into(), &"image/png".into())
    );
}

#[tokio::test]
async fn a_large_result_is_left_out_and_linked() {
    let result = Body::json(format!("\"{}\"", "x".repeat(30 << 10)));
    let (got, job) = received(|_| (), result, linked()).await;
    assert!(got.body.len() < 1000);
    let data = &got.json()["data"];
    assert_eq!(data["thin"], true);
    assert_eq!(data["url"], format!("https://jobs.test/v1/jobs/{job}"));
    assert!(data.get("result").is_none());
}

#[tokio::test]
async fn a_cloud_event_has_its_fields_in_headers() {
    let (got, job) = received(|hook| hook.cloud_events = true, Body::json("7"), linked()).await;
    let header = |name| got.header(name).unwrap_or_default().to_owned();
    assert_eq!(header("ce-specversion"), "1.0");
    assert_eq!(header("ce-type"), "job.succeeded");
    assert_eq!(header("ce-source"), "https://jobs.test/");
    assert_eq!(header("ce-subject"), job);
    assert_eq!(header("ce-id"), got.id());
    assert!(!header("ce-time").is_empty() && !header("webhook-signature").is_empty());
    assert_eq!(
        (&got.json()["result"], &got.json()["job"]),
        (&7.into(), &job.into())
    );
}

#[tokio::test]
async fn a_submitters_headers_go_along_but_not_those_of_the_connection() {
    let headers = [
        ("authorization", "Bearer abc"),
        ("host", "evil.test"),
        ("content-length", "0"),
        ("transfer-encoding", "chunked"),
        ("webhook-signature", "v1,forged"),
    ];
    let set = |hook: &mut Webhook| {
        hook.headers = headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
    };
    let (got, _) = received(set, Body::json("7"), config()).await;
    assert_eq!(got.header("authorization"), Some("Bearer abc"));
    assert!(got.header("host").unwrap().starts_with("127.0.0.1:"));
    assert_eq!(got.header("transfer-encoding"), None);
    assert!(!got.head.contains("forged"));
    assert_eq!(got.json()["data"]["result"], 7);
}
