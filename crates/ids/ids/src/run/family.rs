//! All processes that come from the command, also those it forgot.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, set_child_subreaper, wait,
};

/// Makes orphaned descendants children of this process, whichever group or session they moved to.
pub(super) fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// The command's process group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family {
    group: Pid,
}

impl Family {
    pub(super) fn of_child(child: Option<u32>) -> Option<Family> {
        let raw = i32::try_from(child?).ok()?;
        Pid::from_raw(raw).map(|group| Family { group })
    }

    /// Sends a signal to the group. Nobody left in it is no failure.
    pub(super) fn signal_group(self, signal: Signal) {
        match kill_process_group(self.group, signal) {
            Ok(()) | Err(Errno::SRCH) => (),
            Err(error) => tracing::warn!(%error, ?signal, "signal not sent to the command's group"),
        }
    }

    /// Sends a signal to the group and to the descendants that left it and were orphaned.
    pub(super) fn signal_all(self, signal: Signal) {
        self.signal_group(signal);
        for pid in children() {
            match kill_process(pid, signal) {
                Ok(()) | Err(Errno::SRCH) => (),
                Err(error) => tracing::warn!(%error, ?signal, "signal not sent to an orphan"),
            }
        }
    }

    /// Collects ended orphans and tells whether any process of the family is left. To be asked only
    /// after the command itself was waited for: it collects any child of this process.
    pub(super) fn is_gone(self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => (),
                Ok(None) => return false,
                // No child is left, so nobody can be reparented to us either.
                Err(_) => return true,
            }
        }
    }
}

/// The children of this process, by the kernel's list for each of its threads.
fn children() -> Vec<Pid> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let lists = threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids = lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}
