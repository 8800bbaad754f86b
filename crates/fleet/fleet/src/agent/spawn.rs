//! Child processes that die with the agent, however it dies.
//!
//! Two means, because each has a hole. The kernel kills a child when the thread that started it is
//! gone: so all are started by one thread that lives as long as the process, but grandchildren are
//! not reached. A guard, a small shell that waits for the end of a pipe from the agent, kills the
//! process groups it was told of: that reaches everybody who stayed in the group, but a child that
//! was not told of yet would escape it.

use std::io;
use std::process::Stdio;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, oneshot};

const GUARD: &str = include_str!("guard.sh");
/// Starts that may wait for the thread.
const STARTS_QUEUED_MAX: usize = 256;

struct Start {
    command: Command,
    reply: oneshot::Sender<io::Result<Child>>,
}

/// Starts processes. Dropping the last one ends the thread and, by it, all children.
#[derive(Clone, Debug)]
pub(super) struct Spawner {
    starts: mpsc::Sender<Start>,
    groups: mpsc::Sender<String>,
}

impl Spawner {
    /// Must run inside a tokio runtime.
    pub(super) fn start() -> io::Result<Spawner> {
        let (starts, queue) = mpsc::channel::<Start>(STARTS_QUEUED_MAX);
        let runtime = tokio::runtime::Handle::current();
        std::thread::Builder::new()
            .name("fleet-spawner".into())
            .spawn(move || start_all(&runtime, queue))?;
        let mut guard = Command::new("/bin/sh")
            .arg("-c")
            .arg(GUARD)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        let pipe = guard.stdin.take().expect("asked for above");
        let (groups, lines) = mpsc::channel(STARTS_QUEUED_MAX);
        tokio::spawn(tell_guard(guard, pipe, lines));
        Ok(Spawner { starts, groups })
    }

    /// Starts a process in a group of its own.
    pub(super) async fn spawn(&self, mut command: Command) -> io::Result<Child> {
        command.process_group(0);
        die_with_parent(&mut command);
        let (reply, started) = oneshot::channel();
        let gone = || io::Error::other("the agent's spawner is gone");
        self.starts
            .send(Start { command, reply })
            .await
            .map_err(|_| gone())?;
        let child = started.await.map_err(|_| gone())??;
        if let Some(pid) = child.id() {
            // A guard that is gone leaves the kernel's means.
            let _ = self.groups.send(format!("+{pid}\n")).await;
        }
        Ok(child)
    }

    /// The group of a child is gone.
    pub(super) async fn forget(&self, group: Pid) {
        let _ = self.groups.send(format!("-{}\n", group.as_raw_nonzero())).await;
    }
}

fn start_all(runtime: &tokio::runtime::Handle, mut queue: mpsc::Receiver<Start>) {
    let _inside = runtime.enter();
    while let Some(mut start) = queue.blocking_recv() {
        // Whoever asked may be gone; the child then is killed by the drop.
        let _ = start.reply.send(start.command.kill_on_drop(true).spawn());
    }
}

async fn tell_guard(mut guard: Child, mut pipe: ChildStdin, mut lines: mpsc::Receiver<String>) {
    while let Some(line) = lines.recv().await {
        if let Err(error) = pipe.write_all(line.as_bytes()).await {
            tracing::warn!(%error, "guard of the workers is gone");
            return;
        }
    }
    drop(pipe);
    if let Err(error) = guard.wait().await {
        tracing::warn!(%error, "guard of the workers not waited for");
    }
}

#[allow(unsafe_code)] // What runs between fork and exec can be asked for in no other way.
fn die_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    let before_exec = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(parent) {
            return Err(io::Error::other("the agent is gone"));
        }
        Ok(())
    };
    // SAFETY: the closure runs in the forked child and makes two system calls only; it allocates
    // nothing unless the agent is gone, takes no lock and touches no memory but its own.
    unsafe {
        command.pre_exec(before_exec);
    }
}
