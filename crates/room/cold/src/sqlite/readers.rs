//! A few connections that only read, shared by all threads.

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

/// The pool. A caller waits while all connections are in use; reads are short.
pub(super) struct Readers {
    idle: Mutex<Vec<Connection>>,
    returned: Condvar,
}

/// A borrowed connection that returns to the pool when dropped, also by a panic.
struct Borrowed<'a> {
    pool: &'a Readers,
    connection: Option<Connection>,
}

impl Readers {
    pub(super) fn new(connections: Vec<Connection>) -> Readers {
        Readers {
            idle: Mutex::new(connections),
            returned: Condvar::new(),
        }
    }

    /// Runs a piece of work on one of the connections.
    pub(super) fn run<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let borrowed = self.borrow();
        let connection = borrowed.connection.as_ref().expect("taken only when dropped");
        work(connection)
    }

    /// Runs work of several statements that must all see one moment, or of enough statements that taking the
    /// read lock once pays off.
    pub(super) fn run_at_once<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        self.run(|connection| {
            let transaction = connection.unchecked_transaction()?;
            let value = work(connection)?;
            transaction.finish()?;
            Ok(value)
        })
    }

    fn borrow(&self) -> Borrowed<'_> {
        let mut idle = self.idle.lock();
        loop {
            if let Some(connection) = idle.pop() {
                return Borrowed {
                    pool: self,
                    connection: Some(connection),
                };
            }
            self.returned.wait(&mut idle);
        }
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.idle.lock().push(connection);
            self.pool.returned.notify_one();
        }
    }
}
