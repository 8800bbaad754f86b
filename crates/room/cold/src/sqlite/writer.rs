//! The one connection that writes, and how calls share its commits.
//!
//! A commit costs a sync of the disk however little is in it. So a call that
//! finds others waiting for the connection does its work in the open transaction,
//! hands the connection on and waits; the last in line, or the one that fills the
//! group, commits for all. Every call works on its own thread with its own
//! borrowed data.
//!
//! A call whose work fails is undone alone, by a savepoint. When the commit itself
//! fails nothing of the group is left; each of its calls then tries once more in a
//! transaction of its own, so that one call that does not fit on the disk does
//! not fail the others.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rusqlite::{Connection, Result, ffi};

use super::wal_limit::WalLimit;

/// Most calls that share a commit.
const GROUP_CALLS_MAX: usize = 64;
/// Most rows in a shared commit; bounds how long the first call waits for the last.
const GROUP_ROWS_MAX: usize = 20_000;

pub(super) struct Writer {
    /// Calls that wait for the connection. Each of them will get it and take care of the open transaction.
    waiting: AtomicUsize,
    state: Mutex<WriterState>,
    settled: Condvar,
}

struct WriterState {
    connection: Connection,
    wal_limit: WalLimit,
    /// The number of the open transaction, or of the next one.
    group: u64,
    /// Calls whose work is in the open transaction; none when none is open.
    calls: usize,
    rows: usize,
    /// The calls that wait for its outcome.
    listeners: usize,
    /// How groups ended, until every listener has read it.
    outcomes: BTreeMap<u64, Outcome>,
}

#[derive(Clone, Copy)]
struct Outcome {
    committed: bool,
    listeners: usize,
}

/// How an attempt in a shared transaction ended.
enum Shared<T> {
    Done(Result<T>),
    /// It failed, perhaps because of the other calls; all of it was rolled back.
    Undone,
}

impl Writer {
    pub(super) fn new(connection: Connection, wal_limit: WalLimit) -> Writer {
        Writer {
            waiting: AtomicUsize::new(0),
            state: Mutex::new(WriterState {
                connection,
                wal_limit,
                group: 0,
                calls: 0,
                rows: 0,
                listeners: 0,
                outcomes: BTreeMap::new(),
            }),
            settled: Condvar::new(),
        }
    }

    /// Runs work of about `rows` rows in a transaction and returns when it is on the disk.
    ///
    /// The work may run twice; what the first run did is undone by then.
    pub(super) fn run<T>(&self, rows: usize, work: impl Fn(&Connection) -> Result<T>) -> Result<T> {
        match self.run_shared(rows, &work) {
            Shared::Done(result) => result,
            Shared::Undone => self.run_alone(&work),
        }
    }

    /// Empties SQLite's own log; fails as busy when a reader is inside it.
    pub(super) fn empty_wal(&self) -> Result<()> {
        let mut state = self.enter();
        if state.calls > 0 {
            self.commit(&mut state)?;
        }
        if state.wal_limit.empty(&state.connection)? {
            Ok(())
        } else {
            Err(rusqlite::Error::SqliteFailure(
                ffi::Error::new(ffi::SQLITE_BUSY),
                None,
            ))
        }
    }

    fn run_shared<T>(&self, rows: usize, work: &impl Fn(&Connection) -> Result<T>) -> Shared<T> {
        let mut state = self.enter();
        if let Err(error) = state.open() {
            return Shared::Done(Err(error));
        }
        let alone = state.calls == 0;
        let value = match self.step(&mut state, work) {
            Ok(value) => value,
            Err(error) if alone => return Shared::Done(Err(error)),
            Err(_) => {
                self.leave(&mut state);
                return Shared::Undone;
            }
        };
        state.calls += 1;
        state.rows += rows;
        if self.has_waiting_calls() && state.calls < GROUP_CALLS_MAX && state.rows < GROUP_ROWS_MAX {
            return if self.listen(state) {
                Shared::Done(Ok(value))
            } else {
                Shared::Undone
            };
        }
        let calls = state.calls;
        match self.commit(&mut state) {
            Ok(()) => Shared::Done(Ok(value)),
            Err(error) if calls == 1 => Shared::Done(Err(error)),
            Err(_) => Shared::Undone,
        }
    }

    fn run_alone<T>(&self, work: &impl Fn(&Connection) -> Result<T>) -> Result<T> {
        let mut state = self.enter();
        if state.calls > 0 {
            // Its listeners get the outcome; it is not this call's result.
            self.commit(&mut state).ok();
        }
        state.open()?;
        let value = self.step(&mut state, work)?;
        state.calls = 1;
        self.commit(&mut state)?;
        Ok(value)
    }

