//! Carries endings to the jobs that depend on them, as far as the endings did not do so themselves.

use super::{Beat, ROUND};
use crate::store::Maintenance;

pub(super) async fn run(beat: Beat) {
    let round = async |store: &dyn Maintenance| Ok(store.resolve_dependents(ROUND).await?.more);
    beat.repeat(|_| None, round).await;
}
