//! Endpoints that refuse, stall, trickle, reset, never end and send decompression bombs. In each case a
//! second endpoint answers normally.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use nagaya_config::ByteSize;
use nagaya_fanout::{FanoutConfig, Redirects};
use serde_json::Value;

use crate::fan::{Fan, config, state};
use crate::scripted::{Behaviour, Scripted, answer, answer_with};

/// A short timeout, for endpoints that are meant to exceed it.
const SHORT: Duration = Duration::from_millis(300);

/// Returns the outcome of an endpoint with this behaviour, with changed settings.
async fn outcome_with(behaviour: Behaviour, change: impl FnOnce(&mut FanoutConfig)) -> Value {
    let bad = Scripted::start(behaviour).await;
    outcome_at(bad.url(), change).await
}

async fn outcome_at(url: String, change: impl FnOnce(&mut FanoutConfig)) -> Value {
    let good = Scripted::saying("fine").await;
    let mut config = config(&[("bad", url), ("good", good.url())]);
    change(&mut config);
    let fan = Fan::start(config).await;
    let request = fan.whole().await;
    assert_eq!(request["results"]["good"]["body"], "fine", "{request}");
    assert_eq!(state(&request, "good"), "ok");
    request["results"]["bad"].clone()
}

fn impatient(config: &mut FanoutConfig) {
    config.timeout = SHORT;
}

#[track_caller]
fn check(outcome: &Value, state: &str, detail: &str) {
    assert_eq!(outcome["state"], state, "{outcome}");
    assert!(
        outcome["detail"].as_str().unwrap_or_default().contains(detail),
        "{outcome}"
    );
}

#[tokio::test]
async fn an_endpoint_that_refuses_is_recorded_as_refused() {
    let port = nagaya_testkit::free_port();
    let outcome = outcome_at(format!("http://127.0.0.1:{port}"), |_| ()).await;
    check(&outcome, "refused", "cannot connect");
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_refused() {
    let outcome = outcome_at("http://no-such-host.invalid".to_owned(), |_| ()).await;
    assert!(
        matches!(outcome["state"].as_str(), Some("refused" | "timeout")),
        "{outcome}"
    );
}

#[tokio::test]
async fn an_endpoint_that_accepts_and_never_answers_times_out() {
    let outcome = outcome_with(Behaviour::Stall, impatient).await;
    check(&outcome, "timeout", "no whole answer");
    assert!(outcome["ms"].as_u64().unwrap() >= 290, "{outcome}");
}

#[tokio::test]
async fn one_byte_a_second_times_out() {
    let outcome = outcome_with(Behaviour::Trickle(answer(200, "slow")), impatient).await;
    check(&outcome, "timeout", "no whole answer");
}

#[tokio::test]
async fn a_head_without_its_body_times_out() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart".to_vec();
    let outcome = outcome_with(Behaviour::SendAndStall(head), impatient).await;
    check(&outcome, "timeout", "no whole answer");
    assert!(outcome.get("body").is_none());
}

#[tokio::test]
async fn a_reset_in_the_body_is_refused_and_nothing_of_it_is_kept() {
    let part = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart".to_vec();
    let outcome = outcome_with(Behaviour::SendAndReset(part), |_| ()).await;
    check(&outcome, "refused", "");
    assert!(outcome.get("body").is_none());
}

#[tokio::test]
async fn a_connection_closed_in_the_body_is_refused() {
    let part = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart".to_vec();
    check(&outcome_with(Behaviour::Send(part), |_| ()).await, "refused", "");
}

#[tokio::test]
async fn an_endless_body_is_too_large() {
    let head = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    let outcome = outcome_with(Behaviour::Endless(head), |_| ()).await;
    check(&outcome, "too_large", "fanout.body_max");
}

#[tokio::test]
async fn an_announced_gigabyte_is_too_large_at_once() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n".to_vec();
    let outcome = outcome_with(Behaviour::SendAndStall(head), |_| ()).await;
    check(&outcome, "too_large", "announced");
}

#[tokio::test]
async fn a_gzip_bomb_is_too_large() {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(&vec![0; 64 << 20]).unwrap();
    let bomb = packer.finish().unwrap();
    assert!(bomb.len() < 100_000);
    let outcome = outcome_with(
        Behaviour::Send(answer_with(200, "content-encoding: gzip\r\n", &bomb)),
        |_| (),
    )
    .await;
    check(&outcome, "too_large", "fanout.unpacked_max");
}

#[tokio::test]
async fn gzip_within_bounds_is_unpacked() {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(b"unpacked").unwrap();
    let packed = packer.finish().unwrap();
    let behaviour = Behaviour::Send(answer_with(200, "content-encoding: gzip\r\n", &packed));
    let outcome = outcome_with(behaviour, |_| ()).await;
    assert_eq!(outcome["body"], "unpacked");
    assert_eq!(outcome["bytes"], 8);
}

#[tokio::test]
async fn broken_gzip_is_refused() {
    let behaviour = Behaviour::Send(answer_with(200, "content-encoding: gzip\r\n", b"not gzip"));
    check(&outcome_with(behaviour, |_| ()).await, "refused", "gzip");
}

#[tokio::test]
async fn a_redirect_loop_is_an_http_error() {
    let behaviour = Behaviour::Send(answer_with(302, "location: /again\r\n", b""));
    let outcome = outcome_with(behaviour, |_| ()).await;
    check(&outcome, "http_error", "redirects");
    assert_eq!(outcome["status"], 302);
}

