//! Maps the client's errors to those of the job store.

use nagaya_jobs::error::Error;
use nagaya_postgres_client as kit;

/// Returns the store's error for one of the client's.
pub(crate) fn store_error(error: kit::Error) -> Error {
    if matches!(error, kit::Error::PoolClosed { .. }) {
        return Error::Stopped {
            why: "it was closed".into(),
        };
    }
    // Nothing was sent: other calls hold all the connections.
    if matches!(error, kit::Error::Busy { .. }) {
        return Error::Busy;
    }
    match error.kind() {
        kit::Kind::Conflict => Error::Busy,
        kit::Kind::Unavailable | kit::Kind::OutcomeUnknown => Error::Unavailable(error.chain().into()),
        kit::Kind::Full => Error::Full(error.chain().into()),
        kit::Kind::UniqueViolation
        | kit::Kind::Constraint
        | kit::Kind::Credentials
        | kit::Kind::Schema
        | kit::Kind::Caller => Error::Failed(error.chain().into()),
    }
}

/// Returns the error for a row that no version of this program writes.
pub(crate) fn damaged(what: impl Into<String>) -> Error {
    Error::Damaged { what: what.into() }
}
