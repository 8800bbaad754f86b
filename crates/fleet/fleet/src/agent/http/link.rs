//! The agent's link to one application: its calls, its marks, and whether it is still the same process.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};

use super::HttpOptions;
use crate::agent::runner::Identity;
use crate::http_client::{Caller, Url};
use crate::name::WorkerId;
use crate::timing::Timing;
use nagaya_clock::{BootTime, boot_now};

/// How long a call may take, renewals apart.
const CALL_LIMIT: Duration = Duration::from_secs(5);
/// Renewals that may fail in a row.
const RENEWALS_LOST_MAX: u32 = 2;
/// Of further ones, every so many is told.
const TOLD_EVERY: u32 = 60;
/// Marks that are remembered: more than there are heartbeats in a lease.
const MARKS_MAX: usize = 64;
/// Longest value of `process`, in bytes.
const PROCESS_BYTES_MAX: usize = 200;

#[derive(Debug)]
pub(super) struct Link {
    url: Url,
    caller: Caller,
    authorization: Option<String>,
    options: HttpOptions,
    state: Mutex<State>,
    /// The life of the application that answers, if one does.
    ready: watch::Sender<Option<u64>>,
    /// A lease has moved on.
    moved: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Counts the lives of the application.
    generation: u64,
    process: Option<String>,
    /// When marks were received, and the marks, oldest first.
    marks: VecDeque<(BootTime, u64)>,
    has_marks: bool,
    failures: u32,
    /// The workers that are renewed.
    running: BTreeMap<WorkerId, Running>,
}

#[derive(Debug)]
struct Running {
    epoch: u64,
    until: BootTime,
    promised: Arc<Promise>,
    failed: watch::Sender<Option<String>>,
}

/// The latest deadline that a copy was given, by the agent's clock.
#[derive(Debug, Default)]
struct Promise(Mutex<BootTime>);

impl Promise {
    fn raise(&self, until: BootTime) {
        let mut promised = self.0.lock().expect("nothing panics here");
        *promised = until.max(*promised);
    }
}

/// What a copy keeps for its end.
#[derive(Debug)]
pub(super) struct Ending {
    generation: u64,
    promised: Arc<Promise>,
    failed: Option<watch::Receiver<Option<String>>>,
}

impl Ending {
    pub(super) fn new(generation: u64) -> Ending {
        Ending {
            generation,
            promised: Arc::default(),
            failed: None,
        }
    }

    /// Returns the latest deadline that the copy was given, by the agent's clock.
    pub(super) fn promised(&self) -> BootTime {
        *self.promised.0.lock().expect("nothing panics here")
    }

    /// Waits until the application says that the copy has failed. Cancel safe.
    pub(super) async fn failed(&mut self) -> String {
        let Some(failed) = &mut self.failed else {
            return std::future::pending().await;
        };
        let told = failed.wait_for(Option::is_some).await;
        if let Some(reason) = told.ok().and_then(|told| told.clone()) {
            return reason;
        }
        // Not renewed any more: the application is over, and the agent will order the stop.
        std::future::pending().await
    }
}

