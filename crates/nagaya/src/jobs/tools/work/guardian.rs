//! A small process that outlives a killed worker, to end what its commands have started.
//!
//! The kernel ends a command when its worker is killed, but not the command's own children. The guardian is
//! told of every process group; when the pipe from the worker closes, by whatever cause, it kills the groups
//! that are left and ends.

use std::collections::HashSet;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::app::signals::Signals;

/// The worker's side.
pub(super) struct Guardian {
    /// Nothing once the guardian is gone; then the kernel's own help is all there is.
    pipe: Mutex<Option<ChildStdin>>,
    child: Child,
}

impl Guardian {
    /// Starts our own binary as the guardian, where no signal of a terminal reaches it.
    pub(super) fn start() -> anyhow::Result<Guardian> {
        let program = std::env::current_exe().context("cannot tell where our own binary is")?;
        let mut child = Command::new(program)
            .args(["jobs", "guard"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("the guardian cannot be started")?;
        Ok(Guardian {
            pipe: Mutex::new(child.stdin.take()),
            child,
        })
    }

    /// A group that must not outlive us.
    pub(super) fn watch(&self, group: Pid) {
        self.tell(format!("+{group}\n"));
    }

    /// A group that is gone.
    pub(super) fn release(&self, group: Pid) {
        self.tell(format!("-{group}\n"));
    }

    fn tell(&self, line: String) {
        let mut pipe = self.pipe.lock().expect("no code panics while it holds the pipe");
        if let Some(open) = pipe.as_mut()
            && let Err(error) = open.write_all(line.as_bytes())
        {
            tracing::warn!(%error, "the guardian is gone: what commands start may outlive a killed worker");
            *pipe = None;
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        if let Ok(mut pipe) = self.pipe.lock() {
            pipe.take();
        }
        self.child.wait().ok();
    }
}

/// The guardian itself: `nagaya jobs guard`, started by workers only.
pub(crate) fn guard() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _context = runtime.enter();
    // Taken over and never looked at: whoever ends the worker by a signal sends it to us as well, perhaps.
    let _signals = Signals::listen()?;
    for group in left_over(io::stdin().lock()) {
        // One that is gone is what was wanted.
        kill_process_group(group, Signal::KILL).ok();
    }
    Ok(())
}

/// Reads what the worker tells until it is gone; returns the groups that are left.
fn left_over(input: impl BufRead) -> HashSet<Pid> {
    let mut groups = HashSet::new();
    for line in input.lines().map_while(Result::ok) {
        let (sign, number) = line.split_at_checked(1).unwrap_or_default();
        let Some(group) = number.parse().ok().and_then(Pid::from_raw) else {
            continue;
        };
        match sign {
            "+" => groups.insert(group),
            _ => groups.remove(&group),
        };
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_that_were_not_released_are_left() {
        let left = left_over("+7\n+8\n-7\nnonsense\n+0\n".as_bytes());
        assert_eq!(left, HashSet::from([Pid::from_raw(8).unwrap()]));
    }
}
