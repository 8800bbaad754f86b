//! Removes jobs, keys and events that have been kept for long enough.

use std::time::Duration;

use super::{Beat, ROUND};
use crate::clock::span_ms;
use crate::store::Maintenance;

pub(super) async fn run(beat: Beat, events: Duration) {
    let round = async |store: &dyn Maintenance| {
        let purged = store.purge(ROUND).await?;
        let before_ms = store.now_ms().await? - span_ms(events);
        let trimmed = store.trim_events(before_ms, ROUND * 4).await?;
        Ok(purged.more || trimmed.more)
    };
    // Nobody waits for it: looking once in a while is enough.
    beat.repeat(|_| None, round).await;
}
