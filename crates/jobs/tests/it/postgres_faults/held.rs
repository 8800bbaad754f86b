//! A snapshot that somebody holds while jobs come and go: dead rows cannot be cleaned away.

use std::time::Duration;

use nagaya_postgres_kit::{Connection, Options, Pool};
use nagaya_testkit::shared;
use tokio::time::Instant;

use super::{assert_sound, claim, complete, enqueue, open_timed, run};
use crate::support::job;

/// Opens a connection of the test's own.
pub(super) async fn session(url: &str) -> Connection {
    let pool = Pool::new(&url.parse().unwrap(), Options::default()).unwrap();
    pool.get().await.unwrap()
}

#[test]
fn claims_cost_about_the_same_while_a_snapshot_is_held() {
    const BATCH: usize = 250;
    const BATCHES: usize = 80;
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
