//! A clock that is set while leases run.

use std::time::Duration;

use nagaya_jobs::request::{Completed, Extension};
use nagaya_jobs::store::{JobQueue, Maintenance};
use nagaya_jobs::suite::START_MS;
use nagaya_testkit::shared;

use super::{assert_sound, claim, done, enqueue, open, open_timed, run};
use crate::support::job;

const HOUR_MS: i64 = 3_600_000;

#[test]
fn a_clock_that_is_set_back_keeps_leases_and_the_order_of_ids() {
    run(async {
        let url = shared::postgres().create_database();
        let (store, clock) = open_timed(&url).await;
        let before = enqueue(&store, vec![job(10); 3]).await;
        let jobs = claim(&store, 2).await;
        clock.set(START_MS - HOUR_MS);
        assert_eq!(store.sweep_expired(10).await.unwrap().rows, 0);
        let extension = Extension {
            lease: jobs[0].lease,
            length: None,
        };
        let until_ms = store.extend(vec![extension]).await.unwrap().remove(0).unwrap();
        assert_eq!(
            until_ms,
            START_MS - HOUR_MS + 1_000,
            "as long as ever on the new clock"
        );
        let after = enqueue(&store, vec![job(10); 3]).await;
        assert!(after.iter().all(|id| *id > before[2]), "ids go on growing");
        let rest: Vec<_> = claim(&store, 10).await.iter().map(|job| job.lease.id).collect();
        assert_eq!(
            rest,
            [&before[2..], &after[..]].concat(),
            "jobs go in the order of registration"
        );
        for job in &jobs {
            let answer = store.complete(vec![done(job.lease)]).await.unwrap().remove(0);
            assert_eq!(answer.unwrap(), Completed::Done);
        }
        assert_sound(&store).await;
    });
}

#[test]
fn leases_end_by_the_clock_of_the_database() {
    run(async {
        let postgres = shared::postgres();
        let url = postgres.create_database();
        let store = open(&url).await;
        enqueue(&store, vec![job(10)]).await;
        let job = claim(&store, 1).await.remove(0);
        let now: i64 = postgres
            .psql(
                &url,
                "select (extract(epoch from clock_timestamp()) * 1000)::int8",
            )
            .parse()
            .unwrap();
        let left_ms = job.lease_until_ms - now;
        let length_ms = i64::try_from(Duration::from_secs(1).as_millis()).unwrap();
        assert!((-20_000..=length_ms).contains(&left_ms), "{left_ms} ms are left");
    });
}
