//! A client's options.

use std::time::Duration;

use crate::client::Client;
use crate::error::Error;
use crate::retry::RetryPolicy;
use crate::transport::Transport;

/// Options of a [`Client`], with defaults for all but the address.
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    pub(crate) url: String,
    pub(crate) token: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) retry: RetryPolicy,
    pub(crate) answer_bytes_max: usize,
    pub(crate) idle_connections_max: usize,
    pub(crate) enqueue_keys: bool,
}

impl ClientBuilder {
    pub(crate) fn new(url: &str) -> ClientBuilder {
        ClientBuilder {
            url: url.to_owned(),
            token: None,
            timeout: Duration::from_secs(30),
            retry: RetryPolicy::default(),
            answer_bytes_max: 64 << 20,
            idle_connections_max: 1024,
            enqueue_keys: true,
        }
    }

    /// Sends `Authorization: Bearer TOKEN` with every request.
    pub fn token(mut self, token: impl Into<String>) -> ClientBuilder {
        self.token = Some(token.into());
        self
    }

    /// How long an answer may take, beyond what the call itself asks the house to wait. 30 seconds by
    /// default.
    pub fn timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.timeout = timeout;
        self
    }

    pub fn retry(mut self, retry: RetryPolicy) -> ClientBuilder {
        self.retry = retry;
        self
    }

    /// The largest answer that is read; 64 MiB by default.
    pub fn answer_bytes_max(mut self, bytes: usize) -> ClientBuilder {
        self.answer_bytes_max = bytes;
        self
    }

    /// Connections kept open for later calls; 1024 by default.
    pub fn idle_connections_max(mut self, connections: usize) -> ClientBuilder {
        self.idle_connections_max = connections;
        self
    }

    /// Registers jobs without a key of the client's own. Saves the house a lookup per job, and an enqueue
    /// whose answer was lost is then reported instead of repeated.
    pub fn without_enqueue_keys(mut self) -> ClientBuilder {
        self.enqueue_keys = false;
        self
    }

    /// Checks the address and prepares TLS; connects to nothing yet.
    pub fn build(self) -> Result<Client, Error> {
        let keys = self.enqueue_keys;
        Ok(Client::over(Transport::new(self)?, keys))
    }
}
