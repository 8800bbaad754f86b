//! Every key has an expiry at every moment, whatever the timing.

use std::time::Duration;

use nagaya_config::Secret;
use nagaya_fanout::serinin::{Overrides, import};
use nagaya_fanout::{FanoutConfig, State, StoreKind};
use nagaya_testkit::{Memcached, Redis};

use crate::fan::{Fan, config, eventually, state};
use crate::scripted::{Behaviour, Scripted};

fn keeping(redis: &Redis, endpoint: &Scripted, expire_in: Duration) -> FanoutConfig {
    let mut config = config(&[("a", endpoint.url())]);
    config.store = StoreKind::Redis;
    config.redis = Some(Secret::new(redis.url()));
    config.expire_in = expire_in;
    config
}

/// Asserts that all keys have an expiry.
#[track_caller]
fn no_key_is_for_ever(redis: &Redis) {
    for key in redis.cmd(&["KEYS", "*"]).items() {
        let key = key.text();
        assert_ne!(redis.cmd(&["PTTL", &key]).int(), -1, "{key} never expires");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_after_the_expiry_leaves_nothing_behind() {
    let redis = Redis::start();
    let endpoint = Scripted::start(Behaviour::SayAfter(Duration::from_millis(400), "late".into())).await;
    let fan = Fan::start(keeping(&redis, &endpoint, Duration::from_millis(100))).await;
    fan.ask().await;
    eventually("the answer is counted", || fan.count(State::StoreFailed) == 1);
    assert_eq!(redis.cmd(&["DBSIZE"]).int(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_second_is_half_a_second() {
    let redis = Redis::start();
    let endpoint = Scripted::saying("fine").await;
    let fan = Fan::start(keeping(&redis, &endpoint, Duration::from_millis(500))).await;
    let id = fan.ask().await;
    let left = redis.cmd(&["PTTL", &id]).int();
    assert!((1..=500).contains(&left), "{left}");
    eventually("it expires", || redis.cmd(&["DBSIZE"]).int() == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_and_31_days_are_kept_to_the_millisecond() {
    let redis = Redis::start();
    let endpoint = Scripted::saying("fine").await;
    for seconds in [1, 31 * 86_400] {
        let fan = Fan::start(keeping(&redis, &endpoint, Duration::from_secs(seconds))).await;
        let id = fan.ask().await;
        let left = redis.cmd(&["PTTL", &id]).int();
        assert!(
            left > seconds as i64 * 1000 - 1000 && left <= seconds as i64 * 1000,
            "{left}"
        );
        no_key_is_for_ever(&redis);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hash_that_lost_its_expiry_gets_one_with_the_next_answer() {
    let redis = Redis::start();
    let endpoint = Scripted::start(Behaviour::SayAfter(Duration::from_millis(300), "fine".into())).await;
    let fan = Fan::start(keeping(&redis, &endpoint, Duration::from_secs(60))).await;
    let id = fan.ask().await;
    assert_eq!(redis.cmd(&["PERSIST", &id]).int(), 1);
    fan.finished(&id).await;
    no_key_is_for_ever(&redis);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_expiry_in_serinins_file_means_ours() {
    let redis = Redis::start();
    let endpoint = Scripted::saying("fine").await;
    for expire_in in ["", ", \"expire_in\": 0", ", \"expire_in\": \"0s\""] {
        let text = format!(
            r#"{{"addr": "127.0.0.1:0", "endpoints": {{"a": {{"url": "{}"}}}}, "store_type": "redis",
                "redis": {{"addr": "{}"{expire_in}}}}}"#,
            endpoint.url(),
            redis.address()
        );
        let imported = import("f", &text, FanoutConfig::default(), &Overrides::default()).unwrap();
        assert!(
            imported
                .warnings
                .iter()
                .any(|warning| warning.contains("expire_in"))
        );
        let fan = Fan::start(imported.config).await;
        fan.ask().await;
        no_key_is_for_ever(&redis);
    }
    assert_eq!(redis.cmd(&["DBSIZE"]).int(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn memcached_keeps_31_days_and_lets_half_a_second_go() {
    let server = Memcached::start();
    let endpoint = Scripted::saying("fine").await;
    let fan = async |expire_in| {
        let mut config = config(&[("a", endpoint.url())]);
        config.store = StoreKind::Memcached;
        config.memcached = vec![server.address().to_string()];
        config.expire_in = expire_in;
        Fan::start(config).await
    };
    let long = fan(Duration::from_secs(31 * 86_400)).await;
    let id = long.ask().await;
    assert_eq!(state(&long.finished(&id).await, "a"), "ok");
    let short = fan(Duration::from_millis(500)).await;
    let gone = short.ask().await;
    assert_eq!(state(&short.finished(&gone).await, "a"), "ok");
    loop {
        // memcached's clock ticks once a second.
        let answer = short.get(&format!("/requests/{gone}")).await;
        if answer.status == 404 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(long.get(&format!("/requests/{id}")).await.status, 200);
}
