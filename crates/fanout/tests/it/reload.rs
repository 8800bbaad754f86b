//! Endpoints that change while requests are in progress.

use std::time::Duration;

use nagaya_fanout::{EndpointConfig, State};

use crate::fan::{Fan, config, state};
use crate::scripted::{Behaviour, Scripted};

#[tokio::test]
async fn requests_under_way_keep_their_endpoints() {
    let old = Scripted::start(Behaviour::SayAfter(Duration::from_millis(300), "old".into())).await;
    let [kept, new] = [Scripted::saying("kept").await, Scripted::saying("new").await];
    let mut config = config(&[("old", old.url()), ("kept", kept.url())]);
    let fan = Fan::start(config.clone()).await;
    let before = fan.ask().await;
    fan.get(&format!("/requests/{before}?wait=kept")).await;
    config.endpoints.0.remove("old");
    config
        .endpoints
        .0
        .insert("new".into(), EndpointConfig::at(new.url()));
    fan.fanout.reload(&config).unwrap();
    let after = fan.whole().await;
    assert_eq!(after["endpoints"], serde_json::json!(["kept", "new"]));
    assert_eq!(state(&after, "new"), "ok");
    let before = fan.finished(&before).await;
    assert_eq!((state(&before, "old"), state(&before, "kept")), ("ok", "ok"));
    assert_eq!(fan.count(State::Ok), 4);
    assert_eq!(
        kept.connections().0,
        1,
        "what has not changed keeps its connections"
    );
}

#[tokio::test]
async fn what_cannot_be_used_changes_nothing() {
    let endpoint = Scripted::saying("x").await;
    let good = config(&[("a", endpoint.url())]);
    let fan = Fan::start(good.clone()).await;
    let mut bad = good.clone();
    bad.endpoints
        .0
        .insert("_id".into(), EndpointConfig::at(endpoint.url()));
    assert!(fan.fanout.reload(&bad).is_err());
    bad.endpoints.0.clear();
    assert!(fan.fanout.reload(&bad).is_err());
    assert_eq!(state(&fan.whole().await, "a"), "ok");
}

#[tokio::test]
async fn limits_of_endpoints_change_with_them() {
    let endpoint = Scripted::start(Behaviour::Stall).await;
    let mut config = config(&[("a", endpoint.url())]);
    config.timeout = Duration::from_secs(60);
    let fan = Fan::start(config.clone()).await;
    config.timeout = Duration::from_millis(100);
    fan.fanout.reload(&config).unwrap();
    assert_eq!(state(&fan.whole().await, "a"), "timeout");
}
