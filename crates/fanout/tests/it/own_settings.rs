//! Endpoints with settings of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderName, Method};
use nagaya_config::Secret;
use nagaya_fanout::{EndpointConfig, FanoutConfig, Redirects};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::fan::{Fan, config, state};
use crate::scripted::{Behaviour, Scripted, answer, answer_with};

fn change(config: &mut FanoutConfig, name: &str, change: impl FnOnce(&mut EndpointConfig)) {
    change(config.endpoints.0.get_mut(name).unwrap());
}

fn key(value: &str) -> Vec<(HeaderName, Secret)> {
    vec![(HeaderName::from_static("x-api-key"), Secret::new(value))]
}

#[tokio::test]
async fn an_endpoint_has_its_method_and_its_headers_and_others_do_not() {
    let [own, plain] = [Scripted::saying("own").await, Scripted::saying("plain").await];
    let mut config = config(&[("own", own.url()), ("plain", plain.url())]);
    change(&mut config, "own", |endpoint| {
        endpoint.method = Some(Method::GET);
        endpoint.headers = key("hunter2");
    });
    let fan = Fan::start(config.clone()).await;
    let head = "POST /call HTTP/1.1\r\nx-api-key: the-clients\r\ncontent-type: text/x";
    let whole = fan.send(head, b"body").await.json();
    assert_eq!((state(&whole, "own"), state(&whole, "plain")), ("ok", "ok"));
    let (seen, other) = (own.seen().remove(0), plain.seen().remove(0));
    assert_eq!((seen.line.as_str(), seen.body.len()), ("GET / HTTP/1.1", 0));
    assert_eq!(seen.header("x-api-key").as_deref(), Some("hunter2"));
    assert_eq!(seen.header("content-type"), None);
    assert_eq!(
        (other.line.as_str(), &*other.body),
        ("POST / HTTP/1.1", &b"body"[..])
    );
    assert_eq!(other.header("x-api-key"), None);
    assert!(!whole.to_string().contains("hunter2"));
    change(&mut config, "own", |endpoint| endpoint.headers = key("changed"));
    fan.fanout.reload(&config).unwrap();
    fan.whole().await;
    assert_eq!(own.seen()[1].header("x-api-key").as_deref(), Some("changed"));
}

#[tokio::test]
async fn an_endpoints_secret_is_not_sent_to_where_it_redirects() {
    let elsewhere = Scripted::saying("found").await;
    let redirect = answer_with(302, &format!("location: {}/x\r\n", elsewhere.url()), b"go");
    let endpoint = Scripted::start(Behaviour::Send(redirect)).await;
    let mut config = config(&[("a", endpoint.url())]);
    change(&mut config, "a", |endpoint| endpoint.headers = key("hunter2"));
    let fan = Fan::start(config.clone()).await;
    assert_eq!(fan.whole().await["results"]["a"]["body"], "found");
    assert_eq!(elsewhere.seen()[0].header("x-api-key"), None);
    change(&mut config, "a", |endpoint| {
        endpoint.redirects = Some(Redirects::None)
    });
    fan.fanout.reload(&config).unwrap();
    let whole = fan.whole().await;
    assert_eq!(whole["results"]["a"]["status"], 302);
    assert_eq!(
        (state(&whole, "a"), &whole["results"]["a"]["body"]),
        ("ok", &json!("go"))
    );
    assert_eq!(elsewhere.seen().len(), 1);
}

#[tokio::test]
async fn an_endpoint_gets_no_more_requests_than_its_rate() {
    let [slow, other] = [Scripted::saying("x").await, Scripted::saying("y").await];
    let mut config = config(&[("slow", slow.url()), ("other", other.url())]);
    change(&mut config, "slow", |endpoint| endpoint.rate = Some(1));
    let fan = Fan::start(config).await;
    let first = fan.get("/").await.json();
    assert_eq!(first["endpoints"], json!(["other", "slow"]));
    // A machine that takes a second for this is asked once more.
    let mut shed = fan.get("/").await.json();
    for _ in 0..5 {
        if shed.get("shed").is_some() {
            break;
        }
        shed = fan.get("/").await.json();
    }
    assert_eq!(shed["endpoints"], json!(["other"]));
    assert_eq!(shed["shed"][0]["endpoint"], "slow");
    assert!(shed["shed"][0]["reason"].as_str().unwrap().contains("`rate`"));
}