#[tokio::test]
async fn redirects_are_followed_to_their_end() {
    let target = Scripted::saying("there").await;
    let location = format!("location: {}/x\r\n", target.url());
    let outcome = outcome_with(Behaviour::Send(answer_with(302, &location, b"")), |_| ()).await;
    assert_eq!(outcome["body"], "there");
    assert!(target.seen()[0].line.starts_with("GET /x "));
}

#[tokio::test]
async fn what_a_client_sends_does_not_follow_a_redirect_to_another_server() {
    let elsewhere = Scripted::saying("there").await;
    let location = format!("location: {}/x\r\n", elsewhere.url());
    let endpoint = Scripted::start(Behaviour::Send(answer_with(302, &location, b""))).await;
    let mut config = config(&[("a", endpoint.url())]);
    config.forward_headers = vec!["x-api-key".to_owned()];
    let fan = Fan::start(config).await;
    let answer = fan.send("GET / HTTP/1.1\r\nx-api-key: secret", b"").await;
    fan.finished(answer.json()["request_id"].as_str().unwrap()).await;
    assert_eq!(endpoint.seen()[0].header("x-api-key").as_deref(), Some("secret"));
    let seen = &elsewhere.seen()[0];
    assert_eq!(seen.header("x-api-key"), None);
    assert!(seen.header("nagaya-request-id").is_some());
}

#[tokio::test]
async fn redirects_can_be_kept_to_the_endpoints_own_server() {
    let elsewhere = Scripted::saying("there").await;
    let location = format!("location: {}/x\r\n", elsewhere.url());
    let behaviour = Behaviour::Send(answer_with(302, &location, b""));
    let outcome = outcome_with(behaviour, |config| config.redirects = Redirects::SameOrigin).await;
    check(&outcome, "http_error", "redirects");
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn a_query_that_does_not_fit_into_the_endpoints_url_is_told() {
    let [long, short] = [Scripted::saying("fine").await, Scripted::saying("fine").await];
    let own = format!("{}/?own={}", long.url(), "o".repeat(300));
    let fan = Fan::start(config(&[("long", own), ("short", short.url())])).await;
    let answer = fan.get(&format!("/?q={}", "q".repeat(65_300))).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let request = fan.finished(answer.json()["request_id"].as_str().unwrap()).await;
    check(&request["results"]["long"], "shed", "too long");
    assert_eq!(state(&request, "short"), "ok");
    assert!(long.seen().is_empty(), "it would have got another question");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_a_little_late_do_not_cost_a_connection_each() {
    let endpoint = Scripted::start(Behaviour::SayAfter(Duration::from_millis(250), "late".into())).await;
    let mut config = config(&[("a", endpoint.url())]);
    config.timeout = Duration::from_millis(200);
    let fan = Fan::start(config).await;
    let first = fan.whole().await;
    for _ in 0..10 {
        assert_eq!(state(&fan.whole().await, "a"), "timeout");
    }
    assert!(endpoint.connections().0 <= 4, "{:?}", endpoint.connections());
    let later = fan.finished(first["request_id"].as_str().unwrap()).await;
    assert_eq!(later["results"], first["results"], "nothing appears later");
}

#[tokio::test]
async fn an_error_page_is_an_http_error_and_is_stored() {
    let outcome = outcome_with(Behaviour::Send(answer(500, "sorry")), |_| ()).await;
    check(&outcome, "http_error", "");
    assert_eq!(
        (&outcome["status"], &outcome["body"]),
        (&500.into(), &"sorry".into())
    );
}

#[tokio::test]
async fn error_pages_can_be_left_out() {
    let outcome = outcome_with(Behaviour::Send(answer(500, "sorry")), |config| {
        config.keep_error_bodies = false;
    })
    .await;
    check(&outcome, "http_error", "");
    assert!(outcome.get("body").is_none());
    assert_eq!(outcome["bytes"], 5);
}

#[tokio::test]
async fn an_empty_204_is_an_answer() {
    let behaviour = Behaviour::Send(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec());
    let outcome = outcome_with(behaviour, |_| ()).await;
    assert_eq!((&outcome["state"], &outcome["body"]), (&"ok".into(), &"".into()));
}

#[tokio::test]
async fn what_is_not_http_is_refused() {
    check(
        &outcome_with(Behaviour::Send(b"SSH-2.0-OpenSSH\r\n".to_vec()), |_| ()).await,
        "refused",
        "",
    );
    let long = [&b"HTTP/1.1 200 OK\r\nx: "[..], &vec![b'y'; 200_000]].concat();
    check(
        &outcome_with(Behaviour::SendAndStall(long), |_| ()).await,
        "refused",
        "",
    );
}

#[tokio::test]
async fn answers_beyond_the_memory_for_all_are_shed() {
    let outcome = outcome_with(Behaviour::Say("x".repeat(1 << 20)), |config| {
        config.body_max = ByteSize(2 << 20);
        config.buffers_max = ByteSize(1 << 20);
        config.buffers_max.0 -= 1;
    })
    .await;
    check(&outcome, "shed", "memory");
}

#[tokio::test]
async fn connections_are_used_again() {
    let endpoint = Scripted::saying("fine").await;
    let fan = Fan::start(config(&[("a", endpoint.url())])).await;
    for _ in 0..20 {
        assert_eq!(state(&fan.whole().await, "a"), "ok");
    }
    assert_eq!(endpoint.connections().0, 1);
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_replaced_unseen() {
    let endpoint = Scripted::start(Behaviour::Send(answer(200, "fine"))).await;
    let fan = Fan::start(config(&[("a", endpoint.url())])).await;
    for _ in 0..20 {
        assert_eq!(state(&fan.whole().await, "a"), "ok");
    }
}
