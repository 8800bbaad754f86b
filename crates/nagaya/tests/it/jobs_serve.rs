//! `nagaya jobs serve`: jobs without the rest of the server.

use super::jobs_site::Server;
use super::jobs_site::client::Client;
use super::*;
use futures_util::{SinkExt, StreamExt};
use nagaya_testkit::{http, wait};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use tokio::runtime::Runtime;
use tokio_tungstenite::tungstenite::Message;

/// Sends a request and returns the connection, unread.
fn request(server: &Server, request: &str, header: &str, body: &str) -> BufReader<TcpStream> {
    let length = body.len();
    let stream = send(
        server.address,
        &format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\n{header}Content-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        ),
    );
    BufReader::new(stream)
}

fn status_line(mut answer: BufReader<TcpStream>) -> String {
    let mut line = String::new();
    answer.read_line(&mut line).unwrap();
    line
}

#[test]
fn jobs_outlive_their_server_however_it_ends() {
    let server = Server::start(&[]);
    let job = r#"{"queue": "mail", "payload": {"to": "a"}}"#;
    for ends in [Server::stop, Server::kill9] {
        let answer = status_line(request(&server, "POST /v1/jobs", "", job));
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        ends(&server);
        server.start_again();
    }
    let listed = http::get(server.address, "/v1/jobs?queue=mail").unwrap();
    let listed: Value = serde_json::from_str(&listed.body).unwrap();
    let jobs = listed["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 2);
    assert!(jobs.iter().all(|job| job["state"] == "waiting"), "{listed}");
    server.stop();
}

#[test]
fn a_stopping_server_keeps_nobody_waiting() {
    let server = Server::start(&["--set", "house.drain_timeout=1h"]);
    let claim = r#"{"worker": "w", "wait_seconds": 60}"#;
    let worker = request(&server, "POST /v1/queues/mail/claim", "", claim);
    let reader = request(&server, "GET /v1/events", "", "");
    let line = status_line(reader);
    assert!(
        line.starts_with("HTTP/1.1 200"),
        "the stream is being served: {line}"
    );
    server.stop();
    let line = status_line(worker);
    assert!(
        line.starts_with("HTTP/1.1 200"),
        "the worker was answered: {line}"
    );
}

#[test]
fn a_house_with_a_token_asks_for_it() {
    let server = Server::start(&["--set", "http.token=hunter2-hunter2-2"]);
    let refused = http::get(server.address, "/v1/jobs").unwrap();
    assert_eq!(refused.status, 401);
    let problem: Value = serde_json::from_str(&refused.body).unwrap();
    assert_eq!(problem["type"], "/problems/unauthorized");
    let token = "Authorization: Bearer hunter2-hunter2-2\r\n";
    let line = status_line(request(&server, "GET /v1/jobs", token, ""));
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    server.stop();
}

#[test]
fn a_scrape_counts_jobs_by_queue_and_by_what_became_of_them() {
    let server = Server::start(&[]);
    let job = r#"{"queue": "mail", "payload": 1}"#;
    for _ in 0..3 {
        status_line(request(&server, "POST /v1/jobs", "", job));
    }
    status_line(request(
        &server,
        "POST /v1/queues/mail/claim",
        "",
        r#"{"worker": "w"}"#,
    ));
    let wanted = [
        "nagaya_jobs_waiting{queue=\"mail\"} 2.0",
        "nagaya_jobs_running{queue=\"mail\"} 1.0",
        "nagaya_jobs_scheduled{queue=\"mail\"} 0.0",
        "nagaya_jobs_enqueued_total{queue=\"mail\"} 3",
        "nagaya_jobs_claimed_total{queue=\"mail\"} 1",
        "nagaya_jobs_finished_total{queue=\"mail\",state=\"succeeded\"} 0",
        "nagaya_jobs_batch_items_total{call=\"enqueue\"} 3",
        "nagaya_jobs_until_start_seconds_count 1",
        "nagaya_jobs_deliveries_total{outcome=\"delivered\"} 0",
    ];
    wait::until("the scrape shows the jobs", LIMIT, || {
        let scrape = http::get(server.address, "/metrics").unwrap().body;
        wanted
            .iter()
            .all(|line| scrape.lines().any(|found| found == *line))
    });
    server.stop();
}

/// More events than a socket's buffers hold.
const STALL_JOBS: usize = 240;

/// Ends jobs with large results.
async fn end_large_jobs(client: &Client) {
    let result = "x".repeat(100_000);
    for _ in 0..STALL_JOBS / 40 {
        let jobs = vec![json!({"queue": "mail", "payload": 1}); 40];
        client.post("/v1/jobs/batch", json!({"jobs": jobs})).await.is(201);
        let claim = json!({"worker": "w", "max": 40, "wait_seconds": 10});
        let taken = client.post("/v1/queues/mail/claim", claim).await.is(200);
        let report = |job: &Value| json!({"token": job["token"], "result": result});
        let reports: Vec<Value> = taken["jobs"].as_array().unwrap().iter().map(report).collect();
        assert_eq!(reports.len(), 40);
        client
            .post("/v1/jobs/batch/complete", json!({"jobs": reports}))
            .await
            .is(200);
    }
}

/// Waits until the asking client has the only connection.
fn wait_until_alone(server: &Server) {
    wait::until("the reader is cut off", LIMIT, || {
        let scrape = http::get(server.address, "/metrics").unwrap().body;
        scrape
            .lines()
            .any(|line| line == "nagaya_http_connections_open 1")
    });
}

fn with_little_patience() -> Server {
    Server::start(&["--set", "http.write_timeout=1s", "--set", "jobs.stall_max=1s"])
}

#[test]
fn a_stream_whose_reader_stops_reading_is_cut_off_and_nothing_is_lost() {
    let server = with_little_patience();
    let runtime = Runtime::new().unwrap();
    let mut stalled = request(&server, "GET /v1/events?kind=succeeded&after=0", "", "");
    runtime.block_on(async { end_large_jobs(&server.endpoints().client()).await });
    wait_until_alone(&server);
    // What was on its way arrives; the last event of it may be broken off.
    let mut bytes = Vec::new();
    let _ended_or_reset = stalled.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let (whole, _) = text.rsplit_once("\n\n").unwrap();
    let ids = whole.lines().filter_map(|line| line.strip_prefix("id: "));
    let mut seen: BTreeSet<String> = ids.map(str::to_owned).collect();
    assert!(seen.len() < STALL_JOBS, "the reader got all without reading");
    let last = seen.iter().max_by_key(|id| id.parse::<u64>().unwrap()).cloned();
    runtime.block_on(async {
        let client = server.endpoints().client();
        let mut rest = client
            .events("/v1/events?kind=succeeded&after=0", last.as_deref())
            .await;
        while seen.len() < STALL_JOBS {
            let sent = rest.next().await.unwrap();
            assert!(seen.insert(sent.id), "an event came twice");
        }
    });
    server.stop();
}

#[test]
fn a_websocket_whose_reader_stops_reading_is_cut_off_and_nothing_is_lost() {
    let server = with_little_patience();
    let runtime = Runtime::new().unwrap();
    let open = async || {
        let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let url = format!("ws://{}/v1/ws", server.address);
        let (mut socket, _) = tokio_tungstenite::client_async(url, stream).await.unwrap();
        let hello = json!({"type": "hello", "subscription": "s", "kinds": ["succeeded"], "after": "0"});
        socket.send(Message::text(hello.to_string())).await.unwrap();
        socket
    };
    let _stalled = runtime.block_on(async {
        let stalled = open().await;
        end_large_jobs(&server.endpoints().client()).await;
        stalled
    });
    wait_until_alone(&server);
    runtime.block_on(async {
        let (mut socket, mut seen) = (open().await, BTreeSet::new());
        while seen.len() < STALL_JOBS {
            if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
                let message: Value = serde_json::from_str(&text).unwrap();
                seen.extend(message["event"]["id"].as_str().map(str::to_owned));
            }
        }
    });
    server.stop();
}

#[test]
fn only_an_administrator_says_where_jobs_are_pushed() {
    let server = Server::start(&["--set", "http.token=hunter2-hunter2-2"]);
    Runtime::new().unwrap().block_on(async {
        let house = server.endpoints().client().with_token("hunter2-hunter2-2");
        let token = json!({"tenant": "shop", "name": "web", "scopes": ["enqueue", "work", "read"]});
        let made = house.post("/v1/tokens", token).await.is(201);
        let shop = server
            .endpoints()
            .client()
            .with_token(made["token"].as_str().unwrap());
        let push = json!({"push": {"url": "http://169.254.169.254/", "concurrency": 1}});
        assert_eq!(shop.put("/v1/queues/mail", push.clone()).await.status, 403);
        house.put("/v1/queues/mail", push).await.is(200);
    });
    server.stop();
}
