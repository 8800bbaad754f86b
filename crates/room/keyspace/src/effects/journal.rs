//! Where records go.

/// Where records go.
pub trait Journal: Send + Sync {
    /// Takes a record and returns its position, which grows from one to the next.
    ///
    /// Called with shards locked: it may copy and queue, and must not wait for a disk. Once it has
    /// failed it is not called again, since what follows could depend on what is missing, until somebody
    /// says that it works again.
    fn append(&self, record: &[u8]) -> Result<u64, JournalError>;

    /// Returns how long it is, in bytes.
    fn bytes(&self) -> u64 {
        0
    }

    /// Tells whether there is something that must be durable before anybody hears of it.
    fn wants_commit(&self) -> bool {
        false
    }

    /// Makes everything durable that was appended so far.
    fn commit(&self) -> Result<(), JournalError> {
        Ok(())
    }

    /// Tells whether a record, given its position, is as durable as anybody was promised.
    fn is_durable(&self, _position: u64) -> bool {
        true
    }
}

/// Why the journal takes no more; the text is what clients are told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("MISCONF Errors writing to the AOF file: {reason}")]
pub struct JournalError {
    pub reason: String,
}
