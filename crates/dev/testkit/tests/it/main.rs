//! Every server of the kit starts, and every fault does what it says.

#![allow(
    clippy::unwrap_used,
    reason = "clippy knows test functions, but not their helpers"
)]

mod cluster;
mod endings;
mod nagaya;
mod postgres;
mod redis;
mod small_servers;
mod tcp_proxy;

use std::time::Duration;

/// Generous, since the machine may be busy; nothing waits this long when it works.
const LIMIT: Duration = Duration::from_secs(30);
