//! Workers in an application that is called over HTTP: told to start, update and stop them.
//!
//! `POST URL/start`, `/update`, `/stop`, `/request` name `app`, `instance`, `worker` and `epoch`; `start` and
//! `update` carry the unchanged config in `config`; `request` carries a `key`, and the response body is its answer.
//! `POST URL/renew`, once per heartbeat, names all workers that may go on. Any 2xx means success.
//!
//! The agent cannot kill the workers, so the application must end each of them by itself at its `until`, a moment of
//! the application's own clock: its own `mark`, which every answer carries, plus the lease. The mark was read before
//! the heartbeat was sent that renewed the lease, so no delay of any message can make it too late. An application
//! without marks is told how many milliseconds are left.
//!
//! An application that does not answer three renewals, or that answers as another `process`, is over: its workers end
//! at their `until`, and the agent hands them over meanwhile.

mod link;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use self::link::{Ending, Link};
use super::runner::{Attempt, BoxFuture, Ended, Identity, Question, Runner, StopSignal};
use crate::name::{AppName, InstanceName};
use crate::timing::Timing;
use nagaya_clock::boot_now;

const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Which application to call, and as whom.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// `http://` or `https://`.
    pub url: String,
    /// Sent as a bearer token with every call.
    pub token: Option<String>,
    pub app: AppName,
    pub instance: InstanceName,
    pub timing: Timing,
}

/// Runs workers through an application's callbacks.
#[derive(Clone, Debug)]
pub struct HttpRunner {
    link: Arc<Link>,
}

impl HttpRunner {
    /// Must run inside a tokio runtime. Fails for a URL that is neither `http://` nor `https://`.
    pub fn new(options: HttpOptions) -> io::Result<HttpRunner> {
        let link = Arc::new(Link::new(options)?);
        tokio::spawn(link::keep_renewing(Arc::downgrade(&link)));
        Ok(HttpRunner { link })
    }

    async fn live(&self, attempt: Attempt<'_>) -> Ended {
        let Attempt {
            identity,
            config,
            stop,
            lease,
            questions,
            started,
        } = attempt;
        let bytes = config.borrow_and_update().clone();
        let link = &*self.link;
        // Another life of the application may answer meanwhile; what it says is not about this copy.
        let generation = link.generation();
        let until = *lease.borrow_and_update();
        let mut ending = Ending::new(generation);
        let Some(extra) = link.grant(until, &ending) else {
            return Ended::Failed("the application has sent no mark yet".into());
        };
        let config_now = config_json(&bytes);
        let extra = [extra, ("config", config_now)];
        let begun = unless_stopped(stop, link.call("start", identity, &extra)).await;
        let mut ended = match begun {
            Some(Ok(_)) => {
                link.register(identity, until, &mut ending);
                started();
                None
            }
            // It may have started all the same, so it is stopped.
            Some(Err(error)) => Some(Ended::Failed(format!("start failed: {error}"))),
            None => Some(Ended::Stopped),
        };
        while ended.is_none() {
            let bytes = tokio::select! {
                biased;
                _ = stop.ordered() => {
                    ended = Some(Ended::Stopped);
                    continue;
                }
                Ok(()) = lease.changed() => {
                    link.renew(&identity.worker, *lease.borrow_and_update());
                    continue;
                }
                reason = ending.failed() => {
                    ended = Some(Ended::Failed(reason));
                    continue;
                }
                Ok(()) = config.changed() => config.borrow_and_update().clone(),
                Some(question) = questions.recv() => {
                    self.answer(identity, question);
                    continue;
                }
            };
            // An application that does not answer must not delay the stop.
            let extra = [("config", config_json(&bytes))];
            match unless_stopped(stop, link.call("update", identity, &extra)).await {
                Some(Ok(_)) => (),
                Some(Err(error)) => ended = Some(Ended::Failed(format!("update failed: {error}"))),
                None => ended = Some(Ended::Stopped),
            }
        }
        link.unregister(&identity.worker);
        self.stop(identity, generation, ending.promised()).await;
        ended.unwrap_or(Ended::Stopped)
    }

    /// Returns when the copy is over: confirmed by the process that had it, or past everything that it was promised.
    async fn stop(&self, identity: &Identity, generation: u64, promised: nagaya_clock::BootTime) {
        let over_at = promised + self.link.slack();
        while boot_now() < over_at {
            if self.link.generation() == generation {
                match self.link.call("stop", identity, &[]).await {
                    Ok(_) if self.link.generation() == generation => return,
                    Ok(_) => continue,
                    Err(error) => {
                        tracing::warn!(worker = %identity.worker, %error, "stop not confirmed");
                    }
                }
            }
            tokio::time::sleep(RETRY_PAUSE.min(over_at.since(boot_now()))).await;
        }
    }

    /// Forwards a question in a separate task.
    fn answer(&self, identity: &Identity, question: Question) {
        let (link, identity) = (self.link.clone(), identity.clone());
        tokio::spawn(async move {
            let key = serde_json::Value::from(question.key.as_str()).to_string();
            let answer = link.call("request", &identity, &[("key", key)]).await;
            // The asker may have given up.
            let _ = question.answer.send(answer.map_err(|error| error.to_string()));
        });
    }
}

/// Returns the result of a call, or `None` if the worker has to stop first.
async fn unless_stopped<T>(stop: &mut StopSignal, call: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        _ = stop.ordered() => None,
        answer = call => Some(answer),
    }
}

impl Runner for HttpRunner {
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Ended> {
        Box::pin(self.live(attempt))
    }

    /// The application goes on without the agent.
    fn ends_with_agent(&self) -> bool {
        false
    }

    fn readiness(&self) -> Option<watch::Receiver<Option<u64>>> {
        Some(self.link.readiness())
    }
}

/// A config is JSON already, unless other bytes were installed; those are sent as a string.
fn config_json(config: &[u8]) -> String {
    let is_json = serde_json::from_slice::<&serde_json::value::RawValue>(config).is_ok();
    match std::str::from_utf8(config) {
        Ok(text) if is_json => text.to_owned(),
        _ => serde_json::Value::from(String::from_utf8_lossy(config)).to_string(),
    }
}
