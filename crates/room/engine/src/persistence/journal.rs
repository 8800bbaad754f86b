//! The write-ahead log as a journal of commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nagaya_keyspace::effects::{Journal, JournalError, SyncWhen};
use nagaya_process::Ground;
use nagaya_wal::{Log, LogError, Position, SyncMode};

use super::witness::Witness;

pub(super) struct LogJournal {
    pub(super) log: Arc<Log>,
    pub(super) ground: Ground,
    /// Must have a record before its answer leaves.
    pub(super) witness: Option<Witness>,
    /// The end of the last record.
    pub(super) last: AtomicU64,
}

impl Journal for LogJournal {
    fn append(&self, record: &[u8]) -> Result<u64, JournalError> {
        let appended = self.log.append(record).map_err(|error| refusal(&error))?;
        if self.witness.is_some() {
            self.last.fetch_max(appended.0, Ordering::AcqRel);
        }
        Ok(appended.0)
    }

    fn bytes(&self) -> u64 {
        self.log.bytes_on_disk()
    }

    #[inline]
    fn wants_commit(&self) -> bool {
        // Readers wait too: a value that they have seen must survive a crash.
        let is_unwitnessed = |witness: &Witness| witness.position() < self.last.load(Ordering::Acquire);
        self.safe() < self.log.end() || self.witness.as_ref().is_some_and(is_unwitnessed)
    }

    fn commit(&self) -> Result<(), JournalError> {
        let last = self.last.load(Ordering::Acquire);
        let committed = self.log.commit(self.log.end());
        if let Some(witness) = &self.witness {
            match &committed {
                Ok(()) => witness.reach(last),
                Err(_) => witness.void(),
            }
        }
        committed.map_err(|error| refusal(&error))
    }

    fn sync(&self) -> Result<(), JournalError> {
        self.log.sync(self.log.end()).map_err(|error| refusal(&error))
    }

    fn is_on_disk(&self, position: u64) -> bool {
        self.log.durable().0 >= position
    }

    fn check(&self) -> Result<(), JournalError> {
        self.ground.check().map_err(|lost| JournalError {
            reason: lost.to_string(),
        })
    }

    fn set_sync(&self, when: SyncWhen) {
        self.log.set_mode(match when {
            SyncWhen::Always => SyncMode::Always,
            SyncWhen::EverySecond => SyncMode::EverySecond,
            SyncWhen::Never => SyncMode::No,
        });
    }

    fn is_durable(&self, position: u64) -> bool {
        let is_witnessed = |witness: &Witness| witness.position() >= position;
        self.safe().0 >= position && self.witness.as_ref().is_none_or(is_witnessed)
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

#[cfg(test)]
mod tests {
    use nagaya_testkit::Folder;
    use nagaya_wal::{Options, OsFiles};

    use super::*;

    #[test]
    fn records_are_waited_for_from_the_moment_that_the_settings_say_so() {
        let folder = Folder::new("journal");
        let (log, _) = Log::open(folder.path(), &Options::default(), Arc::new(OsFiles)).unwrap();
        let log = Arc::new(log);
        let journal = LogJournal {
            log: Arc::clone(&log),
            ground: Ground::default(),
            witness: None,
            last: AtomicU64::default(),
        };
        let commits = |record: &[u8]| {
            let position = journal.append(record).unwrap();
            assert!(journal.wants_commit() && !journal.is_durable(position));
            journal.commit().unwrap();
            assert!(!journal.wants_commit() && journal.is_durable(position));
        };
        commits(b"in the system's hands");
        assert!(!journal.is_on_disk(log.end().0));
        journal.sync().unwrap();
        assert!(journal.is_on_disk(log.end().0));
        journal.set_sync(SyncWhen::Always);
        commits(b"on the disk");
        assert_eq!(log.durable(), log.end());
        journal.set_sync(SyncWhen::Never);
        commits(b"in the system's hands again");
    }
}
