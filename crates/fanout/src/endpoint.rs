//! The configured endpoints, and admission of jobs.
//!
//! A job is admitted if its endpoint is not known to be down, neither the endpoint's queue nor the common one is
//! full, and its turn is expected to come in time. A job that is not admitted is shed at once, and its endpoint is
//! named in the reply. An
//! admitted job waits for one of the endpoint's slots, then for a worker, and holds both until its response
//! is stored. The slots come first, so jobs of an endpoint that hangs wait without holding workers that other
//! endpoints need.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use nagaya_config::Secret;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::breaker::{Breaker, Pass, Tally};
use crate::budget::Budget;
use crate::client::{Own, Place};
use crate::config::FanoutConfig;
use crate::deadline::Deadline;
use crate::endpoints::{EndpointConfig, Endpoints};
use crate::error::Error;
use crate::load::{Load, is_in_time};
use crate::outcome::State;
use crate::rate::Rate;
use crate::stats::EndpointCounts;
use crate::target::Target;

/// Retries are a tenth of the calls at most, hedges a twentieth.
const CALLS_PER_RETRY: u32 = 10;
const CALLS_PER_HEDGE: u32 = 20;
/// Calls that have to be known before one counts as slow.
const KNOWN_MIN: u64 = 100;
/// The part of its calls that an endpoint answers sooner than a slow one.
const SLOW_SHARE: f64 = 0.95;

/// Further tries of calls.
#[derive(Debug)]
pub(crate) struct Retries {
    /// Of one call.
    pub(crate) max: u32,
    pub(crate) budget: Budget,
}

/// A configured endpoint.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) name: Arc<str>,
    pub(crate) place: Place,
    settings: Settings,
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) load: Load,
    breaker: Mutex<Breaker>,
    rate: Option<Rate>,
    /// Present if calls are tried again.
    pub(crate) retries: Option<Retries>,
    /// Present if slow calls are made twice.
    pub(crate) hedges: Option<Budget>,
    pub(crate) counts: Arc<EndpointCounts>,
}

/// The settings by which a reload decides whether an endpoint is unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Settings {
    target: Target,
    timeout: Duration,
    reserve: Duration,
    concurrency: usize,
    queue: usize,
    breaker_failures: u32,
    breaker_pause: Duration,
    own: Own,
    rate: Option<u32>,
    retries: u32,
    hedge: bool,
}

/// Why a job is shed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShedReason {
    /// Most of the endpoint's recent requests failed, so it gets none for a while.
    Down {
        tally: Tally,
        /// Until it is asked again.
        pause: Duration,
    },
    /// The endpoint's queue is full.
    EndpointQueueFull,
    /// The queue for all endpoints is full.
    QueueFull,
    /// It has had as many requests as it may get.
    RateReached,
    /// Those that wait already take so long that the answer would come too late.
    TooLate { wait: Duration },
}

impl ShedReason {
    pub fn words(self) -> Cow<'static, str> {
        match self {
            ShedReason::Down { tally, pause } => {
                let Tally { requests, failures } = tally;
                let pause_ms = pause.as_millis();
                format!("it is down: {failures} of {requests} requests failed; asked again in {pause_ms} ms")
                    .into()
            }
            ShedReason::EndpointQueueFull => "too many requests wait for it".into(),
            ShedReason::QueueFull => "too many requests wait".into(),
            ShedReason::RateReached => "it has got as many requests as its `rate` allows".into(),
            ShedReason::TooLate { wait } => {
                format!("its turn would come too late, in {} ms", wait.as_millis()).into()
            }
        }
    }
}

/// Permission to send one request to an endpoint; returned when dropped.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) endpoint: Arc<Endpoint>,
    pass: Pass,
    booked: bool,
    all: Arc<Load>,
}

