//! The service on a real store with a real clock, unless a test holds time still.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nagaya_jobs::clock::{Clock, ManualClock, SystemClock};
use nagaya_jobs::error::LostWhy;
use nagaya_jobs::event::{EventFilter, EventKind};
use nagaya_jobs::job::Body;
use nagaya_jobs::request::{CancelRequest, ClaimRequest, Completed, Completion};
use nagaya_jobs::service::{Config, Jobs, Step, WaitFor};
use nagaya_jobs::suite::START_MS;
use nagaya_jobs::token::Lease;
use nagaya_jobs::{Error, JobId, NewJob, QueueName, State, TenantId};
use nagaya_jobs_sqlite::{Options, SqliteJobs};

struct TestService {
    jobs: Jobs,
    _folder: tempfile::TempDir,
}

async fn service_with(clock: Arc<dyn Clock>, config: Config) -> TestService {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteJobs::open(folder.path().join("jobs.db"), &Options::default(), clock).unwrap();
    TestService {
        jobs: Jobs::start(Arc::new(store), config).await.unwrap(),
        _folder: folder,
    }
}

async fn service() -> TestService {
    service_with(Arc::new(SystemClock), Config::default()).await
}

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

fn job() -> NewJob {
    NewJob::new(TenantId::default_tenant(), queue(), Body::json("1"))
}

fn wants(max: usize) -> ClaimRequest {
    ClaimRequest {
        worker: "w".into(),
        queues: vec![queue()],
        tenant: None,
        max,
        lease: None,
    }
}

async fn enqueue(jobs: &Jobs) -> JobId {
    let answers = jobs.enqueue(vec![job()]).await.unwrap();
    answers.into_iter().next().unwrap().unwrap().id
}

fn done(lease: Lease) -> Completion {
    Completion { lease, result: None }
}

