//! Children that end with this process.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Starts a command that the kernel ends when we end, by whatever cause.
///
/// Call it on the main thread only: the signal comes when the thread that started the child ends.
#[allow(unsafe_code, reason = "the hook between fork and exec has no safe form")]
pub(super) fn spawn_child(mut command: Command) -> io::Result<Child> {
    let parent = std::process::id();
    let hook = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // We may have ended before the signal was set; then it would never come.
        match rustix::process::getppid() {
            Some(pid) if pid.as_raw_nonzero().get().cast_unsigned() == parent => Ok(()),
            _ => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
        }
    };
    // SAFETY: only async-signal-safe calls are allowed between fork and exec. The hook makes two plain
    // system calls and builds errors that allocate nothing.
    unsafe {
        command.pre_exec(hook);
    }
    command.spawn()
}
