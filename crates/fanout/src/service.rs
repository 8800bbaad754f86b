//! Accepts requests: assigns an id, selects the endpoints, stores the request and starts its task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName, Method};
use nagaya_clock::{Clock, SystemClock};
use nagaya_ids::mint::MintError;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, Span};
use uuid::Uuid;

use crate::client::{Buffers, Fetch, HttpClient};
use crate::config::FanoutConfig;
use crate::endpoint::{Admission, EndpointSet, ShedReason};
use crate::endpoints::Endpoints;
use crate::error::Error;
use crate::gather::{Arrived, Tap};
use crate::handlers::Handlers;
use crate::ids::IdSource;
use crate::job::JobContext;
use crate::live::Live;
use crate::load::Load;
use crate::log_limiter::LogLimiter;
use crate::outcome::{Outcome, State};
use crate::read_back::show;
use crate::recent::{Recent, RecentRequest, Track};
use crate::request::{Outgoing, VIA_HEADER};
use crate::request_task::{Handler, RequestTask};
use crate::runner::Runner;
use crate::stats::{Counts, RejectReason};
use crate::store::{Record, Store, StoreError};

/// Fan-outs that a request may pass before it counts as a loop whose header was stripped.
const HOPS_MAX: usize = 8;

/// Time limit for writing the markers of cut requests.
const MARK_LIMIT: Duration = Duration::from_millis(1500);

/// The service, shared by all connections.
pub struct Fanout {
    pub(crate) config: FanoutConfig,
    pub(crate) forwarded: Vec<HeaderName>,
    endpoints: RwLock<Arc<EndpointSet>>,
    runner: Arc<Runner>,
    pub(crate) live: Arc<Live>,
    recent: Arc<Recent>,
    ids: IdSource,
    handlers: Arc<Mutex<Handlers>>,
    /// The jobs of all endpoints.
    load: Arc<Load>,
    /// One task per request in progress.
    tasks: TaskTracker,
    /// The memory for replies to clients that wait.
    pub(crate) replies: Arc<Buffers>,
    /// One task per WebSocket.
    pub(crate) sockets: TaskTracker,
    /// Cancelled when readers must not wait any longer.
    pub(crate) closing: CancellationToken,
    /// The name of this process among fan-outs that send to each other.
    name: String,
}

/// Calls that may go on after their deadline, to save their connections.
const LATE_CALLS_MAX: usize = 256;

/// A client's request, and what endpoints receive of it.
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    /// The parent of all spans of this request.
    pub(crate) span: Span,
    pub(crate) url: String,
    pub(crate) outgoing: Outgoing,
    /// The fan-outs that it has passed.
    pub(crate) via: Option<String>,
    /// Whether the client waits for the answers.
    pub(crate) wants_answers: bool,
}

/// What the client learns about an accepted request.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) id: Arc<str>,
    /// All endpoints of the request.
    pub(crate) set: Arc<EndpointSet>,
    pub(crate) shed: Vec<(Arc<str>, ShedReason)>,
    /// The answers as they come, if they are wanted.
    pub(crate) answers: Option<mpsc::Receiver<Arrived>>,
}

/// Why a request was not accepted. Nothing was sent to any endpoint.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// No endpoint is configured.
    NoEndpoints,
    AllShed(Vec<(Arc<str>, ShedReason)>),
    NoId(MintError),
    Store {
        id: Arc<str>,
        reason: String,
    },
}

impl Fanout {
    /// Creates the service. Connects on first use.
    pub fn new(config: FanoutConfig, store: Arc<dyn Store>, ids: IdSource) -> Result<Fanout, Error> {
        let client = Arc::new(HttpClient::new(&config));
        Fanout::with_fetch(config, store, ids, client)
    }

    /// Returns whether clients need a token.
    pub fn asks_token(&self) -> bool {
        self.config.token.is_some()
    }

    /// As [`new`](Fanout::new), with a custom fetcher in place of HTTP.
    pub fn with_fetch(
        config: FanoutConfig,
        store: Arc<dyn Store>,
        ids: IdSource,
        fetch: Arc<dyn Fetch>,
    ) -> Result<Fanout, Error> {
        config.check()?;
        let endpoints = EndpointSet::new(&config, &config.endpoints, &EndpointSet::default())?;
        let permits = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        if endpoints
            .iter()
            .any(|endpoint| endpoint.place.target.origin.https)
        {
            fetch.prepare_tls();
        }
        let context = JobContext {
            fetch,
            workers: permits(config.workers),
            late_calls: permits(LATE_CALLS_MAX),
            late_tasks: TaskTracker::new(),
            keep_error_bodies: config.keep_error_bodies,
        };
        let runner = Runner {
            store,
            context: Arc::new(context),
            counts: Arc::default(),
            join_window: config.join_window,
            publish: config.publish.clone(),
            log_limiter: LogLimiter::default(),
            cut: CancellationToken::new(),
        };
        Ok(Fanout {
            forwarded: config.forwarded()?,
            endpoints: RwLock::new(Arc::new(endpoints)),
            runner: Arc::new(runner),
            live: Arc::default(),
            recent: Arc::default(),
            ids,
            handlers: Arc::new(Mutex::new(Handlers::new(config.handlers, Instant::now()))),
            load: Arc::new(Load::new(config.workers, config.queue)),
            tasks: TaskTracker::new(),
            replies: Arc::new(Buffers::new(config.replies_max.as_usize())),
            sockets: TaskTracker::new(),
            closing: CancellationToken::new(),
            name: Uuid::new_v4().simple().to_string(),
            config,
        })
    }

