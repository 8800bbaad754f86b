//! The options of a client.

use std::path::PathBuf;
use std::time::Duration;

use crate::retry::RetryPolicy;

/// The options that [`ClientBuilder`](crate::ClientBuilder) sets.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) url: String,
    pub(crate) token: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) retry: RetryPolicy,
    pub(crate) answer_bytes_max: usize,
    pub(crate) idle_connections_max: usize,
    pub(crate) enqueue_keys: bool,
    pub(crate) ca: Option<PathBuf>,
}

impl Options {
    pub(crate) fn new(url: &str) -> Options {
        Options {
            url: url.to_owned(),
            token: None,
            timeout: Duration::from_secs(30),
            retry: RetryPolicy::default(),
            answer_bytes_max: 64 << 20,
            idle_connections_max: 1024,
            enqueue_keys: true,
            ca: None,
        }
    }
}