    fn enter(&self) -> MutexGuard<'_, WriterState> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let state = self.state.lock();
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        state
    }

    fn has_waiting_calls(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Does the work of one call; on failure undoes that and nothing else, where SQLite allows it.
    fn step<T>(&self, state: &mut WriterState, work: &impl Fn(&Connection) -> Result<T>) -> Result<T> {
        let shared = state.calls > 0;
        if shared {
            state.connection.execute_batch("SAVEPOINT call")?;
        }
        let result = catch_unwind(AssertUnwindSafe(|| work(&state.connection))).unwrap_or_else(|panic| {
            state.roll_back();
            self.settle(state, false);
            resume_unwind(panic)
        });
        let result = result.and_then(|value| {
            if shared {
                state.connection.execute_batch("RELEASE call")?;
            }
            Ok(value)
        });
        if result.is_err() {
            let undone = shared
                && !state.connection.is_autocommit()
                && state
                    .connection
                    .execute_batch("ROLLBACK TO call; RELEASE call")
                    .is_ok();
            if !undone {
                state.roll_back();
                self.settle(state, false);
            }
        }
        result
    }

    /// Commits the group's transaction, if it is still open and no call waits, after a failed step.
    fn leave(&self, state: &mut WriterState) {
        if state.calls > 0 && !self.has_waiting_calls() {
            // Its listeners get the outcome; it is not this call's result.
            self.commit(state).ok();
        }
    }

    fn commit(&self, state: &mut WriterState) -> Result<()> {
        let result = state.connection.execute_batch("COMMIT");
        if result.is_err() {
            state.roll_back();
        }
        self.settle(state, result.is_ok());
        if result.is_ok() {
            state.wal_limit.hold(&state.connection);
        }
        result
    }

    /// Wakes all calls of the group with its outcome and starts the next group.
    fn settle(&self, state: &mut WriterState, committed: bool) {
        if state.listeners > 0 {
            let outcome = Outcome {
                committed,
                listeners: state.listeners,
            };
            state.outcomes.insert(state.group, outcome);
            self.settled.notify_all();
        }
        state.group += 1;
        state.calls = 0;
        state.rows = 0;
        state.listeners = 0;
    }

    /// Waits until another call has committed the group; returns whether that worked.
    fn listen(&self, mut state: MutexGuard<'_, WriterState>) -> bool {
        let group = state.group;
        state.listeners += 1;
        loop {
            self.settled.wait(&mut state);
            if let Some(outcome) = state.outcomes.get_mut(&group) {
                let committed = outcome.committed;
                outcome.listeners -= 1;
                if outcome.listeners == 0 {
                    state.outcomes.remove(&group);
                }
                return committed;
            }
        }
    }
}

impl WriterState {
    fn open(&mut self) -> Result<()> {
        match self.calls {
            0 => self.connection.execute_batch("BEGIN IMMEDIATE"),
            _ => Ok(()),
        }
    }

    /// Ends the open transaction without a trace. Some failures have already made SQLite do so.
    fn roll_back(&mut self) {
        if self.connection.is_autocommit() {
            return;
        }
        if let Err(error) = self.connection.execute_batch("ROLLBACK") {
            tracing::error!(%error, "cold tier could not roll back");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn writer() -> Writer {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch("CREATE TABLE t (a PRIMARY KEY)")
            .unwrap();
        Writer::new(connection, WalLimit::new(Path::new("none"), 1, Duration::ZERO))
    }

    fn rows(writer: &Writer) -> i64 {
        let count =
            |connection: &Connection| connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0));
        writer.run(0, count).unwrap()
    }

    /// Runs four inserts so that three of them wait while the first works.
    fn insert_together(writer: &Writer, values: [i64; 4]) -> [Result<usize>; 4] {
        let first_works = AtomicBool::new(false);
        let insert =
            |connection: &Connection, value: i64| connection.execute("INSERT INTO t VALUES (?1)", [value]);
        let first = |connection: &Connection| {
            first_works.store(true, Ordering::SeqCst);
            while writer.waiting.load(Ordering::SeqCst) < 3 {
                thread::yield_now();
            }
            insert(connection, values[0])
        };
        let other = |value: i64| {
            while !first_works.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            writer.run(1, |connection| insert(connection, value))
        };
        thread::scope(|scope| {
            let [_, second, third, fourth] = values;
            let others = [second, third, fourth].map(|value| scope.spawn(move || other(value)));
            let first = writer.run(1, first);
            let [second, third, fourth] = others.map(|call| call.join().unwrap());
            [first, second, third, fourth]
        })
    }

    #[test]
    fn calls_that_wait_for_each_other_share_one_commit() {
        let writer = writer();
        let results = insert_together(&writer, [1, 2, 3, 4]);
        assert!(results.iter().all(Result::is_ok));
        let state = writer.state.lock();
        assert_eq!(state.group, 1);
        assert!(state.outcomes.is_empty());
        drop(state);
        assert_eq!(rows(&writer), 4);
    }

    #[test]
    fn a_call_that_fails_fails_no_other() {
        let writer = writer();
        let results = insert_together(&writer, [1, 2, 1, 3]);
        assert_eq!(results.map(|result| result.is_ok()), [true, true, false, true]);
        assert_eq!(rows(&writer), 3);
        assert!(writer.state.lock().outcomes.is_empty());
    }

    #[test]
    fn a_call_that_panics_leaves_nothing_and_the_next_one_works() {
        let writer = writer();
        let call = || {
            writer.run(1, |connection| -> Result<()> {
                connection.execute("INSERT INTO t VALUES (1)", [])?;
                panic!("on purpose")
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
        assert_eq!(rows(&writer), 0);
    }
}
