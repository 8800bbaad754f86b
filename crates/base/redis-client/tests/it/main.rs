//! The kit against real servers, whole and broken.

// A test's helpers fail as loudly as the test itself.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail the test that calls them"
)]

mod confirm;
mod connection;
mod subscriber;
mod topology;

use std::time::Duration;

use nagaya_redis_client::{Client, Options};

const PATIENCE: Duration = Duration::from_secs(30);

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

fn client(url: &str) -> Client {
    let options = Options {
        client_name: "kit".into(),
        ..Options::default()
    };
    Client::new(url.parse().unwrap(), options).unwrap()
}
