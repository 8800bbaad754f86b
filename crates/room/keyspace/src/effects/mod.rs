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
//! - effects on keys of another database than 0 come behind a `SELECT` with the
//!   number of its *space* (see [`databases`](crate::databases)), so that records
//!   from before a SWAPDB keep their meaning; SWAPDB itself names databases;
//! - keys that expire or are evicted go by `DEL`, and fields that expire by
//!   `HDEL`, before the effects of the command that met them, so that replay
//!   needs no clock.
//!
//! Everything that happens under one hold of the shard locks (a command, a
//! transaction, a script) is one record, appended to the [`Journal`] while they
//! are still held: the log has the order in which the changes were seen.
//!
//! The idle time and the frequency that eviction goes by are no part of it:
//! replay uses a key anew.

pub mod encoding;
pub mod journal;
pub mod record;

pub use encoding::{AT, Corrupt, Effect, EffectBuf, Reader, SELECT};
pub use journal::{Journal, JournalError, SyncWhen};
pub use record::{Effects, same_tag};
