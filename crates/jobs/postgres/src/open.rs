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
