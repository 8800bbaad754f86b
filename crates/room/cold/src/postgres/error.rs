//! What PostgreSQL's errors mean to the tiering protocol.

use nagaya_postgres_client::{Error, Kind, ParseError};
use nagaya_tiering::cold::ColdError;

/// Why a cold tier could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Url(#[from] ParseError),
    #[error("the database of the cold tier cannot be opened")]
    Database(#[source] Error),
    #[error("the cold tier cannot be read")]
    Tier(#[source] ColdError),
    #[error("threads for the cold tier cannot be started")]
    Threads(#[source] std::io::Error),
}

impl From<Error> for OpenError {
    fn from(error: Error) -> OpenError {
        OpenError::Database(error)
    }
}

/// Why work on a connection failed.
#[derive(Debug)]
pub(super) enum Failure {
    Server(Error),
    /// A column holds what no version of this program writes.
    Corrupt(&'static str),
    /// A number is too large for a column.
    TooLarge(&'static str),
}

impl Failure {
    /// Returns whether the transaction was undone because of a conflict with another.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Failure::Server(error) if error.kind() == Kind::Conflict)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Server(error)
    }
}

/// Returns what a failure means.
pub(super) fn cold_error(failure: Failure) -> ColdError {
    match failure {
        Failure::Server(error) => match error.kind() {
            Kind::Unavailable | Kind::Conflict | Kind::OutcomeUnknown => ColdError::Unavailable(error.into()),
            Kind::Full => ColdError::Full(error.into()),
            Kind::UniqueViolation | Kind::Constraint | Kind::Credentials | Kind::Schema | Kind::Caller => {
                ColdError::Failed(error.into())
            }
        },
        Failure::Corrupt(what) => ColdError::Damaged {
            what: what.to_owned(),
        },
        Failure::TooLarge(what) => ColdError::Failed(format!("{what} is too large to be kept").into()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_busy_pool_is_worth_the_same_call_again_and_a_corrupt_row_is_not() {
        let busy = Error::Busy {
            address: "a".into(),
            limit: Duration::from_secs(1),
        };
        assert!(cold_error(busy.into()).is_retryable());
        let corrupt = cold_error(Failure::Corrupt("a kind"));
        assert!(matches!(corrupt, ColdError::Damaged { .. }));
        assert!(matches!(
            cold_error(Failure::TooLarge("a snap")),
            ColdError::Failed(_)
        ));
    }
}
