//! Why a call to the fleet's store failed.

use nagaya_redis_client::{Error as RedisError, Fault};

use crate::name::{BadName, InstanceName, WorkerId};

/// Why a call to the fleet's store failed. The first five variants are document 000's.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("NO_ACCEPTABLE_WORKER: no live instance can take {0}")]
    NoAcceptableWorker(WorkerId),
    #[error("ALREADY_INSTALLED: {0} is installed")]
    AlreadyInstalled(WorkerId),
    #[error("NOT_INSTALLED: {0} is not installed")]
    NotInstalled(WorkerId),
    #[error("NO_NEED_TO_RELOCATE: {0} is on a live instance")]
    NoNeedToRelocate(WorkerId),
    #[error("NO_OTHER_ACCEPTABLE_WORKER: no other live instance can take {0}")]
    NoOtherAcceptableWorker(WorkerId),
    #[error("no instance {0} is known")]
    UnknownInstance(InstanceName),
    #[error(
        "the instances of this app agree on a lease and drift of {agreed}, not {wanted}; use theirs, or \
         stop all of them first"
    )]
    OtherTiming { wanted: String, agreed: String },
    #[error("the placement changed again and again; try once more")]
    Contended,
    #[error(transparent)]
    BadName(#[from] BadName),
    #[error(transparent)]
    Redis(#[from] RedisError),
}

/// The severity at which document 000 logs an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSeverity {
    Info,
    Error,
}

impl Error {
    /// Returns document 000's name for the error, if it has one.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            Error::NoAcceptableWorker(_) => Some("NO_ACCEPTABLE_WORKER"),
            Error::AlreadyInstalled(_) => Some("ALREADY_INSTALLED"),
            Error::NotInstalled(_) => Some("NOT_INSTALLED"),
            Error::NoNeedToRelocate(_) => Some("NO_NEED_TO_RELOCATE"),
            Error::NoOtherAcceptableWorker(_) => Some("NO_OTHER_ACCEPTABLE_WORKER"),
            Error::UnknownInstance(_) | Error::OtherTiming { .. } | Error::Contended => None,
            Error::BadName(_) | Error::Redis(_) => None,
        }
    }

    /// Returns the severity at which document 000 logs it.
    pub fn log_severity(&self) -> LogSeverity {
        match self {
            Error::AlreadyInstalled(_) | Error::NoNeedToRelocate(_) => LogSeverity::Info,
            _ => LogSeverity::Error,
        }
    }

    /// Returns whether the caller or the store is at fault.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Redis(error) => error.fault(),
            Error::NoAcceptableWorker(_) | Error::NoOtherAcceptableWorker(_) | Error::Contended => {
                Fault::Server
            }
            Error::AlreadyInstalled(_) | Error::NotInstalled(_) | Error::NoNeedToRelocate(_) => Fault::Caller,
            Error::UnknownInstance(_) | Error::OtherTiming { .. } | Error::BadName(_) => Fault::Caller,
        }
    }

    /// Returns whether the same call may succeed later without any change.
    pub fn is_retryable(&self) -> bool {
        self.fault() != Fault::Caller
    }

    /// Formats the error with its causes on one line.
    pub fn chain(&self) -> String {
        match self {
            Error::Redis(error) => error.chain(),
            other => other.to_string(),
        }
    }
}
