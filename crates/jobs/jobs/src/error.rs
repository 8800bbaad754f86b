//! Why a call failed.

use std::error::Error as StdError;
use std::fmt;

use crate::id::JobId;
use crate::name::QueueName;
use crate::state::State;

type Source = Box<dyn StdError + Send + Sync>;

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call cannot succeed as it is.
    Caller,
    /// The store or the queue is overloaded.
    Load,
    /// The store or its machine failed.
    Store,
}

/// Why a token is no longer valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostWhy {
    /// This store issued no such token, or its job is gone.
    Unknown,
    /// The lease expired and the job was taken back.
    Expired,
    /// The attempt ended by another report.
    Reported,
    /// The job was cancelled.
    Cancelled,
    /// The attempt ended the same way with another content; the first report counts.
    Conflict,
}

impl LostWhy {
    pub fn name(self) -> &'static str {
        match self {
            LostWhy::Unknown => "unknown",
            LostWhy::Expired => "expired",
            LostWhy::Reported => "reported",
            LostWhy::Cancelled => "cancelled",
            LostWhy::Conflict => "conflict",
        }
    }
}

impl fmt::Display for LostWhy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            LostWhy::Unknown => "nobody holds this token",
            LostWhy::Expired => "the lease ran out and the job was taken back",
            LostWhy::Reported => "the attempt has already been reported on",
            LostWhy::Cancelled => "the job was cancelled",
            LostWhy::Conflict => "the attempt has already been reported on with another content",
        })
    }
}

/// Why a call, or one item of a batch, failed. Nothing was changed unless the variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{field} {why}")]
    Invalid { field: &'static str, why: String },
    #[error("{what} has {bytes} bytes, the most is {bytes_max}")]
    TooLarge {
        what: &'static str,
        bytes: usize,
        bytes_max: usize,
    },
    #[error("there is no {what} {name}")]
    NotFound { what: &'static str, name: String },
    /// The job's state does not allow it.
    #[error("job {id} is {state}")]
    WrongState { id: JobId, state: State },
    /// A token was used too late or for another job. Counted and shown on the job.
    #[error("lease lost: {why}")]
    LeaseLost { why: LostWhy, state: Option<State> },
    #[error("job {id}, on which this one depends, is unknown")]
    DependencyUnknown { id: JobId },
    #[error("job {id}, on which this one depends, has {state}")]
    DependencyFailed { id: JobId, state: State },
    /// An idempotency key was used again for something else. The job is the one that it stands for.
    #[error("the idempotency key stands for job {id}, which has another payload")]
    KeyReused { id: JobId },
    #[error("queue {queue} is full: it holds {depth_max} jobs that have not started")]
    QueueFull { queue: QueueName, depth_max: u64 },
    #[error("queue {queue} has {jobs} jobs that have not ended")]
    QueueNotEmpty { queue: QueueName, jobs: u64 },
    /// More calls wait for the store than its limit.
    #[error("too many calls wait for the store")]
    Busy,
    /// It cannot be reached. The call may have been carried out.
    #[error("the job store does not answer")]
    Unavailable(#[source] Source),
    /// Its disk is full.
    #[error("the job store is full")]
    Full(#[source] Source),
    /// The store has stopped until it is opened again: a write to its disk failed, so the state on disk is
    /// unknown. The call may have been carried out.
    #[error("the job store has stopped: {why}")]
    Stopped { why: String },
    #[error("the job store is damaged: {what}")]
    Damaged { what: String },
    #[error("the job store failed")]
    Failed(#[source] Source),
}

impl Error {
    pub fn invalid(field: &'static str, why: impl Into<String>) -> Error {
        Error::Invalid {
            field,
            why: why.into(),
        }
    }

    /// Another job holds the unique key of one that is to be moved.
    pub fn unique_key_held() -> Error {
        Error::invalid("queue", "has a job with the same unique key")
    }

    pub fn no_such(what: &'static str, name: impl fmt::Display) -> Error {
        Error::NotFound {
            what,
            name: name.to_string(),
        }
    }

    /// Returns whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Invalid { .. }
            | Error::TooLarge { .. }
            | Error::NotFound { .. }
            | Error::WrongState { .. }
            | Error::LeaseLost { .. }
            | Error::DependencyUnknown { .. }
            | Error::DependencyFailed { .. }
            | Error::KeyReused { .. }
            | Error::QueueNotEmpty { .. } => Fault::Caller,
            Error::QueueFull { .. } | Error::Busy => Fault::Load,
            Error::Unavailable(_)
            | Error::Full(_)
            | Error::Stopped { .. }
            | Error::Damaged { .. }
            | Error::Failed(_) => Fault::Store,
        }
    }

    /// Returns whether the same call may succeed later. Repeating it does no harm: reports are fenced, and
    /// registrations should carry an idempotency key.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Error::QueueFull { .. } | Error::Busy | Error::Unavailable(_) | Error::Full(_)
        )
    }

    /// Returns whether the call may have been carried out despite the error.
    pub fn may_have_happened(&self) -> bool {
        matches!(
            self,
            Error::Unavailable(_) | Error::Stopped { .. } | Error::Failed(_)
        )
    }

    /// Returns the same error for another item of the failed batch. Sources are kept as text.
    pub fn again(&self) -> Error {
        match self {
            Error::Unavailable(source) => Error::Unavailable(source.to_string().into()),
            Error::Full(source) => Error::Full(source.to_string().into()),
            Error::Failed(source) => Error::Failed(source.to_string().into()),
            Error::Stopped { why } => Error::Stopped { why: why.clone() },
            Error::Damaged { what } => Error::Damaged { what: what.clone() },
            Error::Busy => Error::Busy,
            Error::Invalid { field, why } => Error::invalid(field, why.clone()),
            Error::TooLarge {
                what,
                bytes,
                bytes_max,
            } => Error::TooLarge {
                what,
                bytes: *bytes,
                bytes_max: *bytes_max,
            },
            Error::NotFound { what, name } => Error::no_such(what, name),
            Error::WrongState { id, state } => Error::WrongState {
                id: *id,
                state: *state,
            },
            Error::LeaseLost { why, state } => Error::LeaseLost {
                why: *why,
                state: *state,
            },
            Error::DependencyUnknown { id } => Error::DependencyUnknown { id: *id },
            Error::DependencyFailed { id, state } => Error::DependencyFailed {
                id: *id,
                state: *state,
            },
            Error::KeyReused { id } => Error::KeyReused { id: *id },
            Error::QueueNotEmpty { queue, jobs } => Error::QueueNotEmpty {
                queue: queue.clone(),
                jobs: *jobs,
            },
            Error::QueueFull { queue, depth_max } => Error::QueueFull {
                queue: queue.clone(),
                depth_max: *depth_max,
            },
        }
    }
}
