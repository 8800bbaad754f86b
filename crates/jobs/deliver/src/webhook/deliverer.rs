//! The worker that sends due deliveries.
//!
//! One task takes deliveries from the store and starts those whose tenant and target have capacity. Both have shares
//! ([`nagaya_jobs::shares`]), in what is taken and in what is under way. The others wait here while their lease
//! lasts, or go back to the store until their target has rested. So slow and dead targets of one tenant block
//! neither the slots of running deliveries nor the queue of waiting ones.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use nagaya_jobs::clock::{span, span_ms};
use nagaya_jobs::delivery::{Delivery, DeliveryTry, PutOff, TryOutcome, TryReport};
use nagaya_jobs::event::{Event, EventFilter};
use nagaya_jobs::service::Jobs;
use nagaya_jobs::shares::{DeliveryClaim, TenantTarget, tenant_room};
use nagaya_jobs::store::JobStore;
use nagaya_jobs::{Error, TenantId, url};
use nagaya_telemetry::trace::{self, TRACEPARENT};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span, debug, info_span, warn};

use super::body::{BodyConfig, message, message_id};
use super::outcome::{Verdict, judge};
use super::secrets::Secrets;
use super::signature::sign;
use super::target_queues::{TargetQueues, Waiting};
use super::targets::{Admission, Targets};
use crate::guard::Client;
use crate::undelivered;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
/// Bytes kept of an error's text.
const ERROR_BYTES_MAX: usize = 1024;
/// How long a delivery to a busy target goes back to the store.
const BUSY_WAIT: Duration = Duration::from_secs(1);
/// How long secrets are cached. After that, all servers use a new one.
const SECRETS_FOR: Duration = Duration::from_secs(2);
/// Targets whose rooms a claim is told at most. Deliveries of further busy ones go back and forth.
const ROOMS_MAX: usize = 2_000;
/// Tenants whose secrets are cached at most; the cache is cleared when it is full.
const SECRETS_MAX: usize = 10_000;

/// Configuration of the deliverer.
#[derive(Clone, Debug)]
pub struct Config {
    /// Deliveries in flight at most. A tenant has at most half of what the others leave.
    pub concurrency: usize,
    /// Deliveries in flight to one target of one tenant at most.
    pub per_target: usize,
    /// How long a taken delivery belongs to this process: twice the limit of one attempt, so that it can wait
    /// here first.
    pub lease: Duration,
    /// Polling intervals of the store: while there is work, and while there is none.
    pub busy_poll: Duration,
    pub idle_poll: Duration,
    pub body: BodyConfig,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            concurrency: 128,
            per_target: 8,
            lease: Duration::from_secs(60),
            busy_poll: Duration::from_millis(5),
            idle_poll: Duration::from_millis(250),
            body: BodyConfig::default(),
        }
    }
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryStats {
    pub delivered: u64,
    pub failed: u64,
    pub gave_up: u64,
    /// Deliveries returned to the store because their target was resting or busy.
    pub put_off: u64,
}

#[derive(Debug, Default)]
struct Counters {
    delivered: AtomicU64,
    failed: AtomicU64,
    gave_up: AtomicU64,
    put_off: AtomicU64,
}

type SecretsOf = HashMap<TenantId, (Arc<Secrets>, Instant)>;

/// Sends the deliveries of a store. Several processes may do so for one store.
pub struct Deliverer {
    store: Arc<dyn JobStore>,
    client: Client,
    config: Config,
    targets: Mutex<Targets>,
    secrets: Mutex<SecretsOf>,
    counters: Counters,
    wake: Notify,
}

/// State owned by the deliverer's task.
#[derive(Default)]
struct DelivererState {
    queues: TargetQueues,
    in_flight: JoinSet<TenantId>,
    /// Deliveries in flight of each tenant that has some.
    of_tenants: HashMap<TenantId, usize>,
    /// To be returned to the store.
    back: Vec<PutOff>,
}

impl DelivererState {
    /// Counts a delivery that has ended.
    fn ended(&mut self, tenant: Result<TenantId, JoinError>) {
        let Ok(tenant) = tenant else {
            // A task that panicked does not say whose it was: count again at the next claim of this tenant.
            self.of_tenants.clear();
            return;
        };
        if let Some(count) = self.of_tenants.get_mut(&tenant) {
            *count -= 1;
            if *count == 0 {
                self.of_tenants.remove(&tenant);
            }
        }
    }

