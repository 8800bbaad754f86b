//! The deadline over real sockets; its edges are tested to the millisecond inside the crate.

use std::time::Duration;

use tokio::time::Instant;

use crate::fan::{Fan, config, eventually, state};
use crate::scripted::{Behaviour, Scripted};

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_well_within_its_time_is_stored_and_one_well_beyond_is_not() {
    let after = |ms| Behaviour::SayAfter(Duration::from_millis(ms), "fine".into());
    let [early, late] = [
        Scripted::start(after(100)).await,
        Scripted::start(after(1500)).await,
    ];
    let mut config = config(&[("early", early.url()), ("late", late.url())]);
    config.timeout = Duration::from_millis(500);
    let fan = Fan::start(config).await;
    let request = fan.whole().await;
    assert_eq!(
        (state(&request, "early"), state(&request, "late")),
        ("ok", "timeout")
    );
    let id = request["request_id"].as_str().unwrap().to_owned();
    eventually("the late one has answered and met a closed connection", || {
        late.connections().1 == 0
    });
    let later = fan.finished(&id).await;
    assert_eq!(later["results"], request["results"], "nothing appears later");
}

#[tokio::test]
async fn each_endpoint_may_have_a_time_of_its_own() {
    let stalls = Scripted::start(Behaviour::Stall).await;
    let mut config = config(&[("short", stalls.url()), ("long", stalls.url())]);
    config.endpoints.0.get_mut("short").unwrap().timeout = Some(Duration::from_millis(100));
    config.timeout = Duration::from_millis(600);
    let fan = Fan::start(config).await;
    let request = fan.whole().await;
    let ms = |name: &str| request["results"][name]["ms"].as_u64().unwrap();
    assert!(ms("short") < 400 && ms("long") >= 590, "{request}");
    let told: Vec<u64> = stalls
        .seen()
        .iter()
        .map(|seen| seen.header("nagaya-deadline-ms").unwrap().parse().unwrap())
        .collect();
    assert!(
        told.iter().any(|ms| *ms <= 95) && told.iter().any(|ms| *ms > 95),
        "{told:?}"
    );
}

#[tokio::test]
async fn the_time_in_the_queue_counts() {
    let stalls = Scripted::start(Behaviour::Stall).await;
    let mut config = config(&[("a", stalls.url())]);
    config.endpoint_concurrency = 1;
    config.timeout = Duration::from_millis(300);
    let fan = Fan::start(config).await;
    let began = Instant::now();
    let requests = tokio::join!(fan.whole(), fan.whole(), fan.whole());
    assert!(
        began.elapsed() < Duration::from_millis(600),
        "they did not wait one after the other"
    );
    for request in [requests.0, requests.1, requests.2] {
        assert_eq!(state(&request, "a"), "timeout");
    }
}
