//! Unusual names, many endpoints, several endpoints on one host, and clients that disconnect.

use std::time::Duration;

use nagaya_config::Secret;
use nagaya_fanout::{State, StoreKind};
use nagaya_testkit::Redis;
use tokio::io::AsyncWriteExt;

use crate::fan::{Fan, config, eventually, state};
use crate::scripted::Scripted;

#[tokio::test(flavor = "multi_thread")]
async fn names_with_underscores_dots_spaces_and_unicode_are_fields() {
    let redis = Redis::start();
    let names = [
        "_own",
        "a.b",
        "a b",
        "端点",
        "_outcome",
        "\"quoted\"",
        "new\nline",
        "-",
    ];
    let endpoint = Scripted::saying("fine").await;
    let endpoints: Vec<(&str, String)> = names.iter().map(|name| (*name, endpoint.url())).collect();
    let mut config = config(&endpoints);
    config.store = StoreKind::Redis;
    config.redis = Some(Secret::new(redis.url()));
    let fan = Fan::start(config).await;
    let request = fan.whole().await;
    let id = request["request_id"].as_str().unwrap();
    for name in names {
        assert_eq!(state(&request, name), "ok", "{name}");
        assert_eq!(redis.cmd(&["HGET", id, name]).text(), "fine", "{name}");
    }
    assert_eq!(request["endpoints"].as_array().unwrap().len(), names.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_six_a_hundred_and_a_thousand_endpoints_all_answer() {
    let redis = Redis::start();
    let endpoint = Scripted::saying("fine").await;
    for count in [1, 6, 100, 1000] {
        let names: Vec<String> = (0..count).map(|n| format!("e{n:04}")).collect();
        let endpoints: Vec<(&str, String)> =
            names.iter().map(|name| (name.as_str(), endpoint.url())).collect();
        let mut config = config(&endpoints);
        config.timeout = Duration::from_secs(15);
        config.store = StoreKind::Redis;
        config.redis = Some(Secret::new(redis.url()));
        let fan = Fan::start(config).await;
        let request = fan.whole().await;
        assert_eq!(request["results"].as_object().unwrap().len(), count);
        assert_eq!(fan.count(State::Ok), count as u64);
        let id = request["request_id"].as_str().unwrap();
        assert_eq!(redis.cmd(&["HLEN", id]).int(), 2 * count as i64 + 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_finish_together_are_written_together() {
    let endpoint = Scripted::saying("fine").await;
    let endpoints: Vec<(String, String)> = (0..6).map(|n| (format!("e{n}"), endpoint.url())).collect();
    let endpoints: Vec<(&str, String)> = endpoints
        .iter()
        .map(|(name, url)| (name.as_str(), url.clone()))
        .collect();
    let fan = async |window| {
        let mut config = config(&endpoints);
        config.join_window = Duration::from_millis(window);
        let fan = Fan::start(config).await;
        for _ in 0..20 {
            fan.whole().await;
        }
        fan.fanout
            .counts()
            .batches
            .load(std::sync::atomic::Ordering::Relaxed)
    };
    assert!(fan(50).await <= 20, "one write for each request");
    assert!(fan(0).await >= 20 * 6, "one write for each answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_early_changes_nothing() {
    let endpoint = Scripted::saying("fine").await;
    let fan = Fan::start(config(&[("a", endpoint.url())])).await;
    for _ in 0..20 {
        let mut stream = tokio::net::TcpStream::connect(fan.address).await.unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .unwrap();
        stream.flush().await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        stream.set_zero_linger().unwrap();
    }
    eventually("requests that were taken are finished", || {
        let taken = fan
            .fanout
            .counts()
            .accepted
            .load(std::sync::atomic::Ordering::Relaxed);
        taken > 0 && fan.count(State::Ok) == taken && fan.fanout.in_flight() == (0, 0, 0)
    });
}

#[tokio::test]
async fn a_body_that_breaks_off_is_not_sent_out() {
    let endpoint = Scripted::saying("fine").await;
    let fan = Fan::start(config(&[("a", endpoint.url())])).await;
    let mut stream = tokio::net::TcpStream::connect(fan.address).await.unwrap();
    let part = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\npart";
    stream.write_all(part).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut answer)
        .await
        .unwrap();
    assert!(endpoint.seen().is_empty());
    assert_eq!(fan.fanout.in_flight().0, 0, "its handler is free again");
}
