//! How much a client may send, and what it is told when it breaks the protocol.

const UNAUTHENTICATED_ARGS_MAX: usize = 10;
const UNAUTHENTICATED_BULK_BYTES_MAX: usize = 16 * 1024;
const DEFAULT_BULK_BYTES_MAX: usize = 512 * 1024 * 1024;

/// How much one client may send in one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest single argument. 512 MiB, as `proto-max-bulk-len`.
    pub bulk_bytes_max: usize,
    /// Most arguments in one request.
    pub args_max: usize,
    /// Longest inline request, and longest line that states a count or a length. 64 KiB.
    pub inline_bytes_max: usize,
    /// Most bytes an incomplete request may hold. 1 GiB, as `client-query-buffer-limit`; never more than
    /// 4 GiB whatever is set here.
    pub query_bytes_max: usize,
}

impl Limits {
    /// Returns the limits of a client that still has to authenticate: enough for AUTH and HELLO.
    ///
    /// A request past these limits is refused with Redis's "unauthenticated" texts.
    pub fn unauthenticated() -> Self {
        Limits {
            bulk_bytes_max: UNAUTHENTICATED_BULK_BYTES_MAX,
            args_max: UNAUTHENTICATED_ARGS_MAX,
            ..Limits::default()
        }
    }

    pub(crate) fn check_args(&self, count: usize) -> Result<(), ProtocolError> {
        if count <= self.args_max {
            Ok(())
        } else if self.args_max <= UNAUTHENTICATED_ARGS_MAX && count <= i32::MAX as usize {
            Err(ProtocolError::UnauthenticatedArgs)
        } else {
            Err(ProtocolError::InvalidArgsCount)
        }
    }

    pub(crate) fn check_bulk(&self, len: usize) -> Result<(), ProtocolError> {
        if len <= self.bulk_bytes_max {
            Ok(())
        } else if self.bulk_bytes_max <= UNAUTHENTICATED_BULK_BYTES_MAX && len <= DEFAULT_BULK_BYTES_MAX {
            Err(ProtocolError::UnauthenticatedBulk)
        } else {
            Err(ProtocolError::InvalidBulkLength)
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            bulk_bytes_max: DEFAULT_BULK_BYTES_MAX,
            args_max: 1024 * 1024,
            inline_bytes_max: 64 * 1024,
            query_bytes_max: 1024 * 1024 * 1024,
        }
    }
}

/// Why a connection cannot continue. The text is what Redis sends after `-ERR `, then it closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    #[error("Protocol error: too big inline request")]
    InlineTooLong,
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    #[error("Protocol error: too big mbulk count string")]
    ArgsCountTooLong,
    #[error("Protocol error: invalid multibulk length")]
    InvalidArgsCount,
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedArgs,
    #[error("Protocol error: expected '$', got '{}'", char::from(*.got))]
    ExpectedBulk { got: u8 },
    #[error("Protocol error: too big bulk count string")]
    BulkLengthTooLong,
    #[error("Protocol error: invalid bulk length")]
    InvalidBulkLength,
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedBulk,
    /// Redis closes such a connection without a reply; see [`ProtocolError::is_silent`].
    #[error("Protocol error: query buffer limit reached")]
    QueryTooLong,
}

impl ProtocolError {
    /// Returns whether the connection is closed without sending the text first.
    pub fn is_silent(&self) -> bool {
        matches!(self, ProtocolError::QueryTooLong)
    }
}
