//! The one thread that starts processes.
//!
//! Linux sends the parent-death signal when the *thread* that forked ends, not when its process does. Test threads
//! end all the time, so every fork happens on a thread of its own that lives as long as the process.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::OnceLock;

use nagaya_process::{Signal, Spawner, end_with_parent};

/// Starts a command in its own process group; the kernel sends it
/// `death_signal` when this process ends by whatever cause.
pub(crate) fn spawn(mut command: Command, death_signal: Signal) -> io::Result<Child> {
    command.process_group(0);
    end_with_parent(&mut command, death_signal);
    spawner().run(move || command.spawn())?
}

fn spawner() -> &'static Spawner {
    static SPAWNER: OnceLock<Spawner> = OnceLock::new();
    SPAWNER.get_or_init(|| Spawner::start("testkit-spawner").expect("a thread can be started"))
}