impl Endpoint {
    /// Admits one job, or returns why not. `all` is the load of all endpoints together.
    pub(crate) fn admit(
        self: &Arc<Endpoint>,
        now: Instant,
        all: &Arc<Load>,
    ) -> Result<Admission, ShedReason> {
        let wait = self.load.wait().max(all.wait());
        if !is_in_time(wait, self.load.took(), self.deadline(now).fetch_left(now)) {
            return Err(ShedReason::TooLate { wait });
        }
        if !self.load.enter() {
            return Err(ShedReason::EndpointQueueFull);
        }
        if !all.enter() {
            self.load.leave();
            return Err(ShedReason::QueueFull);
        }
        let mut admission = Admission {
            endpoint: Arc::clone(self),
            pass: Pass::No,
            booked: true,
            all: Arc::clone(all),
        };
        let mut breaker = self.breaker.lock();
        admission.pass = breaker.pass(now);
        admission.booked = admission.pass == Pass::No;
        match admission.pass {
            Pass::No => {
                let (tally, pause) = breaker.why_open(now).unwrap_or_default();
                drop(breaker);
                Err(ShedReason::Down { tally, pause })
            }
            Pass::Normal | Pass::Probe if self.rate.as_ref().is_none_or(|rate| rate.enter(now)) => {
                drop(breaker);
                Ok(admission)
            }
            Pass::Normal | Pass::Probe => {
                drop(breaker);
                Err(ShedReason::RateReached)
            }
        }
    }

    /// Returns the least time with which it is worth asking: what an answer mostly takes, but never more than half
    /// of the whole, so that an endpoint that has become faster is found out.
    pub(crate) fn worth_asking(&self) -> Duration {
        self.load.took().min(self.settings.timeout / 2)
    }

    /// Returns how long most of its calls take; `None` while too few are known.
    pub(crate) fn slow_after(&self) -> Option<Duration> {
        let latency = &self.counts.latency;
        let ms = latency
            .quantile_ms(SLOW_SHARE)
            .filter(|_| latency.count() >= KNOWN_MIN)?;
        Some(Duration::from_secs_f64(ms / 1000.0))
    }

    pub(crate) fn deadline(&self, accepted: Instant) -> Deadline {
        Deadline::new(accepted, self.settings.timeout, self.settings.reserve)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn counts(&self) -> &EndpointCounts {
        &self.counts
    }

    /// Returns the numbers of running and of waiting jobs.
    pub fn jobs(&self) -> (usize, usize) {
        let running = self
            .settings
            .concurrency
            .saturating_sub(self.slots.available_permits());
        (running, self.load.jobs().saturating_sub(running))
    }

    /// Returns the URL without credentials and query.
    pub fn url(&self) -> String {
        self.settings.target.shown()
    }

    /// Returns the state of its breaker: `closed`, `open` or `probing`.
    pub fn breaker_word(&self) -> &'static str {
        self.breaker.lock().word()
    }

    /// Returns whether the breaker is open.
    pub fn is_down(&self) -> bool {
        self.breaker.lock().is_open()
    }
}

impl Admission {
    /// Returns the load of all endpoints together.
    pub(crate) fn all(&self) -> Arc<Load> {
        Arc::clone(&self.all)
    }

    /// Reports the outcome of the job to the breaker. A failure of an endpoint that `had` little time is ours.
    pub(crate) fn book(&mut self, state: State, had: Duration, now: Instant) {
        let failed = match state {
            State::Shed => None,
            State::Timeout if had < self.endpoint.settings.timeout / 2 => None,
            state => Some(state.is_endpoints_failure()),
        };
        self.booked = true;
        self.endpoint.breaker.lock().book(self.pass, failed, now);
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if !self.booked {
            // A probe that was never sent must not block further probes.
            self.endpoint.breaker.lock().book(self.pass, None, Instant::now());
        }
        self.endpoint.load.leave();
        self.all.leave();
    }
}

/// The endpoints at one moment. A request keeps the set it started with.
#[derive(Debug, Default)]
pub struct EndpointSet {
    all: Vec<Arc<Endpoint>>,
    /// The names as a JSON list.
    pub(crate) names_json: Arc<str>,
}