    /// Returns how many more of a tenant may be started.
    fn room(&self, tenant: &TenantId, places: usize) -> usize {
        let own = self.of_tenants.get(tenant).copied().unwrap_or(0);
        tenant_room(places, own, self.in_flight.len().saturating_sub(own))
    }
}

impl Deliverer {
    pub fn new(store: Arc<dyn JobStore>, client: Client, config: Config) -> Deliverer {
        Deliverer {
            targets: Mutex::new(Targets::new(config.per_target)),
            secrets: Mutex::default(),
            store,
            client,
            config,
            counters: Counters::default(),
            wake: Notify::new(),
        }
    }

    pub fn stats(&self) -> DeliveryStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DeliveryStats {
            delivered: read(&self.counters.delivered),
            failed: read(&self.counters.failed),
            gave_up: read(&self.counters.gave_up),
            put_off: read(&self.counters.put_off),
        }
    }

    /// Makes the deliverer poll the store at once.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Wakes the deliverer whenever there are new deliveries, until told to stop.
    pub async fn wake_with(&self, jobs: &Jobs, stop: CancellationToken) {
        // For what was made before this was called.
        self.wake();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = jobs.deliveries_made() => self.wake(),
            }
        }
    }

    /// Delivers until told to stop, then finishes running deliveries and returns the rest.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut state = DelivererState::default();
        let mut next_poll = Instant::now();
        loop {
            let is_full = state.in_flight.len() >= self.config.concurrency;
            tokio::select! {
                () = stop.cancelled() => break,
                Some(tenant) = state.in_flight.join_next() => state.ended(tenant),
                () = self.wake.notified(), if !is_full => next_poll = Instant::now(),
                () = sleep_until(next_poll), if !is_full => (),
            }
            while let Some(tenant) = state.in_flight.try_join_next() {
                state.ended(tenant);
            }
            next_poll = match self.pass(&mut state, next_poll).await {
                Ok(next) => next,
                Err(error) => {
                    debug!(%error, "due deliveries could not be read");
                    Instant::now() + self.config.idle_poll
                }
            };
        }
        for target in state.queues.targets() {
            let all = state.queues.take(&target);
            self.give_back(&mut state, all, i64::MIN);
        }
        self.return_to_store(&mut state).await;
        while state.in_flight.join_next().await.is_some() {}
    }

    /// Starts as many deliveries as possible, waiting ones first, then those due in the store. Returns when
    /// to poll the store again.
    async fn pass(
        self: &Arc<Self>,
        state: &mut DelivererState,
        next_poll: Instant,
    ) -> Result<Instant, Error> {
        let now_ms = self.store.now_ms().await?;
        let overdue = state.queues.overdue(now_ms);
        self.give_back(state, overdue, now_ms);
        self.start_queued(state, now_ms);
        let free = self.config.concurrency.saturating_sub(state.in_flight.len());
        let mut next = next_poll;
        if free > 0 && Instant::now() >= next_poll {
            let claim = self.claim(state, free, now_ms);
            let due = self.store.claim_deliveries(claim).await?;
            next = Instant::now()
                + match due.len() {
                    0 => self.config.idle_poll,
                    _ => self.config.busy_poll,
                };
            for delivery in due {
                self.admit(state, delivery, now_ms);
            }
        }
        self.return_to_store(state).await;
        Ok(next)
    }

    /// Returns what may be taken from the store now: what can be started, and a little more for each target, so
    /// that the next one need not be fetched first.
    fn claim(&self, state: &DelivererState, free: usize, now_ms: i64) -> DeliveryClaim {
        let held_max = self.config.per_target;
        let places = self.config.concurrency;
        let mut targets = HashMap::new();
        for (target, room) in self.targets.lock().rooms(span(now_ms), ROOMS_MAX) {
            targets.insert(target, room);
        }
        for target in state.queues.targets() {
            let room = targets.entry(target.clone()).or_insert(self.config.per_target);
            *room = (*room + held_max).saturating_sub(state.queues.held(&target));
        }
        let tenants = state.of_tenants.keys();
        DeliveryClaim {
            limit: free,
            per_tenant: tenant_room(places, 0, state.in_flight.len()),
            per_target: self.config.per_target + held_max,
            tenants: tenants
                .map(|tenant| (tenant.clone(), state.room(tenant, places)))
                .collect(),
            targets,
            lease: self.config.lease,
        }
    }

    fn start_queued(self: &Arc<Self>, state: &mut DelivererState, now_ms: i64) {
        for target in state.queues.targets() {
            while state.queues.has(&target)
                && state.in_flight.len() < self.config.concurrency
                && state.room(&target.tenant, self.config.concurrency) > 0
            {
                let admission = self.targets.lock().ask(&target, span(now_ms));
                match admission {
                    Admission::Go => {
                        let waiting = state.queues.next(&target).expect("one waits");
                        self.start(state, waiting.delivery, target.clone());
                    }
                    Admission::Busy => break,
                    Admission::Resting { rest } => {
                        let all = state.queues.take(&target);
                        self.give_back(state, all, now_ms + span_ms(rest));
                    }
                }
            }
        }
    }

    /// Starts a taken delivery, or queues it here, or returns it to the store.
    fn admit(self: &Arc<Self>, state: &mut DelivererState, delivery: Delivery, now_ms: i64) {
        let target = TenantTarget {
            tenant: delivery.tenant.clone(),
            target: url::target(&delivery.webhook.url),
        };
        let has_room = state.room(&target.tenant, self.config.concurrency) > 0;
        let admission = if state.queues.has(&target) || !has_room {
            Admission::Busy
        } else {
            self.targets.lock().ask(&target, span(now_ms))
        };
        // Half of the lease is reserved for the attempt itself.
        let until_ms = now_ms + span_ms(self.config.lease) / 2;
        let waiting = Waiting { delivery, until_ms };
        match admission {
            Admission::Go => self.start(state, waiting.delivery, target),
            Admission::Resting { rest } => self.give_back(state, vec![waiting], now_ms + span_ms(rest)),
            Admission::Busy => {
                if let Some(waiting) = state.queues.put(target, waiting) {
                    self.give_back(state, vec![waiting], now_ms + span_ms(BUSY_WAIT));
                }
            }
        }
    }

    fn start(self: &Arc<Self>, state: &mut DelivererState, delivery: Delivery, target: TenantTarget) {
        let this = Arc::clone(self);
        *state.of_tenants.entry(target.tenant.clone()).or_default() += 1;
        state.in_flight.spawn(async move {
            this.deliver(delivery, &target).await;
            target.tenant
        });
    }

    fn give_back(&self, state: &mut DelivererState, all: Vec<Waiting>, at_ms: i64) {
        self.counters
            .put_off
            .fetch_add(all.len() as u64, Ordering::Relaxed);
        let item = |waiting: Waiting| PutOff {
            id: waiting.delivery.id,
            tries: waiting.delivery.tries,
            // Jitter, so that deliveries returned together do not come back together.
            at_ms: at_ms.max(0) + span_ms(BUSY_WAIT.mul_f64(rand::random())),
        };
        state.back.extend(all.into_iter().map(item));
    }

    async fn return_to_store(&self, state: &mut DelivererState) {
        let back = std::mem::take(&mut state.back);
        if back.is_empty() {
            return;
        }
        if let Err(error) = self.store.put_off_deliveries(back).await {
            debug!(%error, "deliveries could not be returned; they are due again when their lease ends");
        }
    }

    async fn deliver(&self, delivery: Delivery, target: &TenantTarget) {
        let tried = self.try_once(&delivery).await;
        let now = self.store.now_ms().await.map(span);
        match tried {
            Ok((report, verdict)) => {
                let now = now.unwrap_or_else(|_| span(report.attempt.at_ms));
                self.targets
                    .lock()
                    .done(target, verdict.target_is_well, verdict.rest, now);
                if let Err(error) = self.note(&delivery, report).await {
                    warn!(%error, job = %delivery.job, "delivery attempt not recorded; it will be repeated");
                }
            }
            Err(error) => {
                self.targets.lock().cancel(target);
                debug!(%error, job = %delivery.job, "delivery could not be prepared");
            }
        }
    }

    async fn try_once(&self, delivery: &Delivery) -> Result<(TryReport, Verdict), Error> {
        let event = self.event(delivery).await?;
        let secrets = self.secrets(&delivery.tenant).await?;
        let at_ms = self.store.now_ms().await?;
        let mut message = message(delivery, event.as_ref(), &self.config.body);
        let (id, at_s) = (message_id(delivery), at_ms.div_euclid(1000));
        let signature = sign(secrets.all(), &id, at_s, &message.body);
        for (name, value) in [(ID, id), (TIMESTAMP, at_s.to_string()), (SIGNATURE, signature)] {
            let value = HeaderValue::try_from(value).expect("digits and base64 make a header");
            message.headers.insert(name, value);
        }
        let traced = in_trace(delivery, &mut message.headers);
        let sent = Instant::now();
        let posting = self
            .client
            .post(&delivery.webhook.url, message.headers, message.body);
        let reply = posting.instrument(traced).await;
        let latency = sent.elapsed();
        let tries = delivery.tries + 1;
        let verdict = judge(reply.as_ref(), tries, at_ms + span_ms(latency), rand::random());
        let (status, error, body) = match reply {
            Ok(reply) => (Some(reply.status), None, reply.body),
            Err(error) => (None, Some(cut(error.to_string())), Vec::new()),
        };
        let report = TryReport {
            id: delivery.id,
            attempt: DeliveryTry {
                number: tries,
                at_ms,
                latency,
                status,
                error,
                reply: body,
            },
            outcome: verdict.outcome,
        };
        Ok((report, verdict))
    }

    /// Reads the event to deliver; `None` if the log no longer has it.
    async fn event(&self, delivery: &Delivery) -> Result<Option<Event>, Error> {
        let filter = EventFilter {
            job: Some(delivery.job),
            ..EventFilter::default()
        };
        let page = self
            .store
            .events_after(delivery.seq.saturating_sub(1), filter, 1)
            .await?;
        Ok(page.events.into_iter().find(|event| event.seq == delivery.seq))
    }

    async fn secrets(&self, tenant: &TenantId) -> Result<Arc<Secrets>, Error> {
        let known = self.secrets.lock().get(tenant).cloned();
        if let Some((secrets, until)) = known
            && Instant::now() < until
        {
            return Ok(secrets);
        }
        let secrets = Arc::new(Secrets::of(&*self.store, tenant).await?);
        let mut all = self.secrets.lock();
        if all.len() >= SECRETS_MAX {
            all.clear();
        }
        all.insert(
            tenant.clone(),
            (Arc::clone(&secrets), Instant::now() + SECRETS_FOR),
        );
        Ok(secrets)
    }

    /// Records an attempt in the store. A delivery that is given up is reported as undelivered first; a crash
    /// in between repeats that.
    async fn note(&self, delivery: &Delivery, report: TryReport) -> Result<(), Error> {
        let counter = match report.outcome {
            TryOutcome::Delivered => &self.counters.delivered,
            TryOutcome::Again { .. } => &self.counters.failed,
            TryOutcome::GaveUp => &self.counters.gave_up,
        };
        if report.outcome == TryOutcome::GaveUp {
            let why = match (&report.attempt.error, report.attempt.status) {
                (Some(error), _) => error.clone(),
                (None, Some(status)) => format!("it answered {status}"),
                (None, None) => "no reply".to_owned(),
            };
            undelivered::note(&*self.store, delivery, &why).await?;
        }
        self.store.report_tries(vec![report]).await?;
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Creates the attempt's span in the job's trace, which the submitter's headers name, and makes it the parent
/// of the receiver's spans.
fn in_trace(delivery: &Delivery, headers: &mut HeaderMap) -> Span {
    let parent = headers
        .get(TRACEPARENT)
        .and_then(|value| value.to_str().ok())
        .filter(|_| trace::is_on());
    let Some(parent) = parent else {
        return Span::none();
    };
    let span = info_span!("webhook_delivery", job = %delivery.job, number = delivery.tries + 1);
    trace::hang(&span, Some(parent), None);
    if let Some(value) = trace::traceparent(&span).and_then(|text| HeaderValue::try_from(text).ok()) {
        headers.insert(TRACEPARENT, value);
    }
    span
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(ERROR_BYTES_MAX));
    text
}
