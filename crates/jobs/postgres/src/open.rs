//! Opens the store: the schema, two pools, a server number.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nagaya_jobs::clock::Clock;
use nagaya_jobs::error::Error;
use nagaya_jobs::id::{IdMaker, SERVERS_MAX};
use nagaya_postgres_client::{Migration, Migrations, Notifier, Pool, PostgresUrl};
use parking_lot::{Mutex, RwLock};

use crate::clock::Time;
use crate::deliveries;
use crate::error::store_error;
use crate::lease_clock::LeaseClock;
use crate::names::Names;
use crate::notifications;
use crate::sql::{Queries, connect, query};
use crate::store::{Inner, PgStore};
use crate::throughput::LastClaims;

const MIGRATIONS: Migrations = Migrations {
    set: "jobs",
    steps: &[
        Migration {
            name: "jobs",
            up: include_str!("migrations/0001_jobs.up.sql"),
            down: include_str!("migrations/0001_jobs.down.sql"),
        },
        Migration {
            name: "isolation",
            up: include_str!("migrations/0002_isolation.up.sql"),
            down: include_str!("migrations/0002_isolation.down.sql"),
        },
    ],
};

/// Session settings of the hot pool. Its statements have one good plan each: by key. Statistics that are
/// temporarily wrong, as while a snapshot is held, must not change it.
const HOT_SETUP: &str = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; \
     SET enable_mergejoin = off; SET enable_hashjoin = off; SET enable_bitmapscan = off; SET jit = off; \
     SET idle_in_transaction_session_timeout = '15s'; SET lock_timeout = '15s'";
const COOL_SETUP: &str = "SET jit = off; SET idle_in_transaction_session_timeout = '60s'";

/// Shortest interval between notifications to other servers about ready jobs and new events.
const HINT_PAUSE: Duration = Duration::from_millis(30);

/// Options of the store.
#[derive(Clone)]
pub struct Options {
    /// Connections for registration, claims and reports.
    pub hot_connections_max: usize,
    /// Connections for readers and maintenance.
    pub cool_connections_max: usize,
    /// A clock other than the database's, for tests.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            hot_connections_max: 6,
            cool_connections_max: 6,
            clock: None,
        }
    }
}

impl PgStore {
    /// Connects, upgrades the schema, and starts to listen to other servers. Must be called inside of the tokio
    /// runtime that the store is used in.
    pub async fn open(url: &PostgresUrl, options: Options) -> Result<PgStore, Error> {
        let pool = |setup: &str, connections_max| {
            let options = nagaya_postgres_client::Options {
                application_name: "nagaya-jobs".into(),
                connections_max,
                setup: vec![setup.to_owned()],
                ..Default::default()
            };
            Pool::new(url, options).map_err(store_error)
        };
        let hot = pool(HOT_SETUP, options.hot_connections_max)?;
        let cool = pool(COOL_SETUP, options.cool_connections_max)?;
        MIGRATIONS.upgrade(&cool).await.map_err(store_error)?;
        let names = Names::default();
        let server = {
            let session = connect(&cool).await?;
            names.reload(&session).await?;
            session
                .scalar::<i32>(query!(metadata.server_number), &[&i64::from(SERVERS_MAX)])
                .await?
        };
        let number = u16::try_from(server).unwrap_or(0);
        let inner = Arc::new(Inner {
            notifier: Notifier::start(cool.clone(), HINT_PAUSE),
            time: options.clock.map_or_else(Time::database, Time::Given),
            hot,
            cool,
            names,
            ids: Mutex::new(IdMaker::new(number, 0)),
            fair_rounds: Mutex::new(HashMap::new()),
            hints: Mutex::new(HashMap::new()),
            front_scan_delays: Mutex::new(HashMap::new()),
            front_looks: Mutex::new(HashMap::new()),
            ready_tenants: Mutex::new(HashMap::new()),
            last_claims: LastClaims::default(),
            lease_clock: LeaseClock::default(),
            delivery_cursor: Mutex::new(deliveries::START),
            listener: RwLock::new(None),
            closed: AtomicBool::new(false),
        });
        inner.renew_leases(&*inner.cool().await?).await?;
        let listener = notifications::start_listener(&inner);
        Ok(PgStore {
            inner,
            _listener: listener,
        })
    }
}

