//! Why a call to the pool failed.

use std::time::Duration;

use nagaya_redis_client::{Error as RedisError, Fault};

use super::member::BadMember;

/// Why a call to the pool failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the pool {namespace} is already initialized with {min} to {max}")]
    AlreadyInitialized {
        namespace: String,
        min: String,
        max: String,
    },
    #[error("the pool {namespace} is not initialized: run `nagaya ids init` first")]
    NotInitialized { namespace: String },
    #[error("{min} to {max} is not a range of at most {limit} numbers")]
    BadRange { min: u64, max: u64, limit: u64 },
    #[error("{min} to {max} does not contain the pool's range of {old_min} to {old_max}; it can only grow")]
    NotWider {
        min: u64,
        max: u64,
        old_min: u64,
        old_max: u64,
    },
    #[error("number {number} is reserved by {owner:?}; the pool shrinks only over unused numbers")]
    Used { number: u64, owner: String },
    #[error("the pool's range was changed by somebody else to {min} to {max}; look again")]
    RangeChanged { min: String, max: String },
    #[error(
        "the pool {namespace} lets numbers be used for {pool:?} (use_max) and the settings here say {ours:?}; give \
         every process of the pool the same `ids.use_max`, or change the pool with `nagaya ids init \
         --change-use-max` while nobody uses it"
    )]
    Bound {
        namespace: String,
        pool: Duration,
        ours: Duration,
    },
    #[error("number {number} was in use until a moment ago; ask again in {idle_in:.1?}")]
    NotIdle { number: u64, idle_in: Duration },
    #[error("the pool {namespace} has no number {number}")]
    NoSuchNumber { namespace: String, number: u64 },
    #[error("the namespace {namespace} needs braces on a cluster, such as {{{namespace}}}")]
    NamespaceWithoutTag { namespace: String },
    #[error("the grant of number {number} was given back: {source}")]
    GivenBack {
        number: u64,
        #[source]
        source: RedisError,
    },
    #[error(transparent)]
    BadMember(#[from] BadMember),
    #[error(transparent)]
    Redis(#[from] RedisError),
}

impl Error {
    /// Returns who is at fault.
    pub fn fault(&self) -> Fault {
        match self {
            Error::Redis(error) | Error::GivenBack { source: error, .. } => error.fault(),
            Error::AlreadyInitialized { .. } | Error::NotInitialized { .. } => Fault::Caller,
            Error::BadRange { .. } | Error::NotWider { .. } | Error::Used { .. } => Fault::Caller,
            Error::RangeChanged { .. } | Error::NamespaceWithoutTag { .. } => Fault::Caller,
            Error::Bound { .. } | Error::NotIdle { .. } | Error::NoSuchNumber { .. } => Fault::Caller,
            Error::BadMember(_) => Fault::Server,
        }
    }

    /// Returns whether the same call may succeed later without a change by an operator.
    pub fn is_retryable(&self) -> bool {
        self.fault() != Fault::Caller
    }

    /// Returns the error with its causes, on one line.
    pub fn chain(&self) -> String {
        match self {
            Error::Redis(error) => error.chain(),
            other => other.to_string(),
        }
    }
}
