//! Wakes the saver before its time.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// What the saver is told.
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

/// Why a wait was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    TimeIsUp,
    Asked,
    End,
}

impl Signal {
    /// Asks for a save as soon as possible.
    pub(crate) fn save_soon(&self) {
        self.state.lock().soon = true;
        self.changed.notify_one();
    }

    /// Asks for the end.
    pub(crate) fn end(&self) {
        self.state.lock().end = true;
        self.changed.notify_one();
    }

    /// Waits for the end, but no longer than `at_most`; other wishes are kept.
    pub(crate) fn wait_for_end(&self, at_most: Duration) {
        let mut state = self.state.lock();
        self.changed
            .wait_while_for(&mut state, |state| !state.end, at_most);
    }

    /// Waits until asked, but no longer than `at_most`.
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
