//! Where records go.

/// Where records go.
pub trait Journal: Send + Sync {
    /// Takes a record and returns its position, which grows from one to the next.
    ///
    /// Called with shards locked: it may copy and queue, and must not wait for a disk. Once it has
    /// failed it is not called again, since what follows could depend on what is missing, until it is
    /// reported to work again.
    fn append(&self, record: &[u8]) -> Result<u64, JournalError>;

    /// Returns how long it is, in bytes.
    fn bytes(&self) -> u64 {
        0
    }

    /// Returns whether there are records that must be durable before replies are sent.
    fn wants_commit(&self) -> bool {
        false
    }

    /// Makes everything durable that was appended so far.
    fn commit(&self) -> Result<(), JournalError> {
        Ok(())
    }

    /// Brings everything that was appended so far to the disk, whatever the settings promise.
    fn sync(&self) -> Result<(), JournalError> {
        Ok(())
    }

    /// Returns whether a record, given its position, is on the disk.
    fn is_on_disk(&self, _position: u64) -> bool {
        true
    }

    /// Makes records durable at other times from now on.
    fn set_sync(&self, _when: SyncWhen) {}

    /// Looks whether what the journal has recorded can still be found.
    fn check(&self) -> Result<(), JournalError> {
        Ok(())
    }

    /// Returns whether a record, given its position, is as durable as the settings promise.
    fn is_durable(&self, _position: u64) -> bool {
        true
    }
}

/// When records are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncWhen {
    /// Before they are acknowledged.
    Always,
    /// Within a second.
    EverySecond,
    /// When the operating system likes.
    Never,
}

/// Why the journal accepts no more records; clients receive this text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("MISCONF Errors writing to the AOF file: {reason}")]
pub struct JournalError {
    pub reason: String,
}
