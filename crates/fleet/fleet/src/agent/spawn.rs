//! Child processes that die with the agent, however it dies.
//!
//! Two mechanisms, because each has a gap. The kernel kills a child when the thread that started it ends, so
//! one thread that lives as long as the agent starts all of them; grandchildren are not covered. A guardian
//! kills the process groups that it knows of. That covers every process that stayed in its group, but not a
//! child started a moment before the agent died.

use std::io;
use std::sync::Arc;

use nagaya_process::{Group, Guardian, Signal, Spawner as Thread, end_with_parent};
use tokio::process::{Child, Command};

/// Starts processes. Dropping the last clone ends the thread and thereby all children.
#[derive(Clone, Debug)]
pub(super) struct Spawner {
    thread: Thread,
    guardian: Arc<Guardian>,
}

impl Spawner {
    pub(super) fn start() -> io::Result<Spawner> {
        Ok(Spawner {
            thread: Thread::start("fleet-spawner")?,
            guardian: Arc::new(Guardian::shell()?),
        })
    }

    /// Starts a process in its own group. Must run inside a tokio runtime.
    pub(super) async fn spawn(&self, mut command: Command) -> io::Result<Child> {
        command.process_group(0).kill_on_drop(true);
        end_with_parent(command.as_std_mut(), Signal::KILL);
        // If the caller is dropped meanwhile, the child is killed by its own drop.
        let child = self.thread.run_async(move || command.spawn()).await??;
        if let Some(group) = Group::of(&child) {
            self.guardian.watch(group);
        }
        Ok(child)
    }

    /// Tells the guardian that a child's group is gone.
    pub(super) fn forget(&self, group: Group) {
        self.guardian.release(group);
    }
}
