//! Plain types of the proxy: what a request, a session and a reply in progress are.
//!
//! Nothing here sends, receives or knows of a worker.

pub(crate) mod client_state;
pub(crate) mod in_flight;
pub(crate) mod key_count;
pub(crate) mod key_event;
pub(crate) mod layout;
pub(crate) mod listeners;
pub(crate) mod merge;
pub(crate) mod outbox;
pub(crate) mod redirect;
pub(crate) mod replicas;
pub(crate) mod reply;
pub(crate) mod reply_ring;
pub(crate) mod request;
pub(crate) mod routes;
pub(crate) mod script_guard;
pub(crate) mod script_prologue;
pub(crate) mod script_words;
pub(crate) mod session;
pub(crate) mod sessions;
pub(crate) mod target;

/// A hash map with a hash that is fast for short keys.
pub(crate) type Map<K, V> = std::collections::HashMap<K, V, ahash::RandomState>;
