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

#[tokio::test(flavor = "multi_thread")]
async fn json_that_breaks_parsers_is_refused_on_every_way_in() {
    let server = TestServer::start().await;
    let client = server.client();
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let half = r#"{"a":"\ud800"}"#.to_owned();
    for (payload, word) in [(deep, "nested"), (half, "surrogate")] {
        let job = format!(r#"{{"queue":"mail","payload":{payload}}}"#);
        let batch = format!(r#"{{"jobs":[{{"queue":"mail"}},{job}]}}"#);
        let schedule = format!(r#"{{"cron":"@daily","job":{job}}}"#);
        for (method, path, body) in [
            ("POST", "/v1/jobs", job.clone()),
            ("POST", "/v1/jobs/batch", batch),
            ("PUT", "/v1/schedules/nightly", schedule),
        ] {
            let answer = client.send(method, path, Some(body), &[]).await;
            assert_eq!(answer.problem(400), "bad-request", "{method} {path}");
            let detail = answer.body["detail"].as_str().unwrap();
            assert!(detail.contains("payload") && detail.contains(word), "{detail}");
        }
        let mut grpc = server.grpc().await;
        let request = nagaya_jobs_api::proto::EnqueueRequest {
            queue: "mail".into(),
            payload: Some(nagaya_jobs_api::proto::Body {
                data: payload.clone().into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let refused = grpc.enqueue(request).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
        client.enqueue(json!({"queue": "mail", "payload": 1})).await;
        let job = client.claim("mail").await;
        let id = job["id"].as_str().unwrap();
        let report = format!(r#"{{"token":{},"result":{payload}}}"#, job["token"]);
        let answer = client
            .send("POST", &format!("/v1/jobs/{id}/complete"), Some(report), &[])
            .await;
        assert_eq!(answer.problem(400), "bad-request");
        let edit = format!(r#"{{"payload":{payload}}}"#);
        let waiting = client.enqueue(json!({"queue": "post", "payload": 1})).await;
        let answer = client
            .send("PATCH", &format!("/v1/jobs/{waiting}"), Some(edit), &[])
            .await;
        assert_eq!(answer.problem(400), "bad-request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poisoned_row_of_an_older_version_breaks_nobodys_parser() {
    use nagaya_jobs::job::Body;
    let server = TestServer::start().await;
    let client = server.client();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    client.enqueue(json!({"queue": "mail", "payload": 1})).await;
    // Straight into the store, as a version did that did not look.
    let queue = nagaya_jobs::QueueName::new("mail").unwrap();
    let tenant = nagaya_jobs::TenantId::default_tenant();
    let poison = [Body::json(deep.clone()), Body::json(r#""\ud800""#)];
    let jobs = poison.map(|payload| nagaya_jobs::NewJob::new(tenant.clone(), queue.clone(), payload));
    let made = server.jobs.store().enqueue(jobs.to_vec()).await.unwrap();
    let id = made.into_iter().next().unwrap().unwrap().id;
    client.enqueue(json!({"queue": "mail", "payload": 4})).await;
    let shown = client.get(&format!("/v1/jobs/{id}")).await.is(200);
    assert!(
        shown["payload"].is_null() && shown["payload_base64"].is_string(),
        "{shown}"
    );
    let claimed = client
        .post("/v1/queues/mail/claim", json!({"worker": "w", "max": 9}))
        .await
        .is(200);
    let claimed = claimed["jobs"].as_array().unwrap();
    assert_eq!(claimed.len(), 4, "the whole batch is there");
    assert_eq!(
        (&claimed[0]["payload"], &claimed[3]["payload"]),
        (&json!(1), &json!(4))
    );
    for job in &claimed[1..3] {
        assert_eq!(job["content_type"], "application/json");
        assert!(job["payload_base64"].is_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_work_is_refused_when_it_is_set_up() {
    let server = TestServer::start().await;
    let client = server.client();
    for url in [
        "http://",
        "http://example.test:99999/",
        "https://:443/",
        "http://u:p@example.test/",
    ] {
        let job = json!({"queue": "mail", "webhook": {"url": url}});
        assert_eq!(
            client.post("/v1/jobs", job).await.problem(400),
            "bad-request",
            "{url}"
        );
        let settings = json!({"webhook": {"url": url}});
        assert_eq!(
            client.put("/v1/queues/mail", settings).await.problem(400),
            "bad-request"
        );
        let settings = json!({"push": {"url": url, "concurrency": 1}});
        assert_eq!(
            client.put("/v1/queues/mail", settings).await.problem(400),
            "bad-request"
        );
    }
    let never = json!({"cron": "0 0 31 2 *", "job": {"queue": "mail"}});
    assert_eq!(
        client.put("/v1/schedules/never", never).await.problem(400),
        "bad-request"
    );
    let keyed = |payload: u8| json!({"queue": "mail", "payload": payload, "idempotency_key": "k"});
    let id = client.enqueue(keyed(1)).await;
    assert_eq!(client.enqueue(keyed(1)).await, id);
    let answer = client.post("/v1/jobs", keyed(2)).await;
    assert_eq!(answer.problem(422), "key-reused");
    assert!(
        answer.body["detail"].as_str().unwrap().contains(&id),
        "it names the job"
    );
}
