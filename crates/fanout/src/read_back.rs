//! Reads a request back: what a reader waits for, and how the request is shown.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::outcome::State;
use crate::service::Fanout;
use crate::store::{StoreError, Stored};

/// Polling interval of the store for a request that another process handles: the first, and the longest after
/// doubling.
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(10);
const POLL_INTERVAL_MAX: Duration = Duration::from_millis(200);

/// What a reader waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Does not wait.
    Nothing,
    All,
    /// This many answers with state ok, or all if there cannot be that many.
    Answers(usize),
    /// The outcomes of these endpoints.
    Names(Vec<String>),
}

impl Wanted {
    /// Parses `wait=`: `all`, a number, or comma-separated names.
    pub(crate) fn parse(text: &str) -> Wanted {
        match (text, text.parse()) {
            ("", _) => Wanted::Nothing,
            ("all", _) => Wanted::All,
            (_, Ok(count)) => Wanted::Answers(count),
            (names, _) => Wanted::Names(names.split(',').map(str::to_owned).collect()),
        }
    }

    pub(crate) fn is_there(&self, stored: &Stored) -> bool {
        let ok = || {
            stored
                .outcomes
                .values()
                .filter(|outcome| outcome.state == State::Ok)
                .count()
        };
        match self {
            _ if stored.is_complete() => true,
            Wanted::Nothing => true,
            Wanted::All => false,
            Wanted::Answers(count) => ok() >= *count,
            Wanted::Names(names) => names.iter().all(|name| stored.outcomes.contains_key(name)),
        }
    }
}

/// Parses a duration such as `500ms`, `2s` or plain seconds.
pub(crate) fn parse_timeout(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    use nagaya_config::{Raw, Value};
    Duration::read(&Raw::Words(text.to_owned()))
}

/// Follows one request through the store.
pub(crate) struct Follower {
    fanout: Arc<Fanout>,
    id: String,
    /// Present while this process handles the request.
    progress: Option<watch::Receiver<u64>>,
    pause: Duration,
    until: Instant,
}

impl Follower {
    pub(crate) fn new(fanout: Arc<Fanout>, id: String, timeout: Duration) -> Follower {
        let progress = fanout.live.watch(&id);
        Follower {
            progress,
            id,
            pause: POLL_INTERVAL_MIN,
            until: Instant::now() + timeout.min(fanout.config.read_wait_max),
            fanout,
        }
    }

    /// Reads the request from the store; `None` if there is no such request.
    pub(crate) async fn poll_store(&mut self) -> Result<Option<Stored>, StoreError> {
        if let Some(progress) = &mut self.progress {
            progress.mark_unchanged();
        }
        let reading = self.fanout.store().read(&self.id);
        let limit = self.fanout.config.store_timeout;
        let stored = tokio::time::timeout(limit, reading).await;
        stored.map_err(|_| StoreError::TimedOut { limit })?
    }

    /// Waits until there may be more. Returns false when the time is up.
    pub(crate) async fn wait(&mut self) -> bool {
        let more = async {
            match &mut self.progress {
                Some(progress) => {
                    if progress.changed().await.is_err() {
                        // This process is done with the request: one more read shows everything.
                        self.progress = None;
                    }
                }
                None => {
                    sleep(self.pause).await;
                    self.pause = (self.pause * 2).min(POLL_INTERVAL_MAX);
                }
            }
        };
        tokio::select! {
            () = more => true,
            () = sleep_until(self.until) => false,
            () = self.fanout.closing.cancelled() => false,
        }
    }

    /// Waits for what is wanted or until the time is up, and returns what is stored then.
    pub(crate) async fn wait_for(&mut self, wanted: &Wanted) -> Result<Option<Stored>, StoreError> {
        loop {
            let stored = self.poll_store().await?;
            if stored.as_ref().is_none_or(|stored| wanted.is_there(stored)) || !self.wait().await {
                return Ok(stored);
            }
        }
    }
}

