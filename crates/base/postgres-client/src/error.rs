//! Errors of calls to PostgreSQL: which side caused them, and whether a retry is safe.

use std::time::Duration;

use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::url::ParseError;

/// The class of an error, which decides how a caller reacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It cannot be reached, is starting, stopping or busy: the same call may work later.
    Unavailable,
    /// Two transactions conflicted; the whole transaction may be run again.
    Conflict,
    /// A row with this key exists already.
    UniqueViolation,
    /// Another constraint was violated.
    Constraint,
    /// A disk is full.
    Full,
    /// User, password, database name, rights or certificates are wrong.
    Credentials,
    /// The reply to a commit was lost: all of it happened, or nothing.
    OutcomeUnknown,
    /// The database's schema does not match the program.
    Schema,
    /// A statement or URL is wrong.
    Caller,
}

/// Why a call to PostgreSQL failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Url(#[from] ParseError),
    #[error("tls to postgresql at {address} cannot be set up: {reason}")]
    Tls { address: String, reason: String },
    #[error("could not connect to postgresql at {address}")]
    Connect {
        address: String,
        #[source]
        source: tokio_postgres::Error,
    },
    #[error("postgresql at {address} did not accept the connection within {limit:?}")]
    Unreachable { address: String, limit: Duration },
    #[error("postgresql at {address} did not {what} within {limit:?}")]
    TimedOut {
        address: String,
        what: &'static str,
        limit: Duration,
    },
    #[error("no connection to postgresql at {address} was free within {limit:?}")]
    Busy { address: String, limit: Duration },
    #[error("the pool of connections to postgresql at {address} is closed")]
    PoolClosed { address: String },
    #[error("connection to postgresql at {address} ended during a call")]
    Lost {
        address: String,
        #[source]
        source: tokio_postgres::Error,
    },
    #[error("postgresql at {address} did not confirm a commit; it may have happened")]
    OutcomeUnknown {
        address: String,
        #[source]
        source: Box<Error>,
    },
    #[error("a statement of the transaction failed, so it was rolled back")]
    Aborted,
    #[error("postgresql refused: {} ({})", message(.0), code(.0))]
    Refused(#[source] tokio_postgres::Error),
    #[error("postgresql answered with an unexpected {found}")]
    Unexpected { found: String },
    #[error("schema {set} has version {found}, this program knows {known}: use a newer program")]
    SchemaNewer {
        set: &'static str,
        found: u32,
        known: u32,
    },
    #[error("migration {number} of schema {set} was applied with another text than this program's {name}")]
    SchemaChanged {
        set: &'static str,
        number: u32,
        name: &'static str,
    },
}

impl Error {
    /// Distinguishes an error of a connection from one of a statement.
    pub(crate) fn of_call(source: tokio_postgres::Error, address: &str) -> Error {
        let fatal = source.as_db_error().is_some_and(ends_the_session);
        if source.as_db_error().is_some() && !fatal {
            return Error::Refused(source);
        }
        if fatal || source.is_closed() || is_io(&source) {
            let address = address.to_owned();
            return Error::Lost { address, source };
        }
        Error::Unexpected {
            found: with_causes(&source),
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Error::Url(_) | Error::Unexpected { .. } | Error::Aborted => Kind::Caller,
            Error::Tls { .. } => Kind::Credentials,
            Error::Connect { source, .. } => match source.code() {
                Some(code) => of_code(code),
                None if is_tls(source) => Kind::Credentials,
                None => Kind::Unavailable,
            },
            Error::Unreachable { .. }
            | Error::TimedOut { .. }
            | Error::Busy { .. }
            | Error::PoolClosed { .. }
            | Error::Lost { .. } => Kind::Unavailable,
            Error::OutcomeUnknown { .. } => Kind::OutcomeUnknown,
            Error::Refused(source) => source.code().map_or(Kind::Caller, of_code),
            Error::SchemaNewer { .. } | Error::SchemaChanged { .. } => Kind::Schema,
        }
    }

