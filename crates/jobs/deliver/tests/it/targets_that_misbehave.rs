//! Targets that are down, slow, broken, busy or gone.

use std::time::Duration;

use nagaya_deliver::guard::{Allow, Client, Limits};
use nagaya_deliver::webhook::{Secrets, TRIES_MAX, verify};
use nagaya_jobs::delivery::{DeliveryFilter, DeliveryState};
use nagaya_jobs::view::JobFilter;
use nagaya_jobs::{QueueName, TenantId};
use rcgen::{CertifiedKey, KeyPair};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::fixture::{Fixture, client, eventually, limits};
use crate::target::{Act, Target, certificate, head, read_request, say, tls_acceptor};

#[tokio::test]
async fn a_result_reaches_a_target_that_was_down_for_days_under_one_id() {
    let fixture = Fixture::new();
    let target = Target::start(|number, _| say(if number < 8 { 500 } else { 200 })).await;
    let job = fixture.ended(&target.url()).await;
    let began_ms = fixture.now_ms();
    let running = fixture.deliverer(client());
    let view = fixture
        .delivery_in_time(job, |view| view.delivery.state == DeliveryState::Delivered)
        .await;
    running.stop().await;
    let days = (fixture.now_ms() - began_ms) as f64 / 86_400_000.0;
    assert!(days > 2.0, "{days}");
    let statuses: Vec<u16> = view.tries.iter().filter_map(|one| one.status).collect();
    assert_eq!(statuses, [500, 500, 500, 500, 500, 500, 500, 500, 200]);
    assert_eq!(view.tries[8].reply, b"noted");
    let got = target.got();
    assert_eq!(got.len(), 9);
    let secrets = Secrets::of(&*fixture.store, &TenantId::default_tenant())
        .await
        .unwrap();
    for (one, tried) in got.iter().zip(&view.tries) {
        assert_eq!(
            (one.id(), &one.body),
            (got[0].id(), &got[0].body),
            "the same each time"
        );
        let at_s: i64 = one.header("webhook-timestamp").unwrap().parse().unwrap();
        assert_eq!(at_s, tried.at_ms / 1000, "the time of the try");
        let signature = one.header("webhook-signature").unwrap();
        assert!(verify(
            &secrets.all()[0],
            &one.id(),
            at_s,
            &one.body,
            signature,
            at_s
        ));
    }
}

#[tokio::test]
async fn a_target_that_does_not_listen_gets_the_result_when_it_does() {
    let fixture = Fixture::new();
    let place = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = place.local_addr().unwrap();
    drop(place);
    let job = fixture.ended(&format!("http://{address}/hook")).await;
    let running = fixture.deliverer(client());
    let view = fixture
        .delivery_in_time(job, |view| view.delivery.tries >= 7)
        .await;
    assert!(view.tries.iter().all(|one| one.status.is_none()));
    let error = view.tries[0].error.as_deref().unwrap();
    assert!(error.contains("could not connect to 127.0.0.1"), "{error}");
    let target = Target::start_at(address, |_, _| say(204)).await;
    fixture
        .delivery_in_time(job, |view| view.delivery.state == DeliveryState::Delivered)
        .await;
    running.stop().await;
    assert_eq!(target.got().len(), 1);
}

#[tokio::test]
async fn a_wrong_url_is_given_up_after_its_tries_and_noted() {
    let fixture = Fixture::new();
    let job = fixture.ended("http://nobody.invalid:99999/").await;
    let running = fixture.deliverer(client());
    let view = fixture
        .delivery_in_time(job, |view| view.delivery.state == DeliveryState::GaveUp)
        .await;
    running.stop().await;
    assert_eq!(view.tries.len(), TRIES_MAX as usize);
    let shown = fixture.store.read(vec![job]).await.unwrap().remove(0).unwrap();
    assert_eq!(shown.delivery_state(), Some(DeliveryState::GaveUp));
    let filter = JobFilter {
        queue: Some(QueueName::new("_undelivered").unwrap()),
        ..JobFilter::default()
    };
    let notes = fixture.store.list(filter, None, 10).await.unwrap().items;
    assert_eq!((notes.len(), notes[0].kind.as_deref()), (1, Some("q")));
}