    /// Switches to other endpoints and limits. Requests in progress keep theirs.
    pub fn reload(&self, config: &FanoutConfig) -> Result<(), Error> {
        let mut next = self.config.clone();
        next.endpoints = config.endpoints.clone();
        next.timeout = config.timeout;
        next.store_reserve = config.store_reserve;
        next.endpoint_concurrency = config.endpoint_concurrency;
        next.breaker_failures = config.breaker_failures;
        next.breaker_pause = config.breaker_pause;
        next.check()?;
        if next.endpoints.0.is_empty() && !self.endpoints().is_empty() {
            return Err(Error::Config("there are no endpoints left".to_owned()));
        }
        self.use_endpoints(&next, &next.endpoints)
    }

    fn use_endpoints(&self, config: &FanoutConfig, endpoints: &Endpoints) -> Result<(), Error> {
        let mut current = self.endpoints.write();
        let next = EndpointSet::new(config, endpoints, &current)?;
        if next.iter().any(|endpoint| endpoint.place.target.origin.https) {
            self.runner.context.fetch.prepare_tls();
        }
        *current = Arc::new(next);
        Ok(())
    }

    /// Returns the current endpoints.
    pub fn endpoints(&self) -> Arc<EndpointSet> {
        Arc::clone(&self.endpoints.read())
    }

    pub fn counts(&self) -> &Counts {
        &self.runner.counts
    }

    pub fn store(&self) -> &dyn Store {
        &*self.runner.store
    }

    /// Returns the number of requests between arrival and reply, of requests in progress, and of jobs in
    /// progress.
    pub fn in_flight(&self) -> (usize, usize, usize) {
        (self.handlers.lock().busy(), self.live.len(), self.load.jobs())
    }

    /// Returns how many requests may be between arrival and reply at the moment.
    pub fn handlers_limit(&self) -> usize {
        self.handlers.lock().limit()
    }

    /// Returns the number of busy workers.
    pub fn workers_busy(&self) -> usize {
        let free = self.runner.context.workers.available_permits();
        self.config.workers.saturating_sub(free)
    }

    /// Returns the latest requests that this process accepted, newest first.
    pub fn recent(&self, limit: usize) -> Vec<RecentRequest> {
        self.recent.list(limit)
    }

    /// Returns a request as the listener's `/requests/{id}` shows it; `None` if it does not exist. Cancel
    /// safe.
    pub async fn read_back(&self, id: &str) -> Result<Option<serde_json::Value>, StoreError> {
        if !crate::ids::is_id(id) {
            return Ok(None);
        }
        let limit = self.config.store_timeout;
        let read = tokio::time::timeout(limit, self.store().read(id)).await;
        let stored = read.map_err(|_| StoreError::TimedOut { limit })??;
        Ok(stored.map(|stored| show(id, &stored)))
    }

    /// Returns the number of readers that wait for requests in progress.
    pub fn readers(&self) -> usize {
        self.live.readers()
    }

    /// Returns a handler permit unless all are taken.
    pub(crate) fn handler(&self) -> Option<Handler> {
        Handler::enter(&self.handlers)
    }

    /// Returns whether a request has been here before, or has passed too many fan-outs.
    pub(crate) fn is_loop(&self, headers: &HeaderMap) -> bool {
        let via = headers
            .get_all(VIA_HEADER)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let mut names = via.flat_map(|value| value.split(',')).map(str::trim);
        let mut hops = 0;
        names.any(|name| {
            hops += 1;
            name == self.name || hops > HOPS_MAX
        })
    }

