//! Reader threads, each with its own connection.
//!
//! A read runs in one transaction, so it sees one snapshot. Reads never wait for commits, nor commits for
//! reads.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use nagaya_jobs::error::Error;
use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::error::{OpenError, store_error};
use crate::open::{self, Options};

/// Most reads that wait; further ones fail as busy.
const WAITING_MAX: usize = 4_096;

type Work = Box<dyn FnOnce(Result<&Connection, Error>) + Send>;

pub(crate) struct Readers {
    queue: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Work>,
    closed: bool,
}

impl Readers {
    pub(crate) fn start(path: &Path, options: &Options) -> Result<Readers, OpenError> {
        let queue = Arc::new(Queue::default());
        let mut threads = Vec::new();
        for number in 0..options.readers.max(1) {
            let connection = open::reader(path, options)?;
            let queue = Arc::clone(&queue);
            let name = format!("jobs-read-{number}");
            let thread = nagaya_threads::spawn(name, move || serve(&queue, &connection));
            threads.push(thread.map_err(|error| OpenError::failed(path, Error::Failed(error.into())))?);
        }
        Ok(Readers {
            queue,
            threads: Mutex::new(threads),
        })
    }

    /// Runs a read on one of the threads.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let work = move |connection: Result<&Connection, Error>| {
            // The caller may have gone away.
            reply.send(connection.and_then(work)).ok();
        };
        {
            let mut state = self.queue.state.lock();
            if state.closed {
                return Err(closed());
            }
            if state.waiting.len() >= WAITING_MAX {
                return Err(Error::Busy);
            }
            state.waiting.push_back(Box::new(work));
        }
        self.queue.more.notify_one();
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Finishes waiting reads and ends the threads.
    pub(crate) fn close(&self) {
        self.queue.state.lock().closed = true;
        self.queue.more.notify_all();
        for thread in self.threads.lock().drain(..) {
            thread.join().ok();
        }
    }
}

fn serve(queue: &Queue, connection: &Connection) {
    loop {
        let work = {
            let mut state = queue.state.lock();
            loop {
                if let Some(work) = state.waiting.pop_front() {
                    break work;
                }
                if state.closed {
                    return;
                }
                queue.more.wait(&mut state);
            }
        };
        match connection.unchecked_transaction() {
            Ok(transaction) => {
                work(Ok(connection));
                // Nothing was written, so the result does not matter.
                transaction.finish().ok();
            }
            Err(error) => work(Err(store_error(error))),
        }
    }
}

fn closed() -> Error {
    Error::Stopped {
        why: "it was closed".into(),
    }
}
