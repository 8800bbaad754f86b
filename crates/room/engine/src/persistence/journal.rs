//! The write-ahead log as a journal of commands.

use std::sync::Arc;

use nagaya_keyspace::effects::{Journal, JournalError, SyncWhen};
use nagaya_wal::{Log, LogError, SyncMode};

pub(super) struct LogJournal(pub(super) Arc<Log>);

impl Journal for LogJournal {
    fn append(&self, record: &[u8]) -> Result<u64, JournalError> {
        self.0
            .append(record)
            .map(|position| position.0)
            .map_err(|error| refusal(&error))
    }

    fn bytes(&self) -> u64 {
        self.0.bytes_on_disk()
    }

    #[inline]
    fn wants_commit(&self) -> bool {
        // Readers wait too: a value that they have seen must survive a crash.
        self.0.mode() == SyncMode::Always && self.0.durable() < self.0.end()
    }

    fn commit(&self) -> Result<(), JournalError> {
        self.0.commit(self.0.end()).map_err(|error| refusal(&error))
    }

    fn set_sync(&self, when: SyncWhen) {
        self.0.set_mode(match when {
            SyncWhen::Always => SyncMode::Always,
            SyncWhen::EverySecond => SyncMode::EverySecond,
            SyncWhen::Never => SyncMode::No,
        });
    }

    fn is_durable(&self, position: u64) -> bool {
        self.0.mode() != SyncMode::Always || self.0.durable().0 >= position
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
        let journal = LogJournal(Arc::new(log));
        let position = journal.append(b"record").unwrap();
        assert!(!journal.wants_commit() && journal.is_durable(position));
        journal.set_sync(SyncWhen::Always);
        let position = journal.append(b"another").unwrap();
        assert!(journal.wants_commit() && !journal.is_durable(position));
        journal.commit().unwrap();
        assert!(!journal.wants_commit() && journal.is_durable(position));
        journal.set_sync(SyncWhen::Never);
        journal.append(b"last").unwrap();
        assert!(!journal.wants_commit());
    }
}
