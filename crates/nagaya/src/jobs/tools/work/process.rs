//! A child process that ends with us, in a group of its own.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::guardian::Guardian;

/// The descriptor on which the child may write its progress.
pub(super) const PROGRESS_FD: RawFd = 3;

/// A child and the end of its progress pipe.
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) group: Group,
    pub(super) progress: pipe::Receiver,
}

/// Starts a command with all its streams piped.
///
/// Call it on the main thread only: the kernel kills the child when the thread that started it ends.
pub(super) fn start(
    command: &[OsString],
    variables: &[(&str, &OsStr)],
    guardian: Arc<Guardian>,
) -> io::Result<Started> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut child = Command::new(&command[0]);
    child
        .args(&command[1..])
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    prepare(&mut child, writer.as_raw_fd());
    let child = child.spawn()?;
    let group = Group::of(&child, guardian)?;
    let progress = pipe::Receiver::from_owned_fd(reader)?;
    Ok(Started {
        child,
        group,
        progress,
    })
}

/// Puts the pipe where the child expects it, and lets the kernel kill the child when we end.
#[allow(unsafe_code, reason = "the hook between fork and exec has no safe form")]
fn prepare(child: &mut Command, progress: RawFd) {
    let parent = std::process::id();
    let hook = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // We may have ended before the signal was set; then it would never come.
        match rustix::process::getppid() {
            Some(pid) if pid.as_raw_nonzero().get().cast_unsigned() == parent => (),
            _ => return Err(io::Error::from(io::ErrorKind::BrokenPipe)),
        }
        // SAFETY: both numbers are plain descriptors; 3 belongs to the runtime's own poller here, and what
        // the child had there is not used again before it becomes another program. The copy made by dup2
        // outlives exec; where pipe and target are the same, the mark that closes it is taken away.
        let placed = unsafe {
            match progress == PROGRESS_FD {
                true => libc::fcntl(progress, libc::F_SETFD, 0),
                false => libc::dup2(progress, PROGRESS_FD),
            }
        };
        match placed {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // SAFETY: only async-signal-safe calls are allowed between fork and exec. The hook makes plain system
    // calls and builds errors that allocate nothing.
    unsafe {
        child.pre_exec(hook);
    }
}

/// The process group of a child. Dropping it kills whoever is left in it.
pub(super) struct Group {
    leader: Pid,
    guardian: Arc<Guardian>,
}

impl Group {
    fn of(child: &Child, guardian: Arc<Guardian>) -> io::Result<Group> {
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let leader = pid.ok_or_else(|| io::Error::other("the child ended before it was looked at"))?;
        guardian.watch(leader);
        Ok(Group { leader, guardian })
    }

    /// Sends a signal to all of the group. Nobody left in it is no failure.
    pub(super) fn signal(&self, signal: Signal) {
        match kill_process_group(self.leader, signal) {
            Ok(()) | Err(Errno::SRCH) => (),
            Err(error) => tracing::warn!(%error, ?signal, "signal not sent to the command's group"),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.guardian.release(self.leader);
    }
}

/// Whether a program can be found, by path or in `PATH`.
pub(super) fn exists(program: &OsStr) -> bool {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return path.is_file();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}