impl EndpointSet {
    /// Builds the set. Endpoints that are unchanged from `before` keep their connections and counters.
    pub(crate) fn new(
        config: &FanoutConfig,
        endpoints: &Endpoints,
        before: &EndpointSet,
    ) -> Result<EndpointSet, Error> {
        let earlier: BTreeMap<&str, &Arc<Endpoint>> = before
            .all
            .iter()
            .map(|endpoint| (&*endpoint.name, endpoint))
            .collect();
        let share = config.share(endpoints.0.len());
        let mut all = Vec::with_capacity(endpoints.0.len());
        for (name, endpoint) in &endpoints.0 {
            let no_url = || {
                Error::Config(format!(
                    "endpoint `{name}`: `{}` is no URL to fetch",
                    endpoint.url
                ))
            };
            let settings = Settings {
                target: Target::parse(&endpoint.url).ok_or_else(no_url)?,
                timeout: endpoint.timeout.unwrap_or(config.timeout),
                reserve: config.store_reserve,
                concurrency: endpoint.concurrency.unwrap_or(share).min(Semaphore::MAX_PERMITS),
                queue: config.queue,
                breaker_failures: config.breaker_failures,
                breaker_pause: config.breaker_pause,
                own: own(endpoint),
                rate: endpoint.rate,
                retries: endpoint.retries,
                hedge: endpoint.hedge,
            };
            let same = earlier.get(name.as_str());
            all.push(match same {
                Some(same) if same.settings == settings => Arc::clone(same),
                changed => {
                    let counts = changed.map(|endpoint| Arc::clone(&endpoint.counts));
                    Arc::new(settings.endpoint(name, counts.unwrap_or_default()))
                }
            });
        }
        let names: Vec<&str> = endpoints.0.keys().map(String::as_str).collect();
        let names_json = serde_json::to_string(&names).expect("names are text");
        Ok(EndpointSet {
            all,
            names_json: names_json.into(),
        })
    }

