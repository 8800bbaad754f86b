//! A child with all descendants that stayed in its process group.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::{Child, Command};

use crate::guardian::Guardian;

/// How often a group is checked while waiting for its end, which the kernel does not announce. An end is seen
/// this much later at most.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// A process group that a child leads. Dropping it does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    leader: Pid,
}

impl Group {
    /// Starts a command as the leader of a new group.
    pub fn spawn(command: &mut Command) -> io::Result<(Child, Group)> {
        let child = command.process_group(0).spawn()?;
        let group =
            Group::of(&child).ok_or_else(|| io::Error::other("the child ended before it was looked at"))?;
        Ok((child, group))
    }

    /// Returns the group of a child that was started with `process_group(0)`; `None` after it was waited for.
    pub fn of(child: &Child) -> Option<Group> {
        let raw = i32::try_from(child.id()?).ok()?;
        Pid::from_raw(raw).map(|leader| Group { leader })
    }

    /// Returns the id of the group, which is that of its leader.
    pub fn id(self) -> Pid {
        self.leader
    }

    /// Sends a signal to all processes of the group. An empty group is no error.
    pub fn signal(self, signal: Signal) {
        match kill_process_group(self.leader, signal) {
            Ok(()) | Err(Errno::SRCH) => (),
            Err(error) => tracing::warn!(%error, ?signal, "signal not sent to a process group"),
        }
    }

    /// Returns whether any process of the group is left, zombies included.
    pub fn is_alive(self) -> bool {
        test_kill_process_group(self.leader).is_ok()
    }

    /// Waits until no process of the group is left, and calls `on_check` each time there still is one.
    ///
    /// The leader must be waited for elsewhere: its zombie counts as alive. Cancel safe.
    pub async fn wait(self, mut on_check: impl FnMut()) {
        while self.is_alive() {
            on_check();
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
}

/// A group that the guardian watches. Dropping it kills the processes that are left.
pub struct GuardedGroup {
    group: Group,
    guardian: Arc<Guardian>,
}

impl GuardedGroup {
    /// Like [`Group::spawn`], watched from then on.
    pub fn spawn(command: &mut Command, guardian: Arc<Guardian>) -> io::Result<(Child, GuardedGroup)> {
        let (child, group) = Group::spawn(command)?;
        guardian.watch(group);
        Ok((child, GuardedGroup { group, guardian }))
    }

    /// Sends a signal to all processes of the group. An empty group is no error.
    pub fn signal(&self, signal: Signal) {
        self.group.signal(signal);
    }
}

impl Drop for GuardedGroup {
    fn drop(&mut self) {
        self.group.signal(Signal::KILL);
        self.guardian.release(self.group);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use tokio::io::{AsyncBufReadExt, BufReader};

    use super::*;
    use crate::is_alive;

    /// Starts a shell with a child of its own; returns the shell, its group and the child's id.
    async fn start() -> (Child, Group, u32) {
        let mut command = Command::new("sh");
        command
            .args(["-c", "sleep 1000 & echo $!; wait"])
            .stdout(Stdio::piped());
        let (mut child, group) = Group::spawn(&mut command).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let grandchild = lines.next_line().await.unwrap().unwrap().parse().unwrap();
        (child, group, grandchild)
    }

    #[tokio::test]
    async fn a_signal_reaches_the_whole_group() {
        let (mut child, group, grandchild) = start().await;
        assert!(group.is_alive());
        assert_eq!(Group::of(&child), Some(group));
        group.signal(Signal::TERM);
        child.wait().await.unwrap();
        group.wait(|| ()).await;
        assert!(!is_alive(grandchild) && !group.is_alive());
        // Nothing is left to signal, which is not an error.
        group.signal(Signal::KILL);
        assert_eq!(Group::of(&child), None);
    }

    #[tokio::test]
    async fn waiting_sees_what_the_leader_left_behind() {
        let (mut child, group, grandchild) = start().await;
        child.kill().await.unwrap();
        assert!(is_alive(grandchild) && group.is_alive());
        let mut checks = 0;
        let wait = group.wait(|| {
            checks += 1;
            if checks == 3 {
                group.signal(Signal::KILL);
            }
        });
        wait.await;
        assert!(checks >= 3 && !is_alive(grandchild));
    }

    #[tokio::test]
    async fn a_guarded_group_is_killed_when_dropped() {
        let guardian = Arc::new(Guardian::shell().unwrap());
        let mut command = Command::new("sleep");
        let (mut child, group) = GuardedGroup::spawn(command.arg("1000"), guardian).unwrap();
        group.signal(Signal::CONT);
        drop(group);
        assert!(!child.wait().await.unwrap().success());
    }
}
