//! Takes back jobs whose lease has run out.

use super::{Beat, ROUND};

pub(super) async fn run(beat: Beat) {
    let round = async |store: &dyn crate::JobStore| Ok(store.sweep_expired(ROUND).await?.more);
    beat.repeat(|times| times.lease_ms, round).await;
}
