//! Many jobs that cannot run, and many that can all at once.

use std::time::Duration;

use nagaya_jobs::Visibility;
use nagaya_jobs::job::Concurrency;
use nagaya_jobs::queue::Counted;
use nagaya_jobs::store::{Maintenance, QueueAdmin};
use nagaya_jobs::suite::START_MS;
use nagaya_testkit::shared;
use tokio::time::Instant;

use super::{assert_sound, claim, complete, enqueue, open_timed, run};
use crate::support::job;

const MANY: usize = 20_000;
const BATCH: usize = 1_000;

#[test]
fn jobs_of_one_key_flow_while_many_wait_behind_another() {
    run(async {
        let url = shared::postgres().create_database();
        let (store, _clock) = open_timed(&url).await;
        let under = |key: &str, limit| {
            let mut job = job(10);
            job.concurrency = Some(Concurrency {
                key: key.into(),
                limit,
            });
            job
        };
        let start = Instant::now();
        let mut slow = Vec::with_capacity(MANY);
        for _ in 0..MANY / BATCH {
            slow.extend(enqueue(&store, vec![under("slow", 1); BATCH]).await);
        }
        eprintln!("{MANY} jobs of one key were registered in {:?}", start.elapsed());
        let holder = claim(&store, 10).await;
        assert_eq!(holder.len(), 1, "one place, one job");
        let start = Instant::now();
        let mut flowed = 0;
        for _ in 0..10 {
            enqueue(&store, vec![under("fast", 20); 50]).await;
        }
        loop {
            let jobs = claim(&store, 50).await;
            assert!(jobs.len() <= 20);
            if jobs.is_empty() {
                break;
            }
            flowed += jobs.len();
            complete(&store, &jobs).await;
        }
        eprintln!("500 jobs of another key ran in {:?}", start.elapsed());
        assert_eq!(flowed, 500);
        // The next one has its turn, in order, when the place falls free.
        complete(&store, &holder).await;
        for next in &slow[1..4] {
            let jobs = claim(&store, 10).await;
            assert_eq!(jobs.len(), 1);
            assert_eq!(jobs[0].lease.id, *next);
            complete(&store, &jobs).await;
        }
        let depth = store
            .queues(Visibility::everything(), Counted::All)
            .await
            .unwrap()
            .remove(0)
            .depth;
        assert_eq!((depth.ready, depth.blocked), (1, MANY as u64 - 5));
    });
}

#[test]
fn many_jobs_due_in_one_second_are_moved_in_rounds_while_claims_go_on() {
    run(async {
        let url = shared::postgres().create_database();
        let (store, clock) = open_timed(&url).await;
        for at in 0..MANY / BATCH {
            let mut later = job(10);
            later.run_at_ms = Some(START_MS + 60_000 + (at as i64 * 37) % 1_000);
            enqueue(&store, vec![later; BATCH]).await;
        }
        enqueue(&store, vec![job(10); 400]).await;
        clock.advance(Duration::from_secs(62));
        let upkeep = async {
            let (mut rounds, mut rows) = (0, 0);
            loop {
                let round = store.move_due(BATCH).await.unwrap();
                rounds += 1;
                rows += round.rows;
                if !round.more {
                    return (rounds, rows);
                }
            }
        };
        let work = async {
            let mut slowest = Duration::ZERO;
            for _ in 0..20 {
                let start = Instant::now();
                let jobs = claim(&store, 20).await;
                slowest = slowest.max(start.elapsed());
                assert_eq!(jobs.len(), 20, "there is always something to claim");
                complete(&store, &jobs).await;
            }
            slowest
        };
        let start = Instant::now();
        let ((rounds, rows), slowest) = tokio::join!(upkeep, work);
        eprintln!(
            "{rows} jobs in {rounds} rounds, {:?}; slowest claim {slowest:?}",
            start.elapsed()
        );
        assert_eq!(rows, MANY);
        assert!(rounds >= MANY / BATCH);
        assert_eq!(
            store
                .queues(Visibility::everything(), Counted::All)
                .await
                .unwrap()[0]
                .depth
                .ready,
            MANY as u64
        );
        assert_sound(&store).await;
    });
}
