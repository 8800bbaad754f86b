//! Extends a lease.

use std::time::Duration;

use tokio::time::Instant;

use crate::client::Client;
use crate::error::Error;
use crate::job::Claimed;

/// A lease is extended this many times within its length, so that one lost extension does not lose it.
const EXTENSIONS_PER_LEASE: u32 = 3;
/// Pause after a failed extension.
const FAILED_PAUSE: Duration = Duration::from_millis(500);
/// Safety margin at the end of the lease, so that we stop before another worker may start.
const MARGIN_MAX: Duration = Duration::from_secs(1);

/// How long a lease certainly holds, by our own clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    length: Duration,
    pub(super) until: Instant,
}

impl Lease {
    /// Creates a lease that was granted shortly before `from`; the response took the time in between.
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

/// Extends a lease repeatedly. Returns why it was lost. Cancel safe.
///
/// `until` is updated with every extension, so that other tasks see the remaining time.
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
                // The job no longer exists, or we have no permission: waiting does not help.
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
