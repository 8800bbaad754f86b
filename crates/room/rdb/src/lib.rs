//! RDB files, the snapshots that Redis and Valkey write.
//!
//! [`Reader`] walks over a file of any length in bounded memory. It looks at the structure only: what it hands
//! out for a key is the value's bytes as they stand in the file, which is what DUMP gives without its footer.
//! So every encoding of every version passes through unchanged, and RESTORE checks the value.
//! [`Writer`] is the other direction, from DUMP payloads to a file.
//!
//! No clock, no socket: bytes in, bytes out.

mod error;
pub mod payload;
mod reader;
mod source;
mod value;
mod writer;

pub use error::Error;
pub use reader::{Checksum, Extent, Item, Key, Limits, Reader};
pub use writer::{KeyError, Writer};

/// The version we write: Redis 7.0 and every Valkey read it.
pub const VERSION: u16 = 10;
/// The newest version that is read: that of Redis 7.4 to 8.4.
pub const VERSION_READ_MAX: u16 = 12;

/// What stands between keys.
pub(crate) mod opcode {
    pub(crate) const SLOT_INFO: u8 = 244;
    pub(crate) const FUNCTION: u8 = 245;
    /// As release candidates of 7.0 wrote functions; no release of Redis reads it.
    pub(crate) const FUNCTION_IN_PARTS: u8 = 246;
    pub(crate) const MODULE_DATA: u8 = 247;
    pub(crate) const IDLE: u8 = 248;
    pub(crate) const FREQUENCY: u8 = 249;
    pub(crate) const AUX: u8 = 250;
    pub(crate) const SIZES: u8 = 251;
    pub(crate) const EXPIRY_MS: u8 = 252;
    pub(crate) const EXPIRY_S: u8 = 253;
    pub(crate) const DATABASE: u8 = 254;
    pub(crate) const END: u8 = 255;
}
