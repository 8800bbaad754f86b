//! The ways to carry a worker out, behind one trait.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::BootTime;
use crate::name::{AppName, InstanceName, WorkerId};

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Who a copy of a worker is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub app: AppName,
    pub instance: InstanceName,
    pub worker: WorkerId,
    /// Rises with every assignment; to be shown to gates.
    pub epoch: u64,
}

/// A question to a worker and where its answer goes.
#[derive(Debug)]
pub struct Question {
    pub key: String,
    pub answer: oneshot::Sender<Result<String, String>>,
}

/// When to stop: none while the worker may run, then the moment at which it has to be dead.
#[derive(Clone, Debug)]
pub struct StopSignal(pub(crate) watch::Receiver<Option<BootTime>>);

impl StopSignal {
    /// Waits for the order to stop; returns when the worker has to be dead. Cancel safe.
    pub async fn ordered(&mut self) -> BootTime {
        match self.0.wait_for(Option::is_some).await {
            Ok(kill_at) => kill_at.unwrap_or(BootTime::ZERO),
            // The agent is gone: at once.
            Err(_) => BootTime::ZERO,
        }
    }

    pub fn is_ordered(&self) -> bool {
        self.0.borrow().is_some()
    }
}

/// What one attempt to run a worker gets.
pub struct Attempt<'a> {
    pub identity: &'a Identity,
    /// The config, byte for byte; a change is seen here.
    pub config: &'a mut watch::Receiver<Arc<[u8]>>,
    pub stop: &'a mut StopSignal,
    pub questions: &'a mut mpsc::Receiver<Question>,
    /// Called when the worker is up.
    pub started: Box<dyn FnOnce() + Send + 'a>,
}

/// How an attempt ended. In every case nothing of it is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was told to.
    Stopped,
    /// The config changed and the worker has to begin anew with it.
    Restart,
    /// By itself, although it should run.
    Failed(String),
}

/// Carries workers out.
pub trait Runner: Send + Sync + 'static {
    /// Runs a worker once, until it ends or is told to stop. The future is never dropped before it
    /// is done, except with the whole process.
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Ended>;
}
