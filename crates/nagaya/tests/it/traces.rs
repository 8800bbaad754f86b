//! Trace export, against a collector of our own.

use super::*;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::routing::post;
use std::sync::mpsc;

const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// Starts a collector that hands on the body of every export it receives.
fn collector(runtime: &tokio::runtime::Runtime) -> (SocketAddr, mpsc::Receiver<Bytes>) {
    let (bodies, received) = mpsc::channel();
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
        .unwrap();
    let address = listener.local_addr().unwrap();
    // An empty message: no compression, length 0.
    let accepted = (
        [(CONTENT_TYPE, "application/grpc")],
        [("grpc-status", "0")],
        vec![0_u8; 5],
    );
    let export = post(move |body: Bytes| async move {
        // The test may have seen enough and be gone.
        bodies.send(body).ok();
        accepted
    });
    runtime.spawn(async move { axum::serve(listener, axum::Router::new().route(EXPORT, export)).await });
    (address, received)
}

/// A span as it was exported.
#[derive(Debug, Default)]
struct Exported {
    name: String,
    trace: Vec<u8>,
    id: Vec<u8>,
    parent: Vec<u8>,
}

/// The fields of a protobuf message that have a length: their numbers and contents.
fn fields(mut message: &[u8]) -> Vec<(u64, &[u8])> {
    fn number(message: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = message[0];
            *message = &message[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    }
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = number(&mut message);
        let length = match key & 7 {
            0 => {
                number(&mut message);
                continue;
            }
            1 => 8,
            2 => usize::try_from(number(&mut message)).unwrap(),
            5 => 4,
            other => panic!("no field has the type {other}"),
        };
        let (content, rest) = message.split_at(length);
        if key & 7 == 2 {
            found.push((key >> 3, content));
        }
        message = rest;
    }
    found
}

/// All spans of an export: resources have scopes, scopes have spans.
fn spans(body: &[u8]) -> Vec<Exported> {
    let inner = |message, wanted| {
        let all = fields(message).into_iter();
        all.filter(move |(number, _)| *number == wanted)
            .map(|(_, content)| content)
    };
    // Before the message there are a mark of compression and its length.
    let scopes = inner(&body[5..], 1).flat_map(|resource| inner(resource, 2));
    let spans = scopes.flat_map(|scope| inner(scope, 2)).map(|span| {
        let mut read = Exported::default();
        for (number, content) in fields(span) {
            match number {
                1 => read.trace = content.to_vec(),
                2 => read.id = content.to_vec(),
                4 => read.parent = content.to_vec(),
                5 => read.name = String::from_utf8(content.to_vec()).unwrap(),
                _ => (),
            }
        }
        read
    });
    spans.collect()
}

/// The spans of one trace, after the server has ended.
fn of_trace(received: &mpsc::Receiver<Bytes>, trace: u128) -> Vec<Exported> {
    let all = received.try_iter().flat_map(|body| spans(&body));
    all.filter(|span| span.trace == trace.to_be_bytes()).collect()
}

/// The one span of a name.
#[track_caller]
fn named<'a>(spans: &'a [Exported], name: &str) -> &'a Exported {
    match spans.iter().find(|span| span.name == name) {
        Some(span) => span,
        None => panic!("there is no {name} in {spans:#?}"),
    }
}

const TRACE: u128 = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c;
const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Starts an HTTP server that hands on the `traceparent` of every request it gets.
fn listener(runtime: &tokio::runtime::Runtime) -> (String, mpsc::Receiver<String>) {
    let (traces, received) = mpsc::channel();
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
        .unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let hear = move |headers: axum::http::HeaderMap| async move {
        let trace = headers
            .get("traceparent")
            .map(|value| value.to_str().unwrap().to_owned());
        traces.send(trace.unwrap_or_default()).ok();
        "heard"
    };
    runtime.spawn(async move { axum::serve(listener, axum::Router::new().fallback(hear)).await });
    (url, received)
}

/// Sends JSON with a `traceparent` and reads the answer.
fn post_json(address: SocketAddr, path: &str, body: &str) -> serde_json::Value {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         traceparent: {TRACEPARENT}\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let answer = read_all(&mut send(address, &head));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 2"), "{answer}");
    // Answers of a known length come as they are.
    serde_json::from_str(body).unwrap_or(serde_json::Value::Null)
}

