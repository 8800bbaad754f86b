use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::TestServer;

/// Status, head and body of a request with an `Accept` header.
async fn ask(server: &TestServer, method: &str, path: &str, accept: &str) -> (u16, String, String) {
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: ids\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
    let address = server.address;
    let answer = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    let answer = answer.await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (
        head[9..12].parse().unwrap(),
        head.to_ascii_lowercase(),
        body.to_owned(),
    )
}

async fn get(server: &TestServer, path: &str, accept: &str) -> (u16, String) {
    let (status, _, body) = ask(server, "GET", path, accept).await;
    (status, body)
}

fn json(body: &str) -> serde_json::Value {
    serde_json::from_str(body).unwrap()
}

fn ids(text: &str) -> Vec<u64> {
    text.lines().map(|line| line.parse().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_come_as_strings_and_numbers() {
    let server = TestServer::start().await;
    let (status, head, body) = ask(&server, "GET", "/v1/ids?n=3", "*/*").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/json"), "{head}");
    assert!(head.contains("cache-control: no-store"), "{head}");
    let body = json(&body);
    assert_eq!(body["worker"], 7);
    let numbers: Vec<u64> = body["numbers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_u64().unwrap())
        .collect();
    assert_eq!(numbers.len(), 3);
    assert!(numbers.is_sorted_by(|a, b| a < b));
    for (at, number) in numbers.iter().enumerate() {
        assert_eq!(body["ids"][at], number.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_come_as_text_to_those_who_ask_for_it() {
    let server = TestServer::start().await;
    let (status, head, body) = ask(&server, "GET", "/v1/ids?n=2", "text/plain").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/plain"), "{head}");
    assert!(body.ends_with('\n'));
    assert_eq!(ids(&body).len(), 2);
    let (_, body) = get(&server, "/v1/ids", "application/json, text/plain").await;
    assert_eq!(json(&body)["ids"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_ids_has_limits() {
    let server = TestServer::start().await;
    let check = async |n: &str, own: u16, katsubushi: u16, count: usize| {
        let (status, body) = get(&server, &format!("/v1/ids?n={n}"), "text/plain").await;
        assert_eq!(status, own, "n={n}: {body}");
        if own == 200 {
            assert_eq!(ids(&body).len(), count);
        }
        let (status, body) = get(&server, &format!("/ids?n={n}"), "*/*").await;
        assert_eq!(status, katsubushi, "n={n}: {body}");
        if katsubushi == 200 {
            assert_eq!(ids(&body).len(), count);
        }
    };
    check("0", 400, 200, 0).await;
    check("1", 200, 200, 1).await;
    check("1000", 200, 200, 1000).await;
    check("1001", 400, 400, 0).await;
    check("-1", 400, 400, 0).await;
    check("", 200, 200, 1).await;
    check("x", 400, 400, 0).await;
    check("1e3", 400, 400, 0).await;
    check("99999999999999999999999", 400, 400, 0).await;
    check("1&n=2", 400, 400, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_is_a_problem_document() {
    let server = TestServer::start().await;
    let (status, head, body) = ask(&server, "GET", "/v1/ids?n=1001", "*/*").await;
    assert_eq!(status, 400);
    assert!(head.contains("content-type: application/problem+json"), "{head}");
    let expected = serde_json::json!({
        "type": "about:blank", "title": "Bad Request", "status": 400,
        "detail": "n must be a number from 1 to 1000, not \"1001\"",
    });
    assert_eq!(json(&body), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_number_clients_are_told_to_come_back() {
    let server = TestServer::start().await;
    server.api.mint.set_permit(None);
    for path in ["/v1/ids", "/id", "/ids?n=2"] {
        let (status, head, body) = ask(&server, "GET", path, "*/*").await;
        assert_eq!(status, 503, "{path}");
        assert!(head.contains("retry-after: 1"), "{head}");
        assert_eq!(json(&body)["detail"], "no worker number is held yet");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn katsubushis_paths_answer_as_its_clients_expect() {
    let server = TestServer::start().await;
    let (status, body) = get(&server, "/id", "*/*").await;
    let id: u64 = body.parse().unwrap();
    assert_eq!(
        (status, server.api.mint.layout().decode(id).unwrap().worker),
        (200, 7)
    );
    let (_, body) = get(&server, "/id", "application/json").await;
    assert!(json(&body)["id"].as_str().unwrap().parse::<u64>().unwrap() > id);
    let (_, body) = get(&server, "/ids?n=2", "*/*").await;
    assert!(!body.ends_with('\n'));
    assert_eq!(ids(&body).len(), 2);
    let (_, body) = get(&server, "/ids?n=2", "application/json").await;
    assert_eq!(json(&body)["ids"].as_array().unwrap().len(), 2);
    let (_, body) = get(&server, "/stats", "*/*").await;
    let stats = json(&body);
    assert_eq!(
        (stats["cmd_get"].as_u64(), stats["get_hits"].as_u64()),
        (Some(4), Some(6))
    );
    assert_eq!(stats["version"], "1.2.3");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_get_is_served() {
    let server = TestServer::start().await;
    for path in ["/v1/ids", "/id", "/ids", "/stats"] {
        assert_eq!(ask(&server, "POST", path, "*/*").await.0, 405, "{path}");
    }
}
