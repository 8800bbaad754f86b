//! Makes scheduled jobs ready when their time has come.

use super::{Beat, ROUND};
use crate::store::Maintenance;

pub(super) async fn run(beat: Beat) {
    let round = async |store: &dyn Maintenance| Ok(store.move_due(ROUND).await?.more);
    beat.repeat(|times| times.due_ms, round).await;
}
