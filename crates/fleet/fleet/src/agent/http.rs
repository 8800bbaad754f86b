//! Workers as HTTP callbacks: the agent tells a server to start, update and stop them.
//!
//! `POST URL/start`, `/update`, `/stop`, `/request`, each with a JSON body that names `app`, `instance`,
//! `worker` and `epoch`; `start` and `update` carry the unchanged config in `config`; `request` carries a
//! `key`, and the response body is its answer. Any 2xx means success.
//!
//! A stop is repeated until it is confirmed, and the worker is not assigned elsewhere before. The agent
//! cannot kill the worker, so the server must stop it on its own when `lease_ms` has passed since the last
//! `start` or `renew`. Calls use separate connections and may overtake each other: a `start` that arrives
//! after a `stop` with the same epoch is late and must be ignored.

use std::io;
use std::time::Duration;

use http::Method;
use http::header::CONTENT_TYPE;

use super::runner::{Attempt, BoxFuture, Ended, Identity, Question, Runner, StopSignal};
use crate::http_client::{Caller, Url};
use nagaya_clock::boot_now;

const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Runs workers through a server's callbacks.
#[derive(Clone, Debug)]
pub struct HttpRunner {
    url: Url,
    caller: Caller,
    /// How long a call may take.
    pub limit: Duration,
    /// Sent to the server with every start and renewal.
    pub lease: Duration,
    /// How often the server is told that a worker may keep running.
    pub renew_every: Duration,
}

impl HttpRunner {
    /// Fails for a URL that is neither `http://` nor `https://`.
    pub fn new(url: &str, lease: Duration, renew_every: Duration) -> io::Result<HttpRunner> {
        let url = Url::parse(url)?;
        Ok(HttpRunner {
            caller: Caller::new(&url, None)?,
            url,
            limit: Duration::from_secs(5),
            lease,
            renew_every,
        })
    }

    async fn call(&self, verb: &str, identity: &Identity, extra: &[(&str, String)]) -> io::Result<String> {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let mut body = format!(
            "{{\"app\":{},\"instance\":{},\"worker\":{},\"epoch\":{},\"lease_ms\":{}",
            text(identity.app.as_str()),
            text(identity.instance.as_str()),
            text(identity.worker.as_str()),
            identity.epoch,
            self.lease.as_millis(),
        );
        for (name, json) in extra {
            body.push_str(&format!(",\"{name}\":{json}"));
        }
        body.push('}');
        let url = self.url.join(verb)?;
        let headers = [(CONTENT_TYPE, "application/json")];
        let call = self.caller.request(Method::POST, &url, &headers, body.as_bytes());
        let answer = tokio::time::timeout(self.limit, call);
        let answer = answer
            .await
            .map_err(|_| io::Error::other("no answer in time"))??;
        if !(200..300).contains(&answer.status()) {
            return Err(io::Error::other(format!(
                "{verb} was answered with {}",
                answer.status()
            )));
        }
        Ok(String::from_utf8_lossy(answer.body()).into_owned())
    }

    async fn live(&self, attempt: Attempt<'_>) -> Ended {
        let Attempt {
            identity,
            config,
            stop,
            questions,
            started,
        } = attempt;
        let bytes = config.borrow_and_update().clone();
        let extra = [("config", config_json(&bytes))];
        let begun = unless_stopped(stop, self.call("start", identity, &extra)).await;
        let mut ended = match begun {
            Some(Ok(_)) => {
                started();
                None
            }
            // It may have started all the same, so it is stopped.
            Some(Err(error)) => Some(Ended::Failed(format!("start failed: {error}"))),
            None => Some(Ended::Stopped),
        };
        // The start was the first renewal.
        let mut renewals = tokio::time::interval(self.renew_every);
        renewals.reset();
        while ended.is_none() {
            let (verb, extra) = tokio::select! {
                biased;
                _ = stop.ordered() => {
                    ended = Some(Ended::Stopped);
                    continue;
                }
                _ = renewals.tick() => ("renew", None),
                Ok(()) = config.changed() => {
                    let bytes = config.borrow_and_update().clone();
                    ("update", Some(("config", config_json(&bytes))))
                }
                Some(question) = questions.recv() => {
                    self.answer(identity, question);
                    continue;
                }
            };
            // A server that does not answer must not delay the stop.
            match unless_stopped(stop, self.call(verb, identity, extra.as_slice())).await {
                Some(Ok(_)) => (),
                Some(Err(error)) => ended = Some(Ended::Failed(error.to_string())),
                None => ended = Some(Ended::Stopped),
            }
        }
        while let Err(error) = self.call("stop", identity, &[]).await {
            tracing::warn!(worker = %identity.worker, %error, "stop not confirmed");
            // Past its lease, the server has stopped it on its own.
            if stop.is_ordered() && boot_now() > stop.ordered().await + self.lease {
                break;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        ended.unwrap_or(Ended::Stopped)
    }

    /// Forwards a question in a separate task.
    fn answer(&self, identity: &Identity, question: Question) {
        let (runner, identity) = (self.clone(), identity.clone());
        tokio::spawn(async move {
            let key = serde_json::Value::from(question.key.as_str()).to_string();
            let answer = runner.call("request", &identity, &[("key", key)]).await;
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
}

/// A config is JSON already, unless other bytes were installed; those are sent as a string.
fn config_json(config: &[u8]) -> String {
    let is_json = serde_json::from_slice::<&serde_json::value::RawValue>(config).is_ok();
    match std::str::from_utf8(config) {
        Ok(text) if is_json => text.to_owned(),
        _ => serde_json::Value::from(String::from_utf8_lossy(config)).to_string(),
    }
}
