//! The interface of every component that `up` runs.
//!
//! A component is built from its config (binding its listeners), then run. It reports when it is ready and ends
//! when shutdown is signalled. It may be a task, or own threads: then its future waits for them, and they look
//! at the same [`Shutdown`], which is cheap to ask.

use std::pin::Pin;

use tokio_util::sync::CancellationToken;

use crate::app::readiness::Ready;

/// The result of a component: descriptions of the work that it had to abort, usually none.
pub type Running = Pin<Box<dyn Future<Output = anyhow::Result<Vec<String>>> + Send>>;

/// A component of the server.
pub trait Service: Send + 'static {
    /// The name in `/readyz`, logs and errors.
    fn name(&self) -> &'static str;

    /// Runs until told to stop. To end earlier, well or badly, is a failure.
    fn run(self: Box<Self>, shutdown: Shutdown, ready: Ready) -> Running;

    /// Returns the component once more, to be run should this run of it fail. By default it cannot be, and its
    /// failure ends the server.
    fn again(&self) -> Option<Box<dyn Service>> {
        None
    }
}

/// The shutdown signal of a component, in three steps.
///
/// 1. *draining*: take no new work; finish what is open. Signalled to all components at once.
/// 2. *stop*: everything that depends on this component has ended: flush and end.
/// 3. *cut*: the time is up: drop open work, report what was dropped, and end.
///
/// A component that others do not depend on may end as soon as it has drained.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    draining: CancellationToken,
    stop: CancellationToken,
    cut: CancellationToken,
}

impl Shutdown {
    /// A view for another component: the same draining and cut, a stop of its own.
    pub(crate) fn sibling(&self) -> Shutdown {
        Shutdown {
            stop: CancellationToken::new(),
            ..self.clone()
        }
    }

    /// Waits for step 1. Cancel safe, as are the other two.
    pub async fn draining(&self) {
        self.draining.cancelled().await;
    }

    /// Waits for step 2.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Whether step 2 was reached, for threads that look now and then.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Waits for step 3.
    pub async fn cut(&self) {
        self.cut.cancelled().await;
    }

    /// Returns the token of step 1, for servers that take one.
    pub(crate) fn draining_token(&self) -> CancellationToken {
        self.draining.clone()
    }

    /// Returns the token of step 3.
    pub(crate) fn cut_token(&self) -> CancellationToken {
        self.cut.clone()
    }

    pub(crate) fn begin_draining(&self) {
        self.draining.cancel();
    }

    pub(crate) fn tell_stop(&self) {
        self.stop.cancel();
    }

    pub(crate) fn tell_cut(&self) {
        self.cut.cancel();
    }
}
