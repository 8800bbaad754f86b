//! Frees large values on another thread, so that no client waits for it.

use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use nagaya_keyspace::reclaim::{Reclaimable, Reclaimer};

/// Hands values to the reclaiming thread.
///
/// The queue has no bound: what is in it was in memory a moment ago, and a
/// bound could only make the request wait or the value leak.
pub(crate) struct BackgroundReclaimer {
    garbage: Sender<Reclaimable>,
}

impl BackgroundReclaimer {
    /// Starts the thread; it ends when the reclaimer is dropped and everything is freed.
    pub(crate) fn start() -> std::io::Result<(BackgroundReclaimer, JoinHandle<()>)> {
        let (garbage, queue) = channel();
        let thread = nagaya_threads::spawn("nagaya-free", move || {
            queue.into_iter().for_each(drop::<Reclaimable>)
        })?;
        Ok((BackgroundReclaimer { garbage }, thread))
    }
}

impl Reclaimer for BackgroundReclaimer {
    fn reclaim(&self, garbage: Reclaimable) {
        // The thread ends only after this sender: a failure to send frees the value here.
        self.garbage.send(garbage).ok();
    }
}
