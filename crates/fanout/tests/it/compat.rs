//! What serinin's clients, endpoints and readers rely on.

use nagaya_config::Secret;
use nagaya_fanout::serinin::{Overrides, import};
use nagaya_fanout::{FanoutConfig, StoreKind};
use nagaya_testkit::{Memcached, Redis};

use crate::fan::{Fan, config, state};
use crate::scripted::{Behaviour, Scripted};

#[tokio::test]
async fn the_reply_is_one_line_of_json_with_sorted_names() {
    let endpoint = Scripted::saying("x").await;
    let fan = Fan::start(config(&[("b", endpoint.url()), ("a", endpoint.url())])).await;
    let answer = fan.get("/any/path?x=1").await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.header("content-type").as_deref(),
        Some("application/json; charset=utf-8")
    );
    let id = answer.json()["request_id"].as_str().unwrap().to_owned();
    let expected = format!("{{\"request_id\":\"{id}\",\"endpoints\":[\"a\",\"b\"]}}\n");
    assert_eq!(answer.body, expected);
    assert_eq!(id.len(), 36);
    assert_eq!(id.as_bytes()[14], b'4', "a random UUID");
}

#[tokio::test]
async fn queries_are_joined_and_paths_are_not_handed_on() {
    let endpoint = Scripted::saying("x").await;
    let own = format!("{}/own?k=v", endpoint.url());
    let fan = Fan::start(config(&[("plain", endpoint.url()), ("own", own)])).await;
    let id = fan.get("/path?a=1&b=%20%26").await.json()["request_id"].clone();
    fan.finished(id.as_str().unwrap()).await;
    fan.whole().await;
    let mut lines: Vec<String> = endpoint.seen().into_iter().map(|seen| seen.line).collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "GET /?a=1&b=%20%26 HTTP/1.1",
            "GET /?q=1 HTTP/1.1",
            "GET /own?k=v&a=1&b=%20%26 HTTP/1.1",
            "GET /own?k=v&q=1 HTTP/1.1",
        ]
    );
}

#[tokio::test]
async fn a_post_reaches_every_endpoint_byte_for_byte() {
    let endpoints = [Scripted::saying("1").await, Scripted::saying("2").await];
    let fan = Fan::start(config(&[("a", endpoints[0].url()), ("b", endpoints[1].url())])).await;
    let body: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let head = "POST /p?a=1 HTTP/1.1\r\ncontent-type: application/x-odd; v=\"1\"\r\nx-other: no";
    let id = fan.send(head, &body).await.json()["request_id"].clone();
    let request = fan.finished(id.as_str().unwrap()).await;
    assert_eq!(
        (&request["method"], &request["url"]),
        (&"POST".into(), &"/p?a=1".into())
    );
    for endpoint in &endpoints {
        let seen = &endpoint.seen()[0];
        assert_eq!(seen.line, "POST /?a=1 HTTP/1.1");
        assert_eq!(seen.header("content-type").unwrap(), "application/x-odd; v=\"1\"");
        assert_eq!(seen.header("x-other"), None);
        assert_eq!(seen.header("nagaya-request-id").unwrap(), id.as_str().unwrap());
        assert!(seen.header("nagaya-deadline-ms").unwrap().parse::<u64>().unwrap() <= 5000);
        assert!(seen.body == body);
    }
}

#[tokio::test]
async fn allowed_headers_are_handed_on() {
    let endpoint = Scripted::saying("x").await;
    let mut config = config(&[("a", endpoint.url())]);
    config.forward_headers = vec!["X-Trace".to_owned()];
    let fan = Fan::start(config).await;
    let head = "GET / HTTP/1.1\r\nx-trace: t1\r\nx-trace: t2\r\nx-secret: s";
    let id = fan.send(head, b"").await.json()["request_id"].clone();
    fan.finished(id.as_str().unwrap()).await;
    let seen = &endpoint.seen()[0];
    assert_eq!(seen.header("x-trace").unwrap(), "t1");
    assert_eq!(seen.header("x-secret"), None);
}

