//! Opening the database: connections and how they are set.

use std::time::Duration;

use nagaya_postgres_client::{Migration, Migrations, Pool, PostgresUrl};
use nagaya_sql::block;
use nagaya_threads::vital;
use tokio::runtime::{self, Runtime};

use super::error::{OpenError, cold_error};
use super::miss_filter::{self, MissFilter};
use super::{PostgresCold, list};

/// How the database is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to keep each value as JSON beside its payload, for operators.
    pub decode: bool,
    pub connections_max: usize,
    /// How long a call waits for a connection, a server that is away included.
    pub acquire_timeout: Duration,
    /// How long one statement may take.
    pub call_timeout: Duration,
    /// Whether to keep a filter of all tags in memory, so that most questions about tags without a row are
    /// answered from there.
    pub filter: bool,
    /// How long such a filter may be behind, and how long the first save of a tag waits for that reason. The
    /// first process that opens a database decides it for all; `None` means that no process keeps a filter.
    pub filter_lag: Option<Duration>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            decode: false,
            connections_max: 8,
            acquire_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(30),
            filter: true,
            filter_lag: Some(Duration::from_secs(1)),
        }
    }
}

/// Driving the connections takes little; encoding and sums run on the callers' threads.
const THREADS: usize = 2;
const SETUP: &str = block(include_str!("queries/connections.sql"), "setup");
const SET_ONCE: &str = block(include_str!("queries/facts.sql"), "set_once");
/// The fact that says how far filters may be behind, in milliseconds.
const FILTER_LAG: &str = "filter_lag_ms";

/// A text is never changed after its release.
const MIGRATIONS: Migrations = Migrations {
    set: "cold",
    steps: &[Migration {
        name: "tags_and_keys",
        up: include_str!("migrations/0001_tags_and_keys.up.sql"),
        down: include_str!("migrations/0001_tags_and_keys.down.sql"),
    }],
};

pub(super) fn open(url: &str, options: Options) -> Result<PostgresCold, OpenError> {
    let url: PostgresUrl = url.parse()?;
    let runtime = runtime()?;
    let pool = pool(&url, &options)?;
    let lag = runtime.block_on(async {
        MIGRATIONS.upgrade(&pool).await?;
        filter_lag(&pool, options.filter_lag).await
    })?;
    let miss_filter = MissFilter::new(lag);
    if options.filter && !lag.is_zero() {
        let keeping_up = miss_filter::keep_up(pool.clone(), miss_filter.filter());
        runtime.spawn(vital("room miss filter", keeping_up));
    }
    Ok(PostgresCold {
        pool,
        miss_filter,
        decode: options.decode,
        runtime: Some(runtime),
    })
}

pub(super) fn migrate_to(url: &str, schema: u32) -> Result<(), OpenError> {
    let url: PostgresUrl = url.parse()?;
    let pool = pool(&url, &Options::default())?;
    Ok(runtime()?.block_on(MIGRATIONS.to(&pool, schema))?)
}

fn runtime() -> Result<Runtime, OpenError> {
    runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("cold-postgres")
        .enable_all()
        .build()
        .map_err(OpenError::Threads)
}

fn pool(url: &PostgresUrl, options: &Options) -> Result<Pool, OpenError> {
    let options = nagaya_postgres_client::Options {
        application_name: "nagaya cold tier".into(),
        // The filter has one of its own.
        connections_max: options.connections_max.max(1) + usize::from(options.filter),
        acquire_timeout: options.acquire_timeout,
        call_timeout: options.call_timeout,
        setup: vec![SETUP.to_owned()],
        ..nagaya_postgres_client::Options::default()
    };
    Ok(Pool::new(url, options)?)
}

/// Returns how far filters may be behind in this database; sets it if no process has.
async fn filter_lag(pool: &Pool, wanted: Option<Duration>) -> Result<Duration, OpenError> {
    let session = pool.get().await?;
    let wanted = wanted.unwrap_or_default().as_millis().to_string();
    session
        .execute(SET_ONCE, &[&FILTER_LAG, &wanted.as_bytes()])
        .await?;
    let settled = list::fact(&session, FILTER_LAG).await;
    let settled = settled.map_err(|failure| OpenError::Tier(cold_error(failure)))?;
    let text = String::from_utf8(settled.unwrap_or_default()).unwrap_or_default();
    let damaged = || nagaya_tiering::cold::ColdError::Damaged {
        what: format!("the fact {FILTER_LAG} is not a number: {text}"),
    };
    let lag_ms = text.parse().map_err(|_| OpenError::Tier(damaged()))?;
    Ok(Duration::from_millis(lag_ms))
}