#[tokio::test]
async fn a_reply_that_drips_is_cut_off() {
    let fixture = Fixture::new();
    let target = Target::start(|number, _| match number {
        0 => Act::Drip("HTTP/1.1 200 O"),
        _ => Act::Drip("HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\nslow"),
    })
    .await;
    let limits = Limits {
        total: Duration::from_millis(600),
        ..Limits::default()
    };
    let client = Client::new(Allow::parse(["127.0.0.1"]).unwrap(), limits, None).unwrap();
    let job = fixture.ended(&target.url()).await;
    let running = fixture.deliverer(client);
    let began = Instant::now();
    let view = fixture
        .delivery_in_time(job, |view| view.delivery.tries == 1)
        .await;
    assert!(began.elapsed() < Duration::from_secs(4));
    let error = view.tries[0].error.as_deref().unwrap();
    assert!(error.contains("no reply within 600ms"), "{error}");
    // The status counts, however slowly the body arrives.
    let view = fixture
        .delivery_in_time(job, |view| view.delivery.state == DeliveryState::Delivered)
        .await;
    running.stop().await;
    assert!(view.tries[1].reply.starts_with(b"slow"));
    assert!(
        view.tries[1].latency < Duration::from_secs(2),
        "{:?}",
        view.tries[1].latency
    );
}

#[tokio::test]
async fn a_target_that_says_nothing_is_left_after_the_limit() {
    let fixture = Fixture::new();
    let target = Target::start(|_, _| Act::Stall).await;
    let limits = Limits {
        total: Duration::from_millis(200),
        ..Limits::default()
    };
    let client = Client::new(Allow::parse(["127.0.0.1"]).unwrap(), limits, None).unwrap();
    let job = fixture.ended(&target.url()).await;
    let running = fixture.deliverer(client);
    let view = fixture.delivery_that(job, |view| view.delivery.tries == 1).await;
    running.stop().await;
    assert_eq!(view.delivery.state, DeliveryState::Pending);
}

#[tokio::test]
async fn a_status_counts_although_the_connection_is_reset_after_it() {
    let fixture = Fixture::new();
    let target =
        Target::start(|_, _| Act::SayAndReset("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart")).await;
    let job = fixture.ended(&target.url()).await;
    let running = fixture.deliverer(client());
    let view = fixture.delivery_that(job, |view| view.delivery.tries > 0).await;
    running.stop().await;
    assert_eq!(view.delivery.state, DeliveryState::Delivered);
    assert_eq!(view.tries[0].status, Some(200));
}

#[tokio::test]
async fn a_reset_before_the_status_is_tried_again() {
    let fixture = Fixture::new();
    let target = Target::start(|number, _| match number {
        0 => Act::SayAndReset("HTTP/1.1 200 OK\r\ncontent-le"),
        _ => say(200),
    })
    .await;
    let job = fixture.ended(&target.url()).await;
    let running = fixture.deliverer(client());
    let view = fixture
        .delivery_in_time(job, |view| view.delivery.state == DeliveryState::Delivered)
        .await;
    running.stop().await;
    assert!(view.tries[0].error.is_some() && view.tries[1].status == Some(200));
}

#[tokio::test]
async fn a_huge_reply_is_not_read() {
    const HUGE: usize = 10 << 20;
    let fixture = Fixture::new();
    let target = Target::start(|_, _| Act::Say(200, Vec::new(), vec![b'a'; HUGE])).await;
    let job = fixture.ended(&target.url()).await;
    let running = fixture.deliverer(client());
    let view = fixture.delivery_that(job, |view| view.delivery.tries > 0).await;
    running.stop().await;
    assert_eq!(view.delivery.state, DeliveryState::Delivered);
    assert_eq!(view.tries[0].reply, vec![b'a'; 1024]);
    assert!(target.written() < HUGE, "the rest stayed where it was");
}

#[tokio::test]
async fn a_target_that_asks_for_a_wait_gets_it() {
    let fixture = Fixture::new();
    let target = Target::start(|number, _| match number {
        0 => Act::Say(429, vec![("retry-after", "120".into())], Vec::new()),
        _ => say(200),
    })
    .await;
    let job = fixture.ended(&target.url()).await;
    let other = fixture
        .register(nagaya_jobs::delivery::Webhook::to(target.url()))
        .await;
    let running = fixture.deliverer(client());
    let began_ms = fixture.now_ms();
    fixture.delivery_that(job, |view| view.delivery.tries == 1).await;
    // Another delivery to the same target waits as well.
    fixture.finish_all(nagaya_jobs::job::Body::json("1")).await;
    let put_off = fixture
        .delivery_that(other, |view| view.delivery.next_try_at_ms >= began_ms + 120_000)
        .await;
    assert_eq!(put_off.delivery.tries, 0);
    let view = fixture
        .delivery_in_time(job, |view| view.delivery.state == DeliveryState::Delivered)
        .await;
    assert!(view.tries[1].at_ms >= began_ms + 120_000);
    fixture
        .delivery_in_time(other, |view| view.delivery.state == DeliveryState::Delivered)
        .await;
    running.stop().await;
}

