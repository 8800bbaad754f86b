//! Notifies administrators of permanently failed jobs.
//!
//! The follower reads failures from the log through a named subscription, groups them by queue and kind, and
//! creates at most one notification per group and interval. A notification is a job in a reserved queue, one
//! per route; the sender works on that queue. So a notification is as durable as any job and has its own
//! retries. A notification that fails permanently is not reported.
//!
//! The subscription's cursor advances past a failure only after its notification is registered. Several
//! servers of one store may run this concurrently: the notification's key, derived from its first failure,
//! prevents duplicates.

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

/// Why a test message was not sent.
#[derive(Debug, thiserror::Error)]
pub enum TestError {
    #[error("there is no route {name}")]
    NoRoute { name: String },
    #[error("the route {name} does not work: {why}")]
    NotSent { name: String, why: String },
}

/// Notifies administrators. Clones share their state.
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

    /// Groups and sends until told to stop.
    pub async fn run(self, stop: CancellationToken) {
        let follower = Follower::new(Arc::clone(&self.store), Arc::clone(&self.config));
        let sender = Sender::new(
            self.store,
            Arc::clone(&self.routes),
            Arc::clone(&self.tries),
            self.config.poll_interval,
        );
        tokio::join!(follower.run(stop.clone()), sender.run(stop));
    }

    /// Returns how many notifications this process sent, and how many attempts failed.
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
