//! Sends the queued notifications.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nagaya_jobs::QueueName;
use nagaya_jobs::request::{ClaimRequest, ClaimedJob, Completion, Failure};
use nagaya_jobs::state::FailureTerms;
use nagaya_jobs::store::JobQueue;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::chat::Chat;
use super::config::{Config, ConfigError, RouteKind};
use super::follower::NotificationJob;
use super::mail::Mail;
use super::message_text::Message;
use crate::undelivered;

/// Notifications claimed at a time; they are sent one after another.
const CLAIM: usize = 8;
/// Upper bound for sending one notification.
const SEND_TIME_MAX: Duration = Duration::from_secs(30);

/// A route, ready to send.
pub(super) enum Route {
    Mail(Mail),
    Chat(Chat),
}

impl Route {
    /// Sends a message. Returns why it could not.
    pub(super) async fn send(&self, message: &Message) -> Result<(), String> {
        let sending = async {
            match self {
                Route::Mail(mail) => mail.send(message).await,
                Route::Chat(chat) => chat.send(message).await,
            }
        };
        let late = |_| Err(format!("no answer within {SEND_TIME_MAX:?}"));
        timeout(SEND_TIME_MAX, sending).await.unwrap_or_else(late)
    }
}

/// All routes by name.
pub(super) struct Routes(Vec<(String, Route)>);

impl Routes {
    pub(super) fn open(config: &Config) -> Result<Routes, ConfigError> {
        config.check()?;
        let open = |route: &super::RouteConfig| {
            let opened = match &route.kind {
                RouteKind::Mail(mail) => Mail::open(mail).map(Route::Mail),
                RouteKind::Chat(chat) => Chat::open(chat).map(Route::Chat),
            };
            let opened = opened.map_err(|why| ConfigError {
                route: route.name.clone(),
                why,
            })?;
            Ok((route.name.clone(), opened))
        };
        config
            .routes
            .iter()
            .map(open)
            .collect::<Result<_, _>>()
            .map(Routes)
    }

    pub(super) fn get(&self, name: &str) -> Option<&Route> {
        self.0.iter().find(|(one, _)| one == name).map(|(_, route)| route)
    }
}

/// Attempts of this process since its start.
#[derive(Debug, Default)]
pub(super) struct Tries {
    pub(super) sent: AtomicU64,
    pub(super) failed: AtomicU64,
}

pub(super) struct Sender {
    store: Arc<dyn JobQueue>,
    routes: Arc<Routes>,
    tries: Arc<Tries>,
    poll_interval: Duration,
}

/// How a notification job ends.
enum End {
    Done,
    Failed { error: String, is_permanent: bool },
}

/// Returns the route of a notification; `None` for what is sent by none.
fn route_of(job: &ClaimedJob) -> Option<String> {
    let notification = serde_json::from_slice::<NotificationJob>(&job.payload.bytes).ok();
    notification.map(|notification| notification.route)
}

impl Sender {
    pub(super) fn new(
        store: Arc<dyn JobQueue>,
        routes: Arc<Routes>,
        tries: Arc<Tries>,
        poll_interval: Duration,
    ) -> Sender {
        Sender {
            store,
            routes,
            tries,
            poll_interval,
        }
    }

    pub(super) async fn run(&self, stop: CancellationToken) {
        loop {
            let worked = tokio::select! {
                () = stop.cancelled() => return,
                worked = self.work() => worked,
            };
            if worked > 0 {
                continue;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(self.poll_interval) => (),
            }
        }
    }

    /// Sends what is ready, up to a limit. Returns how many there were. If dropped, the claimed jobs stay
    /// until their leases expire, and are sent again.
    async fn work(&self) -> usize {
        let request = ClaimRequest {
            worker: "notifier".into(),
            queues: vec![undelivered::queue(), QueueName::notifications()],
            tenant: None,
            max: CLAIM,
            lease: Some(SEND_TIME_MAX * (CLAIM as u32 + 1)),
        };
        let claimed = match self.store.claim(vec![request]).await {
            Ok(claimed) => claimed.into_iter().flatten().collect::<Vec<_>>(),
            Err(error) => {
                debug!(%error, "notifications could not be claimed");
                return 0;
            }
        };
        // A route that hangs does not hold up the others: each sends its own, one after another.
        let mut by_route: HashMap<Option<String>, Vec<&ClaimedJob>> = HashMap::new();
        for job in &claimed {
            by_route.entry(route_of(job)).or_default().push(job);
        }
        let routes = by_route.into_values().map(|jobs| self.send_all(jobs));
        futures_util::future::join_all(routes).await;
        claimed.len()
    }

    async fn send_all(&self, jobs: Vec<&ClaimedJob>) {
        for job in jobs {
            let end = self.end(job).await;
            if let Err(error) = self.report(job, end).await {
                warn!(%error, "sent notification not recorded; it will be repeated");
            }
        }
    }

    async fn end(&self, job: &ClaimedJob) -> End {
        let for_good = |error: String| End::Failed {
            error,
            is_permanent: true,
        };
        if job.queue == undelivered::queue() {
            return for_good(undelivered::error_of(&job.payload.bytes));
        }
        let notification: NotificationJob = match serde_json::from_slice(&job.payload.bytes) {
            Ok(notification) => notification,
            Err(error) => return for_good(format!("this is no notice: {error}")),
        };
        let Some(route) = self.routes.get(&notification.route) else {
            return for_good(format!("there is no route {} any more", notification.route));
        };
        match route.send(&notification.message).await {
            Ok(()) => {
                self.tries.sent.fetch_add(1, Ordering::Relaxed);
                End::Done
            }
            Err(error) => {
                self.tries.failed.fetch_add(1, Ordering::Relaxed);
                warn!(
                    route = notification.route,
                    error, "notification could not be sent; it will be retried"
                );
                End::Failed {
                    error,
                    is_permanent: false,
                }
            }
        }
    }

    async fn report(&self, job: &ClaimedJob, end: End) -> Result<(), nagaya_jobs::Error> {
        let lease = job.lease;
        match end {
            End::Done => {
                let report = Completion { lease, result: None };
                self.store
                    .complete(vec![report])
                    .await?
                    .into_iter()
                    .try_for_each(|answer| answer.map(drop))
            }
            End::Failed { error, is_permanent } => {
                let terms = FailureTerms {
                    permanent: is_permanent,
                    retry_after: None,
                };
                let report = Failure { lease, error, terms };
                self.store
                    .fail(vec![report])
                    .await?
                    .into_iter()
                    .try_for_each(|answer| answer.map(drop))
            }
        }
    }
}
