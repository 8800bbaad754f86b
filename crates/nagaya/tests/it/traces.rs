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
