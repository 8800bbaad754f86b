//! A file descriptor kept for the moment when the process has none left, so that a client can be told so.

use std::fs::File;
use std::io;
use std::time::Duration;

use tokio::time::Instant;

/// Between two log lines.
const WARNING_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Spare {
    file: Option<File>,
    warned: Option<Instant>,
}

impl Spare {
    pub(super) fn new() -> Spare {
        let mut spare = Spare {
            file: None,
            warned: None,
        };
        spare.take();
        spare
    }

    /// Gives the descriptor to the next file that is opened.
    pub(super) fn release(&mut self) {
        self.file = None;
    }

    /// Takes a descriptor again. Returns false if there is none.
    pub(super) fn take(&mut self) -> bool {
        if self.file.is_none() {
            self.file = File::open("/dev/null").ok();
        }
        self.file.is_some()
    }

    pub(super) fn is_warning_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self.warned.is_none_or(|warned| now - warned >= WARNING_EVERY);
        if is_due {
            self.warned = Some(now);
        }
        is_due
    }
}

/// Returns whether the process or the system has no file descriptor left.
pub(super) fn is_out_of_files(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    matches!(errno, Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}
