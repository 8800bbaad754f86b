//! A child process that ends with us, in a group of its own.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use nagaya_process::{GuardedGroup, Guardian, Signal, end_with_parent};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

/// The descriptor on which the child may write its progress.
pub(super) const PROGRESS_FD: RawFd = 3;

/// A child and the end of its progress pipe.
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) group: GuardedGroup,
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
        .kill_on_drop(true);
    end_with_parent(child.as_std_mut(), Signal::KILL);
    place_pipe(&mut child, writer.as_raw_fd());
    let (child, group) = GuardedGroup::spawn(&mut child, guardian)?;
    let progress = pipe::Receiver::from_owned_fd(reader)?;
    Ok(Started {
        child,
        group,
        progress,
    })
}

/// Gives the child the pipe as [`PROGRESS_FD`].
#[allow(unsafe_code, reason = "the hook between fork and exec has no safe form")]
fn place_pipe(child: &mut Command, progress: RawFd) {
    let hook = move || {
        // SAFETY: both numbers are plain descriptors; 3 belongs to the runtime's own poller here, and what
        // the child had there is not used again before it becomes another program. The copy made by dup2
        // outlives exec; where pipe and target are the same, the mark that closes it is taken away.
        let placed = unsafe {
            if progress == PROGRESS_FD {
                libc::fcntl(progress, libc::F_SETFD, 0)
            } else {
                libc::dup2(progress, PROGRESS_FD)
            }
        };
        match placed {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // SAFETY: only async-signal-safe calls are allowed between fork and exec. The hook makes one plain
    // system call and builds an error that allocates nothing.
    unsafe {
        child.pre_exec(hook);
    }
}

/// Returns whether a program can be found, by path or in `PATH`.
pub(super) fn exists(program: &OsStr) -> bool {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return path.is_file();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}
