//! Stores that are down, die, hang, are slow, read-only, full or reject the password. Every time there is a
//! counted outcome, and nothing waits past its deadline.

use std::sync::Arc;
use std::time::Duration;

use nagaya_config::{ByteSize, Secret};
use nagaya_fanout::{FanoutConfig, RejectReason, State, StoreKind};
use nagaya_testkit::{Memcached, Redis, TcpProxy};
use tokio::time::Instant;

use crate::compat::memcached_get;
use crate::fan::{Answer, Fan, config, eventually, state};
use crate::scripted::{Behaviour, Scripted};

/// Long enough to inject a fault before an endpoint answers, on a busy machine.
const IN_BETWEEN: Duration = Duration::from_millis(1500);

fn on_redis(mut config: FanoutConfig, url: impl Into<String>) -> FanoutConfig {
    config.store = StoreKind::Redis;
    config.redis = Some(Secret::new(url));
    config
}

fn on_memcached(mut config: FanoutConfig, servers: &[&Memcached]) -> FanoutConfig {
    config.store = StoreKind::Memcached;
    config.memcached = servers
        .iter()
        .map(|server| server.address().to_string())
        .collect();
    config
}

#[track_caller]
fn refused_by_the_store(answer: &Answer, told: &str) {
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(answer.header("retry-after").is_some());
    let json = answer.json();
    assert!(json["request_id"].is_string(), "{json}");
    assert!(json["detail"].as_str().unwrap().contains(told), "{json}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_down_at_start_gives_503_until_it_is_there() {
    let redis = Redis::start();
    redis.kill9();
    let endpoint = Scripted::saying("fine").await;
    let fan = Fan::start(on_redis(config(&[("a", endpoint.url())]), redis.url())).await;
    refused_by_the_store(&fan.get("/").await, "could not connect");
    assert!(endpoint.seen().is_empty(), "nobody was asked");
    assert_eq!(fan.fanout.counts().rejected(RejectReason::Store), 1);
    redis.restart();
    assert_eq!(state(&fan.whole().await, "a"), "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_dies_in_between_is_counted_and_the_request_ends() {
    let redis = Redis::start();
    let endpoint = Scripted::start(Behaviour::SayAfter(IN_BETWEEN, "late".into())).await;
    let mut config = on_redis(config(&[("a", endpoint.url())]), redis.url());
    config.timeout = Duration::from_secs(3);
    let fan = Fan::start(config).await;
    fan.ask().await;
    redis.kill9();
    eventually("the answer is counted", || fan.count(State::StoreFailed) == 1);
    eventually("the request has ended", || fan.fanout.in_flight() == (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_restarted_in_between_has_lost_the_request_and_gets_nothing_new() {
    let redis = Redis::start();
    let endpoint = Scripted::start(Behaviour::SayAfter(IN_BETWEEN, "late".into())).await;
    let fan = Fan::start(on_redis(config(&[("a", endpoint.url())]), redis.url())).await;
    fan.ask().await;
    redis.kill9();
    redis.restart();
    eventually("the answer is counted", || fan.count(State::StoreFailed) == 1);
    assert_eq!(redis.cmd(&["DBSIZE"]).int(), 0, "no hash without its request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_hangs_holds_nobody_past_the_deadline() {
    let redis = Redis::start();
    let endpoint = Scripted::saying("fine").await;
    let mut config = on_redis(config(&[("a", endpoint.url())]), redis.url());
    config.timeout = Duration::from_secs(1);
    config.handlers = 2;
    let fan = Arc::new(Fan::start(config).await);
    fan.whole().await;
    redis.stop();
    let began = Instant::now();
    let (first, second) = tokio::join!(fan.get("/"), fan.get("/"));
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    refused_by_the_store(&first, "did not answer within");
    refused_by_the_store(&second, "did not answer within");
    let busy = fan.get("/").await;
    assert_eq!(busy.status, 503);
    assert!(
        busy.json()["detail"]
            .as_str()
            .unwrap()
            .contains("fanout.handlers"),
        "{busy:?}"
    );
    assert_eq!(endpoint.seen().len(), 1, "nobody was asked");
    redis.cont();
    eventually("handlers are free again", || fan.fanout.in_flight().0 == 0);
    assert_eq!(state(&fan.whole().await, "a"), "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_frozen_store_runs_later_never_appears() {
    let redis = Redis::start();
    let endpoint = Scripted::start(Behaviour::SayAfter(Duration::from_secs(1), "too late".into())).await;
    let mut config = on_redis(config(&[("a", endpoint.url())]), redis.url());
    config.timeout = Duration::from_secs(2);
    let fan = Fan::start(config).await;
    let id = fan.ask().await;
    // The store wrote the request before it was answered, so its own deadline is not later than this.
    let deadline = Instant::now() + Duration::from_secs(2);
    redis.stop();
    tokio::time::sleep_until(deadline).await;
    redis.cont();
    eventually("the answer is counted", || fan.count(State::StoreFailed) == 1);
    let outcome = nagaya_testkit::wait::value("the outcome is stored", crate::fan::LIMIT, || {
        Some(redis.cmd(&["HGET", &id, "_outcome:a"]).text()).filter(|text| text.starts_with('{'))
    });
    assert!(outcome.contains("store_failed"), "{outcome}");
    assert_eq!(redis.cmd(&["HEXISTS", &id, "a"]).int(), 0);
    let request = fan
        .get(&format!("/requests/{id}?wait=all&timeout=2s"))
        .await
        .json();
    assert_eq!(state(&request, "a"), "store_failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_100_ms_away_is_slow_and_nothing_else() {
    let redis = Redis::start();
    let proxy = TcpProxy::start(redis.address());
    let endpoint = Scripted::saying("fine").await;
    let fan = Fan::start(on_redis(
        config(&[("a", endpoint.url())]),
        format!("redis://{}", proxy.address()),
    ))
    .await;
    fan.whole().await;
    proxy.delay(Duration::from_millis(50));
    let began = Instant::now();
    assert_eq!(state(&fan.whole().await, "a"), "ok");
    assert!(began.elapsed() >= Duration::from_millis(200));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_slower_than_the_deadline_is_refused() {
    let redis = Redis::start();
    let proxy = TcpProxy::start(redis.address());
    let endpoint = Scripted::saying("fine").await;
    let mut config = on_redis(
        config(&[("a", endpoint.url())]),
        format!("redis://{}", proxy.address()),
    );
    config.timeout = Duration::from_secs(1);
    config.store_timeout = Duration::from_secs(20);
    let fan = Fan::start(config).await;
    fan.whole().await;
    proxy.delay(Duration::from_millis(1500));
    let began = Instant::now();
    refused_by_the_store(&fan.get("/").await, "did not answer within 1s");
    assert!(
        began.elapsed() < Duration::from_millis(2900),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_replica_is_named() {
    let [primary, replica] = [Redis::start(), Redis::start()];
    replica.follow(&primary);
    let endpoint = Scripted::saying("fine").await;
    let fan = Fan::start(on_redis(config(&[("a", endpoint.url())]), replica.url())).await;
    refused_by_the_store(&fan.get("/").await, "not the primary");
    replica.promote();
    assert_eq!(state(&fan.whole().await, "a"), "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_becomes_read_only_in_between_is_counted() {
    let [redis, other] = [Redis::start(), Redis::start()];
    let endpoint = Scripted::start(Behaviour::SayAfter(IN_BETWEEN, "fine".into())).await;
    let mut config = on_redis(config(&[("a", endpoint.url())]), redis.url());
    config.timeout = Duration::from_secs(3);
    let fan = Fan::start(config).await;
    fan.ask().await;
    redis.cmd(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
    eventually("the answer is counted", || fan.count(State::StoreFailed) == 1);
    eventually("the request has ended", || fan.fanout.in_flight() == (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_is_named_before_and_counted_in_between() {
    let redis = Redis::start();
    let endpoint = Scripted::start(Behaviour::SayAfter(IN_BETWEEN, "fine".into())).await;
    let mut config = on_redis(config(&[("a", endpoint.url())]), redis.url());
    config.timeout = Duration::from_secs(3);
    let fan = Fan::start(config).await;
    fan.ask().await;
    redis.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    eventually("the answer is counted", || fan.count(State::StoreFailed) == 1);
    refused_by_the_store(&fan.get("/").await, "OOM");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_named_and_not_shown() {
    let redis = Redis::with_config(&["requirepass right"]);
    let endpoint = Scripted::saying("fine").await;
    let url = format!("redis://:hunter2@{}", redis.address());
    let fan = Fan::start(on_redis(config(&[("a", endpoint.url())]), url)).await;
    let answer = fan.get("/").await;
    refused_by_the_store(&answer, "WRONGPASS");
    assert!(!answer.body.contains("hunter2"));
    let url = format!("redis://:right@{}", redis.address());
    let fan = Fan::start(on_redis(config(&[("a", endpoint.url())]), url)).await;
    assert_eq!(state(&fan.whole().await, "a"), "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_knows_the_scripts_again_after_they_were_flushed() {
    let redis = Redis::start();
    let endpoint = Scripted::saying("fine").await;
    let fan = Fan::start(on_redis(config(&[("a", endpoint.url())]), redis.url())).await;
    fan.whole().await;
    redis.cmd(&["SCRIPT", "FLUSH"]);
    assert_eq!(state(&fan.whole().await, "a"), "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_keeps_requests_on_all_its_nodes() {
    let cluster = nagaya_testkit::shared::cluster();
    let endpoint = Scripted::saying("fine").await;
    let url = format!("redis+cluster://{}", cluster.addresses()[0]);
    let fan = Fan::start(on_redis(config(&[("a", endpoint.url())]), url)).await;
    for _ in 0..20 {
        assert_eq!(state(&fan.whole().await, "a"), "ok");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memcached_refuses_a_value_beyond_its_limit_and_that_is_the_outcome() {
    let server = Memcached::start();
    let [large, small] = [
        Scripted::saying(&"x".repeat(2 << 20)).await,
        Scripted::saying("fine").await,
    ];
    let mut config = on_memcached(
        config(&[("large", large.url()), ("small", small.url())]),
        &[&server],
    );
    config.body_max = ByteSize(4 << 20);
    let fan = Fan::start(config).await;
    let request = fan.whole().await;
    assert_eq!(
        (state(&request, "large"), state(&request, "small")),
        ("store_failed", "ok")
    );
    assert!(request["results"]["large"].get("body").is_none());
    assert_eq!(fan.count(State::StoreFailed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_memcached_server_of_three_down_fails_only_what_it_has() {
    let servers = [Memcached::start(), Memcached::start(), Memcached::start()];
    let names: Vec<String> = (0..12).map(|n| format!("e{n}")).collect();
    let endpoint = Scripted::start(Behaviour::SayAfter(IN_BETWEEN, "fine".into())).await;
    let endpoints: Vec<(&str, String)> = names.iter().map(|name| (name.as_str(), endpoint.url())).collect();
    let mut config = on_memcached(config(&endpoints), &servers.each_ref());
    config.timeout = Duration::from_secs(3);
    let fan = Fan::start(config).await;
    let id = fan.ask().await;
    let has_request = |server: &Memcached| memcached_get(server, &id).is_some();
    let other = servers.iter().find(|server| !has_request(server)).unwrap();
    other.process().kill9();
    eventually("all are counted", || {
        fan.count(State::Ok) + fan.count(State::StoreFailed) == 12
    });
    assert!(fan.count(State::Ok) > 0 && fan.count(State::StoreFailed) > 0);
    eventually("the request has ended", || fan.fanout.in_flight() == (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_memcached_server_of_two_down_turns_away_only_its_own_requests() {
    let servers = [Memcached::start(), Memcached::start()];
    let endpoint = Scripted::saying("fine").await;
    let fan = Fan::start(on_memcached(
        config(&[("a", endpoint.url())]),
        &servers.each_ref(),
    ))
    .await;
    servers[1].process().kill9();
    let (mut taken, mut own, mut others) = (0, 0, 0);
    for _ in 0..60 {
        let answer = fan.get("/").await;
        let id = answer.json()["request_id"].as_str().unwrap().to_owned();
        let is_own = crc32fast::hash(id.as_bytes()).is_multiple_of(2);
        taken += usize::from(answer.status == 200);
        own += usize::from(is_own && answer.status == 200);
        others += usize::from(!is_own);
    }
    assert_eq!(
        (taken, taken + others),
        (own, 60),
        "all whose server is up are taken"
    );
    assert!(taken > 0 && others > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn memcached_that_hangs_holds_nobody_and_keeps_nothing_late() {
    let server = Memcached::start();
    let endpoint = Scripted::start(Behaviour::SayAfter(Duration::from_secs(1), "too late".into())).await;
    let mut config = on_memcached(config(&[("a", endpoint.url())]), &[&server]);
    config.timeout = Duration::from_secs(2);
    config.store_timeout = Duration::from_millis(500);
    let fan = Fan::start(config).await;
    let id = fan.ask().await;
    server.process().stop();
    let began = Instant::now();
    refused_by_the_store(&fan.get("/").await, "did not answer");
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    eventually("the answer is counted", || fan.count(State::StoreFailed) == 1);
    server.process().cont();
    eventually("the request has ended", || fan.fanout.in_flight().1 == 0);
    fan.whole().await;
    let request = fan.get(&format!("/requests/{id}")).await.json();
    assert!(request["results"]["a"].get("body").is_none(), "{request}");
    let text = {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
        stream
            .write_all(format!("get {id}.a\r\nquit\r\n").as_bytes())
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert_eq!(text, "END\r\n", "it was taken back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memcached_server_removed_from_the_list_is_a_miss_and_not_a_hang() {
    let servers = [Memcached::start(), Memcached::start()];
    let endpoint = Scripted::saying("fine").await;
    let fan = Fan::start(on_memcached(
        config(&[("a", endpoint.url())]),
        &servers.each_ref(),
    ))
    .await;
    let mut ids = Vec::new();
    for _ in 0..10 {
        let id = fan.ask().await;
        fan.finished(&id).await;
        ids.push(id);
    }
    let shorter = Fan::start(on_memcached(config(&[("a", endpoint.url())]), &[&servers[0]])).await;
    for id in ids {
        let began = Instant::now();
        let answer = shorter
            .get(&format!("/requests/{id}?wait=all&timeout=100ms"))
            .await;
        assert!(matches!(answer.status, 200 | 404), "{answer:?}");
        assert!(began.elapsed() < Duration::from_secs(2));
    }
}
