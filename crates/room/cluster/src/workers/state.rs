//! State that the commands about tags share.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use nagaya_clock::Sleep;
use nagaya_tiering::cold::ColdTier;
use nagaya_tiering::error::TieringError;

use super::load_pool::LoadPool;
use crate::hot_tier::RedisHotTier;
use crate::stop::Stop;

/// The tiers and threads that commands about tags use.
pub(super) struct Shared {
    pub(super) tier: RedisHotTier,
    pub(super) cold: Arc<dyn ColdTier>,
    pub(super) clock: Arc<dyn Sleep>,
    pub(super) loads: Arc<LoadPool>,
    pub(super) stop: Stop,
    pub(super) under_way: AtomicUsize,
}

/// Why a command failed: an error of a tier, or a message for the client.
pub(super) enum Failure {
    Tier(TieringError),
    Message(String),
}

impl<E: Into<TieringError>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Tier(error.into())
    }
}

impl Failure {
    /// Returns the text of the error reply.
    pub(super) fn text(self) -> String {
        match self {
            Failure::Tier(error) => format!("TRYAGAIN {error}"),
            Failure::Message(text) => format!("ERR {text}"),
        }
    }
}