const LONG: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_do_many_jobs_each_once() {
    let service = service().await;
    let ended = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let (jobs, ended) = (service.jobs.clone(), Arc::clone(&ended));
        tasks.spawn(async move {
            for _ in 0..20 {
                enqueue(&jobs).await;
                for claimed in jobs.claim(wants(1), LONG).await.unwrap() {
                    let lease = jobs.lease(&claimed.token, None).unwrap();
                    let answers = jobs.complete(vec![done(lease)]).await.unwrap();
                    assert!(matches!(answers[..], [Ok(Completed::Done)]));
                    ended.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
    }
    while let Some(finished) = tasks.join_next().await {
        finished.unwrap();
    }
    assert_eq!(ended.load(Ordering::SeqCst), 640);
    assert!(service.jobs.store().check().await.unwrap().is_empty());
    service.jobs.stop().await;
}

#[tokio::test]
async fn a_waiting_worker_gets_a_job_as_soon_as_there_is_one() {
    let config = Config {
        // Only news can be in time.
        poll: Duration::from_secs(3_600),
        ..Config::default()
    };
    let service = service_with(Arc::new(SystemClock), config).await;
    let waiting = service.jobs.claim(wants(1), LONG);
    let (claimed, id) = tokio::join!(waiting, async {
        while service.jobs.waiting_workers(&queue()) == 0 {
            tokio::task::yield_now().await;
        }
        enqueue(&service.jobs).await
    });
    assert_eq!(claimed.unwrap()[0].job.lease.id, id);
    assert_eq!(service.jobs.waiting_workers(&queue()), 0);
    service.jobs.stop().await;
}

#[tokio::test]
async fn a_worker_that_waited_for_long_enough_gets_nothing() {
    let service = service().await;
    let claimed = service
        .jobs
        .claim(wants(1), Duration::from_millis(30))
        .await
        .unwrap();
    assert!(claimed.is_empty());
    assert!(
        service
            .jobs
            .claim(wants(1), Duration::ZERO)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(service.jobs.waiting_workers(&queue()), 0);
    service.jobs.stop().await;
}

#[tokio::test]
async fn a_worker_that_went_away_gets_no_job() {
    let service = service().await;
    let gone = tokio::time::timeout(Duration::from_millis(30), service.jobs.claim(wants(1), LONG)).await;
    assert!(gone.is_err());
    let id = enqueue(&service.jobs).await;
    let claimed = service.jobs.claim(wants(1), LONG).await.unwrap();
    assert_eq!(claimed[0].job.lease.id, id);
    service.jobs.stop().await;
}

#[tokio::test]
async fn a_submitter_hears_of_the_end() {
    let service = service().await;
    let id = enqueue(&service.jobs).await;
    let early = service
        .jobs
        .wait_until_ended(&[id], WaitFor::All, Duration::from_millis(20))
        .await
        .unwrap();
    assert_eq!(early, [Some(State::Waiting)]);
    let ids = [id];
    let ended = service.jobs.wait_until_ended(&ids, WaitFor::All, LONG);
    let (state, ()) = tokio::join!(ended, async {
        let claimed = service.jobs.claim(wants(1), LONG).await.unwrap();
        service
            .jobs
            .complete(vec![done(claimed[0].job.lease)])
            .await
            .unwrap();
    });
    assert_eq!(state.unwrap(), [Some(State::Succeeded)]);
    let nobody = service
        .jobs
        .wait_until_ended(&[JobId::new(5).unwrap()], WaitFor::All, LONG)
        .await
        .unwrap();
    assert_eq!(nobody, [None]);
    service.jobs.stop().await;
}

#[tokio::test]
async fn one_or_all_of_several_jobs_are_waited_for() {
    let service = service().await;
    let jobs = &service.jobs;
    let ids = [enqueue(jobs).await, enqueue(jobs).await];
    let leases: Vec<_> = jobs.claim(wants(2), LONG).await.unwrap();
    let any = jobs.wait_until_ended(&ids, WaitFor::Any, LONG);
    let (states, _) = tokio::join!(any, jobs.complete(vec![done(leases[1].job.lease)]));
    assert_eq!(states.unwrap(), [Some(State::Running), Some(State::Succeeded)]);
    let all = jobs.wait_until_ended(&ids, WaitFor::All, LONG);
    let (states, _) = tokio::join!(all, jobs.complete(vec![done(leases[0].job.lease)]));
    assert_eq!(states.unwrap(), [Some(State::Succeeded); 2]);
    jobs.stop().await;
}

#[tokio::test]
async fn a_holder_hears_at_once_that_its_job_was_cancelled() {
    let config = Config {
        // Only news can be in time.
        poll: Duration::from_secs(3_600),
        ..Config::default()
    };
    let service = service_with(Arc::new(SystemClock), config).await;
    let jobs = &service.jobs;
    let ids = [enqueue(jobs).await, enqueue(jobs).await];
    let leases: Vec<_> = jobs.claim(wants(2), LONG).await.unwrap();
    let lease_of = |id| leases.iter().map(|one| one.job.lease).find(|one| one.id == id);
    let (kept, lost) = (lease_of(ids[0]).unwrap(), lease_of(ids[1]).unwrap());
    let mut watch = jobs.watch_leases([kept, lost]);
    assert_eq!(watch.look().await.unwrap(), []);
    let cancel = CancelRequest {
        id: lost.id,
        reason: None,
    };
    let (told, _) = tokio::join!(watch.next(), jobs.store().cancel(vec![cancel]));
    assert_eq!(told.unwrap(), [(lost, LostWhy::Cancelled)]);
    // What the holder reports on itself is no news to it.
    jobs.complete(vec![done(kept)]).await.unwrap();
    assert_eq!(watch.look().await.unwrap(), []);
    jobs.stop().await;
}

#[tokio::test]
async fn followers_see_what_concerns_them() {
    let service = service().await;
    let id = enqueue(&service.jobs).await;
    let filter = EventFilter {
        job: Some(id),
        ..EventFilter::default()
    };
    let mut follower = service.jobs.follow(0, filter);
    let kinds = |step: Step| match step {
        Step::Events(events) => events.iter().map(|event| event.kind).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        kinds(follower.next(10, LONG).await.unwrap()),
        [EventKind::Enqueued]
    );
    assert_eq!(follower.next(10, Duration::ZERO).await.unwrap(), Step::Nothing);
    enqueue(&service.jobs).await;
    let (step, _) = tokio::join!(follower.next(10, LONG), service.jobs.claim(wants(1), LONG));
    assert_eq!(kinds(step.unwrap()), [EventKind::Started]);
    let now_ms = SystemClock.unix_ms();
    service
        .jobs
        .store()
        .trim_events(now_ms + 1_000, 1_000)
        .await
        .unwrap();
    let mut late = service.jobs.follow(0, EventFilter::default());
    assert_eq!(late.next(10, LONG).await.unwrap(), Step::Gap { trimmed: 3 });
    assert_eq!(late.position(), 3);
    service.jobs.stop().await;
}

#[tokio::test]
async fn upkeep_runs_by_itself() {
    let clock = Arc::new(ManualClock::at(START_MS));
    let service = service_with(clock.clone(), Config::default()).await;
    let mut later = job();
    later.run_at_ms = Some(START_MS + 5_000);
    service.jobs.enqueue(vec![later, job()]).await.unwrap();
    let first = service.jobs.claim(wants(1), LONG).await.unwrap();
    assert_eq!(first[0].job.lease.attempt, 1);
    clock.advance(Duration::from_secs(70));
    // The lease of the one runs out, and the time of the other comes.
    let mut attempts = Vec::new();
    while attempts.len() < 2 {
        let claimed = service.jobs.claim(wants(1), LONG).await.unwrap();
        attempts.extend(claimed.iter().map(|claimed| claimed.job.lease.attempt));
    }
    attempts.sort_unstable();
    assert_eq!(attempts, [1, 2]);
    service.jobs.stop().await;
}

#[tokio::test]
async fn what_is_too_large_is_refused_alone() {
    let service = service().await;
    let mut large = job();
    large.payload = Body::json(vec![b'1'; (1 << 20) + 1]);
    let answers = service.jobs.enqueue(vec![job(), large, job()]).await.unwrap();
    assert!(matches!(answers[..], [Ok(_), Err(Error::TooLarge { .. }), Ok(_)]));
    assert_eq!(service.jobs.claim(wants(9), LONG).await.unwrap().len(), 2);
    service.jobs.stop().await;
}

#[tokio::test]
async fn tokens_are_of_one_job_and_one_store() {
    let (here, there) = (service().await, service().await);
    let id = enqueue(&here.jobs).await;
    let claimed = here.jobs.claim(wants(1), LONG).await.unwrap();
    let token = &claimed[0].token;
    assert_eq!(here.jobs.lease(token, Some(id)).unwrap(), claimed[0].job.lease);
    let other = JobId::new(id.get() + 1);
    assert!(here.jobs.lease(token, other).is_err());
    assert!(there.jobs.lease(token, Some(id)).is_err());
    here.jobs.stop().await;
    there.jobs.stop().await;
}

#[tokio::test]
async fn a_server_that_goes_down_lets_everybody_go() {
    let service = service().await;
    let id = enqueue(&service.jobs).await;
    service.jobs.claim(wants(1), LONG).await.unwrap();
    let ids = [id];
    let (claimed, state, ()) = tokio::join!(
        service.jobs.claim(wants(1), LONG * 100),
        service.jobs.wait_until_ended(&ids, WaitFor::All, LONG * 100),
        async {
            while service.jobs.waiting_workers(&queue()) == 0 {
                tokio::task::yield_now().await;
            }
            service.jobs.stop().await;
        }
    );
    assert!(claimed.unwrap().is_empty());
    assert_eq!(state.unwrap(), [Some(State::Running)]);
    assert!(matches!(
        service.jobs.enqueue(vec![job()]).await,
        Err(Error::Stopped { .. })
    ));
}
