//! What the proxy does beyond forwarding one request to one node.
//!
//! Each feature owns its own state. None names another one, but for transactions, which guard the
//! scripts in them, and flushes, which are a series of commands about tags; the worker knows them all.

pub(crate) mod blocking;
pub(crate) mod cold_keys;
pub(crate) mod flush;
pub(crate) mod info;
pub(crate) mod local;
pub(crate) mod publish;
pub(crate) mod pubsub;
pub(crate) mod replicas;
pub(crate) mod scatter;
pub(crate) mod scripts;
pub(crate) mod settings;
pub(crate) mod tag_commands;
pub(crate) mod tracking;
pub(crate) mod transaction;
pub(crate) mod watch;

/// The state of all features of a worker.
#[derive(Default)]
pub(crate) struct Features {
    pub(crate) blocking: blocking::Blocking,
    pub(crate) cold_keys: cold_keys::ColdQuestions,
    pub(crate) flushes: flush::Flushes,
    pub(crate) scatter: scatter::Scatter,
    pub(crate) subscriptions: pubsub::Subscriptions,
    pub(crate) tracking: tracking::Tracking,
    pub(crate) transactions: transaction::Transactions,
}
