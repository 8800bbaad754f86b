//! Administrators are notified by mail and in a chat, once, in groups.

use std::sync::Arc;
use std::time::Duration;

use nagaya_deliver::notify::{
    ChatConfig, Config, MailConfig, MailTls, Notifier, RouteConfig, RouteKind, TestError,
};
use nagaya_jobs::delivery::Webhook;
use nagaya_jobs::event::EventFilter;
use nagaya_jobs::job::Body;
use nagaya_jobs::queue::{Counted, QueueSettings};
use nagaya_jobs::request::{ClaimRequest, Failed, Failure};
use nagaya_jobs::state::{FailureTerms, Next, State};
use nagaya_jobs::view::JobFilter;
use nagaya_jobs::{JobId, NewJob, QueueName, TenantId, Visibility};
use tokio_util::sync::CancellationToken;

use crate::fixture::{Fixture, client, eventually};
use crate::sink::Sink;
use crate::target::{Target, certificate, say, tls_acceptor};

fn mail_route(name: &str, port: u16) -> RouteConfig {
    RouteConfig {
        name: name.into(),
        queues: Vec::new(),
        kind: RouteKind::Mail(MailConfig {
            host: "127.0.0.1".into(),
            port: Some(port),
            tls: MailTls::None,
            ca: None,
            user: None,
            password: None,
            from: "nagaya@jobs.test".into(),
            to: vec!["ops@jobs.test".into()],
        }),
    }
}

fn chat_route(name: &str, url: &str) -> RouteConfig {
    RouteConfig {
        name: name.into(),
        queues: Vec::new(),
        kind: RouteKind::Chat(ChatConfig {
            url: url.into(),
            ca: None,
        }),
    }
}

fn config(routes: Vec<RouteConfig>) -> Config {
    Config {
        routes,
        poll_interval: Duration::from_millis(5),
        public_url: Some("https://jobs.test".into()),
        ..Config::default()
    }
}

