//! The ways to run a worker, behind one trait.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use crate::name::{AppName, InstanceName, WorkerId};
use nagaya_clock::BootTime;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Identifies one copy of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub app: AppName,
    pub instance: InstanceName,
    pub worker: WorkerId,
    /// Rises with every assignment; downstream gates compare it.
    pub epoch: u64,
}

/// A question to a worker, and the channel for its answer.
#[derive(Debug)]
pub struct Question {
    pub key: String,
    pub answer: oneshot::Sender<Result<String, String>>,
}

/// The stop order: `None` while the worker may run, then the time by which it must be dead.
#[derive(Clone, Debug)]
pub struct StopSignal(pub(crate) watch::Receiver<Option<BootTime>>);

impl StopSignal {
    /// Waits for the order to stop and returns the time by which the worker must be dead. Cancel safe.
    pub async fn ordered(&mut self) -> BootTime {
        match self.0.wait_for(Option::is_some).await {
            Ok(kill_at) => kill_at.unwrap_or(BootTime::ZERO),
            // The agent is gone: stop at once.
            Err(_) => BootTime::ZERO,
        }
    }

    pub fn is_ordered(&self) -> bool {
        self.0.borrow().is_some()
    }
}

/// The inputs of one attempt to run a worker.
pub struct Attempt<'a> {
    pub identity: &'a Identity,
    /// The config, byte for byte. Changes arrive through the same receiver.
    pub config: &'a mut watch::Receiver<Arc<[u8]>>,
    pub stop: &'a mut StopSignal,
    /// The end of the lease, by which nothing of the attempt may run. It moves on with every confirmed heartbeat; a
    /// runner that cannot end its workers itself passes on how much of it is left.
    pub lease: &'a mut watch::Receiver<BootTime>,
    pub questions: &'a mut mpsc::Receiver<Question>,
    /// To be called when the worker is up.
    pub started: Box<dyn FnOnce() + Send + 'a>,
}

/// How an attempt ended. In every case, nothing of it is still running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was told to stop.
    Stopped,
    /// It ended through no fault of its own, as for a new config, and is to be started again at once.
    Restart,
    /// It ended although it should be running.
    Failed(String),
}

/// Runs workers.
pub trait Runner: Send + Sync + 'static {
    /// Runs a worker once, until it ends or is told to stop. The agent never drops the future early; only the
    /// end of the process does.
    fn attempt<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Ended>;

    /// Returns whether all workers are over once the agent's process and its children are: then a free lock proves it
    /// to the next process.
    fn ends_with_agent(&self) -> bool {
        true
    }

    /// Numbers the lives of what runs the workers, if that is not the agent itself; `None` while there is none. When
    /// the one that the agent joined for is over, it hands its workers over and joins again for the next.
    fn readiness(&self) -> Option<watch::Receiver<Option<u64>>> {
        None
    }
}
