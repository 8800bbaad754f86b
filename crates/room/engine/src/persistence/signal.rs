//! Requests to the saver thread.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Requests that wait for the saver.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    soon: bool,
    end: bool,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    TimeIsUp,
    Asked,
    End,
}

impl Signal {
    /// Requests a save as soon as possible.
    pub(crate) fn save_soon(&self) {
        self.state.lock().soon = true;
        self.changed.notify_one();
    }

    /// Requests the end of the thread.
    pub(crate) fn end(&self) {
        self.state.lock().end = true;
        self.changed.notify_one();
    }

    /// Waits at most `at_most` for the request to end; other requests are kept.
    pub(crate) fn wait_for_end(&self, at_most: Duration) {
        let mut state = self.state.lock();
        self.changed
            .wait_while_for(&mut state, |state| !state.end, at_most);
    }

    /// Waits at most `at_most` for a request.
    pub(crate) fn wait(&self, at_most: Duration) -> Woken {
        let mut state = self.state.lock();
        if !state.soon && !state.end {
            self.changed.wait_for(&mut state, at_most);
        }
        if state.end {
            Woken::End
        } else if std::mem::take(&mut state.soon) {
            Woken::Asked
        } else {
            Woken::TimeIsUp
        }
    }
}
