//! The writer thread, and how calls share its commits.
//!
//! A commit costs one disk sync whatever its size. So the thread takes all calls that arrived during the last
//! commit, runs them in one transaction, and answers after the sync. No call waits for others to arrive: an
//! idle store commits a single call at once.
//!
//! When a call or the commit fails, the group is rolled back. Each call is then retried in its own transaction,
//! so that one that does not fit on the disk does not fail the others. When the disk itself fails, the state on
//! disk is unknown: the store stops, and every later call fails with that reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use nagaya_jobs::clock::{Clock, Reading};
use nagaya_jobs::error::Error;
use nagaya_jobs::name::QueueName;
use nagaya_jobs::request::Listener;
use nagaya_process::Ground;
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::checkpoint::Checkpoints;
use crate::error::is_fatal;
use crate::memory::{Memory, PendingNotifications};
use crate::sql::{query, run};
use crate::write_transaction::WriteTransaction;

/// Most calls that wait for the thread; further ones fail as busy.
const WAITING_MAX: usize = 8_192;
/// Most items in a shared commit; bounds how long the first call waits for the last.
const GROUP_ITEMS_MAX: usize = 4_096;

/// A call that waits for the thread.
trait Call: Send {
    fn items(&self) -> usize;
    /// Runs in the open transaction. May run twice; the first run is rolled back before.
    fn run(&mut self, tx: &mut WriteTransaction<'_>) -> Result<(), Error>;
    /// Sends the result of `run` when the commit succeeded, otherwise the error.
    fn answer(self: Box<Self>, outcome: Result<(), Error>);
}

struct Task<F, T> {
    items: usize,
    work: F,
    value: Option<T>,
    reply: oneshot::Sender<Result<T, Error>>,
}

impl<F, T> Call for Task<F, T>
where
    F: FnMut(&mut WriteTransaction<'_>) -> Result<T, Error> + Send,
    T: Send,
{
    fn items(&self) -> usize {
        self.items
    }

    fn run(&mut self, tx: &mut WriteTransaction<'_>) -> Result<(), Error> {
        self.value = Some((self.work)(tx)?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<(), Error>) {
        let value = self.value;
        let answer = outcome.map(|()| value.expect("the work was done"));
        // The caller may have gone away.
        self.reply.send(answer).ok();
    }
}

pub(crate) struct Writer {
    calls: Mutex<Option<Sender<Box<dyn Call>>>>,
    waiting: Arc<AtomicUsize>,
    listener: Arc<Mutex<Option<Arc<dyn Listener>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(crate) fn start(
        store: Store,
        clock: Arc<dyn Clock>,
        checkpoints: Arc<Checkpoints>,
    ) -> std::io::Result<Writer> {
        let Store {
            connection,
            memory,
            ground,
        } = store;
        let (sender, receiver) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let listener = Arc::new(Mutex::new(None));
        let read = Reading::of(&*clock);
        let mut state = WriterState {
            connection,
            memory,
            ground,
            clock,
            read,
            checkpoints,
            stopped: None,
            waiting: Arc::clone(&waiting),
            listener: Arc::clone(&listener),
        };
        let thread = nagaya_threads::spawn("jobs-write", move || state.serve(&receiver))?;
        Ok(Writer {
            calls: Mutex::new(Some(sender)),
            waiting,
            listener,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Runs work on about `items` items in a transaction and returns after its commit is synced.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        items: usize,
        work: impl FnMut(&mut WriteTransaction<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let task = Task {
            items,
            work,
            value: None,
            reply,
        };
        self.send(Box::new(task))?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    fn send(&self, call: Box<dyn Call>) -> Result<(), Error> {
        if self.waiting.fetch_add(1, Ordering::SeqCst) >= WAITING_MAX {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            return Err(Error::Busy);
        }
        let calls = self.calls.lock();
        if calls.as_ref().is_some_and(|calls| calls.send(call).is_ok()) {
            return Ok(());
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        Err(closed())
    }

    pub(crate) fn set_listener(&self, listener: Arc<dyn Listener>) {
        *self.listener.lock() = Some(listener);
    }

    /// Finishes waiting calls and ends the thread.
    pub(crate) fn close(&self) {
        self.calls.lock().take();
        if let Some(thread) = self.thread.lock().take() {
            thread.join().ok();
        }
    }
}

fn closed() -> Error {
    Error::Stopped {
        why: "it was closed".into(),
    }
}

/// What the writer thread works on.
pub(crate) struct Store {
    pub(crate) connection: Connection,
    pub(crate) memory: Memory,
    pub(crate) ground: Ground,
}

/// State owned by the writer thread.
struct WriterState {
    connection: Connection,
    memory: Memory,
    ground: Ground,
    clock: Arc<dyn Clock>,
    /// The clock at the last commit.
    read: Reading,
    checkpoints: Arc<Checkpoints>,
    /// Why the store stopped, if it did.
    stopped: Option<String>,
    waiting: Arc<AtomicUsize>,
    listener: Arc<Mutex<Option<Arc<dyn Listener>>>>,
}

impl WriterState {
    fn serve(&mut self, calls: &Receiver<Box<dyn Call>>) {
        while let Ok(first) = calls.recv() {
            let mut items = first.items();
            let mut group = vec![first];
            while items < GROUP_ITEMS_MAX
                && let Ok(call) = calls.try_recv()
            {
                items += call.items();
                group.push(call);
            }
            self.waiting.fetch_sub(group.len(), Ordering::SeqCst);
            self.carry_out(group);
        }
    }

    fn carry_out(&mut self, mut group: Vec<Box<dyn Call>>) {
        match self.transact(&mut group) {
            Ok(()) => group.into_iter().for_each(|call| call.answer(Ok(()))),
            Err(error) if group.len() == 1 || self.stopped.is_some() => {
                group.into_iter().for_each(|call| call.answer(Err(error.again())));
            }
            Err(_) => {
                for call in group {
                    let mut alone = vec![call];
                    let outcome = self.transact(&mut alone);
                    alone
                        .into_iter()
                        .for_each(|call| call.answer(outcome.as_ref().map(|_| ()).map_err(Error::again)));
                }
            }
        }
    }

    /// Runs calls in one transaction, which is rolled back on failure.
    fn transact(&mut self, group: &mut [Box<dyn Call>]) -> Result<(), Error> {
        if let Some(why) = &self.stopped {
            return Err(Error::Stopped { why: why.clone() });
        }
        let changes = self.connection.total_changes();
        match self.try_transact(group) {
            Ok(()) => {
                // What was committed counts only if it is where the next start looks for it.
                if let Err(lost) = self.ground.check() {
                    let why = lost.to_string();
                    self.stopped = Some(why.clone());
                    return Err(Error::Stopped { why });
                }
                self.checkpoints
                    .committed(self.connection.total_changes() - changes);
                self.notify();
                Ok(())
            }
            Err(error) => Err(self.undo(error)),
        }
    }

    fn try_transact(&mut self, group: &mut [Box<dyn Call>]) -> Result<(), Error> {
        run(&self.connection, "BEGIN IMMEDIATE", [])?;
        let read = Reading::of(&*self.clock);
        if let Some(step_ms) = read.step_since(self.read) {
            // Leases are lengths of time, whatever an administrator does to the clock.
            tracing::warn!(step_ms, "the clock was set; leases of jobs go on as before");
            run(&self.connection, query!(running.shift), [step_ms])?;
        }
        let mut tx = WriteTransaction {
            connection: &self.connection,
            memory: &mut self.memory,
            now_ms: 0,
        };
        for call in group {
            tx.now_ms = self.clock.unix_ms();
            call.run(&mut tx)?;
        }
        tx.settle()?;
        run(&self.connection, "COMMIT", [])?;
        self.read = read;
        Ok(())
    }

    /// Rolls back a failed group, or stops the store when that fails.
    fn undo(&mut self, error: Error) -> Error {
        let mut fatal = is_fatal(&error);
        if !self.connection.is_autocommit() && self.connection.execute_batch("ROLLBACK").is_err() {
            fatal = true;
        }
        if !fatal {
            match Memory::load(&self.connection) {
                Ok(memory) => {
                    // Ids that were given out are not given out again, whatever became of them.
                    let ids = self.memory.ids.take();
                    self.memory = memory;
                    self.memory.ids = ids.or(self.memory.ids.take());
                }
                Err(_) => fatal = true,
            }
        }
        if !fatal {
            return error;
        }
        let why = match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        tracing::error!(%why, "job store has stopped");
        self.stopped = Some(why.clone());
        Error::Stopped { why }
    }

    fn notify(&mut self) {
        let notifications: PendingNotifications = std::mem::take(&mut self.memory.notifications);
        let listener = self.listener.lock().clone();
        let Some(listener) = listener else {
            return;
        };
        if !notifications.ready.is_empty() {
            let name = |num: &i64| self.memory.queues.get(num).map(|queue| queue.name.clone());
            let queues: Vec<QueueName> = notifications.ready.iter().filter_map(name).collect();
            listener.ready(&queues);
        }
        if !notifications.ended.is_empty() {
            listener.ended(&notifications.ended);
        }
        if notifications.deliveries {
            listener.deliveries();
        }
        if notifications.logged {
            listener.logged(self.memory.head);
        }
    }
}
