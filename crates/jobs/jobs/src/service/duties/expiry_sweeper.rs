//! Takes back jobs whose lease has run out.

use super::{Beat, ROUND};
use crate::store::Maintenance;

pub(super) async fn run(beat: Beat) {
    let round = async |store: &dyn Maintenance| Ok(store.sweep_expired(ROUND).await?.more);
    beat.repeat(|times| times.lease_ms, round).await;
}
