//! Transactions.

use std::ops::Deref;

use futures_util::FutureExt;

use crate::error::Error;
use crate::session::Session;

/// An open transaction; dropped without [`commit`](Transaction::commit), it is rolled back.
#[derive(Debug)]
pub struct Transaction<'a> {
    session: &'a mut Session,
    ended: bool,
}

impl<'a> Transaction<'a> {
    /// Begins one at the level READ COMMITTED unless the server's default is another.
    pub(crate) async fn begin(session: &'a mut Session) -> Result<Transaction<'a>, Error> {
        session.batch("BEGIN").await?;
        session.take_refused();
        Ok(Transaction {
            session,
            ended: false,
        })
    }

    /// Commits. [`Error::OutcomeUnknown`] when the answer was lost, [`Error::Aborted`] when a statement had
    /// failed: PostgreSQL itself would answer that commit as if it were one.
    ///
    /// Not cancel safe: a dropped call may have committed.
    pub async fn commit(mut self) -> Result<(), Error> {
        if self.session.take_refused() {
            return Err(Error::Aborted);
        }
        self.ended = true;
        match self.session.batch("COMMIT").await {
            Err(error) if error.may_have_run() => Err(Error::OutcomeUnknown {
                address: self.session.address().to_owned(),
                source: Box::new(error),
            }),
            done => done,
        }
    }

    /// Undoes everything.
    pub async fn rollback(mut self) -> Result<(), Error> {
        self.ended = true;
        self.session.batch("ROLLBACK").await
    }
}

impl Deref for Transaction<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session
    }
}

impl Drop for Transaction<'_> {
    /// The first poll hands the statement to the connection, ahead of whatever comes next; no caller waits for
    /// its answer. Should that not work, the connection is closed, which undoes everything, too.
    fn drop(&mut self) {
        if self.ended || !self.session.is_usable() {
            return;
        }
        if let Some(Err(_)) = self.session.driver().batch_execute("ROLLBACK").now_or_never() {
            self.session.spoil();
        }
    }
}