/// A field and its JSON.
pub(super) type Extra = (&'static str, String);

impl Link {
    pub(super) fn new(options: HttpOptions) -> io::Result<Link> {
        let url = Url::parse(&options.url)?;
        Ok(Link {
            caller: Caller::kept(&url)?,
            url,
            authorization: options.token.as_ref().map(|token| format!("Bearer {token}")),
            options,
            state: Mutex::default(),
            ready: watch::Sender::new(None),
            moved: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics here")
    }

    pub(super) fn readiness(&self) -> watch::Receiver<Option<u64>> {
        self.ready.subscribe()
    }

    pub(super) fn generation(&self) -> u64 {
        self.state().generation
    }

    /// How much longer than a promised time it may take on the application's clock.
    pub(super) fn slack(&self) -> Duration {
        let Timing {
            death, lease, margin, ..
        } = self.options.timing;
        death.saturating_sub(lease) + margin
    }

    /// Returns the field that says until when a worker may run whose lease ends at `until`, and raises the promise to
    /// it. `None` if the application sends marks and none is old enough.
    pub(super) fn grant(&self, until: BootTime, ending: &Ending) -> Option<Extra> {
        let (name, value) = self.deadline(&self.state(), until, &ending.promised)?;
        Some((name, value.to_string()))
    }

    fn deadline(&self, state: &State, until: BootTime, promised: &Promise) -> Option<(&'static str, u64)> {
        let lease = self.options.timing.lease;
        if state.has_marks {
            // The mark was read before the heartbeat was sent that has renewed the lease.
            let sent = until - lease;
            let (received, mark) = state.marks.iter().rev().find(|(received, _)| *received <= sent)?;
            promised.raise(*received + lease);
            return Some(("until", mark.saturating_add(millis(lease))));
        }
        promised.raise(until);
        let left = until.since(boot_now()).saturating_sub(self.renew_limit());
        Some(("lease_ms", millis(left)))
    }

    /// A call that takes longer counts as not delivered.
    fn renew_limit(&self) -> Duration {
        self.options.timing.heartbeat
    }

    /// Begins to renew a worker that was started.
    pub(super) fn register(&self, identity: &Identity, until: BootTime, ending: &mut Ending) {
        let mut state = self.state();
        if state.generation != ending.generation {
            return;
        }
        let (failed, seen) = watch::channel(None);
        ending.failed = Some(seen);
        let running = Running {
            epoch: identity.epoch,
            until,
            promised: ending.promised.clone(),
            failed,
        };
        state.running.insert(identity.worker.clone(), running);
    }

    pub(super) fn renew(&self, worker: &WorkerId, until: BootTime) {
        if let Some(running) = self.state().running.get_mut(worker) {
            running.until = until;
        }
        self.moved.notify_one();
    }

    /// Renews a worker no more.
    pub(super) fn unregister(&self, worker: &WorkerId) {
        self.state().running.remove(worker);
    }

    /// Calls for one worker. Returns the body of the answer.
    pub(super) async fn call(&self, verb: &str, identity: &Identity, extra: &[Extra]) -> io::Result<String> {
        let text = |text: &str| Value::from(text).to_string();
        let mut body = format!(
            "{{\"app\":{},\"instance\":{},\"worker\":{},\"epoch\":{}",
            text(identity.app.as_str()),
            text(identity.instance.as_str()),
            text(identity.worker.as_str()),
            identity.epoch,
        );
        for (name, json) in extra {
            body.push_str(&format!(",\"{name}\":{json}"));
        }
        body.push('}');
        // What is left of the lease is counted from the sending, so a start without a mark must arrive soon.
        let is_start = verb == "start" && !self.state().has_marks;
        let limit = if is_start { self.renew_limit() } else { CALL_LIMIT };
        let answer = self.post(verb, body, limit).await?;
        if verb != "request" {
            self.note(&answer);
        }
        Ok(answer)
    }

    async fn post(&self, verb: &str, body: String, limit: Duration) -> io::Result<String> {
        let url = self.url.join(verb)?;
        let mut headers = vec![(CONTENT_TYPE, "application/json")];
        headers.extend(self.authorization.as_deref().map(|value| (AUTHORIZATION, value)));
        let call = self.caller.request(Method::POST, &url, &headers, body.as_bytes());
        let answer = tokio::time::timeout(limit, call);
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

    /// Learns from an answer which process gave it, and when by its own clock.
    fn note(&self, answer: &str) -> Value {
        let received = boot_now();
        let answer: Value = serde_json::from_str(answer).unwrap_or_default();
        let process = answer["process"].as_str().map(str::to_owned);
        let process = process.filter(|process| process.len() <= PROCESS_BYTES_MAX);
        let mut state = self.state();
        if process.is_some() && state.process.is_some() && process != state.process {
            tracing::warn!(
                url = self.options.url,
                "another process of the application answers"
            );
            self.lose(&mut state);
        }
        if process.is_some() {
            state.process = process;
        }
        if let Some(mark) = answer["mark"].as_u64() {
            state.has_marks = true;
            state.marks.push_back((received, mark));
            if state.marks.len() > MARKS_MAX {
                state.marks.pop_front();
            }
        }
        answer
    }

    /// The application is over; the next to answer is another one.
    fn lose(&self, state: &mut State) {
        let generation = state.generation + 1;
        *state = State {
            generation,
            failures: state.failures,
            ..State::default()
        };
        self.ready.send_replace(None);
    }

    /// Renews everything that runs, or finds out whether the application is there.
    async fn renew_all(&self) {
        let (body, generation, sent) = self.renewal();
        let answer = self.post("renew", body, self.renew_limit()).await;
        let answer = match answer {
            Ok(answer) => self.note(&answer),
            Err(error) => {
                let mut state = self.state();
                state.failures += 1;
                let failures = state.failures;
                if failures <= RENEWALS_LOST_MAX + 1 || failures.is_multiple_of(TOLD_EVERY) {
                    tracing::warn!(url = self.options.url, %error, failures, "renewal failed");
                }
                if state.failures > RENEWALS_LOST_MAX && self.ready.borrow().is_some() {
                    tracing::error!(url = self.options.url, "the application is lost");
                    self.lose(&mut state);
                }
                return;
            }
        };
        let mut state = self.state();
        state.failures = 0;
        if state.generation == generation {
            state.tell_failures(&answer, &sent);
        }
        let generation = state.generation;
        drop(state);
        self.ready
            .send_if_modified(|ready| ready.replace(generation) != Some(generation));
    }

    /// Returns the body of a renewal, the life it is for, and the copies it names.
    fn renewal(&self) -> (String, u64, BTreeMap<WorkerId, u64>) {
        let state = self.state();
        let mut sent = BTreeMap::new();
        let mut workers = Vec::new();
        for (worker, running) in &state.running {
            let Some((name, value)) = self.deadline(&state, running.until, &running.promised) else {
                continue;
            };
            let mut entry = json!({"worker": worker.as_str(), "epoch": running.epoch});
            entry[name] = value.into();
            sent.insert(worker.clone(), running.epoch);
            workers.push(entry);
        }
        let body = json!({
            "app": self.options.app.as_str(), "instance": self.options.instance.as_str(), "workers": workers,
        });
        (body.to_string(), state.generation, sent)
    }
}

impl State {
    /// Passes on which of the copies that a renewal named have failed, or are not there.
    fn tell_failures(&mut self, answer: &Value, sent: &BTreeMap<WorkerId, u64>) {
        let is_copy = |entry: &Value, worker: &WorkerId, epoch: u64| {
            entry["worker"].as_str() == Some(worker.as_str()) && entry["epoch"].as_u64() == Some(epoch)
        };
        let failed = answer["failed"].as_array().map_or(&[][..], Vec::as_slice);
        let there: Option<BTreeSet<(&str, u64)>> = answer["running"].as_array().map(|list| {
            let copies = list.iter();
            copies
                .filter_map(|entry| Some((entry["worker"].as_str()?, entry["epoch"].as_u64()?)))
                .collect()
        });
        for (worker, epoch) in sent {
            let Some(running) = self.running.get(worker).filter(|running| running.epoch == *epoch) else {
                continue;
            };
            let told = failed.iter().find(|entry| is_copy(entry, worker, *epoch));
            let is_missing = there
                .as_ref()
                .is_some_and(|there| !there.contains(&(worker.as_str(), *epoch)));
            if let Some(entry) = told {
                let reason = entry["reason"].as_str().unwrap_or("the application says so");
                running.failed.send_replace(Some(reason.to_owned()));
            } else if is_missing {
                let reason = "the application does not have it any more";
                running.failed.send_replace(Some(reason.to_owned()));
            }
        }
    }
}

/// Renews with every heartbeat, as soon as it has moved the lease on, until the runner is gone.
pub(super) async fn keep_renewing(link: Weak<Link>) {
    loop {
        let Some(now) = link.upgrade() else { return };
        now.renew_all().await;
        let heartbeat = now.options.timing.heartbeat;
        // All workers are renewed at once, so one call answers for all of them.
        tokio::time::sleep(heartbeat / 2).await;
        let moved = tokio::time::timeout(heartbeat / 2, now.moved.notified());
        moved.await.ok();
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
