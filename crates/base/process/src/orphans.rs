//! Descendants whose own parent has ended.
//!
//! For programs that start one command and must leave nothing of it behind: all children of the process are
//! taken for the command's.

use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait, waitpid};

/// Makes orphaned descendants children of this process, whichever group or session they moved to.
pub fn adopt() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Sends a signal to each child of this process.
pub fn signal_children(signal: Signal) {
    for pid in children() {
        match kill_process(pid, signal) {
            Ok(()) | Err(Errno::SRCH) => (),
            Err(error) => tracing::warn!(%error, ?signal, "signal not sent to an orphan"),
        }
    }
}

/// Collects the children that have ended and returns whether none is left.
///
/// It takes the exit status of any child, so call it only after all children that matter were waited for.
pub fn all_ended() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => (),
            Ok(None) => return false,
            // No child is left, so no orphan can be reparented to this process either.
            Err(_) => return true,
        }
    }
}

/// Collects the children that have ended, but for those whose zombies somebody still needs.
///
/// For programs that others' orphans fall to, as the first process of a container: without it their zombies pile up.
pub fn reap_except(kept: &[Pid]) {
    for child in children().into_iter().filter(|child| !kept.contains(child)) {
        // One that still lives is no error, nor is one that was collected elsewhere.
        waitpid(Some(child), WaitOptions::NOHANG).ok();
    }
}

/// Returns the children of this process, by the kernel's list for each of its threads, zombies included.
pub fn children() -> Vec<Pid> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let lists = threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids = lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}
