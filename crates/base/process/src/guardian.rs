//! A small process that survives its parent's SIGKILL, to end what the parent has started.
//!
//! The parent writes `+GROUP` for each process group it starts and `-GROUP` for each that is gone. When the pipe
//! closes, whatever the cause, the guardian kills the groups that are left and ends.

use std::collections::HashSet;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::group::Group;

/// The guardian as a shell script, for programs without a subcommand for it.
const SCRIPT: &str = include_str!("guard.sh");

/// The parent's handle of its guardian. Dropping it ends the guardian, which kills the groups still watched.
#[derive(Debug)]
pub struct Guardian {
    /// `None` once the guardian has ended; then only the kernel's parent-death signal is left.
    pipe: Mutex<Option<ChildStdin>>,
    child: Child,
}

impl Guardian {
    /// Starts a shell as the guardian.
    pub fn shell() -> io::Result<Guardian> {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(SCRIPT);
        Guardian::start(command)
    }

    /// Starts a command that runs [`guard`], in a group of its own so that no signal of a terminal reaches it.
    pub fn start(mut command: Command) -> io::Result<Guardian> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Guardian {
            pipe: Mutex::new(child.stdin.take()),
            child,
        })
    }

    /// Has a group killed if this process ends before it is released.
    pub fn watch(&self, group: Group) {
        self.tell(format!("+{}\n", group.id()));
    }

    /// Stops watching a group that is gone.
    pub fn release(&self, group: Group) {
        self.tell(format!("-{}\n", group.id()));
    }

    fn tell(&self, line: String) {
        let mut pipe = self.pipe.lock();
        if let Some(open) = pipe.as_mut()
            && let Err(error) = open.write_all(line.as_bytes())
        {
            tracing::warn!(%error, "the guardian has ended: grandchildren may outlive a killed parent");
            *pipe = None;
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.pipe.get_mut().take();
        self.child.wait().ok();
    }
}

/// Runs the guardian itself: reads what the parent writes to standard input, then kills the groups that are left.
///
/// The caller must take over SIGINT and SIGTERM before: a signal for the parent may be sent to the guardian too.
pub fn guard() {
    for group in left_over(io::stdin().lock()) {
        // A group that has ended by itself is fine.
        kill_process_group(group, Signal::KILL).ok();
    }
}

/// Reads lines until the parent has ended; returns the groups that were not released.
fn left_over(input: impl BufRead) -> HashSet<Pid> {
    let mut groups = HashSet::new();
    for line in input.lines().map_while(Result::ok) {
        let (sign, number) = line.split_at_checked(1).unwrap_or_default();
        let Some(group) = number.parse().ok().and_then(Pid::from_raw) else {
            continue;
        };
        if sign == "+" {
            groups.insert(group);
        } else {
            groups.remove(&group);
        }
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

    #[tokio::test]
    async fn the_shell_kills_the_groups_that_are_left() {
        let guardian = Guardian::shell().unwrap();
        let start = || Group::spawn(tokio::process::Command::new("sleep").arg("1000")).unwrap();
        let ((mut kept, kept_group), (mut left, left_group)) = (start(), start());
        guardian.watch(kept_group);
        guardian.watch(left_group);
        guardian.release(kept_group);
        drop(guardian);
        assert!(!left.wait().await.unwrap().success());
        assert!(kept.try_wait().unwrap().is_none() && kept_group.is_alive());
        kept.kill().await.unwrap();
    }

    #[tokio::test]
    async fn a_guardian_that_has_ended_is_left_alone() {
        let guardian = Guardian::start(Command::new("true")).unwrap();
        let (mut child, group) = Group::spawn(tokio::process::Command::new("sleep").arg("1000")).unwrap();
        while guardian.pipe.lock().is_some() {
            guardian.watch(group);
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        guardian.release(group);
        child.kill().await.unwrap();
    }
}