    /// Accepts a request. When this returns, it is stored and its jobs have started.
    ///
    /// Cancel safe: a separate task runs the request to its end, whether the client waits or not.
    pub(crate) async fn take(&self, arrival: Arrival, handler: Handler) -> Result<Taken, Refusal> {
        let set = self.endpoints();
        if set.is_empty() {
            self.runner.counts.reject(RejectReason::Shed);
            return Err(Refusal::NoEndpoints);
        }
        let (jobs, shed) = self.admit(&set);
        let counts = &self.runner.counts;
        if jobs.is_empty() {
            counts.reject(RejectReason::Shed);
            return Err(Refusal::AllShed(shed));
        }
        let id = match self.ids.next().await {
            Ok(id) => id,
            Err(error) => {
                counts.reject(RejectReason::NoId);
                return Err(Refusal::NoId(error));
            }
        };
        let (tell, mut told) = oneshot::channel();
        let (tap, answers) = arrival
            .wants_answers
            .then(|| Tap::new(jobs.len(), &self.replies))
            .unzip();
        let decided = Arc::new(AtomicBool::new(false));
        let (at, is_post) = (arrival.at, arrival.outgoing.method == Method::POST);
        let method = if is_post { "POST" } else { "GET" };
        let (at_ms, asked) = (SystemClock.unix_ms().unsigned_abs(), set.iter().len());
        let track = Track::new(Arc::clone(&id), method, &arrival.url, at_ms, asked, shed.len());
        let task = RequestTask {
            recent: Arc::clone(&self.recent),
            track: Arc::new(track),
            record: record_of(&id, method, arrival.url, &set, &shed),
            at,
            outgoing: arrival.outgoing,
            via: arrival
                .via
                .map_or_else(|| self.name.clone(), |via| format!("{via}, {}", self.name)),
            jobs,
            handler,
            live: Arc::clone(&self.live),
            runner: Arc::clone(&self.runner),
            decided: Arc::clone(&decided),
            tap,
            tell,
        };
        self.tasks.spawn(task.run().instrument(arrival.span));
        let limit = self.config.timeout;
        let reason = match timeout_at(at + limit, &mut told).await {
            // The task decided first: its verdict is on the way, or it ended without one.
            Err(_) if decided.swap(true, Ordering::AcqRel) => told.await.ok(),
            Err(_) => Some(Err(StoreError::TimedOut { limit }.to_string())),
            Ok(told) => told.ok(),
        };
        match reason.unwrap_or_else(|| Err("its task has ended".to_owned())) {
            Ok(()) => Ok(Taken {
                id,
                set,
                shed,
                answers,
            }),
            Err(reason) => {
                counts.reject(RejectReason::Store);
                Err(Refusal::Store { id, reason })
            }
        }
    }

    /// Selects the endpoints to contact.
    fn admit(&self, set: &EndpointSet) -> (Vec<Admission>, Vec<(Arc<str>, ShedReason)>) {
        let now = Instant::now();
        let mut jobs = Vec::with_capacity(set.iter().len());
        let mut shed = Vec::new();
        for endpoint in set.iter() {
            match endpoint.admit(now, &self.load) {
                Ok(admission) => jobs.push(admission),
                Err(reason) => {
                    endpoint.counts.count(State::Shed);
                    self.runner.counts.count(State::Shed);
                    shed.push((Arc::clone(&endpoint.name), reason));
                }
            }
        }
        (jobs, shed)
    }

    /// Returns when everything has to end at once.
    pub(crate) async fn is_cut(&self) {
        self.runner.cut.cancelled().await;
    }

    /// Waits until every request in progress is finished, or marked because `cut` came first. Returns how
    /// many were marked. The caller must not accept new requests any more.
    pub async fn drain(&self, cut: impl Future<Output = ()>) -> usize {
        self.tasks.close();
        self.sockets.close();
        let done = async {
            self.tasks.wait().await;
            self.sockets.wait().await;
        };
        let marked = tokio::select! {
            () = done => 0,
            () = cut => {
                let open = self.live.len();
                self.runner.cut.cancel();
                // The last writes are bounded, but a shutdown does not wait for all of that.
                if tokio::time::timeout(MARK_LIMIT, self.tasks.wait()).await.is_err() {
                    tracing::warn!("some requests could not be marked as stopped");
                }
                open
            }
        };
        self.endpoints()
            .iter()
            .for_each(|endpoint| endpoint.place.pool.clear());
        marked
    }
}

fn record_of(
    id: &Arc<str>,
    method: &'static str,
    url: String,
    set: &EndpointSet,
    shed: &[(Arc<str>, ShedReason)],
) -> Record {
    let shed = shed.iter();
    Record {
        id: Arc::clone(id),
        method,
        url,
        endpoints: Arc::clone(&set.names_json),
        shed: shed
            .map(|(name, reason)| (Arc::clone(name), shed_outcome(*reason)))
            .collect(),
    }
}

pub(crate) fn shed_outcome(reason: ShedReason) -> Outcome {
    Outcome::new(State::Shed, Duration::ZERO).with_detail(reason.words())
}
