//! The thread that writes records that no caller waits for.
//!
//! It sleeps while there is nothing to do. Once a record comes it goes in rounds of
//! [`Options::write_every`](crate::Options::write_every), or at once when much has gathered or
//! an append waits for memory, and each round does what the mode asks. In
//! [`SyncMode::EverySecond`] a sync also comes early when unconfirmed records have taken half
//! of the memory they may take. While the log has failed it does nothing.

use std::time::Instant;

use crate::log::Core;
use crate::options::SyncMode;

pub(crate) fn run(core: &Core) {
    let mut last_sync = now();
    loop {
        let shared = &core.shared;
        let busy = shared.mode() != SyncMode::No && shared.written() > shared.durable();
        if !core.tail.rest(core.write_every, busy, shared.has_failed()) {
            return;
        }
        if shared.has_failed() {
            continue;
        }
        let sync = match shared.mode() {
            SyncMode::Always => true,
            SyncMode::EverySecond => last_sync.elapsed() >= core.sync_every || core.tail.is_crowded(shared),
            SyncMode::No => false,
        };
        let outcome = match shared.mode() {
            SyncMode::EverySecond if sync => core.advance_and_sync_apart(),
            _ => core.take_token().advance(sync),
        };
        // A failure has been logged and is returned to every caller; this thread has no caller.
        if outcome.is_ok() && sync {
            last_sync = now();
        }
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "it sets the pace of a thread; nothing that is stored or promised depends on it"
)]
fn now() -> Instant {
    Instant::now()
}
