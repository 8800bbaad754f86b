//! Many deliveries, many targets, many servers.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nagaya_deliver::guard::{Allow, Client};
use nagaya_deliver::webhook::Config;
use nagaya_jobs::TenantId;
use nagaya_jobs::delivery::{DeliveryFilter, DeliveryState, Webhook};
use nagaya_jobs::job::Body;
use nagaya_jobs::service::Jobs;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::fixture::{Answers, Fixture, client, config, eventually, limits};
use crate::target::{Act, Target, say};

async fn count(fixture: &Fixture, state: DeliveryState) -> usize {
    let filter = DeliveryFilter {
        state: Some(state),
        ..DeliveryFilter::default()
    };
    let mut count = 0;
    let mut before = None;
    loop {
        let page = fixture
            .store
            .deliveries(filter.clone(), before, 1000)
            .await
            .unwrap();
        count += page.items.len();
        before = match page.next {
            Some(next) => Some(next),
            None => return count,
        };
    }
}

/// A client that resolves every name to this machine.
fn any_name() -> Client {
    let home: IpAddr = "127.0.0.1".parse().unwrap();
    let allow = Allow::parse(["127.0.0.1"]).unwrap();
    Client::with_resolver(
        allow,
        limits(),
        None,
        Arc::new(Answers(move |_: &str| vec![home])),
    )
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_target_among_a_hundred_delays_no_other() {
    const DEAD: usize = 500;
    const OTHERS: usize = 99;
    const EACH: usize = 5;
    let fixture = Fixture::new();
    let target = Target::start(|_, got| {
        if got.header("host").unwrap().starts_with("t0.test") {
            Act::Stall
        } else {
            say(200)
        }
    })
    .await;
    let port = target.address.port();
    let url = |number: usize| format!("http://t{number}.test:{port}/");
    // Deliveries for the dead target are older, so they always come first.
    for _ in 0..DEAD {
        fixture.register(Webhook::to(url(0))).await;
    }
    for number in 0..OTHERS * EACH {
        fixture.register(Webhook::to(url(1 + number % OTHERS))).await;
    }
    fixture.finish_all(Body::json("1")).await;
    let began = Instant::now();
    let running = fixture.deliverer(any_name());
    eventually("delivery to all others", async || {
        (running.deliverer.stats().delivered == (OTHERS * EACH) as u64).then_some(())
    })
    .await;
    // Each attempt at the dead target takes five seconds.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(count(&fixture, DeliveryState::Pending).await, DEAD);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_comes_back_is_not_flooded() {
    const JOBS: usize = 100;
    let fixture = Fixture::new();
    let is_up = Arc::new(AtomicBool::new(false));
    let up = Arc::clone(&is_up);
    let target = Target::start(move |_, _| {
        if up.load(Ordering::SeqCst) {
            Act::After(Duration::from_millis(10), 200)
        } else {
            Act::SayAndReset("")
        }
    })
    .await;
    for _ in 0..JOBS {
        fixture.register(Webhook::to(target.url())).await;
    }
    fixture.finish_all(Body::json("1")).await;
    let running = fixture.deliverer(client());
    eventually("rest", async || {
        (running.deliverer.stats().put_off as usize >= JOBS / 2).then_some(())
    })
    .await;
    let failed = running.deliverer.stats().failed;
    assert!(
        failed <= 16,
        "{failed} of {JOBS} were tried before the target was left alone"
    );
    is_up.store(true, Ordering::SeqCst);
    eventually("delivery of all", async || {
        let stats = running.deliverer.stats();
        if stats.delivered == JOBS as u64 {
            return Some(());
        }
        fixture.clock.advance(Duration::from_millis(500));
        None
    })
    .await;
    assert!(
        target.under_way_max() <= config().per_target,
        "{}",
        target.under_way_max()
    );
    running.stop().await;
    assert_eq!(count(&fixture, DeliveryState::Delivered).await, JOBS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_deliverers_of_one_store_send_nothing_twice() {
    const JOBS: usize = 300;
    let fixture = Fixture::new();
    let target = Target::start(|_, _| Act::After(Duration::from_millis(3), 200)).await;
    for _ in 0..JOBS {
        fixture.register(Webhook::to(target.url())).await;
    }
    fixture.finish_all(Body::json("1")).await;
    let (one, two) = (fixture.deliverer(client()), fixture.deliverer(client()));
    eventually("delivery of all", async || {
        let (one, two) = (one.deliverer.stats(), two.deliverer.stats());
        // What one deliverer put off is due a second later.
        fixture.clock.advance(Duration::from_millis(2));
        (one.delivered + two.delivered == JOBS as u64).then_some((one, two))
    })
    .await;
    one.stop().await;
    two.stop().await;
    let ids: HashSet<String> = target.got().iter().map(|got| got.id()).collect();
    assert_eq!((ids.len(), target.got().len()), (JOBS, JOBS));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deliverer_that_stops_gives_back_what_it_had_not_begun() {
    let fixture = Fixture::new();
    let target = Target::start(|_, _| Act::After(Duration::from_millis(200), 200)).await;
    for _ in 0..40 {
        fixture.register(Webhook::to(target.url())).await;
    }
    fixture.finish_all(Body::json("1")).await;
    let first = fixture.deliverer(client());
    eventually("a request", async || target.got().pop()).await;
    first.stop().await;
    let done = count(&fixture, DeliveryState::Delivered).await;
    assert!((1..40).contains(&done), "{done}");
    // No lease is waited for: everything is delivered although the clock stands still.
    let second = fixture.deliverer(client());
    eventually("delivery of all", async || {
        (count(&fixture, DeliveryState::Delivered).await == 40).then_some(())
    })
    .await;
    second.stop().await;
    let mut times: HashMap<String, usize> = HashMap::new();
    target
        .got()
        .iter()
        .for_each(|got| *times.entry(got.id()).or_default() += 1);
    assert!(times.len() == 40 && times.values().all(|times| *times == 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deliverer_that_is_woken_does_not_wait_for_its_next_look() {
    let fixture = Fixture::new();
    let target = Target::start(|_, _| say(200)).await;
    let jobs = Jobs::start(
        Arc::clone(&fixture.store),
        nagaya_jobs::service::Config::default(),
    )
    .await
    .unwrap();
    let asleep = Config {
        idle_poll: Duration::from_secs(3600),
        ..config()
    };
    let running = fixture.deliverer_with(client(), asleep);
    let stop = CancellationToken::new();
    let (deliverer, follows, stopped) = (Arc::clone(&running.deliverer), jobs.clone(), stop.clone());
    let waker = tokio::spawn(async move { deliverer.wake_with(&follows, stopped).await });
    // Each ends after the deliverer has polled and found nothing more.
    for number in 1..=3 {
        fixture.ended(&target.url()).await;
        eventually("a request", async || (target.got().len() == number).then_some(())).await;
    }
    stop.cancel();
    waker.await.unwrap();
    running.stop().await;
    jobs.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_webhooks_of_one_tenant_do_not_delay_anothers() {
    const HANGING_TARGETS: usize = 40;
    const EACH: usize = 10;
    let fixture = Fixture::new();
    let target = Target::start(|_, got| {
        if got.header("host").unwrap().starts_with("well") {
            say(200)
        } else {
            Act::Stall
        }
    })
    .await;
    let port = target.address.port();
    // More targets than there are places, and far more deliveries, all older than the other's.
    for number in 0..HANGING_TARGETS * EACH {
        let url = format!("http://t{}.test:{port}/", number % HANGING_TARGETS);
        let hostile = TenantId::new("hostile").unwrap();
        fixture.register_for(hostile, Webhook::to(url)).await;
    }
    fixture.finish_all(Body::json("1")).await;
    let running = fixture.deliverer(any_name());
    eventually("the hostile tenant has all that it gets", async || {
        (target.got().len() >= 64).then_some(())
    })
    .await;
    for round in 0..5 {
        let url = format!("http://well.test:{port}/{round}");
        let shop = TenantId::new("shop").unwrap();
        let job = fixture.register_for(shop, Webhook::to(url)).await;
        fixture.finish_all(Body::json("1")).await;
        let began = Instant::now();
        running.deliverer.wake();
        fixture
            .delivery_that(job, |view| view.delivery.state == DeliveryState::Delivered)
            .await;
        let took = began.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
    running.stop().await;
}