#[test]
fn a_job_is_one_trace_from_its_registration_to_its_webhook() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (collector, received) = collector(&runtime);
    let (webhook, heard) = listener(&runtime);
    let endpoint = format!("telemetry.otlp_endpoint=http://{collector}");
    let house = house()
        .args(["--set", &endpoint, "--set", "jobs.webhooks.allow=127.0.0.0/8"])
        .start();
    let address = house.address("http");
    let job = serde_json::json!({ "queue": "mail", "payload": 1, "webhook": { "url": webhook } });
    let id = post_json(address, "/v1/jobs", &job.to_string())["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let claimed = post_json(
        address,
        "/v1/queues/mail/claim",
        r#"{"worker": "w", "max": 1, "wait_seconds": 5}"#,
    );
    let claimed = &claimed["jobs"][0];
    let given = claimed["traceparent"].as_str().unwrap().to_owned();
    let report = serde_json::json!({ "token": claimed["token"], "result": 2 });
    post_json(address, &format!("/v1/jobs/{id}/complete"), &report.to_string());
    let told = heard.recv_timeout(LIMIT).unwrap();
    assert_eq!(house.shut_down().code(), Some(0));

    let spans = of_trace(&received, TRACE);
    let attempt = named(&spans, "job_attempt");
    let report = named(&spans, "job_report");
    let delivery = named(&spans, "webhook_delivery");
    let enqueue = spans.iter().find(|span| span.id == attempt.parent);
    assert_eq!(
        enqueue.map(|span| span.name.as_str()),
        Some("http_request"),
        "{spans:#?}"
    );
    assert_eq!(report.parent, attempt.id);
    assert_eq!(
        delivery.parent, attempt.parent,
        "both hang below the registration"
    );
    let tail = |span: &Exported| {
        let hex: String = span.id.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("-{hex}-01")
    };
    assert!(given.ends_with(&tail(attempt)), "{given}");
    assert!(told.ends_with(&tail(delivery)), "{told}");
}

#[test]
fn a_request_that_is_fanned_out_is_one_trace_with_its_endpoints_and_writes() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (collector, received) = collector(&runtime);
    let (first, heard) = listener(&runtime);
    let (second, also_heard) = listener(&runtime);
    let export = format!("telemetry.otlp_endpoint=http://{collector}");
    let endpoints = format!("fanout.endpoints=a={first},b={second}");
    let house = house()
        .listener("fanout")
        .args([
            "--set",
            &export,
            "--set",
            &endpoints,
            "--set",
            "fanout.timeout=10s",
        ])
        .start();
    let id = post_json(house.address("fanout"), "/any", "{}")["request_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let told = [
        heard.recv_timeout(LIMIT).unwrap(),
        also_heard.recv_timeout(LIMIT).unwrap(),
    ];
    nagaya_testkit::http::get(house.address("fanout"), &format!("/requests/{id}?wait=all")).unwrap();
    assert_eq!(house.shut_down().code(), Some(0));

    let spans = of_trace(&received, TRACE);
    let request = named(&spans, "fanout_request");
    assert_eq!(request.parent, 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
    let below = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let (fetches, stores) = (below("fanout_fetch"), below("fanout_store"));
    assert_eq!(fetches.len(), 2, "{spans:#?}");
    assert!(stores.len() >= 2, "the request and its answers: {spans:#?}");
    assert!(
        fetches
            .iter()
            .chain(&stores)
            .all(|span| span.parent == request.id),
        "{spans:#?}"
    );
    for told in told {
        let is_known = fetches.iter().any(|span| {
            let hex: String = span.id.iter().map(|byte| format!("{byte:02x}")).collect();
            told.contains(&hex)
        });
        assert!(is_known, "{told} is none of {fetches:#?}");
    }
}

#[test]
fn a_house_that_exports_nothing_passes_traces_on_as_they_are() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (endpoint, heard) = listener(&runtime);
    let endpoints = format!("fanout.endpoints=a={endpoint}");
    let house = house()
        .listener("fanout")
        .args(["--set", &endpoints, "--set", "fanout.timeout=10s"])
        .start();
    post_json(house.address("fanout"), "/any", "{}");
    assert_eq!(heard.recv_timeout(LIMIT).unwrap(), TRACEPARENT);
    post_json(
        house.address("http"),
        "/v1/jobs",
        r#"{"queue": "mail", "payload": 1}"#,
    );
    let claimed = post_json(
        house.address("http"),
        "/v1/queues/mail/claim",
        r#"{"worker": "w", "max": 1, "wait_seconds": 5}"#,
    );
    assert_eq!(claimed["jobs"][0]["traceparent"], TRACEPARENT);
}

