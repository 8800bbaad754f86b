use std::io;

/// Why a file could not be read, and where.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the file could not be read at byte {offset}")]
    Read {
        offset: u64,
        #[source]
        source: io::Error,
    },
    #[error("this is not an RDB file: it does not begin with REDIS and a version")]
    NotRdb,
    #[error("the file has version {version}, and {newest} is the newest that can be read")]
    Version { version: u16, newest: u16 },
    #[error("the file was written by Valkey 9 or newer, in a format of its own that cannot be read")]
    Valkey,
    #[error("the file ends at byte {offset}, in the middle of something")]
    Cut { offset: u64 },
    #[error("the file is damaged at byte {offset}: {what}")]
    Damaged { offset: u64, what: &'static str },
    #[error("the key at byte {offset} has a value of type {kind}, which is unknown")]
    UnknownType { offset: u64, kind: u8 },
    #[error(
        "the key at byte {offset} has a value of a module in the form of Redis 4 previews, whose end cannot be found"
    )]
    OldModule { offset: u64 },
    #[error("what stands at byte {offset} is longer than {limit} bytes")]
    TooLarge { offset: u64, limit: u64 },
    #[error("the checksum at byte {offset} is not that of the file: its content is damaged")]
    Checksum { offset: u64 },
    #[error("the file goes on after its end at byte {offset}")]
    Trailing { offset: u64 },
}

impl Error {
    /// Returns the place in the file that the error is about.
    pub fn offset(&self) -> u64 {
        match self {
            Error::NotRdb | Error::Version { .. } | Error::Valkey => 0,
            Error::Read { offset, .. }
            | Error::Cut { offset }
            | Error::Damaged { offset, .. }
            | Error::UnknownType { offset, .. }
            | Error::OldModule { offset }
            | Error::TooLarge { offset, .. }
            | Error::Checksum { offset }
            | Error::Trailing { offset } => *offset,
        }
    }
}