/// An endpoint that fails this many times before it answers; and how often it was asked.
async fn failing(times: usize, failure: Vec<u8>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let asks = stream.read(&mut [0; 4096]).await.is_ok_and(|length| length > 0);
            assert!(asks, "a connection is made to ask");
            let bytes = if count.fetch_add(1, Ordering::Relaxed) < times {
                failure.clone()
            } else {
                answer(200, "at last")
            };
            stream.write_all(&bytes).await.unwrap();
        }
    });
    (url, asked)
}

#[tokio::test]
async fn calls_that_failed_are_tried_again_if_that_does_nothing_twice() {
    for failure in [Vec::new(), answer(503, "busy")] {
        let (url, asked) = failing(2, failure).await;
        let mut config = config(&[("a", url)]);
        change(&mut config, "a", |endpoint| endpoint.retries = 2);
        let fan = Fan::start(config).await;
        assert_eq!(fan.whole().await["results"]["a"]["body"], "at last");
        assert_eq!(asked.load(Ordering::Relaxed), 3);
    }
    let (url, asked) = failing(1, answer(503, "busy")).await;
    let mut config = config(&[("a", url)]);
    change(&mut config, "a", |endpoint| endpoint.retries = 5);
    let fan = Fan::start(config).await;
    let whole = fan.send("POST /call HTTP/1.1", b"order one").await.json();
    assert_eq!(
        (state(&whole, "a"), asked.load(Ordering::Relaxed)),
        ("http_error", 1)
    );
}

#[tokio::test]
async fn an_endpoint_that_is_down_gets_few_retries() {
    let (url, asked) = failing(usize::MAX, answer(503, "busy")).await;
    let mut config = config(&[("a", url)]);
    change(&mut config, "a", |endpoint| endpoint.retries = 5);
    let fan = Fan::start(config).await;
    for _ in 0..100 {
        fan.whole().await;
    }
    let asked = asked.load(Ordering::Relaxed);
    assert!((101..=121).contains(&asked), "{asked}");
}

/// An endpoint that answers at once, but for one request after each time it is told so; that one is never answered.
async fn stalling() -> (String, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (asked, stalls) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count, left) = (Arc::clone(&asked), Arc::clone(&stalls));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (count, left) = (Arc::clone(&count), Arc::clone(&left));
            tokio::spawn(async move {
                while stream.read(&mut [0; 4096]).await.is_ok_and(|length| length > 0) {
                    count.fetch_add(1, Ordering::Relaxed);
                    let take = |stalls: usize| stalls.checked_sub(1);
                    if left
                        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                        .is_err()
                    {
                        stream.write_all(&answer(200, "quick")).await.unwrap();
                    }
                }
            });
        }
    });
    (url, asked, stalls)
}

#[tokio::test]
async fn a_call_that_takes_longer_than_most_is_made_twice_within_a_budget() {
    let (url, asked, stalls) = stalling().await;
    let mut config = config(&[("a", url)]);
    change(&mut config, "a", |endpoint| endpoint.hedge = true);
    config.timeout = std::time::Duration::from_secs(60);
    let fan = Fan::start(config).await;
    for _ in 0..100 {
        fan.whole().await;
    }
    let before = asked.load(Ordering::Relaxed);
    assert!((100..=105).contains(&before), "{before}");
    stalls.store(1, Ordering::Relaxed);
    assert_eq!(fan.whole().await["results"]["a"]["body"], "quick");
    assert!(asked.load(Ordering::Relaxed) >= before + 2);
    // An order is placed once, however long that takes.
    stalls.store(1, Ordering::Relaxed);
    let late = fan
        .send("POST /call HTTP/1.1\r\nprefer: wait=300ms", b"order one")
        .await;
    assert_eq!(late.json()["late"], json!(["a"]));
}