#[tokio::test]
async fn other_methods_are_405_with_allow() {
    let endpoint = Scripted::saying("x").await;
    let fan = Fan::start(config(&[("a", endpoint.url())])).await;
    for method in ["PUT", "DELETE", "OPTIONS", "PATCH"] {
        let answer = fan.send(&format!("{method} / HTTP/1.1"), b"").await;
        assert_eq!(answer.status, 405);
        assert_eq!(answer.header("allow").as_deref(), Some("GET, POST"));
        assert_eq!(answer.json()["detail"], format!("method {method} is not allowed"));
    }
    let head = fan.send("HEAD / HTTP/1.1", b"").await;
    assert_eq!(head.status, 405);
    assert!(endpoint.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_hash_has_serinins_fields_and_ours() {
    let redis = Redis::start();
    let [one, two] = [
        Scripted::saying("one").await,
        Scripted::start(Behaviour::Echo).await,
    ];
    let mut config = config(&[("dst1", one.url()), ("dst2", two.url())]);
    config.store = StoreKind::Redis;
    config.redis = Some(Secret::new(redis.url()));
    let fan = Fan::start(config).await;
    let answer = fan.get("/p?a=1&b=2").await;
    let id = answer.json()["request_id"].as_str().unwrap().to_owned();
    let request = fan.finished(&id).await;
    let field = |name: &str| redis.cmd(&["HGET", &id, name]).text();
    assert_eq!(field("_id"), id);
    assert_eq!(field("_method"), "GET");
    assert_eq!(field("_url"), "/p?a=1&b=2");
    assert_eq!(field("dst1"), "one");
    assert_eq!(
        field("dst2"),
        request["results"]["dst2"]["body"].as_str().unwrap()
    );
    assert_eq!(field("_endpoints"), "[\"dst1\",\"dst2\"]");
    assert!(field("_outcome:dst1").starts_with("{\"state\":\"ok\",\"status\":200,\"ms\":"));
    assert!(field("_complete").parse::<u64>().is_ok());
    let expiry = redis.cmd(&["PTTL", &id]).int();
    assert!((1..=60_000).contains(&expiry), "{expiry}");
}

#[tokio::test(flavor = "multi_thread")]
async fn memcached_has_serinins_keys_on_serinins_servers() {
    let servers = [Memcached::start(), Memcached::start(), Memcached::start()];
    let endpoint = Scripted::saying("raw \r\n\0 body").await;
    for jump in [false, true] {
        let mut config = config(&[("dst1", endpoint.url()), ("端点", endpoint.url())]);
        config.store = StoreKind::Memcached;
        config.memcached = servers
            .iter()
            .map(|server| server.address().to_string())
            .collect();
        if jump {
            config.memcached_nodes = nagaya_fanout::NodeChoice::Jump;
        }
        let fan = Fan::start(config).await;
        let id = fan.get("/p?a=1&b=2").await.json()["request_id"]
            .as_str()
            .unwrap()
            .to_owned();
        let request = fan.finished(&id).await;
        assert_eq!(state(&request, "端点"), "ok");
        assert_eq!(request["results"]["dst1"]["body"], "raw \r\n\0 body");
        let everywhere = |key: &str| -> Vec<String> {
            servers
                .iter()
                .filter_map(|server| memcached_get(server, key))
                .collect()
        };
        assert_eq!(
            everywhere(&id),
            [format!(
                "{{\"_id\":\"{id}\",\"_method\":\"GET\",\"_url\":\"/p?a=1\\u0026b=2\"}}"
            )]
        );
        assert_eq!(everywhere(&format!("{id}.dst1")), ["raw \r\n\0 body"]);
        assert_eq!(everywhere(&format!("{id}.端点")), ["raw \r\n\0 body"]);
    }
}

/// The value of a key on one server, with flags 0.
pub(crate) fn memcached_get(server: &Memcached, key: &str) -> Option<String> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    stream
        .write_all(format!("get {key}\r\nquit\r\n").as_bytes())
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let head = text.lines().next()?.strip_prefix(&format!("VALUE {key} 0 "))?;
    let length: usize = head.parse().unwrap();
    let start = text.find("\r\n").unwrap() + 2;
    Some(text[start..start + length].to_owned())
}

#[tokio::test]
async fn a_config_as_serinin_writes_it_runs() {
    let endpoint = Scripted::saying("x").await;
    let text = format!(
        r#"{{"addr": "127.0.0.1:0", "max_handlers": 16, "worker_num": 96, "http_client_timeout": "5s",
            "endpoints": {{"dst1": {{"url": "{0}"}}, "dst2": {{"url": "{0}", "timeout": 4000000000}}}},
            "store_type": "gocache", "gocache": {{"expire_in": "60s"}}}}"#,
        endpoint.url()
    );
    let imported = import("f", &text, FanoutConfig::default(), &Overrides::default()).unwrap();
    let fan = Fan::start(imported.config).await;
    let request = fan.whole().await;
    assert_eq!((state(&request, "dst1"), state(&request, "dst2")), ("ok", "ok"));
}