fn contains(body: &[u8], words: &str) -> bool {
    body.windows(words.len()).any(|window| window == words.as_bytes())
}

#[test]
fn requests_are_exported_as_spans_by_the_time_the_house_has_ended() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (address, received) = collector(&runtime);
    let endpoint = format!("telemetry.otlp_endpoint=http://{address}");
    let house = house()
        .args([
            "--set",
            &endpoint,
            "--set",
            "telemetry.otlp_service_name=row-house",
        ])
        .start();
    house.get("/version").unwrap();
    assert_eq!(house.shut_down().code(), Some(0));
    let bodies: Vec<Bytes> = received.try_iter().collect();
    let told = |words: &str| bodies.iter().any(|body| contains(body, words));
    assert!(
        told("http_request") && told("/version") && told("row-house"),
        "{}",
        house.process().output()
    );
}

#[test]
fn a_collector_that_is_away_does_not_keep_the_house_from_ending() {
    let nobody = nagaya_testkit::free_port();
    let endpoint = format!("telemetry.otlp_endpoint=http://127.0.0.1:{nobody}");
    let house = house()
        .args(["--set", &endpoint, "--set", "telemetry.otlp_timeout=200ms"])
        .start();
    house.get("/version").unwrap();
    assert_eq!(house.shut_down().code(), Some(0));
}

/// Starts a collector behind TLS that takes exports over gRPC and over HTTP, and hands on what it receives as gRPC has it.
fn secure_collector(
    runtime: &tokio::runtime::Runtime,
    certificate: &tls::Certificate,
) -> (SocketAddr, mpsc::Receiver<Bytes>) {
    use nagaya_http_kit::server::{Stop, Tls, serve};
    let (bodies, received) = mpsc::channel();
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
        .unwrap();
    let address = listener.local_addr().unwrap();
    let over_http = bodies.clone();
    let router = axum::Router::new()
        .route(
            EXPORT,
            post(move |body: Bytes| async move {
                bodies.send(body).ok();
                (
                    [(CONTENT_TYPE, "application/grpc")],
                    [("grpc-status", "0")],
                    vec![0_u8; 5],
                )
            }),
        )
        .route(
            "/v1/traces",
            post(move |body: Bytes| async move {
                over_http.send([&[0; 5], &body[..]].concat().into()).ok();
                [(CONTENT_TYPE, "application/x-protobuf")]
            }),
        );
    let config =
        nagaya_net::tls::server_config(&certificate.file("cert.pem"), &certificate.file("key.pem"), None);
    let options = tls::server_options(Tls::new(config.unwrap()));
    let service = move |request: axum::http::Request<nagaya_http_kit::server::RequestBody>| {
        let responding = tower::ServiceExt::oneshot(router.clone(), request.map(axum::body::Body::new));
        async move { responding.await.unwrap() }
    };
    runtime.spawn(serve(listener, options, (), Stop::default(), service));
    (address, received)
}

#[test]
fn spans_are_exported_over_tls_by_both_protocols() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let certificate = tls::Certificate::new();
    let (collector, received) = secure_collector(&runtime, &certificate);
    for protocol in ["grpc", "http"] {
        let house = house()
            .args([
                "--set",
                &format!("telemetry.otlp_endpoint=https://localhost:{}", collector.port()),
            ])
            .args(["--set", &format!("telemetry.otlp_protocol={protocol}")])
            .args([
                "--set",
                &format!("telemetry.otlp_ca={}", certificate.file("cert.pem").display()),
            ])
            .start();
        ask(
            house.address("http"),
            &format!("GET /version HTTP/1.1\r\ntraceparent: {TRACEPARENT}"),
        );
        assert_eq!(house.shut_down().code(), Some(0));
        let spans = of_trace(&received, TRACE);
        assert!(!spans.is_empty(), "{protocol}: {}", house.process().stderr());
        named(&spans, "http_request");
    }
}
