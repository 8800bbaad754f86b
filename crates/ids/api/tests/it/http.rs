use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use nagaya_ids::decode::parse_id;
use serde_json::Value;

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
async fn ids_come_as_short_texts_and_as_uuids() {
    let server = TestServer::start().await;
    for (format, length) in [("decimal", 19), ("base62", 11), ("uuid", 36)] {
        let path = format!("/v1/ids?n=1000&format={format}");
        let (status, body) = get(&server, &path, "application/json").await;
        assert_eq!(status, 200, "{body}");
        let body = json(&body);
        let texts: Vec<&str> = body["ids"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(Value::as_str)
            .collect();
        assert_eq!(texts.len(), 1000);
        assert!(texts.is_sorted_by(|a, b| a < b), "{texts:?}");
        for (text, number) in texts.iter().zip(body["numbers"].as_array().unwrap()) {
            assert_eq!(text.len(), length, "{text}");
            let id = parse_id(text, server.api.mint.layout()).unwrap();
            assert_eq!(Some(id), number.as_u64(), "{text}");
        }
    }
    let (status, body) = get(&server, "/v1/ids?format=hex", "*/*").await;
    assert_eq!(status, 400);
    assert_eq!(
        json(&body)["detail"],
        "format must be decimal, base62 or uuid, not \"hex\""
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_ids_come_as_ranges_while_others_are_served() {
    let server = TestServer::start().await;
    let ranges = async {
        let (status, body) = get(&server, "/v1/ids/ranges?n=1000000", "*/*").await;
        assert_eq!(status, 200, "{body}");
        let ranges = json(&body)["ranges"].as_array().unwrap().clone();
        let ranges = ranges.iter().map(|range| {
            assert_eq!(range["worker"], 7);
            let first: u64 = range["first"].as_str().unwrap().parse().unwrap();
            (first, range["count"].as_u64().unwrap())
        });
        ranges.collect::<Vec<_>>()
    };
    let single = async {
        let mut single = Vec::new();
        while single.len() < 2000 {
            let (status, body) = get(&server, "/v1/ids?n=100", "text/plain").await;
            assert_eq!(status, 200, "{body}");
            single.extend(ids(&body));
        }
        single
    };
    let (ranges, single) = tokio::join!(ranges, single);
    assert_eq!(ranges.iter().map(|(_, count)| count).sum::<u64>(), 1_000_000);
    assert!(ranges.is_sorted_by(|a, b| a.0 + a.1 <= b.0));
    for id in single {
        let before = ranges.partition_point(|(first, _)| *first <= id);
        let is_inside = before > 0 && id < ranges[before - 1].0 + ranges[before - 1].1;
        assert!(!is_inside, "{id} was given twice");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_have_limits() {
    let server = TestServer::start().await;
    let (status, body) = get(&server, "/v1/ids/ranges?n=5", "text/plain").await;
    assert_eq!(status, 200);
    let counts = body.lines().map(|line| line.split_once(' ').unwrap().1);
    assert_eq!(counts.map(|count| count.parse::<u64>().unwrap()).sum::<u64>(), 5);
    for query in ["n=0", "n=1000001", "n=x", "n=2&format=uuid"] {
        let (status, _) = get(&server, &format!("/v1/ids/ranges?{query}"), "*/*").await;
        assert_eq!(status, 400, "{query}");
    }
    server.api.mint.set_permit(None);
    let (status, _) = get(&server, "/v1/ids/ranges?n=5", "*/*").await;
    assert_eq!(status, 503);
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