/// A running notifier that has opened its subscription.
struct Running {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

async fn run(fixture: &Fixture, config: Config) -> Running {
    let notifier = Notifier::new(Arc::clone(&fixture.store), config).unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(notifier.run(stop.clone()));
    let tenant = TenantId::default_tenant();
    eventually("the subscription", async || {
        let all = fixture.store.subscriptions(Some(tenant.clone())).await.unwrap();
        all.into_iter().find(|one| one.name == "_notify")
    })
    .await;
    Running { stop, task }
}

impl Running {
    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

async fn enqueue(fixture: &Fixture, queue: &str, kind: &str) -> JobId {
    let queue = QueueName::new(queue).unwrap();
    let mut job = NewJob::new(TenantId::default_tenant(), queue, Body::json("{}"));
    job.kind = Some(kind.into());
    fixture
        .store
        .enqueue(vec![job])
        .await
        .unwrap()
        .remove(0)
        .unwrap()
        .id
}

/// Fails a job's attempts until none is left. Returns how many there were.
async fn fail_to_the_end(fixture: &Fixture, queue: &str) -> u32 {
    let mut attempts = 0;
    loop {
        let request = ClaimRequest {
            worker: "w".into(),
            queues: vec![QueueName::new(queue).unwrap()],
            tenant: None,
            max: 1,
            lease: None,
        };
        let Some(job) = fixture.store.claim(vec![request]).await.unwrap().remove(0).pop() else {
            fixture.clock.advance(Duration::from_secs(60));
            fixture.store.move_due(100).await.unwrap();
            continue;
        };
        attempts += 1;
        let report = Failure {
            lease: job.lease,
            error: "no <!channel> today".into(),
            terms: FailureTerms::default(),
        };
        let failed = fixture.store.fail(vec![report]).await.unwrap().remove(0).unwrap();
        if failed == Failed::Taken(Next::Failed) {
            return attempts;
        }
    }
}

/// Advances the clock until a value is there: nothing is reported before the clock moves.
async fn in_time<T>(fixture: &Fixture, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    eventually(what, async || {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        fixture.clock.advance(Duration::from_secs(1));
        fixture.store.move_due(100).await.unwrap();
        None
    })
    .await
}

/// Waits until the notifier has read the whole log and no notification is pending.
async fn settled(fixture: &Fixture) {
    eventually("quiet", async || {
        let queue = fixture
            .store
            .queue(
                QueueName::notifications(),
                Visibility::everything(),
                Counted::Open,
            )
            .await
            .unwrap()?;
        let depth = queue.depth;
        (depth.unstarted() + depth.running == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_failed_for_good_is_told_once_by_mail_and_in_the_chat() {
    let fixture = Fixture::new();
    let sink = Sink::start(0).await;
    let chat = Target::start(|_, _| say(200)).await;
    let running = run(
        &fixture,
        config(vec![
            mail_route("ops", sink.port),
            chat_route("chat", &chat.url()),
        ]),
    )
    .await;
    let job = enqueue(&fixture, "mail", "send").await;
    assert_eq!(fail_to_the_end(&fixture, "mail").await, 1 + 5);
    assert!(
        sink.mails().is_empty() && chat.got().is_empty(),
        "nothing is told at once"
    );
    let mail = in_time(&fixture, "a mail", || sink.mails().pop()).await;
    let got = in_time(&fixture, "a message", || chat.got().pop()).await;
    assert!(
        mail.contains("Subject: [nagaya] 1 job of kind send in queue mail failed for good"),
        "{mail}"
    );
    assert!(mail.contains("no <!channel> today"), "{mail}");
    assert!(
        mail.contains(&format!("https://jobs.test/v1/jobs/{job}")),
        "{mail}"
    );
    let text = got.json()["text"].as_str().unwrap().to_owned();
    assert!(text.contains("First error: no &lt;!channel&gt; today"), "{text}");
    settled(&fixture).await;
    // A restarted notifier reports nothing twice.
    running.stop().await;
    let running = run(
        &fixture,
        config(vec![
            mail_route("ops", sink.port),
            chat_route("chat", &chat.url()),
        ]),
    )
    .await;
    let other = enqueue(&fixture, "other", "k").await;
    fail_to_the_end(&fixture, "other").await;
    let second = in_time(&fixture, "another mail", || sink.mails().get(1).cloned()).await;
    assert!(second.contains(&other.to_string()), "{second}");
    settled(&fixture).await;
    running.stop().await;
    assert_eq!((sink.mails().len(), chat.got().len()), (2, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_are_told_in_groups_and_seldom() {
    let fixture = Fixture::new();
    let chat = Target::start(|_, _| say(200)).await;
    let running = run(&fixture, config(vec![chat_route("chat", &chat.url())])).await;
    let said = |at: usize| {
        chat.got()
            .get(at)
            .map(|got| got.json()["text"].as_str().unwrap().to_owned())
    };
    for _ in 0..7 {
        enqueue(&fixture, "mail", "send").await;
    }
    fail_many(&fixture, "mail").await;
    let first = in_time(&fixture, "a message", || said(0)).await;
    assert!(
        first.starts_with("7 jobs of kind send in queue mail failed for good"),
        "{first}"
    );
    let first_ms = fixture.now_ms();
    for _ in 0..3 {
        enqueue(&fixture, "mail", "send").await;
        fail_many(&fixture, "mail").await;
    }
    let second = in_time(&fixture, "another message", || said(1)).await;
    assert!(second.starts_with("3 jobs of kind send"), "{second}");
    assert!(
        fixture.now_ms() >= first_ms + 280_000,
        "{}",
        fixture.now_ms() - first_ms
    );
    settled(&fixture).await;
    running.stop().await;
    assert_eq!(chat.got().len(), 2);
}

/// Fails all jobs of a queue permanently, at once.
async fn fail_many(fixture: &Fixture, queue: &str) {
    let request = ClaimRequest {
        worker: "w".into(),
        queues: vec![QueueName::new(queue).unwrap()],
        tenant: None,
        max: 100,
        lease: None,
    };
    let claimed = fixture.store.claim(vec![request]).await.unwrap().remove(0);
    let report = |job: nagaya_jobs::request::ClaimedJob| Failure {
        lease: job.lease,
        error: "broken".into(),
        terms: FailureTerms {
            permanent: true,
            retry_after: None,
        },
    };
    fixture
        .store
        .fail(claimed.into_iter().map(report).collect())
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_server_that_is_busy_is_tried_again() {
    let fixture = Fixture::new();
    let sink = Sink::start(3).await;
    let running = run(&fixture, config(vec![mail_route("ops", sink.port)])).await;
    enqueue(&fixture, "mail", "send").await;
    fail_many(&fixture, "mail").await;
    in_time(&fixture, "a mail", || sink.mails().pop()).await;
    settled(&fixture).await;
    running.stop().await;
    assert_eq!(sink.mails().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_choose_routes_and_routes_choose_queues() {
    let fixture = Fixture::new();
    let (all, some, named) = (
        Target::start(|_, _| say(200)).await,
        Target::start(|_, _| say(200)).await,
        Target::start(|_, _| say(200)).await,
    );
    let mut routes = vec![
        chat_route("all", &all.url()),
        chat_route("some", &some.url()),
        chat_route("named", &named.url()),
    ];
    routes[1].queues = vec!["b".into()];
    let settings = QueueSettings {
        notify: vec!["named".into()],
        ..QueueSettings::default()
    };
    fixture
        .store
        .put_queue(QueueName::new("a").unwrap(), settings)
        .await
        .unwrap();
    let running = run(&fixture, config(routes)).await;
    for queue in ["a", "b", "c"] {
        enqueue(&fixture, queue, "k").await;
        fail_many(&fixture, queue).await;
    }
    in_time(&fixture, "all messages", || {
        (named.got().len() == 3).then_some(())
    })
    .await;
    settled(&fixture).await;
    running.stop().await;
    assert_eq!((all.got().len(), some.got().len(), named.got().len()), (2, 1, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_that_cannot_be_sent_is_told_to_nobody() {
    let fixture = Fixture::new();
    let chat = Target::start(|_, _| say(500)).await;
    let running = run(&fixture, config(vec![chat_route("chat", &chat.url())])).await;
    enqueue(&fixture, "mail", "send").await;
    fail_many(&fixture, "mail").await;
    in_time(&fixture, "tries", || (chat.got().len() >= 2).then_some(())).await;
    running.stop().await;
    // The route is removed, so the notification fails permanently.
    let running = run(&fixture, config(vec![chat_route("other", &chat.url())])).await;
    let filter = JobFilter {
        queue: Some(QueueName::notifications()),
        ..JobFilter::default()
    };
    eventually("the end", async || {
        fixture.clock.advance(Duration::from_secs(60));
        fixture.store.move_due(100).await.unwrap();
        fixture.store.sweep_expired(100).await.unwrap();
        let jobs = fixture.store.list(filter.clone(), None, 10).await.unwrap().items;
        jobs.iter().all(|job| job.state == State::Failed).then_some(())
    })
    .await;
    let tried = chat.got().len();
    fixture.clock.advance(Duration::from_secs(3600));
    // It has read to the end of the log without creating a notification.
    let head = fixture.store.log_bounds().await.unwrap().head;
    eventually("the cursor", async || {
        let all = fixture.store.subscriptions(None).await.unwrap();
        (all[0].cursor >= head).then_some(())
    })
    .await;
    running.stop().await;
    assert_eq!(chat.got().len(), tried);
    let jobs = fixture.store.list(filter, None, 10).await.unwrap().items;
    assert_eq!(jobs.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_did_not_arrive_is_told_like_a_failure() {
    let fixture = Fixture::new();
    let chat = Target::start(|_, _| say(200)).await;
    let gone = Target::start(|_, _| say(410)).await;
    let running = run(&fixture, config(vec![chat_route("chat", &chat.url())])).await;
    let webhook = Webhook::to(gone.url());
    fixture.ended_with(webhook.clone(), "1").await;
    fixture.ended_with(webhook, "2").await;
    let deliverer = fixture.deliverer(client());
    let got = in_time(&fixture, "a message", || chat.got().pop()).await;
    deliverer.stop().await;
    settled(&fixture).await;
    running.stop().await;
    let text = got.json()["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("2 results of queue q did not arrive"), "{text}");
    assert!(text.contains("it answered 410"), "{text}");
    assert_eq!(chat.got().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_notifiers_of_one_store_tell_once() {
    let fixture = Fixture::new();
    let chat = Target::start(|_, _| say(200)).await;
    let routes = || config(vec![chat_route("chat", &chat.url())]);
    let (one, two) = (run(&fixture, routes()).await, run(&fixture, routes()).await);
    for _ in 0..20 {
        enqueue(&fixture, "mail", "send").await;
    }
    fail_many(&fixture, "mail").await;
    in_time(&fixture, "a message", || chat.got().pop()).await;
    settled(&fixture).await;
    let head = fixture
        .store
        .events_after(0, EventFilter::default(), 1)
        .await
        .unwrap()
        .bounds
        .head;
    let tenant = TenantId::default_tenant();
    eventually("the cursor", async || {
        let all = fixture.store.subscriptions(Some(tenant.clone())).await.unwrap();
        (all[0].cursor >= head).then_some(())
    })
    .await;
    one.stop().await;
    two.stop().await;
    assert_eq!(chat.got().len(), 1);
}

#[tokio::test]
async fn mail_goes_over_tls_to_a_server_that_is_vouched_for() {
    let fixture = Fixture::new();
    let folder = tempfile::tempdir().unwrap();
    let made = certificate();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, made.cert.pem()).unwrap();
    let sink = Sink::start_with_tls(tls_acceptor(&made)).await;
    let route = |name: &str, ca: Option<std::path::PathBuf>| {
        let mut route = mail_route(name, sink.port);
        if let RouteKind::Mail(mail) = &mut route.kind {
            mail.tls = MailTls::Implicit;
            mail.ca = ca;
            mail.user = Some("me".into());
            mail.password = Some("secret".into());
        }
        route
    };
    let routes = vec![route("trusting", Some(ca)), route("careful", None)];
    let notifier = Notifier::new(Arc::clone(&fixture.store), config(routes)).unwrap();
    notifier.test_route("trusting").await.unwrap();
    assert!(sink.mails()[0].contains("Test of the route trusting"));
    let error = notifier.test_route("careful").await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
}

#[tokio::test]
async fn a_route_can_be_tried() {
    let fixture = Fixture::new();
    let sink = Sink::start(0).await;
    let broken = Target::start(|_, _| say(403)).await;
    let routes = vec![mail_route("ops", sink.port), chat_route("chat", &broken.url())];
    let notifier = Notifier::new(Arc::clone(&fixture.store), config(routes)).unwrap();
    notifier.test_route("ops").await.unwrap();
    assert!(sink.mails()[0].contains("Test of the route ops"));
    let error = notifier.test_route("chat").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the route chat does not work: it answered 403: noted"
    );
    assert!(matches!(
        notifier.test_route("x").await,
        Err(TestError::NoRoute { .. })
    ));
}

#[test]
fn routes_that_cannot_work_are_refused_at_the_start() {
    let refused = |routes| {
        let fixture = Fixture::new();
        Notifier::new(Arc::clone(&fixture.store), config(routes))
            .err()
            .expect("a refusal")
            .to_string()
    };
    assert!(refused(vec![chat_route("a", "not a url")]).contains("route a: needs a URL"));
    assert!(refused(vec![chat_route("a", "http://x/"), mail_route("a", 1)]).contains("two of that name"));
    let mut nobody = mail_route("m", 1);
    if let RouteKind::Mail(mail) = &mut nobody.kind {
        mail.to.clear();
    }
    assert!(refused(vec![nobody]).contains("somebody to write to"));
}
