//! What the tests share.

use std::sync::Arc;
use std::time::Duration;

use nagaya_ids::lease::Timing;
use nagaya_ids::pool::{Error, GetAnswer, GetCall, Grant, HolderId, NewPool, Pool};
use nagaya_redis_client::{Client, Need, Options};
use nagaya_testkit::Redis;

/// A runtime that a test drives from its own thread, beside the testkit's blocking calls.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

pub(crate) fn pool_at(url: &str) -> Pool {
    let options = Options {
        connect_limit: Duration::from_secs(2),
        reply_limit: Duration::from_secs(2),
        client_name: "test".into(),
    };
    Pool::new(Arc::new(Client::new(url.parse().unwrap(), options).unwrap())).unwrap()
}

pub(crate) fn pool_of(redis: &Redis) -> Pool {
    pool_at(&format!("{}?ns=t", redis.url()))
}

/// The longest use time of the pools here.
pub(crate) const USE_MAX: Duration = Duration::from_millis(1200);

/// Makes a pool that others may have used before.
pub(crate) async fn make(pool: &Pool, min: u64, max: u64) -> Result<(), Error> {
    let new = NewPool {
        use_max: USE_MAX,
        unused: false,
    };
    pool.init(min, max, new).await
}

pub(crate) fn holder(name: &str, token: &str) -> HolderId {
    HolderId {
        owner: format!("client-{token}"),
        name: name.into(),
        token: token.into(),
    }
}

pub(crate) fn call(reserve_ms: u64) -> GetCall {
    GetCall {
        ceil_ms: 1000,
        reserve: Duration::from_millis(reserve_ms),
        proof: None,
        now_ms: 1000,
        ahead: Duration::from_secs(1),
        use_max: USE_MAX,
    }
}

pub(crate) fn proven(reserve_ms: u64, token: &str) -> GetCall {
    GetCall {
        proof: Some(token.into()),
        ..call(reserve_ms)
    }
}

pub(crate) async fn grant(pool: &Pool, id: &HolderId, call: &GetCall) -> Grant {
    match pool.get(id, call, Need::PRIMARY_ONLY).await.unwrap() {
        GetAnswer::Granted(grant) => grant,
        other => panic!("{other:?}"),
    }
}

/// Lengths short enough for tests and long enough for a busy machine.
pub(crate) fn quick_timing() -> Timing {
    let mut timing = Timing {
        use_for: USE_MAX,
        use_max: USE_MAX,
        use_cap: USE_MAX,
        interval: Duration::from_millis(200),
        delay: Duration::ZERO,
        reserve: Duration::from_secs(4),
        drift_ppm: 500,
        skew: Duration::from_millis(20),
    };
    timing.delay = timing.delay_min();
    timing
}
