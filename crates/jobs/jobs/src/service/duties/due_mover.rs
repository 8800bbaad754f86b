//! Makes scheduled jobs ready when their time has come.

use super::{Beat, ROUND};

pub(super) async fn run(beat: Beat) {
    let round = async |store: &dyn crate::JobStore| Ok(store.move_due(ROUND).await?.more);
    beat.repeat(|times| times.due_ms, round).await;
}
