//! Watches leases for their holder.
//!
//! A worker learns at its next extension that a job was cancelled. A watch tells it at once: cancellations in this
//! process and those that other servers tell of wake it. Notifications may be missing, and a lease also ends by
//! itself, so the leases are looked at from time to time too.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::wakeups::Wakeups;
use crate::error::{Error, LostWhy};
use crate::id::JobId;
use crate::store::JobReader;
use crate::token::Lease;

/// Leases that are looked at in one call.
const LOOKED_AT_ONCE: usize = 1_000;

/// The leases of one holder. Dropping it ends the watch.
pub struct LeaseWatch {
    store: Arc<dyn JobReader>,
    wakeups: Arc<Wakeups>,
    number: u64,
    wake: Arc<Notify>,
    /// Usually one for each job; a worker that lost a job may have got it again.
    leases: HashMap<JobId, Vec<Lease>>,
    interval: Duration,
    look_at: Instant,
}

impl LeaseWatch {
    pub(super) fn new(
        store: Arc<dyn JobReader>,
        wakeups: &Arc<Wakeups>,
        leases: impl IntoIterator<Item = Lease>,
        interval: Duration,
    ) -> LeaseWatch {
        let mut watch = LeaseWatch {
            store,
            number: wakeups.holder(),
            wakeups: Arc::clone(wakeups),
            wake: Arc::new(Notify::new()),
            leases: HashMap::new(),
            interval,
            look_at: Instant::now() + interval,
        };
        leases.into_iter().for_each(|lease| watch.add(lease));
        watch
    }

    pub fn add(&mut self, lease: Lease) {
        self.leases.entry(lease.id).or_default().push(lease);
        self.wakeups.hold(lease.id, self.number, &self.wake);
    }

    pub fn remove(&mut self, lease: Lease) {
        let Some(of_job) = self.leases.get_mut(&lease.id) else {
            return;
        };
        of_job.retain(|other| *other != lease);
        if of_job.is_empty() {
            self.leases.remove(&lease.id);
            self.wakeups.let_go(lease.id, self.number);
        }
    }

    /// Looks at all leases, and returns and forgets those that are lost. Those that their holder has reported on are
    /// forgotten too: it knows.
    pub async fn look(&mut self) -> Result<Vec<(Lease, LostWhy)>, Error> {
        let leases: Vec<Lease> = self.leases.values().flatten().copied().collect();
        let mut lost = Vec::new();
        for part in leases.chunks(LOOKED_AT_ONCE) {
            let answers = self.store.lost(part.to_vec()).await?;
            let over = part.iter().zip(answers);
            lost.extend(over.filter_map(|(lease, why)| why.map(|why| (*lease, why))));
        }
        self.look_at = Instant::now() + self.interval;
        lost.iter().for_each(|(lease, _)| self.remove(*lease));
        lost.retain(|(_, why)| !matches!(why, LostWhy::Reported | LostWhy::Conflict));
        Ok(lost)
    }

    /// Waits until leases are lost.
    ///
    /// Cancel safe: a look that was given up is made up for by the next call.
    pub async fn next(&mut self) -> Result<Vec<(Lease, LostWhy)>, Error> {
        loop {
            if self.leases.is_empty() {
                self.wake.notified().await;
                continue;
            }
            if Instant::now() < self.look_at && timeout_at(self.look_at, self.wake.notified()).await.is_ok() {
                // Remembered, because this future may be dropped while the store answers.
                self.look_at = Instant::now();
            }
            let looked = self.look().await;
            if looked.is_err() {
                self.look_at = Instant::now() + self.interval;
            }
            let lost = looked?;
            if !lost.is_empty() {
                return Ok(lost);
            }
        }
    }
}

impl Drop for LeaseWatch {
    fn drop(&mut self) {
        for id in self.leases.keys() {
            self.wakeups.let_go(*id, self.number);
        }
    }
}
