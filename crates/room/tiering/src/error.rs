//! Why tiering work failed.

use std::error::Error as StdError;

use crate::cold::ColdError;

/// Why a call to the hot tier failed. Nothing was changed, or all of it when a reply was lost.
#[derive(Debug, thiserror::Error)]
pub enum HotError {
    /// It cannot be reached or is moving; the same call may work later.
    #[error("the hot tier does not answer")]
    Unavailable(#[source] Box<dyn StdError + Send + Sync>),
    /// It has no memory left.
    #[error("the hot tier is full")]
    Full(#[source] Box<dyn StdError + Send + Sync>),
    #[error("the hot tier failed")]
    Failed(#[source] Box<dyn StdError + Send + Sync>),
}

impl HotError {
    /// Returns whether the same call may work later without intervention.
    pub fn is_retryable(&self) -> bool {
        matches!(self, HotError::Unavailable(_) | HotError::Full(_))
    }
}

/// Why a load, a save or an eviction stopped. It may be started again.
#[derive(Debug, thiserror::Error)]
pub enum TieringError {
    #[error(transparent)]
    Hot(#[from] HotError),
    #[error(transparent)]
    Cold(#[from] ColdError),
}

impl TieringError {
    /// Returns whether the same work may succeed later without intervention.
    pub fn is_retryable(&self) -> bool {
        match self {
            TieringError::Hot(error) => error.is_retryable(),
            TieringError::Cold(error) => error.is_retryable(),
        }
    }
}
