//! Every client mistake is answered with a problem document.

use nagaya_jobs::service::Config;
use nagaya_jobs_api::{ApiConfig, AuthConfig};
use serde_json::{Value, json};

use super::test_server::TestServer;

#[tokio::test(flavor = "multi_thread")]
async fn each_mistake_has_its_status() {
    let server = TestServer::start().await;
    let client = server.client();
    let check = async |method: &str, path: &str, body: Option<&str>, status: u16, name: &str| {
        let answer = client.send(method, path, body.map(str::to_owned), &[]).await;
        assert_eq!(
            answer.problem(status),
            name,
            "{method} {path} {body:?}: {}",
            answer.body
        );
    };
    check("POST", "/v1/jobs", Some("{"), 400, "bad-request").await;
    check("POST", "/v1/jobs", Some(""), 400, "bad-request").await;
    check("POST", "/v1/jobs", Some("[]"), 400, "bad-request").await;
    check(
        "POST",
        "/v1/jobs",
        Some("{\"queue\":7,\"payload\":1}"),
        400,
        "bad-request",
    )
    .await;
    check(
        "POST",
        "/v1/jobs",
        Some("{\"queue\":\"a\",\"payload\":1,\"x\":1}"),
        400,
        "bad-request",
    )
    .await;
    check(
        "POST",
        "/v1/jobs",
        Some("{\"queue\":\"a/b\",\"payload\":1}"),
        400,
        "bad-request",
    )
    .await;
    check(
        "POST",
        "/v1/jobs",
        Some("{\"queue\":\"_notify\",\"payload\":1}"),
        400,
        "bad-request",
    )
    .await;
    check(
        "POST",
        "/v1/jobs/batch",
        Some("{\"jobs\":[]}"),
        400,
        "bad-request",
    )
    .await;
    check("GET", "/v1/jobs/abc", None, 400, "bad-request").await;
    check("GET", "/v1/jobs/017", None, 400, "bad-request").await;
    check("GET", "/v1/jobs/%ff", None, 400, "bad-request").await;
    check("GET", "/v1/jobs/17", None, 404, "not-found").await;
    check("GET", "/v1/jobs/17?wait=soon", None, 400, "bad-request").await;
    check("GET", "/v1/jobs?cursor=zzz", None, 400, "bad-request").await;
    check("GET", "/v1/jobs?limit=0", None, 400, "bad-request").await;
    check("GET", "/v1/jobs?limit=many", None, 400, "bad-request").await;
    check("GET", "/v1/jobs?colour=red", None, 400, "bad-request").await;
    check("GET", "/v1/jobs?state=ready", None, 400, "bad-request").await;
    check("GET", "/v1/jobs?queue=a&queue=b", None, 400, "bad-request").await;
    check("GET", "/v1/events?after=-1", None, 400, "bad-request").await;
    check("GET", "/v1/events?kind=born", None, 400, "bad-request").await;
    check("GET", "/v1/jobs/17/events", None, 404, "not-found").await;
    check("GET", "/v1/ws", None, 400, "bad-request").await;
    check(
        "POST",
        "/v1/queues/mail/claim",
        Some("{\"worker\":\"\"}"),
        400,
        "bad-request",
    )
    .await;
    check(
        "POST",
        "/v1/queues/mail/claim",
        Some("{\"worker\":\"w\",\"max\":0}"),
        400,
        "bad-request",
    )
    .await;
    check(
        "POST",
        "/v1/queues/a%20b/claim",
        Some("{\"worker\":\"w\"}"),
        400,
        "bad-request",
    )
    .await;
    let token = Some("{\"token\":\"nobody's\"}");
    check("POST", "/v1/jobs/17/complete", token, 409, "lease-lost").await;
    check("POST", "/v1/jobs/17/extend", token, 409, "lease-lost").await;
    check("POST", "/v1/jobs/17/cancel", None, 404, "not-found").await;
    let dependent = "{\"queue\":\"a\",\"payload\":1,\"depends_on\":[\"17\"]}";
    check("POST", "/v1/jobs", Some(dependent), 422, "dependency-unusable").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_jobs_token_is_foreign() {
    let server = TestServer::start().await;
    let client = server.client();
    client.enqueue(json!({"queue": "mail", "payload": 1})).await;
    let other = client.enqueue(json!({"queue": "mail", "payload": 2})).await;
    let token = client.claim("mail").await["token"].clone();
    client.claim("mail").await;
    let foreign = client
        .post(&format!("/v1/jobs/{other}/complete"), json!({"token": token}))
        .await;
    assert_eq!(
        (foreign.problem(409), &foreign.body["reason"]),
        ("lease-lost", &json!("unknown"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_have_a_type_and_a_size() {
    let api = ApiConfig {
        body_bytes_max: 1_000,
        ..ApiConfig::default()
    };
    let open = AuthConfig {
        server_token: None,
        open: true,
    };
    let server = TestServer::with(open, api, Config::default()).await;
    let client = server.client();
    let text = json!({"queue": "mail", "payload": "x".repeat(2_000)}).to_string();
    let large = client.send("POST", "/v1/jobs", Some(text), &[]).await;
    assert_eq!(large.problem(413), "too-large");
    let headers = [("content-type", "text/plain")];
    let plain = client.send("POST", "/v1/jobs", Some("{}".into()), &headers).await;
    assert_eq!(plain.problem(415), "media-type");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_past_its_limit_is_refused_by_name() {
    let server = TestServer::start().await;
    let client = server.client();
    let large = client
        .post(
            "/v1/jobs",
            json!({"queue": "mail", "payload": "x".repeat(1 << 20)}),
        )
        .await;
    assert_eq!(large.problem(413), "too-large");
    assert!(large.body["detail"].as_str().unwrap().starts_with("payload has"));
}

/// Bodies with valid tokens in invalid places: never a 5xx, and a problem document each time.
#[tokio::test(flavor = "multi_thread")]
async fn scrambled_bodies_are_refused_or_taken_but_break_nothing() {
    let server = TestServer::start().await;
    let client = server.client();
    let mut seed = rand::random::<u64>();
    println!("seed {seed}");
    let mut next = move |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let values = [
        json!(null),
        json!(-1),
        json!(1e300),
        json!(""),
        json!("mail"),
        json!("\u{0}\u{ffff}"),
        json!([]),
        json!(["17"]),
        json!({}),
        json!(true),
        json!({"key": "k", "limit": 1}),
        json!("2026-01-01T00:00:00Z"),
        json!({"kind": "fixed", "delay_seconds": 1}),
        json!({"url": "http://x.test"}),
        json!(9_007_199_254_740_993_i64),
    ];
    let fields = [
        "queue",
        "payload",
        "payload_base64",
        "content_type",
        "kind",
        "tags",
        "priority",
        "run_at",
        "timeout_seconds",
        "max_retries",
        "backoff",
        "idempotency_key",
        "idempotency_window_seconds",
        "unique_key",
        "depends_on",
        "concurrency",
        "webhook",
        "retention_seconds",
        "traceparent",
        "tracestate",
        "tenant",
        "token",
        "worker",
        "max",
        "wait_seconds",
        "result",
        "error",
        "progress",
        "lines",
        "cron",
        "job",
        "scopes",
        "weight",
    ];
    let paths = [
        ("POST", "/v1/jobs"),
        ("POST", "/v1/queues/mail/claim"),
        ("POST", "/v1/jobs/17/complete"),
        ("POST", "/v1/jobs/17/fail"),
        ("POST", "/v1/jobs/17/progress"),
        ("POST", "/v1/jobs/17/log"),
        ("PUT", "/v1/queues/mail"),
        ("PUT", "/v1/schedules/s"),
        ("POST", "/v1/tokens"),
        ("PUT", "/v1/tenants/t"),
        ("POST", "/v1/jobs/retry"),
        ("PUT", "/v1/subscriptions/s"),
    ];
    for _ in 0..2_000 {
        let mut body = serde_json::Map::new();
        body.insert("queue".into(), json!("mail"));
        for _ in 0..next(6) {
            let field = fields[next(fields.len())];
            if field != "wait_seconds" {
                body.insert(field.into(), values[next(values.len())].clone());
            }
        }
        let (method, path) = paths[next(paths.len())];
        let mut text = Value::Object(body).to_string();
        if next(10) == 0 {
            let at = text.floor_char_boundary(next(text.len()));
            text.truncate(at);
        }
        let answer = client.send(method, path, Some(text.clone()), &[]).await;
        assert!(answer.status < 500, "{method} {path} {text}: {}", answer.body);
        if answer.status >= 400 {
            let status = answer.status;
            answer.problem(status);
        }
    }
    assert_eq!(server.jobs.store().check().await.unwrap(), []);
}
