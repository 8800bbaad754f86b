//! The signals that a supervisor passes on.

use std::io;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// Catches the signals from the moment it is made.
pub(super) struct Signals {
    hup: Stream,
    int: Stream,
    term: Stream,
    quit: Stream,
    user_1: Stream,
    user_2: Stream,
}

impl Signals {
    pub(super) fn catch() -> io::Result<Signals> {
        Ok(Signals {
            hup: signal(SignalKind::hangup())?,
            int: signal(SignalKind::interrupt())?,
            term: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            user_1: signal(SignalKind::user_defined1())?,
            user_2: signal(SignalKind::user_defined2())?,
        })
    }

    /// Waits for the next signal. Cancel safe.
    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.hup.recv() => Signal::HUP,
            _ = self.int.recv() => Signal::INT,
            _ = self.term.recv() => Signal::TERM,
            _ = self.quit.recv() => Signal::QUIT,
            _ = self.user_1.recv() => Signal::USR1,
            _ = self.user_2.recv() => Signal::USR2,
        }
    }

    /// Waits for a signal that asks the process to end.
    pub(super) async fn next_ending(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if signal != Signal::USR1 && signal != Signal::USR2 {
                return signal;
            }
        }
    }
}
