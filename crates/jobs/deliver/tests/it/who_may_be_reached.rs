//! Targets that must not be reached, and names with changing answers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::HeaderMap;
use nagaya_deliver::guard::{Allow, Client, ConnectError, Limits, Refusal, SendError};
use nagaya_jobs::delivery::DeliveryState;

use crate::fixture::{Answers, Fixture, client, limits};
use crate::target::{Act, Target, say};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

async fn post(client: &Client, url: &str) -> Result<u16, SendError> {
    client
        .post(url, HeaderMap::new(), Bytes::from_static(b"{}"))
        .await
        .map(|reply| reply.status)
}

#[tokio::test]
async fn nothing_private_is_reached_unless_it_is_listed() {
    let target = Target::start(|_, _| say(200)).await;
    let closed = Client::new(Allow::default(), limits(), None).unwrap();
    let port = target.address.port();
    for host in [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f.1",
        "[::ffff:127.0.0.1]",
        "[::1]",
        "0.0.0.0",
    ] {
        let refused = post(&closed, &format!("http://{host}:{port}/"))
            .await
            .unwrap_err();
        let is_fine = matches!(
            &refused,
            SendError::Connect(ConnectError::Refused { .. } | ConnectError::Resolve { .. })
        );
        assert!(is_fine, "{host}: {refused}");
    }
    let refused = post(&closed, "http://169.254.169.254/latest/meta-data/")
        .await
        .unwrap_err();
    assert!(
        refused.is_refusal() && refused.to_string().contains("link-local"),
        "{refused}"
    );
    assert!(target.got().is_empty());
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let fixture = Fixture::new();
    let inside = Target::start(|_, _| say(200)).await;
    let location = inside.url();
    let target =
        Target::start(move |_, _| Act::Say(302, vec![("location", location.clone())], Vec::new())).await;
    let job = fixture.ended(&target.url()).await;
    let running = fixture.deliverer(client());
    let view = fixture.delivery_that(job, |view| view.delivery.tries == 1).await;
    running.stop().await;
    assert_eq!(
        (view.tries[0].status, view.delivery.state),
        (Some(302), DeliveryState::Pending)
    );
    assert!(inside.got().is_empty());
}

/// The first answer is allowed, the second is not: the connection goes to the address that was checked.
#[tokio::test]
async fn a_name_that_changes_its_answer_is_reached_only_where_it_was_judged() {
    let allowed = Target::start(|_, _| say(500)).await;
    let port = allowed.address.port();
    let forbidden = Target::start_at(SocketAddr::new(ip("127.0.0.2"), port), |_, _| say(200)).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let resolver = Answers(move |_: &str| match counter.fetch_add(1, Ordering::SeqCst) {
        0 => vec![ip("127.0.0.1")],
        _ => vec![ip("127.0.0.2")],
    });
    let allow = Allow::parse(["127.0.0.1"]).unwrap();
    let client = Client::with_resolver(allow, limits(), None, Arc::new(resolver)).unwrap();
    let fixture = Fixture::new();
    let job = fixture.ended(&format!("http://turncoat.test:{port}/hook")).await;
    let running = fixture.deliverer(client);
    let view = fixture
        .delivery_in_time(job, |view| view.delivery.tries >= 2)
        .await;
    running.stop().await;
    assert_eq!(view.tries[0].status, Some(500));
    let error = view.tries[1].error.as_deref().unwrap();
    assert!(
        error.contains("turncoat.test leads to 127.0.0.2, a loopback address"),
        "{error}"
    );
    assert_eq!((allowed.got().len(), forbidden.got().len()), (1, 0));
    assert_eq!(
        asked.load(Ordering::SeqCst) as u32,
        view.delivery.tries,
        "one look for each connection"
    );
}

#[tokio::test]
async fn one_private_address_spoils_a_name() {
    let resolver = Answers(|_: &str| vec![ip("93.184.216.34"), ip("10.0.0.1")]);
    let client = Client::with_resolver(Allow::default(), limits(), None, Arc::new(resolver)).unwrap();
    let refused = post(&client, "http://mixed.test/").await.unwrap_err();
    match refused {
        SendError::Connect(ConnectError::Refused { address, why, .. }) => {
            assert_eq!((address, why), (ip("10.0.0.1"), Refusal::Private));
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_listed_name_may_lead_inside() {
    let target = Target::start(|_, _| say(200)).await;
    let resolver = Answers(|_: &str| vec![ip("127.0.0.1")]);
    let allow = Allow::parse(["*.internal"]).unwrap();
    let client = Client::with_resolver(allow, limits(), None, Arc::new(resolver)).unwrap();
    let port = target.address.port();
    assert_eq!(
        post(&client, &format!("http://hooks.internal:{port}/"))
            .await
            .unwrap(),
        200
    );
    assert!(
        post(&client, &format!("http://hooks.elsewhere:{port}/"))
            .await
            .unwrap_err()
            .is_refusal()
    );
}

#[tokio::test]
async fn plain_http_is_refused_when_only_https_may_be() {
    let limits = Limits {
        https_only: true,
        ..limits()
    };
    let client = Client::new(Allow::parse(["127.0.0.1"]).unwrap(), limits, None).unwrap();
    let refused = post(&client, "http://127.0.0.1:1/").await.unwrap_err();
    assert!(
        matches!(refused, SendError::Connect(ConnectError::NotHttps)),
        "{refused}"
    );
}

#[tokio::test]
async fn what_is_no_url_of_ours_is_not_tried() {
    for url in [
        "",
        "/hook",
        "ftp://example.test/",
        "http://",
        "http:///x",
        "file:///etc/passwd",
    ] {
        let refused = post(&client(), url).await.unwrap_err();
        assert!(matches!(refused, SendError::Request { .. }), "{url}: {refused}");
    }
}
