//! The kit against real servers, whole and broken.

// A test's helpers fail as loudly as the test itself.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

mod listen;
mod migrations;
mod pool;
mod tls;

use std::time::Duration;

use nagaya_postgres_client::{Options, Pool};

const PATIENCE: Duration = Duration::from_secs(30);

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

fn options() -> Options {
    Options {
        application_name: "kit".into(),
        connections_max: 4,
        acquire_timeout: PATIENCE,
        check_after: Duration::ZERO,
        ..Options::default()
    }
}

fn pool(url: &str) -> Pool {
    Pool::new(&url.parse().unwrap(), options()).unwrap()
}

/// Soon gives a silent server up.
fn impatient_pool(url: &str) -> Pool {
    let options = Options {
        acquire_timeout: Duration::from_secs(10),
        connect_timeout: Duration::from_secs(2),
        call_timeout: Duration::from_secs(2),
        check_timeout: Duration::from_millis(500),
        ..options()
    };
    Pool::new(&url.parse().unwrap(), options).unwrap()
}
