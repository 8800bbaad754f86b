//! What commands did, written so that it can be done again.
//!
//! A write-ahead log keeps *effects*: commands whose outcome depends on nothing
//! but the state of one hash tag. Replaying them in order, at any later time,
//! gives the same data. A command that changed something is its own effect,
//! word for word, unless its family file says otherwise:
//!
//! - times to live become moments (`SET k v PXAT 1700000060000`);
//! - what was chosen by chance or by a clock is named (`SREM k member`,
//!   `XADD k 1700000000000-0 f v`);
//! - a command over several tags becomes one effect per tag, and what was
//!   computed from other keys is told as it came out ([`Db::effect_state`]);
//! - a command that needs the time to be exact (a consumer's last sign of life)
//!   carries it: `AT 1700000000000 XCLAIM ...`, see [`AT`];
//! - keys that expire or are evicted go by `DEL`, before the effects of the
//!   command that met them, so that replay needs no clock.
//!
//! Everything that happens under one hold of the shard locks (a command, a
//! transaction, a script) is one record, appended to the [`Journal`] while they
//! are still held: the log has the order in which the changes were seen.
//!
//! The idle time and the frequency that eviction goes by are no part of it:
//! replay uses a key anew.

mod encoding;
mod record;

pub use encoding::{Corrupt, Effect, EffectBuf, Reader};
pub(crate) use record::{Effects, same_tag};

/// The word before an effect that needs to know when it happened; Unix milliseconds and the command follow.
pub const AT: &[u8] = b"AT";

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