#[cfg(test)]
mod tests {
    use nagaya_jobs::queue::Counted;
    use nagaya_jobs::shares::DeliveryClaim;
    use nagaya_jobs::store::{DeliveryQueue, JobReader, Maintenance, QueueAdmin, Schedules, StoreControl};
    use nagaya_jobs::{JobId, QueueName, State, TenantId, Visibility};
    use nagaya_testkit::shared;

    use super::*;

    const ROWS: &str = "
        INSERT INTO jobs_tenant (name, created_ms) VALUES ('shop', 0);
        INSERT INTO jobs_queue (name, settings, created_ms) VALUES ('mail', '{}', 0);
        INSERT INTO jobs_passed (queue, server, enqueued, started) VALUES (1, 3, 2, 1);
        INSERT INTO jobs_job VALUES (7, 1, 1, 'k', 0, 0, 2000, 5, NULL, NULL, '1');
        INSERT INTO jobs_job VALUES (8, 1, 1, 'k', 0, 0, 2000, 5, NULL, NULL, '2');
        INSERT INTO jobs_ready VALUES (1, 1, 0, 7, 7, 0, 6, 0);
        INSERT INTO jobs_running VALUES (8, 1, 1, 0, 1, 6, 0, 99, 'w', 1000, 2000, 3000);
        INSERT INTO jobs_key VALUES (1, 1, 'key', 7, 9000000000000);
        INSERT INTO jobs_delivery (job, queue, tenant, seq, kind, attempt, webhook, state, tries, created_ms, next_try_ms)
        VALUES (7, 1, 1, 1, 5, 1, '{\"url\":\"http://x.test/\"}', 0, 0, 0, 0);
        INSERT INTO jobs_schedule VALUES (1, 'nightly', '@daily', 'UTC', 'once', false,
            '{\"tenant\":\"shop\",\"queue\":\"mail\",\"payload\":\"MQ==\",\"priority\":0,\"options\":{}}', NULL, NULL, 0);";

    #[tokio::test(flavor = "multi_thread")]
    async fn a_database_of_the_version_before_opens_with_all_that_is_in_it() {
        let url = tokio::task::spawn_blocking(|| shared::postgres().create_database())
            .await
            .unwrap();
        let address: PostgresUrl = url.parse().unwrap();
        let pool = Pool::new(&address, nagaya_postgres_client::Options::default()).unwrap();
        MIGRATIONS.to(&pool, 1).await.unwrap();
        let filled = url.clone();
        tokio::task::spawn_blocking(move || shared::postgres().psql(&filled, ROWS))
            .await
            .unwrap();
        let store = PgStore::open(&address, Options::default()).await.unwrap();
        let ids = vec![JobId::new(7).unwrap(), JobId::new(8).unwrap()];
        assert_eq!(
            store.sweep_expired(9).await.unwrap().rows,
            0,
            "its lease has a grace"
        );
        let states = store.states(ids).await.unwrap();
        assert_eq!(states, [Some(State::Waiting), Some(State::Running)]);
        let mail = QueueName::new("mail").unwrap();
        let all = store
            .queue(mail.clone(), Visibility::everything(), Counted::All)
            .await;
        assert_eq!(
            all.unwrap().unwrap().throughput.enqueued,
            2,
            "counted by the version before"
        );
        let shop = Visibility::of_tenant(TenantId::new("shop").unwrap());
        let own = store.queue(mail, shop, Counted::All).await.unwrap().unwrap();
        assert_eq!(own.depth.ready, 1);
        let claim = DeliveryClaim::of(9, Duration::from_secs(9));
        assert_eq!(store.claim_deliveries(claim).await.unwrap().len(), 1);
        assert_eq!(store.schedules(None).await.unwrap()[0].refused, None);
        store.close().await;
    }
}
