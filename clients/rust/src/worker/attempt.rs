//! The attempt that a handler gets.

use std::sync::{Arc, OnceLock};

use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::error::{Error, Failure};
use crate::job::Claimed;

/// Why a handler must stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The lease is lost: the job was cancelled, or another worker may have it by now. Carries the server's
    /// reason, if it gave one.
    LeaseLost(String),
    /// The worker is shutting down and the drain limit is over.
    Draining,
}

/// One attempt at a job. Clones refer to the same attempt.
#[derive(Clone)]
pub struct Attempt {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    queue: String,
    claimed: Claimed,
    stop: CancellationToken,
    why: OnceLock<Stopped>,
}

impl Attempt {
    pub(super) fn new(client: Client, queue: String, claimed: Claimed) -> Attempt {
        Attempt {
            shared: Arc::new(Shared {
                client,
                queue,
                claimed,
                stop: CancellationToken::new(),
                why: OnceLock::new(),
            }),
        }
    }

    pub fn id(&self) -> &str {
        &self.shared.claimed.id
    }

    pub fn queue(&self) -> &str {
        &self.shared.queue
    }

    /// Returns the number of the attempt, counted from 1.
    pub fn number(&self) -> u32 {
        self.shared.claimed.attempt
    }

    /// Returns the credential of this attempt, valid until the lease ends.
    pub fn token(&self) -> &str {
        &self.shared.claimed.token
    }

    /// Returns everything that came with the claim.
    pub fn claimed(&self) -> &Claimed {
        &self.shared.claimed
    }

    /// Parses the payload. An unreadable payload stays unreadable, so the failure is permanent.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        self.shared
            .claimed
            .payload()
            .map_err(|error| Failure::permanent(format!("the payload could not be read: {error}")))
    }

    /// Returns the payload as the submitter wrote it.
    pub fn raw_payload(&self) -> &str {
        self.shared.claimed.raw_payload()
    }

    /// Reports the progress, from 0 to 1, with an optional message.
    pub async fn progress(&self, done: f64, message: Option<&str>) -> Result<(), Error> {
        self.report(Some(done), message).await
    }

    /// Reports a message without a number.
    pub async fn message(&self, message: &str) -> Result<(), Error> {
        self.report(None, Some(message)).await
    }

    async fn report(&self, done: Option<f64>, message: Option<&str>) -> Result<(), Error> {
        self.shared
            .client
            .progress(self.id(), self.token(), done, message)
            .await
    }

    /// Appends lines to the job's log.
    pub async fn log(&self, lines: &[String]) -> Result<(), Error> {
        self.shared.client.log(self.id(), self.token(), lines).await
    }

    /// Resolves when the work must stop, with the reason. Cancel safe.
    pub async fn stopped(&self) -> Stopped {
        self.shared.stop.cancelled().await;
        self.shared
            .why
            .get()
            .cloned()
            .unwrap_or(Stopped::LeaseLost(String::new()))
    }

    pub fn is_stopped(&self) -> bool {
        self.shared.stop.is_cancelled()
    }

    /// Stops the attempt. Only the first reason counts.
    pub(super) fn stop(&self, why: Stopped) {
        // Later reasons are dropped: the handler was stopped for the first.
        self.shared.why.set(why).ok();
        self.shared.stop.cancel();
    }
}
