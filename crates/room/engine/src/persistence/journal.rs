//! The write-ahead log as a journal of commands.

use std::sync::Arc;

use nagaya_keyspace::effects::{Journal, JournalError};
use nagaya_process::Ground;
use nagaya_wal::{Log, LogError, Position, SyncMode};

pub(super) struct LogJournal {
    pub(super) log: Arc<Log>,
    pub(super) ground: Ground,
}

impl Journal for LogJournal {
    fn append(&self, record: &[u8]) -> Result<u64, JournalError> {
        self.log
            .append(record)
            .map(|position| position.0)
            .map_err(|error| refusal(&error))
    }

    fn bytes(&self) -> u64 {
        self.log.bytes_on_disk()
    }

    #[inline]
    fn wants_commit(&self) -> bool {
        // Readers wait too: a value that they have seen must survive a crash.
        self.safe() < self.log.end()
    }

    fn commit(&self) -> Result<(), JournalError> {
        self.log.commit(self.log.end()).map_err(|error| refusal(&error))
    }

    fn check(&self) -> Result<(), JournalError> {
        self.ground.check().map_err(|lost| JournalError {
            reason: lost.to_string(),
        })
    }

    fn is_durable(&self, position: u64) -> bool {
        self.safe().0 >= position
    }
}

impl LogJournal {
    /// Returns up to where records are as safe as the settings promise: on the disk, or at least out of the
    /// hands of this process.
    #[inline]
    fn safe(&self) -> Position {
        match self.log.mode() {
            SyncMode::Always => self.log.durable(),
            SyncMode::EverySecond | SyncMode::No => self.log.written(),
        }
    }
}

fn refusal(error: &LogError) -> JournalError {
    JournalError {
        reason: error.to_string(),
    }
}
