//! One thread that starts all children.

use std::io;
use std::sync::mpsc::{self, Sender};

type Task = Box<dyn FnOnce() + Send>;

/// A thread to start children on that must outlive the thread which asks for them.
///
/// The kernel ties a child to the thread that forked it (see [`end_with_parent`](crate::end_with_parent)). Threads of
/// a pool or of a test end before their process does; this one ends when its last handle is dropped.
#[derive(Clone, Debug)]
pub struct Spawner {
    /// Unbounded, but each caller waits for its own task, so there is at most one entry per caller.
    tasks: Sender<Task>,
}

impl Spawner {
    pub fn start(name: &str) -> io::Result<Spawner> {
        let (tasks, queue) = mpsc::channel::<Task>();
        nagaya_threads::spawn(name, move || queue.into_iter().for_each(|task| task()))?;
        Ok(Spawner { tasks })
    }

    /// Runs a function on the thread and returns its result.
    pub fn run<T: Send + 'static>(&self, start: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let (reply, result) = mpsc::channel();
        self.queue(move || {
            // A caller that no longer waits panicked; the result is dropped.
            reply.send(start()).ok();
        })?;
        result.recv().map_err(|_| ended())
    }

    /// Like [`Spawner::run`], for async callers. The function runs inside the caller's runtime.
    ///
    /// If the call is dropped, the function may still run; its result is dropped then.
    pub async fn run_async<T: Send + 'static>(
        &self,
        start: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let runtime = tokio::runtime::Handle::current();
        let (reply, result) = tokio::sync::oneshot::channel();
        self.queue(move || {
            let _context = runtime.enter();
            reply.send(start()).ok();
        })?;
        result.await.map_err(|_| ended())
    }

    fn queue(&self, task: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.tasks.send(Box::new(task)).map_err(|_| ended())
    }
}

fn ended() -> io::Error {
    io::Error::other("the thread that starts processes has ended")
}
