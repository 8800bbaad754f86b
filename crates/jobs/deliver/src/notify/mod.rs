//! Telling administrators of jobs that failed for good.
//!
//! The follower reads failures out of the log by a named subscription, gathers them by queue and kind, and makes of
//! each group at most one notice in an interval. A notice is a job of a reserved queue, one for each route; the
//! sender works that queue off. So a notice is as durable as any job and has retries of its own, and a notice that
//! fails for good is told to nobody.
//!
//! The subscription's cursor moves past a failure only after its notice is registered. Several servers of one store
//! may do all of this at once: the notice's key, made of its first failure, keeps them from telling twice.

mod chat;
mod config;
mod follower;
mod groups;
mod mail;
mod message_text;
mod sender;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nagaya_jobs::store::JobStore;
use tokio_util::sync::CancellationToken;

pub use config::{ChatConfig, Config, ConfigError, MailConfig, MailTls, RouteConfig, RouteKind};
pub use groups::{GroupKey, Groups, Notice, Timing};

use follower::Follower;
use sender::{Routes, Sender, Tries};

/// Why a test message did not go out.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    #[error("there is no route {name}")]
    NoRoute { name: String },
    #[error("the route {name} does not work: {why}")]
    NotSent { name: String, why: String },
}

/// Tells administrators. Clones share everything.
#[derive(Clone)]
pub struct Notifier {
    store: Arc<dyn JobStore>,
    config: Arc<Config>,
    routes: Arc<Routes>,
    tries: Arc<Tries>,
}

impl Notifier {
    pub fn new(store: Arc<dyn JobStore>, config: Config) -> Result<Notifier, ConfigError> {
        let routes = Arc::new(Routes::open(&config)?);
        Ok(Notifier {
            store,
            config: Arc::new(config),
            routes,
            tries: Arc::default(),
        })
    }

    /// Gathers and sends until told to stop.
    pub async fn run(self, stop: CancellationToken) {
        let follower = Follower::new(Arc::clone(&self.store), Arc::clone(&self.config));
        let sender = Sender::new(
            self.store,
            Arc::clone(&self.routes),
            Arc::clone(&self.tries),
            self.config.look,
        );
        tokio::join!(follower.run(stop.clone()), sender.run(stop));
    }

    /// Notices that this process has sent, and tries that failed.
    pub fn tries(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.tries.sent), read(&self.tries.failed))
    }

    /// Sends a test message by a route, at once and without retries.
    pub async fn test_route(&self, name: &str) -> Result<(), TestError> {
        let route = self.routes.get(name).ok_or_else(|| TestError::NoRoute {
            name: name.to_owned(),
        })?;
        let sent = route.send(&message_text::test(name)).await;
        sent.map_err(|why| TestError::NotSent {
            name: name.to_owned(),
            why,
        })
    }
}
