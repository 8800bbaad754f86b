//! The suite that every job store passes, on PostgreSQL.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nagaya_jobs::clock::ManualClock;
use nagaya_jobs::store::{JobStore, StoreControl};
use nagaya_jobs::suite::{Case, Harness, START_MS};
use nagaya_jobs_postgres::{Options, PgStore};
use nagaya_testkit::shared;

/// A case that waits for something that never comes must not hang the run.
const LIMIT: Duration = Duration::from_secs(120);

/// Databases whose case has passed. Making one and its schema takes longer than most cases, so they are emptied
/// and used again.
static USED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Empties all tables and starts all numbers again. Deleting few rows is cheaper than truncating many tables.
const EMPTY: &str = r"
    DO $$ DECLARE name text; BEGIN
        FOR name IN SELECT tablename FROM pg_tables WHERE tablename LIKE 'jobs\_%' LOOP
            EXECUTE 'DELETE FROM ' || name;
        END LOOP;
        FOR name IN SELECT sequencename FROM pg_sequences LOOP
            PERFORM setval(name::regclass, 1, false);
        END LOOP;
    END $$";

/// Returns the URL of an unused database without jobs.
fn empty_database() -> String {
    let used = USED.lock().unwrap_or_else(PoisonError::into_inner).pop();
    match used {
        None => shared::postgres().create_database(),
        Some(url) => {
            shared::postgres().psql(&url, EMPTY);
            url
        }
    }
}

async fn open(url: &str, clock: &Arc<ManualClock>) -> Arc<PgStore> {
    let options = Options {
        hot_connections_max: 3,
        cool_connections_max: 3,
        clock: Some(Arc::clone(clock) as _),
    };
    Arc::new(PgStore::open(&url.parse().unwrap(), options).await.unwrap())
}

fn with_store(case: Case) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let url = empty_database();
    runtime.block_on(async {
        let clock = Arc::new(ManualClock::at(START_MS));
        let (store, second) = (open(&url, &clock).await, open(&url, &clock).await);
        let harness = Harness {
            store: Arc::clone(&store) as _,
            second: Arc::clone(&second) as _,
            clock: Arc::clone(&clock),
            reopen: {
                let (url, clock) = (url.clone(), Arc::clone(&clock));
                Arc::new(move || {
                    let (url, clock) = (url.clone(), Arc::clone(&clock));
                    Box::pin(async move { open(&url, &clock).await as Arc<dyn JobStore> })
                })
            },
        };
        tokio::time::timeout(LIMIT, case(harness))
            .await
            .expect("the case ends in time");
        let last = open(&url, &clock).await;
        let findings = last.check().await.unwrap();
        assert!(findings.is_empty(), "{findings:?}");
        for store in [store, second, last] {
            store.close().await;
        }
    });
    USED.lock().unwrap_or_else(PoisonError::into_inner).push(url);
}

nagaya_jobs::jobstore_suite!(with_store);
