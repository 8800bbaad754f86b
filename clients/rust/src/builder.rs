//! Builds a client.

use std::path::PathBuf;
use std::time::Duration;

use crate::client::Client;
use crate::error::Error;
use crate::options::Options;
use crate::retry::RetryPolicy;
use crate::transport::Transport;

/// Options of a [`Client`], with defaults for all but the address.
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    options: Options,
}

impl Client {
    /// A client with the default options, without a token.
    pub fn new(url: &str) -> Result<Client, Error> {
        Client::builder(url).build()
    }

    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder {
            options: Options::new(url),
        }
    }
}

impl ClientBuilder {
    /// Sends `Authorization: Bearer TOKEN` with every request.
    pub fn token(mut self, token: impl Into<String>) -> ClientBuilder {
        self.options.token = Some(token.into());
        self
    }

    /// How long a response may take, beyond the wait that the call itself asks for. 30 seconds by default.
    pub fn timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.options.timeout = timeout;
        self
    }

    pub fn retry(mut self, retry: RetryPolicy) -> ClientBuilder {
        self.options.retry = retry;
        self
    }

    /// The largest response that is read; 64 MiB by default.
    pub fn answer_bytes_max(mut self, bytes: usize) -> ClientBuilder {
        self.options.answer_bytes_max = bytes;
        self
    }

    /// Idle connections kept for later calls; 1024 by default.
    pub fn idle_connections_max(mut self, connections: usize) -> ClientBuilder {
        self.options.idle_connections_max = connections;
        self
    }

    /// Trusts the certificates of this PEM file, instead of the system's.
    pub fn ca(mut self, file: impl Into<PathBuf>) -> ClientBuilder {
        self.options.ca = Some(file.into());
        self
    }

    /// Registers jobs without a generated idempotency key. That saves the server a lookup per job. An enqueue
    /// whose response was lost is then reported instead of repeated.
    pub fn without_enqueue_keys(mut self) -> ClientBuilder {
        self.options.enqueue_keys = false;
        self
    }

    /// Checks the address and prepares TLS. Connects on the first call.
    pub fn build(self) -> Result<Client, Error> {
        let keys = self.options.enqueue_keys;
        Ok(Client::over(Transport::new(self.options)?, keys))
    }
}
