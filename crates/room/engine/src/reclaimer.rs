//! Frees large values on a thread of its own, so that no client waits for it.

use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use nagaya_commands::reclaim::{Garbage, Reclaimer};

/// Hands garbage to the freeing thread.
///
/// The queue has no bound: what is in it was in memory a moment ago, and a
/// bound could only make the request wait or the value leak.
pub(crate) struct BackgroundReclaimer {
    garbage: Sender<Garbage>,
}

impl BackgroundReclaimer {
    /// Starts the thread; it ends when the reclaimer is dropped and everything is freed.
    pub(crate) fn start() -> std::io::Result<(BackgroundReclaimer, JoinHandle<()>)> {
        let (garbage, queue) = channel();
        let thread = std::thread::Builder::new()
            .name("nagaya-free".to_owned())
            .spawn(move || queue.into_iter().for_each(drop::<Garbage>))?;
        Ok((BackgroundReclaimer { garbage }, thread))
    }
}

impl Reclaimer for BackgroundReclaimer {
    fn reclaim(&self, garbage: Garbage) {
        // The thread ends only after this sender: a failure to send frees the value here.
        self.garbage.send(garbage).ok();
    }
}
