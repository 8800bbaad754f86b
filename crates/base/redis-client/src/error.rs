//! Errors of calls to Redis: who is at fault, and whether a retry is safe.

use std::fmt;
use std::time::Duration;

use nagaya_resp::FrameError;

use crate::url::ParseError;

/// Who has to act for the error to go away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The caller: a wrong URL, password, key type or command.
    Caller,
    /// The server, for now or for good: loading, out of memory, not the primary, too few replicas.
    Server,
    /// The network between the two.
    Network,
}

/// An error reply: its first word and all of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    text: String,
}

impl ServerError {
    pub(crate) fn new(text: &[u8]) -> ServerError {
        let text = String::from_utf8_lossy(text).into_owned();
        ServerError { text }
    }

    /// Returns the word that says what kind of error it is, such as `NOAUTH`.
    pub fn code(&self) -> &str {
        self.text.split(' ').next().unwrap_or_default()
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns where a cluster says that the slot lives: `(asking, address)`.
    pub fn redirect(&self) -> Option<(bool, &str)> {
        let asking = match self.code() {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        Some((asking, self.text.split(' ').nth(2)?))
    }

    /// Returns whether the state passes by itself or by a failover. The refused command has changed nothing.
    fn is_passing(&self) -> bool {
        const PASSING: &[&str] = &[
            "LOADING",
            "BUSY",
            "READONLY",
            "MASTERDOWN",
            "CLUSTERDOWN",
            "TRYAGAIN",
            "MOVED",
            "ASK",
            "OOM",
            "NOREPLICAS",
            "MISCONF",
            "NOSCRIPT",
            "UNKILLABLE",
        ];
        PASSING.contains(&self.code()) || self.text == "ERR max number of clients reached"
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why a call to Redis failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Url(#[from] ParseError),
    #[error("could not connect to redis at {address}")]
    Connect {
        address: String,
        #[source]
        source: std::io::Error,
    },
    #[error("tls to redis at {address} cannot be set up: {reason}")]
    Tls { address: String, reason: String },
    #[error("redis at {address} did not answer {what} within {limit:?}")]
    TimedOut {
        address: String,
        what: &'static str,
        limit: Duration,
    },
    #[error("connection to redis at {address} ended: {reason}")]
    Closed { address: String, reason: String },
    #[error("redis at {address} sent something that is not a reply")]
    Protocol {
        address: String,
        #[source]
        source: FrameError,
    },
    #[error("redis at {address} refused {what}: {error}")]
    Refused {
        address: String,
        what: String,
        error: ServerError,
    },
    #[error("redis answered {what} with an unexpected {found}")]
    Unexpected { what: String, found: String },
    #[error("redis at {address} is a {role}, not the primary")]
    NotPrimary { address: String, role: String },
    #[error("no primary found: {reason}")]
    NoPrimary { reason: String },
    #[error("{acknowledged} of {wanted} required replicas confirmed the write within {limit:?}")]
    TooFewReplicas {
        wanted: u32,
        acknowledged: u32,
        limit: Duration,
    },
    #[error("redis at {address} changed its run from {before} to {after} while a write was under way")]
    RunChanged {
        address: String,
        before: String,
        after: String,
    },
}

impl Error {
    /// Returns who is at fault.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Url(_) | Error::Tls { .. } | Error::Unexpected { .. } => Fault::Caller,
            Error::Refused { error, .. } if error.is_passing() => Fault::Server,
            Error::Refused { .. } => Fault::Caller,
            Error::Connect { .. } | Error::TimedOut { .. } | Error::Closed { .. } => Fault::Network,
            Error::Protocol { .. } => Fault::Server,
            Error::NotPrimary { .. } | Error::NoPrimary { .. } => Fault::Server,
            Error::TooFewReplicas { .. } | Error::RunChanged { .. } => Fault::Server,
        }
    }

    /// Returns whether the same call may succeed later without a change by an operator.
    pub fn is_retryable(&self) -> bool {
        self.fault() != Fault::Caller
    }

    /// Returns whether the command may have run although it failed. Then only a script that may run twice
    /// may be sent again.
    pub fn may_have_run(&self) -> bool {
        match self {
            Error::TimedOut { .. } | Error::Closed { .. } | Error::Protocol { .. } => true,
            Error::TooFewReplicas { .. } | Error::RunChanged { .. } | Error::Unexpected { .. } => true,
            Error::Url(_) | Error::Connect { .. } | Error::Tls { .. } | Error::Refused { .. } => false,
            Error::NotPrimary { .. } | Error::NoPrimary { .. } => false,
        }
    }

    /// Returns the error reply, if that is what it was.
    pub fn server_error(&self) -> Option<&ServerError> {
        match self {
            Error::Refused { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Returns the error with its causes, on one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Error {
        Error::Refused {
            address: "a".into(),
            what: "GET".into(),
            error: ServerError::new(text.as_bytes()),
        }
    }

    #[test]
    fn passing_states_are_the_servers_fault_and_may_be_tried_again() {
        for text in [
            "LOADING Redis is loading the dataset in memory",
            "READONLY You can't write against a read only replica.",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "MOVED 3999 127.0.0.1:6381",
            "ERR max number of clients reached",
        ] {
            let error = refused(text);
            assert_eq!(error.fault(), Fault::Server, "{text}");
            assert!(error.is_retryable() && !error.may_have_run(), "{text}");
        }
    }

    #[test]
    fn wrong_passwords_and_types_are_the_callers_fault() {
        for text in [
            "NOAUTH Authentication required.",
            "WRONGPASS invalid",
            "WRONGTYPE Op",
            "ERR unknown",
        ] {
            assert_eq!(refused(text).fault(), Fault::Caller, "{text}");
            assert!(!refused(text).is_retryable(), "{text}");
        }
    }

    #[test]
    fn redirects_are_read() {
        let error = ServerError::new(b"ASK 3999 127.0.0.1:6381");
        assert_eq!(error.redirect(), Some((true, "127.0.0.1:6381")));
        assert_eq!(ServerError::new(b"MOVED 1 h:2").redirect(), Some((false, "h:2")));
        assert_eq!(ServerError::new(b"ERR no").redirect(), None);
    }
}
