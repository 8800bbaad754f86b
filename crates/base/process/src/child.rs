//! Children that the kernel ends with their parent.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Starts a command that the kernel kills when this process ends, whatever the cause.
///
/// Call it on the main thread, or through a [`Spawner`](crate::Spawner): the kernel acts when the *thread* that
/// started the child ends.
pub fn spawn_child(mut command: Command) -> io::Result<Child> {
    end_with_parent(&mut command, Signal::KILL);
    command.spawn()
}

/// Lets the kernel send `signal` to the child when the thread that starts it ends.
///
/// Huge pages, which a server may have declined for itself, are left to the child.
///
/// A change of user clears the request; the standard library changes the user before this hook runs, so it holds
/// for commands with another user too.
#[allow(unsafe_code, reason = "the hook between fork and exec has no safe form")]
pub fn end_with_parent(command: &mut Command, signal: Signal) {
    let parent = getpid();
    let hook = move || {
        set_parent_process_death_signal(Some(signal))?;
        allow_huge_pages();
        // If the parent ended before the request was made, the signal would never come.
        if getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::Error::from(io::ErrorKind::BrokenPipe))
        }
    };
    // SAFETY: only async-signal-safe calls are allowed between fork and exec. The hook makes plain system calls
    // and builds errors that allocate nothing.
    unsafe {
        command.pre_exec(hook);
    }
}

/// Takes back that this process declines huge pages: children inherit it, and programs keep it.
#[allow(unsafe_code, reason = "the call has no safe form in what we use")]
fn allow_huge_pages() {
    #[cfg(target_os = "linux")]
    // SAFETY: this request has no pointers. Where the system does not know it, nothing happens.
    unsafe {
        let off: libc::c_ulong = 0;
        libc::prctl(libc::PR_SET_THP_DISABLE, off, off, off, off);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::is_alive;

    #[test]
    fn a_child_ends_with_the_thread_that_started_it() {
        let starting = std::thread::spawn(|| {
            let mut command = Command::new("sleep");
            command.arg("1000");
            spawn_child(command).unwrap()
        });
        let mut child = starting.join().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(Signal::KILL.as_raw())
        );
    }

    #[test]
    fn a_child_of_the_spawner_outlives_the_calling_thread() {
        let spawner = crate::Spawner::start("test-spawner").unwrap();
        let (spawner, mut child) = std::thread::spawn(move || {
            let mut command = Command::new("sleep");
            command.arg("1000");
            let child = spawner.run(move || spawn_child(command)).unwrap().unwrap();
            (spawner, child)
        })
        .join()
        .unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert!(is_alive(child.id()));
        drop(spawner);
        // Killed by the end of its spawner, long before it would have ended by itself.
        let status = child.wait().unwrap();
        assert!(!status.success(), "{status}");
    }
}