/// Formats the whole request as JSON.
pub(crate) fn show(id: &str, stored: &Stored) -> Value {
    let names = names(stored);
    let results: Map<String, Value> = names
        .iter()
        .filter_map(|name| Some((name.clone(), show_one(name, stored)?)))
        .collect();
    let pending: Vec<&String> = if stored.is_complete() {
        Vec::new()
    } else {
        names.iter().filter(|name| !results.contains_key(*name)).collect()
    };
    json!({
        "request_id": id,
        "method": stored.method,
        "url": stored.url,
        "complete": stored.is_complete(),
        "ms": stored.complete_ms,
        "endpoints": names,
        "pending": pending,
        "results": results,
    })
}

/// Returns all endpoints of a request. For requests stored by serinin, only those that answered are known.
pub(crate) fn names(stored: &Stored) -> Vec<String> {
    if stored.endpoints.is_empty() {
        stored.bodies.keys().cloned().collect()
    } else {
        stored.endpoints.clone()
    }
}

/// Formats one endpoint's outcome with its body; `None` while neither is known.
pub(crate) fn show_one(name: &str, stored: &Stored) -> Option<Value> {
    let outcome = stored.outcomes.get(name);
    let body = stored.bodies.get(name);
    if outcome.is_none() && (body.is_none() || !stored.endpoints.is_empty()) {
        return None;
    }
    let mut shown = match outcome {
        Some(outcome) => serde_json::to_value(outcome).expect("an outcome has only text and numbers"),
        None => json!({}),
    };
    // A body beside an outcome that says "not stored" is one that came too late.
    let is_kept = outcome.is_none_or(|outcome| matches!(outcome.state, State::Ok | State::HttpError));
    if let Some(body) = body.filter(|_| is_kept) {
        let (key, text) = match std::str::from_utf8(body) {
            Ok(text) => ("body", text.to_owned()),
            Err(_) => ("body_base64", STANDARD.encode(body)),
        };
        shown[key] = Value::String(text);
    }
    Some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    fn stored(outcomes: &[(&str, State)]) -> Stored {
        let outcome = |state| Outcome::new(state, Duration::from_millis(3));
        Stored {
            endpoints: vec!["a".into(), "b".into(), "c".into()],
            outcomes: outcomes
                .iter()
                .map(|(name, state)| (name.to_string(), outcome(*state)))
                .collect(),
            ..Stored::default()
        }
    }

    #[test]
    fn a_wait_ends_when_what_is_wanted_is_there() {
        let two = stored(&[("a", State::Ok), ("b", State::Timeout)]);
        let check = |text: &str, expected| assert_eq!(Wanted::parse(text).is_there(&two), expected, "{text}");
        check("", true);
        check("all", false);
        check("1", true);
        check("2", false);
        check("a,b", true);
        check("a,c", false);
        let complete = Stored {
            complete_ms: Some(9),
            ..two.clone()
        };
        let mut unmarked = two;
        unmarked
            .outcomes
            .insert("c".into(), Outcome::new(State::Refused, Duration::ZERO));
        assert!(
            Wanted::All.is_there(&unmarked),
            "all are known, only the mark is missing"
        );
        assert!(Wanted::parse("3").is_there(&complete));
        assert!(Wanted::parse("no-such").is_there(&complete));
    }

    #[test]
    fn timeouts_are_durations_or_seconds() {
        assert_eq!(parse_timeout("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(parse_timeout("1.5"), Some(Duration::from_millis(1500)));
        for bad in ["", "-1", "x", "NaN", "1e99"] {
            assert_eq!(parse_timeout(bad), None, "{bad}");
        }
    }

    #[test]
    fn bodies_are_shown_as_text_where_they_are() {
        let mut request = stored(&[("a", State::Ok), ("b", State::Ok), ("c", State::StoreFailed)]);
        for (name, body) in [("a", &b"text"[..]), ("b", &[0xff, 0xfe]), ("c", b"late")] {
            request
                .bodies
                .insert(name.into(), bytes::Bytes::from_static(body));
        }
        let shown = show("i", &request);
        assert_eq!(shown["results"]["a"]["body"], "text");
        assert_eq!(shown["results"]["b"]["body_base64"], "//4=");
        assert!(shown["results"]["c"].get("body").is_none());
        assert_eq!(shown["pending"], json!([]));
        assert_eq!(shown["complete"], true);
    }
}