#[tokio::test]
async fn a_target_that_is_gone_is_told_nothing_more() {
    let fixture = Fixture::new();
    let target = Target::start(|_, _| say(410)).await;
    let job = fixture.ended(&target.url()).await;
    let running = fixture.deliverer(client());
    fixture
        .delivery_that(job, |view| view.delivery.state == DeliveryState::GaveUp)
        .await;
    running.stop().await;
    assert_eq!(target.got().len(), 1);
}

#[tokio::test]
async fn a_replay_sends_the_same_event_under_the_same_id() {
    let fixture = Fixture::new();
    let target = Target::start(|_, _| say(200)).await;
    let job = fixture.ended(&target.url()).await;
    let running = fixture.deliverer(client());
    fixture
        .delivery_that(job, |view| view.delivery.state == DeliveryState::Delivered)
        .await;
    let filter = DeliveryFilter {
        job: Some(job),
        ..DeliveryFilter::default()
    };
    assert_eq!(fixture.store.replay(filter, 10).await.unwrap(), 1);
    let view = fixture.delivery_that(job, |view| view.delivery.tries == 2).await;
    running.stop().await;
    assert_eq!(view.delivery.state, DeliveryState::Delivered);
    let got = target.got();
    assert_eq!(got.len(), 2);
    assert_eq!((got[0].id(), &got[0].body), (got[1].id(), &got[1].body));
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let fixture = Fixture::new();
    let folder = tempfile::tempdir().unwrap();
    let made = certificate();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, made.cert.pem()).unwrap();
    let address = tls_target(&made).await;
    let job = fixture.ended(&format!("https://{address}/hook")).await;
    let running = fixture.deliverer(client());
    let view = fixture.delivery_that(job, |view| view.delivery.tries == 1).await;
    running.stop().await;
    let error = view.tries[0].error.as_deref().unwrap();
    assert!(error.contains("no TLS with 127.0.0.1"), "{error}");
    // With its issuer trusted, the certificate is accepted.
    let trusting = Client::new(Allow::parse(["127.0.0.1"]).unwrap(), limits(), Some(&ca)).unwrap();
    let running = fixture.deliverer(trusting);
    fixture
        .delivery_in_time(job, |view| view.delivery.state == DeliveryState::Delivered)
        .await;
    running.stop().await;
}

/// Serves one 200 after another over TLS.
async fn tls_target(made: &CertifiedKey<KeyPair>) -> std::net::SocketAddr {
    let acceptor = tls_acceptor(made);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            if read_request(&mut stream).await.is_some() {
                stream.write_all(head(200, &[], 0).as_bytes()).await.ok();
                stream.shutdown().await.ok();
            }
        }
    });
    address
}

#[tokio::test]
async fn both_secrets_sign_after_a_rotation() {
    let fixture = Fixture::new();
    let tenant = TenantId::default_tenant();
    let target = Target::start(|_, _| say(200)).await;
    let old = Secrets::of(&*fixture.store, &tenant).await.unwrap().all()[0].clone();
    let both = Secrets::rotate(&*fixture.store, &tenant).await.unwrap();
    assert_eq!((both.all().len(), &both.all()[1]), (2, &old));
    let other = Secrets::of(&*fixture.store, &TenantId::new("other").unwrap())
        .await
        .unwrap();
    fixture.ended(&target.url()).await;
    let running = fixture.deliverer(client());
    let got = eventually("a request", async || target.got().pop()).await;
    running.stop().await;
    let at_s: i64 = got.header("webhook-timestamp").unwrap().parse().unwrap();
    let fits = |secret| {
        let signature = got.header("webhook-signature").unwrap();
        verify(secret, &got.id(), at_s, &got.body, signature, at_s)
    };
    assert!(fits(&old) && fits(&both.all()[0]));
    assert!(!fits(&other.all()[0]), "another tenant's");
}
