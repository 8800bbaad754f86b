//! Channels and patterns, and the connections that listen to them.

mod counts;
mod registry;

pub use counts::{SharedCounts, SubscriptionCounts};
pub use registry::{Kind, Listeners, PubSub, Relayed};
