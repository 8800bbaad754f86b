//! The agent: runs the workers assigned to it, and stops them before its lease ends.

mod ask;
mod care;
mod children;
mod code;
mod exec;
mod http;
mod runner;
mod service;
mod state_dir;
mod task;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nagaya_clock::boot_now;
use nagaya_redis_client::Need;
use tokio_util::sync::CancellationToken;

use crate::name::{InstanceName, WorkerId};
use crate::store::{Capabilities, Store};
use crate::timing::Timing;

pub use children::WatchdogCommand;
pub use code::{CodeError, CodeRunner, Worker};
pub(crate) use exec::split_words;
pub use exec::{ExecOptions, ExecRunner};
pub use http::{HttpOptions, HttpRunner};
pub use runner::{Attempt, BoxFuture, Ended, Identity, Question, Runner, StopSignal};
pub use state_dir::StateError;
pub use task::{Health, Limits, WorkerStatus};

/// How often a lock that somebody else has is tried again.
const LOCK_INTERVAL: Duration = Duration::from_millis(50);

/// Configuration of an agent.
#[derive(Clone)]
pub struct AgentOptions {
    pub name: InstanceName,
    pub capabilities: Capabilities,
    pub timing: Timing,
    /// Replicas that must have acknowledged a heartbeat for it to count.
    pub need: Need,
    pub limits: Limits,
    /// Directory of the file that proves the end of this agent's previous process. Without it, a restart
    /// waits for Q.
    pub state_dir: Option<PathBuf>,
    /// How long leaving may take before the remaining workers are ended without a hand-over.
    pub leave_limit: Duration,
}

impl AgentOptions {
    pub fn new(name: InstanceName) -> AgentOptions {
        AgentOptions {
            name,
            capabilities: Capabilities::default(),
            timing: Timing::default(),
            need: Need::PRIMARY_ONLY,
            limits: Limits::default(),
            state_dir: None,
            leave_limit: Duration::from_secs(30),
        }
    }
}

/// Why an agent ended on its own.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("another process joined as {name}; two agents of one name would take each other's work away")]
    NameTaken { name: InstanceName },
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Store(#[from] crate::store::Error),
}

/// A view of a running agent for other tasks.
#[derive(Clone, Debug, Default)]
pub struct AgentHandle {
    statuses: Arc<Mutex<BTreeMap<WorkerId, WorkerStatus>>>,
}

impl AgentHandle {
    /// Returns the agent's workers and their health.
    pub fn workers(&self) -> BTreeMap<WorkerId, WorkerStatus> {
        self.statuses.lock().expect("nothing panics here").clone()
    }
}

/// Runs an agent until `shutdown` is cancelled and its workers are handed over. Whatever it returns, none of
/// its workers is running afterwards.
pub async fn run(
    store: Store,
    options: AgentOptions,
    runner: Arc<dyn Runner>,
    handle: AgentHandle,
    shutdown: CancellationToken,
) -> Result<(), AgentError> {
    // What the last process of this name has left behind is over when its lease is.
    let give_up = boot_now() + options.timing.lease;
    loop {
        let begun = service::Service::new(store.clone(), options.clone(), runner.clone(), handle.clone());
        match begun {
            Err(AgentError::State(StateError::Locked { .. })) if boot_now() < give_up => (),
            begun => return begun?.run(shutdown).await,
        }
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(LOCK_INTERVAL) => (),
        }
    }
}
