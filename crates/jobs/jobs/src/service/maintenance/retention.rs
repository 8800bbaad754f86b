//! Removes jobs, keys and events whose retention is over.

use std::time::Duration;

use super::{Interval, SWEEP_ROWS_MAX};
use crate::clock::span_ms;
use crate::store::Maintenance;

pub(super) async fn run(interval: Interval, events: Duration) {
    let sweep = async |store: &dyn Maintenance| {
        let purged = store.purge(SWEEP_ROWS_MAX).await?;
        let before_ms = store.now_ms().await? - span_ms(events);
        let trimmed = store.trim_events(before_ms, SWEEP_ROWS_MAX * 4).await?;
        Ok(purged.more || trimmed.more)
    };
    // No task waits for it, so polling is enough.
    interval.repeat(|_| None, sweep).await;
}
