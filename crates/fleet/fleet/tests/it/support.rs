//! Shared helpers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nagaya_fleet::agent::{AgentError, AgentHandle, AgentOptions, CodeRunner, Limits, Runner};
use nagaya_fleet::manager::{ManagerHandle, ManagerOptions};
use nagaya_fleet::name::{AppName, InstanceName, WorkerId};
use nagaya_fleet::store::{Capabilities, FleetSnapshot, Install, Joined, Place, Store};
use nagaya_fleet::timing::{Timing, TimingOptions};
use nagaya_redis_client::{Client, Options};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::ledger::Ledger;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a future on a runtime that the test drives from its own thread, next to the testkit's blocking calls.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

/// A store for an app that no other test uses.
pub(crate) fn store_at(url: &str) -> Store {
    static APPS: AtomicU32 = AtomicU32::new(0);
    let app = format!("app{}", APPS.fetch_add(1, Ordering::Relaxed));
    store_of(url, &app)
}

pub(crate) fn store_of(url: &str, app: &str) -> Store {
    let options = Options {
        connect_limit: Duration::from_secs(1),
        reply_limit: Duration::from_millis(1000),
        client_name: "test".into(),
    };
    let client = Client::new(url.parse().unwrap(), options).unwrap();
    Store::new(Arc::new(client), AppName::new(app).unwrap())
}

/// A store on the Redis that the tests share.
pub(crate) fn shared_store() -> Store {
    store_at(&nagaya_testkit::shared::redis().url())
}

pub(crate) fn instance(name: &str) -> InstanceName {
    InstanceName::new(name).unwrap()
}

pub(crate) fn worker(name: &str) -> WorkerId {
    WorkerId::new(name).unwrap()
}

pub(crate) fn install(name: &str) -> Install {
    Install {
        worker: worker(name),
        config: format!("{{\"id\":\"{name}\"}}").into_bytes(),
        constraints: Default::default(),
    }
}

pub(crate) fn installs(count: usize) -> Vec<Install> {
    (0..count).map(|at| install(&format!("w{at:04}"))).collect()
}

/// Durations short enough for tests and long enough for a busy machine.
pub(crate) fn quick() -> Timing {
    let options = TimingOptions {
        lease: Some(Duration::from_millis(2400)),
        heartbeat: Some(Duration::from_millis(300)),
        grace: Some(Duration::from_millis(400)),
        poll: Some(Duration::from_millis(150)),
        ..TimingOptions::default()
    };
    let mut timing = Timing::from_options(options).unwrap();
    timing.margin = Duration::from_millis(400);
    timing
}

pub(crate) const SHOWN: Duration = Duration::from_secs(20);

pub(crate) async fn join(store: &Store, name: &str, token: &str) -> Joined {
    let joined = store
        .join(&instance(name), token, &Capabilities::default(), &quick())
        .await;
    joined.unwrap().1
}

pub(crate) async fn place_of(store: &Store, name: &str) -> Option<Place> {
    let snapshot = store.worker_snapshot(&worker(name)).await.unwrap();
    snapshot.places.unwrap().remove(&worker(name))
}

pub(crate) async fn whole(store: &Store) -> FleetSnapshot {
    store.snapshot(None).await.unwrap()
}

/// Returns how many workers each live instance has according to the store.
pub(crate) async fn counts(store: &Store) -> Vec<usize> {
    let snapshot = whole(store).await;
    let live = snapshot
        .instances
        .values()
        .filter(|record| record.state == nagaya_fleet::store::InstanceState::Live);
    live.map(|record| record.count).collect()
}

/// An agent in this process whose workers write to a ledger.
pub(crate) struct TestAgent {
    pub(crate) handle: AgentHandle,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), AgentError>>,
}

impl TestAgent {
    pub(crate) fn start(store: &Store, name: &str, ledger: &Ledger) -> TestAgent {
        TestAgent::with_options(store, options(name), Arc::new(CodeRunner::new(ledger.maker())))
    }

    pub(crate) fn with_options(store: &Store, options: AgentOptions, runner: Arc<dyn Runner>) -> TestAgent {
        let handle = AgentHandle::default();
        let shutdown = CancellationToken::new();
        let run = nagaya_fleet::agent::run(store.clone(), options, runner, handle.clone(), shutdown.clone());
        TestAgent {
            handle,
            shutdown,
            task: tokio::spawn(run),
        }
    }

    /// Leaves gracefully.
    pub(crate) async fn leave(self) -> Result<(), AgentError> {
        self.shutdown.cancel();
        self.task.await.unwrap()
    }

    /// Waits for the agent to end on its own.
    pub(crate) async fn ended(self) -> Result<(), AgentError> {
        self.task.await.unwrap()
    }

    /// Ends like a crash: no message is sent, and nothing keeps running.
    pub(crate) async fn crash(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

pub(crate) fn options(name: &str) -> AgentOptions {
    AgentOptions {
        timing: quick(),
        limits: Limits {
            backoff_first: Duration::from_millis(50),
            backoff_max: Duration::from_millis(400),
            start_limit: Duration::from_millis(500),
            failures_max: 3,
            healthy_after: Duration::from_millis(200),
            ..Limits::default()
        },
        ..AgentOptions::new(instance(name))
    }
}

/// A manager in this process.
pub(crate) struct TestManager {
    pub(crate) handle: ManagerHandle,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl TestManager {
    pub(crate) fn start(store: &Store, name: &str) -> TestManager {
        TestManager::with_options(store, manager_options(name))
    }

    pub(crate) fn with_options(store: &Store, options: ManagerOptions) -> TestManager {
        let handle = ManagerHandle::default();
        let shutdown = CancellationToken::new();
        let run = nagaya_fleet::manager::run(store.clone(), options, handle.clone(), shutdown.clone());
        TestManager {
            handle,
            shutdown,
            task: tokio::spawn(run),
        }
    }

    pub(crate) async fn end(self) {
        self.shutdown.cancel();
        self.task.await.unwrap();
    }
}

pub(crate) fn manager_options(name: &str) -> ManagerOptions {
    ManagerOptions {
        timing: quick(),
        source_interval: Duration::from_millis(300),
        source_retry: Duration::from_millis(100),
        ..ManagerOptions::new(instance(name))
    }
}

/// Waits until an async condition holds.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .unwrap_or_else(|_| panic!("not in time: {what}"));
}
