//! Keeping a lease alive.

use std::time::Duration;

use tokio::time::Instant;

use crate::client::Client;
use crate::error::Error;
use crate::job::Claimed;

/// Parts of the lease after which it is extended.
const EXTENSIONS_PER_LEASE: u32 = 3;
/// Pause after an extension that did not get through.
const FAILED_PAUSE: Duration = Duration::from_millis(500);
/// How much of the lease is given up at its end, so that we stop before anybody else may start.
const MARGIN_MAX: Duration = Duration::from_secs(1);

/// How long a lease surely holds, by our own clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    length: Duration,
    pub(super) until: Instant,
}

impl Lease {
    /// A lease that was given before `from`, by as little as an answer takes.
    pub(super) fn new(length: Duration, from: Instant) -> Lease {
        let margin = (length / 10).min(MARGIN_MAX);
        Lease {
            length,
            until: from + length.saturating_sub(margin),
        }
    }

    fn extend_after(&self) -> Duration {
        self.length / EXTENSIONS_PER_LEASE
    }
}

/// Extends a lease again and again; returns why it is lost. Cancel safe.
///
/// `until` is moved on with every extension, for others to see how long there is.
pub(super) async fn keep(
    client: &Client,
    claimed: &Claimed,
    until: &tokio::sync::watch::Sender<Lease>,
) -> String {
    loop {
        let lease = *until.borrow();
        tokio::time::sleep(lease.extend_after()).await;
        loop {
            let sent = Instant::now();
            let lease = *until.borrow();
            let call = client.extend(&claimed.id, &claimed.token, None);
            let error = match tokio::time::timeout_at(lease.until, call).await {
                Ok(Ok(())) => {
                    until.send_replace(Lease::new(lease.length, sent));
                    break;
                }
                Ok(Err(error)) => error,
                Err(_) => return "the lease could not be extended in time".to_owned(),
            };
            match error {
                Error::LeaseLost(problem) => return problem.to_string(),
                // The job is not there any more, or the house does not let us: waiting does not help.
                Error::Refused(problem) if !matches!(problem.status, 408 | 429 | 500..) => {
                    return problem.to_string();
                }
                error => tracing::warn!(job = claimed.id, %error, "lease not extended, trying again"),
            }
            if tokio::time::timeout_at(lease.until, tokio::time::sleep(FAILED_PAUSE))
                .await
                .is_err()
            {
                return "the lease could not be extended in time".to_owned();
            }
        }
    }
}