    /// Iterates in the order of the names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Endpoint>> {
        self.all.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl Settings {
    fn endpoint(self, name: &str, counts: Arc<EndpointCounts>) -> Endpoint {
        Endpoint {
            name: name.into(),
            place: Place::new(self.target.clone(), self.concurrency, self.own.clone()),
            rate: self.rate.map(|rate| Rate::new(rate, Instant::now())),
            retries: (self.retries > 0).then(|| Retries {
                max: self.retries,
                budget: Budget::new(CALLS_PER_RETRY),
            }),
            hedges: self.hedge.then(|| Budget::new(CALLS_PER_HEDGE)),
            slots: Arc::new(Semaphore::new(self.concurrency)),
            load: Load::new(self.concurrency, self.queue),
            breaker: Mutex::new(Breaker::new(self.breaker_failures, self.breaker_pause)),
            counts,
            settings: self,
        }
    }
}

fn own(endpoint: &EndpointConfig) -> Own {
    let header = |(name, value): &(HeaderName, Secret)| {
        // It was checked when the settings were read.
        let mut value = HeaderValue::from_str(value.reveal()).ok()?;
        value.set_sensitive(true);
        Some((name.clone(), value))
    };
    Own {
        method: endpoint.method.clone(),
        headers: endpoint.headers.iter().filter_map(header).collect(),
        redirects: endpoint.redirects,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(config: &FanoutConfig, urls: &[(&str, &str)], before: &EndpointSet) -> EndpointSet {
        let endpoint = |(name, url): &(&str, &str)| (name.to_string(), EndpointConfig::at(*url));
        let endpoints = Endpoints(urls.iter().map(endpoint).collect());
        EndpointSet::new(config, &endpoints, before).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn queues_are_bounded_for_each_endpoint_and_for_all() {
        let config = FanoutConfig {
            endpoint_concurrency: 1,
            queue: 1,
            ..FanoutConfig::default()
        };
        let set = set(
            &config,
            &[("a", "http://a"), ("b", "http://b")],
            &EndpointSet::default(),
        );
        let all = Arc::new(Load::new(2, 1));
        let [a, b] = [&set.all[0], &set.all[1]];
        let now = Instant::now();
        let first = a.admit(now, &all).unwrap();
        let _second = a.admit(now, &all).unwrap();
        assert_eq!(a.admit(now, &all).unwrap_err(), ShedReason::EndpointQueueFull);
        let _third = b.admit(now, &all).unwrap();
        assert_eq!(b.admit(now, &all).unwrap_err(), ShedReason::QueueFull);
        drop(first);
        a.admit(now, &all).unwrap();
        assert_eq!(a.jobs(), (0, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_is_down_is_shed_and_leaves_nothing_behind() {
        let config = FanoutConfig {
            breaker_failures: 1,
            ..FanoutConfig::default()
        };
        let set = set(&config, &[("a", "http://a")], &EndpointSet::default());
        let (all, endpoint) = (Arc::new(Load::new(9, 0)), &set.all[0]);
        let mut admission = endpoint.admit(Instant::now(), &all).unwrap();
        admission.book(State::Refused, config.timeout, Instant::now());
        drop(admission);
        let shed = endpoint.admit(Instant::now(), &all).unwrap_err();
        assert_eq!(
            shed.words(),
            "it is down: 1 of 1 requests failed; asked again in 250 ms"
        );
        assert!(endpoint.is_down());
        assert_eq!((all.jobs(), endpoint.jobs()), (0, (0, 0)));
        tokio::time::advance(config.breaker_pause).await;
        drop(endpoint.admit(Instant::now(), &all).unwrap());
        endpoint.admit(Instant::now(), &all).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_whose_turn_would_come_too_late_is_shed_at_once() {
        let config = FanoutConfig {
            endpoint_concurrency: 1,
            timeout: Duration::from_millis(200),
            ..FanoutConfig::default()
        };
        let set = set(&config, &[("a", "http://a")], &EndpointSet::default());
        let (all, endpoint) = (Arc::new(Load::new(99, 99)), &set.all[0]);
        endpoint.load.learn(Duration::from_millis(50));
        let mut jobs = Vec::new();
        let shed = loop {
            match endpoint.admit(Instant::now(), &all) {
                Ok(job) => jobs.push(job),
                Err(reason) => break reason,
            }
        };
        // One runs and two wait: 100 ms, of 195 that an answer may take and 50 that it does.
        assert_eq!(jobs.len(), 3);
        assert_eq!(shed.words(), "its turn would come too late, in 100 ms");
        drop(jobs);
        endpoint.admit(Instant::now(), &all).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_out_of_an_endpoint_that_had_little_time_is_not_its_failure() {
        let config = FanoutConfig {
            breaker_failures: 1,
            ..FanoutConfig::default()
        };
        let set = set(&config, &[("a", "http://a")], &EndpointSet::default());
        let (all, endpoint) = (Arc::new(Load::new(9, 0)), &set.all[0]);
        let mut admission = endpoint.admit(Instant::now(), &all).unwrap();
        admission.book(State::Timeout, config.timeout / 3, Instant::now());
        assert!(!endpoint.is_down());
        let mut admission = endpoint.admit(Instant::now(), &all).unwrap();
        admission.book(
            State::Timeout,
            config.timeout - config.store_reserve,
            Instant::now(),
        );
        assert!(endpoint.is_down());
    }

    #[tokio::test]
    async fn a_reload_keeps_what_has_not_changed() {
        let config = FanoutConfig::default();
        let before = set(
            &config,
            &[("b", "http://b"), ("a", "http://a")],
            &EndpointSet::default(),
        );
        assert_eq!(&*before.names_json, "[\"a\",\"b\"]");
        let after = set(&config, &[("a", "http://a"), ("b", "http://other")], &before);
        assert!(Arc::ptr_eq(&before.all[0], &after.all[0]));
        assert!(!Arc::ptr_eq(&before.all[1], &after.all[1]));
        assert!(Arc::ptr_eq(&before.all[1].counts, &after.all[1].counts));
    }
}
