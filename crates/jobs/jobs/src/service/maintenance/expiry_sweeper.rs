//! Takes back jobs whose lease has expired.

use super::{Interval, SWEEP_ROWS_MAX};
use crate::store::Maintenance;

pub(super) async fn run(interval: Interval) {
    let sweep = async |store: &dyn Maintenance| Ok(store.sweep_expired(SWEEP_ROWS_MAX).await?.more);
    interval.repeat(|times| times.lease_ms, sweep).await;
}
