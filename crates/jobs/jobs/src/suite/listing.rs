//! Listings and counts.

use super::{Harness, job, job_with, queue, seconds, tenant};
use crate::id::JobId;
use crate::job::Concurrency;
use crate::queue::{Counted, Depth, Throughput};
use crate::state::State;
use crate::view::JobFilter;
use crate::visibility::Visibility;

async fn ids(h: &Harness, filter: JobFilter, limit: usize) -> Vec<JobId> {
    let (mut before, mut ids) = (None, Vec::new());
    loop {
        let page = h.store.list(filter.clone(), before, limit).await.unwrap();
        assert!(page.items.len() <= limit);
        ids.extend(page.items.iter().map(|job| job.id));
        match page.next {
            Some(next) => before = Some(next),
            None => return ids,
        }
    }
}

pub async fn jobs_are_listed_newest_first_on_any_page_size(h: &Harness) {
    let mut made = h.enqueue_many(vec![job(); 23]).await;
    let claimed = h.claim("q", 9).await;
    h.finish(claimed[3].lease).await;
    made.reverse();
    for limit in [1, 2, 22, 23, 100] {
        assert_eq!(
            ids(h, JobFilter::default(), limit).await,
            made,
            "pages of {limit}"
        );
    }
}

pub async fn filters_choose(h: &Harness) {
    let later = h.now_ms() + 9_000;
    let scheduled = h.enqueue(job_with(|job| job.run_at_ms = Some(later))).await;
    let others = job_with(|job| {
        job.tenant = tenant("us");
        job.queue = queue("other");
        job.kind = Some("mail".into());
        job.tags = vec!["red".into()];
    });
    let other = h.enqueue(others).await;
    h.enqueue_many(vec![job(); 5]).await;
    h.finish(h.take().await).await;
    h.fail_for_good(h.take().await).await;
    let running = h.take().await.id;
    h.clock.advance(seconds(5));
    let newest = h.enqueue(job()).await;
    let with = |change: &dyn Fn(&mut JobFilter)| {
        let mut filter = JobFilter::default();
        change(&mut filter);
        filter
    };
    let state = |states: &'static [State]| with(&move |filter| filter.states = states.to_vec());
    assert_eq!(ids(h, state(&[State::Scheduled]), 2).await, [scheduled]);
    assert_eq!(ids(h, state(&[State::Running]), 2).await, [running]);
    assert_eq!(ids(h, state(&[State::Failed]), 2).await.len(), 1);
    assert_eq!(ids(h, state(&[State::Cancelled]), 2).await.len(), 0);
    assert_eq!(
        ids(h, state(&[State::Succeeded, State::Failed]), 2).await.len(),
        2
    );
    assert_eq!(ids(h, state(&[State::Waiting]), 2).await.len(), 4);
    assert_eq!(
        ids(h, with(&|filter| filter.tenant = Some(tenant("us"))), 2).await,
        [other]
    );
    assert_eq!(
        ids(h, with(&|filter| filter.queue = Some(queue("other"))), 2).await,
        [other]
    );
    assert_eq!(
        ids(h, with(&|filter| filter.kind = Some("mail".into())), 2).await,
        [other]
    );
    assert_eq!(
        ids(h, with(&|filter| filter.tag = Some("red".into())), 2).await,
        [other]
    );
    let now_ms = h.now_ms();
    assert_eq!(
        ids(h, with(&|filter| filter.since_ms = Some(now_ms)), 2).await,
        [newest]
    );
    assert_eq!(
        ids(h, with(&|filter| filter.before_ms = Some(now_ms)), 2)
            .await
            .len(),
        7
    );
}

pub async fn a_queue_tells_its_depth_and_what_passed(h: &Harness) {
    assert_eq!(h.queue("q").await, None);
    let later = h.now_ms() + 9_000;
    h.enqueue_many(vec![job(); 6]).await;
    h.enqueue(job_with(|job| job.run_at_ms = Some(later))).await;
    let limited = job_with(|job| {
        job.queue = queue("b");
        job.concurrency = Some(Concurrency {
            key: "k".into(),
            limit: 1,
        });
    });
    h.enqueue_many(vec![limited; 3]).await;
    let leases = h.claim("q", 4).await;
    h.finish(leases[0].lease).await;
    h.fail_for_good(leases[1].lease).await;
    h.cancel(leases[2].lease.id).await.unwrap();
    let view = h.queue("q").await.unwrap();
    let depth = Depth {
        scheduled: 1,
        ready: 2,
        blocked: 0,
        running: 1,
        succeeded: 1,
        failed: 1,
        cancelled: 1,
    };
    assert_eq!(view.depth, depth);
    let throughput = Throughput {
        enqueued: 7,
        started: 4,
        succeeded: 1,
        failed: 1,
        cancelled: 1,
        attempts_failed: 1,
        leases_lost: 0,
        late_reports: 0,
    };
    assert_eq!(view.throughput, throughput);
    assert_eq!(view.last_claim_at_ms, Some(h.now_ms()));
    let queues = h
        .store
        .queues(Visibility::everything(), Counted::All)
        .await
        .unwrap();
    let names: Vec<_> = queues.iter().map(|view| view.name.as_str()).collect();
    assert_eq!(names, ["b", "q"]);
    assert_eq!((queues[0].depth.ready, queues[0].depth.blocked), (1, 2));
}

pub async fn the_oldest_waiting_job_is_known(h: &Harness) {
    let start_ms = h.now_ms();
    h.enqueue(job_with(|job| job.priority = 3)).await;
    h.clock.advance(seconds(5));
    h.enqueue(job_with(|job| job.tenant = tenant("other"))).await;
    h.clock.advance(seconds(5));
    h.enqueue(job_with(|job| job.priority = 9)).await;
    let oldest = async || h.queue("q").await.unwrap().oldest_ready_at_ms;
    let near = |oldest: Option<i64>, at_ms: i64| oldest.is_some_and(|oldest| (oldest - at_ms).abs() < 1_000);
    assert!(near(oldest().await, start_ms));
    assert_eq!(h.claim("q", 9).await.len(), 3);
    assert_eq!(oldest().await, None);
}

pub async fn next_times_are_known(h: &Harness) {
    assert_eq!(h.store.next_times().await.unwrap(), Default::default());
    let at_ms = h.now_ms() + 7_000;
    h.enqueue(job_with(|job| job.run_at_ms = Some(at_ms))).await;
    h.enqueue(job_with(|job| job.timeout = Some(seconds(3)))).await;
    h.enqueue(job_with(|job| job.retention = Some(seconds(2)))).await;
    h.take().await;
    h.finish(h.take().await).await;
    let times = h.store.next_times().await.unwrap();
    assert_eq!(times.due_ms, Some(at_ms));
    assert_eq!(times.lease_ms, Some(h.now_ms() + 3_000));
    assert_eq!(times.purge_ms, Some(h.now_ms() + 2_000));
    assert_eq!((times.schedule_ms, times.delivery_ms), (None, None));
}
