//! Applies endings to the jobs that depend on them, as far as the endings did not do so themselves.

use super::{Interval, SWEEP_ROWS_MAX};
use crate::store::Maintenance;

pub(super) async fn run(interval: Interval) {
    let sweep = async |store: &dyn Maintenance| Ok(store.resolve_dependents(SWEEP_ROWS_MAX).await?.more);
    interval.repeat(|_| None, sweep).await;
}