    /// Returns whether the same call may succeed later without intervention. Where it also
    /// [may have run](Error::may_have_run), it must be idempotent.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.kind(),
            Kind::Unavailable | Kind::Conflict | Kind::OutcomeUnknown
        )
    }

    /// Returns whether a statement outside of a transaction, or a commit, may have happened although it failed.
    pub fn may_have_run(&self) -> bool {
        matches!(
            self,
            Error::TimedOut { .. } | Error::Lost { .. } | Error::OutcomeUnknown { .. }
        )
    }

    /// Returns the constraint that was violated.
    pub fn constraint(&self) -> Option<&str> {
        match self {
            Error::Refused(source) => source.as_db_error().and_then(DbError::constraint),
            _ => None,
        }
    }

    /// Returns the five-character SQLSTATE of the error.
    pub fn code(&self) -> Option<&str> {
        match self {
            Error::Refused(source) | Error::Connect { source, .. } | Error::Lost { source, .. } => {
                source.code().map(SqlState::code)
            }
            _ => None,
        }
    }

    /// Returns the error with its causes, on one line.
    pub fn chain(&self) -> String {
        with_causes(self)
    }

    /// Returns whether a connection that gave this error must not be used again: it is closed, or its server has
    /// become a standby and will refuse every write.
    pub(crate) fn spoils_connection(&self) -> bool {
        match self {
            Error::Refused(source) => source.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION),
            Error::Lost { .. } | Error::TimedOut { .. } | Error::OutcomeUnknown { .. } => true,
            _ => false,
        }
    }
}

fn of_code(code: &SqlState) -> Kind {
    const UNAVAILABLE: &[SqlState] = &[
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::OUT_OF_MEMORY,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::QUERY_CANCELED,
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::IO_ERROR,
    ];
    match code.code() {
        _ if UNAVAILABLE.contains(code) => Kind::Unavailable,
        "40001" | "40P01" => Kind::Conflict,
        "23505" => Kind::UniqueViolation,
        "53100" => Kind::Full,
        // The database does not exist, or the user lacks the privilege.
        "3D000" | "42501" => Kind::Credentials,
        // An idle session or transaction was ended by a setting of the server.
        "57P05" | "25P03" => Kind::Unavailable,
        text if text.starts_with("08") => Kind::Unavailable,
        text if text.starts_with("23") => Kind::Constraint,
        text if text.starts_with("28") => Kind::Credentials,
        _ => Kind::Caller,
    }
}

fn ends_the_session(error: &DbError) -> bool {
    matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    let cause = std::error::Error::source(error);
    cause.is_some_and(|cause| cause.is::<std::io::Error>())
}

/// Returns whether a TLS handshake failed. One that fails by its certificates is an I/O error around an error of
/// the TLS library.
fn is_tls(error: &tokio_postgres::Error) -> bool {
    let text = error.to_string();
    text.starts_with("error performing TLS handshake")
}

fn message(error: &tokio_postgres::Error) -> String {
    error
        .as_db_error()
        .map_or_else(|| error.to_string(), |error| error.message().to_owned())
}

fn code(error: &tokio_postgres::Error) -> &str {
    error.code().map_or("no code", SqlState::code)
}

fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &str, kind: Kind) {
        assert_eq!(of_code(&SqlState::from_code(code)), kind, "{code}");
    }

    #[test]
    fn codes_are_told_apart() {
        check("57P01", Kind::Unavailable);
        check("57P03", Kind::Unavailable);
        check("53300", Kind::Unavailable);
        check("08006", Kind::Unavailable);
        check("25006", Kind::Unavailable);
        check("57014", Kind::Unavailable);
        check("40001", Kind::Conflict);
        check("40P01", Kind::Conflict);
        check("23505", Kind::UniqueViolation);
        check("23514", Kind::Constraint);
        check("53100", Kind::Full);
        check("28P01", Kind::Credentials);
        check("3D000", Kind::Credentials);
        check("42P01", Kind::Caller);
    }

    #[test]
    fn a_lost_commit_may_have_happened_and_a_busy_pool_did_nothing() {
        let busy = Error::Busy {
            address: "a".into(),
            limit: Duration::from_secs(1),
        };
        assert!(busy.is_retryable() && !busy.may_have_run());
        let unknown = Error::OutcomeUnknown {
            address: "a".into(),
            source: Box::new(busy),
        };
        assert_eq!(unknown.kind(), Kind::OutcomeUnknown);
        assert!(unknown.is_retryable() && unknown.may_have_run());
    }
}
