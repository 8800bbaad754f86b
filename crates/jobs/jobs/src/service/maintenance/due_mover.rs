//! Makes scheduled jobs ready when their time has come.

use super::{Interval, SWEEP_ROWS_MAX};
use crate::store::Maintenance;

pub(super) async fn run(interval: Interval) {
    let sweep = async |store: &dyn Maintenance| Ok(store.move_due(SWEEP_ROWS_MAX).await?.more);
    interval.repeat(|times| times.due_ms, sweep).await;
}
