//! An old snapshot that is held while jobs come and go: dead rows cannot be vacuumed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nagaya_jobs::clock::ManualClock;
use nagaya_jobs_postgres::PgStore;
use nagaya_postgres_client::{Connection, Options, Pool};
use nagaya_testkit::shared;
use tokio::time::Instant;

use super::{assert_sound, claim, complete, enqueue, open_timed, run};
use crate::support::job;

/// These tests measure times on one server, so they run one after the other.
static TURN: Mutex<()> = Mutex::new(());

/// Opens a connection of the test's own.
pub(super) async fn session(url: &str) -> Connection {
    let pool = Pool::new(&url.parse().unwrap(), Options::default()).unwrap();
    pool.get().await.unwrap()
}

#[test]
fn claims_cost_about_the_same_while_a_snapshot_is_held() {
    const BATCH: usize = 250;
    const BATCHES: usize = 80;
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    run(async {
        let url = shared::postgres().create_database();
        let (store, clock) = open_timed(&url).await;
        // Some always wait, so that claims are full.
        enqueue(&store, vec![job(100); BATCH]).await;
        let mut holder = session(&url).await;
        let held = holder.transaction().await.unwrap();
        held.batch("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            .await
            .unwrap();
        held.query("SELECT count(*) FROM jobs_ready", &[]).await.unwrap();
        let mut times = Vec::with_capacity(BATCHES);
        for _ in 0..BATCHES {
            clock.advance(Duration::from_millis(200));
            enqueue(&store, vec![job(100); BATCH]).await;
            let start = Instant::now();
            let jobs = claim(&store, BATCH).await;
            times.push(start.elapsed());
            assert_eq!(jobs.len(), BATCH);
            complete(&store, &jobs).await;
        }
        let dead = "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'jobs_ready'";
        eprintln!("dead rows: {}", shared::postgres().psql(&url, dead));
        held.rollback().await.unwrap();
        let median = |times: &[Duration]| {
            let mut times = times.to_vec();
            times.sort();
            times[times.len() / 2]
        };
        // The first ones fill the stretch that each claim looks back over.
        let (early, late) = (median(&times[10..25]), median(&times[BATCHES - 15..]));
        eprintln!("a claim of {BATCH} took {early:?} after 10 batches, {late:?} after {BATCHES}");
        assert!(
            late < early * 4 + Duration::from_millis(20),
            "{early:?}, later {late:?}"
        );
        assert_sound(&store).await;
    });
}

/// Jobs that come, are claimed and end, again and again, with an empty claim each time. Returns the median time.
async fn rounds_that_run_dry(store: &PgStore, clock: &ManualClock) -> Duration {
    let mut times = Vec::new();
    for _ in 0..25 {
        clock.advance(Duration::from_millis(100));
        let start = Instant::now();
        enqueue(store, vec![job(100); 10]).await;
        let jobs = claim(store, 10).await;
        assert_eq!(jobs.len(), 10);
        complete(store, &jobs).await;
        assert!(claim(store, 10).await.is_empty());
        times.push(start.elapsed());
    }
    times.sort();
    times[times.len() / 2]
}

#[test]
fn a_queue_that_runs_dry_is_not_walked_through_each_time_while_a_snapshot_is_held() {
    const DEAD: usize = 200_000;
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    run(async {
        let url = shared::postgres().create_database();
        let (store, clock) = open_timed(&url).await;
        let before = rounds_that_run_dry(&store, &clock).await;
        let mut holder = session(&url).await;
        let held = holder.transaction().await.unwrap();
        held.batch("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            .await
            .unwrap();
        held.query("SELECT count(*) FROM jobs_ready", &[]).await.unwrap();
        // As many jobs as come and go in a minute, in front of those to come.
        let dead = format!(
            "INSERT INTO jobs_ready SELECT q.id, t.id, 0, n, n, 0, 6, 0 \
             FROM generate_series(1, {DEAD}) n, (SELECT id FROM jobs_queue LIMIT 1) q, \
             (SELECT id FROM jobs_tenant LIMIT 1) t; DELETE FROM jobs_ready"
        );
        shared::postgres().psql(&url, &dead);
        let mut other = session(&url).await;
        let look = "SELECT FROM jobs_ready WHERE queue > 0 ORDER BY queue, tenant, rank, pos LIMIT 1";
        let mut walks = Vec::new();
        for _ in 0..5 {
            let transaction = other.transaction().await.unwrap();
            let start = Instant::now();
            transaction.query(look, &[]).await.unwrap();
            walks.push(start.elapsed());
        }
        walks.sort();
        let walk = walks[walks.len() / 2];
        let after = rounds_that_run_dry(&store, &clock).await;
        held.rollback().await.unwrap();
        eprintln!("a round took {before:?}, then {after:?}; a walk over the dead rows {walk:?}");
        assert!(
            after < before * 2 + walk,
            "{before:?}, then {after:?}, walk {walk:?}"
        );
        assert_sound(&store).await;
    });
}
