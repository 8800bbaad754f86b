//! What every part of a worker can read: the shared state of the proxy, the time and the rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use nagaya_exec::server::Server;
use nagaya_redis_client::Topology;
use nagaya_tiering::protocol::Tokens;
use rustls::ClientConfig;

use super::config::Config;
use super::inbox::Inbox;
use super::metrics::Metrics;
use super::model::in_flight::{Delivery, InFlight, NO_LEASE, Origin};
use super::model::key_count::KeyCount;
use super::model::listeners::ListenerCounts;
use super::model::script_guard::ScriptCache;
use super::model::target::{KeyScope, RoutingRules};
use super::refresher::Refresher;

/// State that the threads of a proxy share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    /// An engine without data: it knows connections, users, settings and the command table.
    pub(crate) server: Server,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) metrics: Metrics,
    pub(crate) refresher: Refresher,
    pub(crate) tokens: Tokens,
    /// Clients' scripts with their guards.
    pub(crate) scripts: ScriptCache,
    /// The channels that the workers are subscribed to.
    pub(crate) listeners: ListenerCounts,
    /// The keys in both tiers, as counted last.
    pub(crate) key_count: KeyCount,
    pub(crate) connections: AtomicUsize,
    pub(crate) next_client_id: AtomicU64,
    /// Nodes that a worker has a connection to.
    pub(crate) open_nodes: AtomicUsize,
}

impl Shared {
    /// Returns the rules that requests are checked against.
    pub(crate) fn rules(&self) -> RoutingRules {
        RoutingRules {
            require_hash_tag: self.config.require_hash_tag,
            key_scope: match (&self.config.tiering, &self.config.redis.topology) {
                (Some(_), Topology::Cluster { .. }) => KeyScope::OneTag,
                (Some(_), _) => KeyScope::Tags,
                (None, Topology::Cluster { .. }) => KeyScope::OneSlot,
                (None, _) => KeyScope::Anywhere,
            },
        }
    }

    /// Returns how long sent bytes may stay unacknowledged: no longer than a command may take.
    pub(crate) fn unacknowledged_limit(&self) -> Duration {
        let allowance = self.config.tiering.as_ref().map(|tiering| tiering.allowance);
        allowance.unwrap_or(self.config.reply_limit)
    }
}

/// A worker's surroundings in one turn of its loop.
#[derive(Clone, Copy)]
pub(crate) struct Env<'a> {
    /// The steady time at the start of the turn, or of the read that is being processed.
    pub(crate) now_us: u64,
    pub(crate) shared: &'a Shared,
    pub(crate) rules: RoutingRules,
    /// The worker's own inbox, for callbacks from other threads.
    pub(crate) inbox: &'a Arc<Inbox>,
}

impl<'a> Env<'a> {
    pub(crate) fn new(shared: &'a Shared, inbox: &'a Arc<Inbox>) -> Env<'a> {
        Env {
            now_us: shared.server.clock.steady_us(),
            shared,
            rules: shared.rules(),
            inbox,
        }
    }

    /// Returns whether the tiering protocol is in use.
    #[inline]
    pub(crate) fn has_tiers(&self) -> bool {
        self.shared.config.tiering.is_some()
    }

    /// Returns until when a request that arrives now is retried.
    #[inline]
    pub(crate) fn give_up_us(&self) -> u64 {
        self.now_us + self.shared.config.retry_for.as_micros() as u64
    }

    /// Returns the delivery of a new request.
    pub(crate) fn delivery(&self, origin: Origin, resp3: bool) -> Delivery {
        Delivery {
            origin,
            resp3,
            is_tracked: false,
            attempts: 0,
            give_up_us: self.give_up_us(),
        }
    }

    /// Returns a request without a lease that is about to be sent.
    #[inline]
    pub(crate) fn in_flight(&self, delivery: Delivery, slot: Option<u16>) -> InFlight {
        InFlight {
            delivery,
            start: 0,
            len: 0,
            slot,
            writes: false,
            queued_us: self.now_us,
            tag: None,
            lease_end_us: NO_LEASE,
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use nagaya_clock::SystemClock;
    use nagaya_commands::table::registry;
    use nagaya_exec::config::Config as TableConfig;
    use nagaya_keyspace::reclaim::ReclaimInline;
    use nagaya_redis_client::RedisUrl;

    use super::*;

    /// Returns the shared state of a proxy without tiers, before a server that is never contacted.
    pub(crate) fn shared() -> Shared {
        let listen = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let clock = Arc::new(SystemClock);
        Shared {
            config: Config::new(listen, RedisUrl::single("127.0.0.1".to_owned(), 1)),
            server: Server::new(
                registry(),
                1,
                TableConfig::default(),
                clock,
                Box::new(ReclaimInline),
            ),
            tls: None,
            metrics: Metrics::default(),
            refresher: Refresher::default(),
            tokens: Tokens::default(),
            scripts: ScriptCache::default(),
            listeners: ListenerCounts::default(),
            key_count: KeyCount::default(),
            connections: AtomicUsize::new(0),
            next_client_id: AtomicU64::new(1),
            open_nodes: AtomicUsize::new(0),
        }
    }
}
