//! Shared by the streams: a bounded outbox to a client that may be slow or disconnected.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status};

use super::Answers;
use crate::api::Api;

/// Messages that may be queued for the client.
const OUTBOX: usize = 64;

/// The client disconnected, or accepted nothing for too long.
#[derive(Debug)]
pub(super) struct ClientDisconnected;

/// The sending half of a stream.
pub(super) struct Outbox<T> {
    sender: mpsc::Sender<Result<T, Status>>,
    stall_max: Duration,
}

impl<T> Outbox<T> {
    pub(super) async fn send(&self, message: T) -> Result<(), ClientDisconnected> {
        self.put(Ok(message)).await
    }

    /// Ends the stream with an error.
    pub(super) async fn refuse(&self, status: impl Into<Status>) {
        // A disconnected client need not be told.
        let _ = self.put(Err(status.into())).await;
    }

    async fn put(&self, message: Result<T, Status>) -> Result<(), ClientDisconnected> {
        let sent = self.sender.send_timeout(message, self.stall_max).await;
        sent.map_err(|_| ClientDisconnected)
    }

    /// Resolves when the client disconnects.
    pub(super) async fn closed(&self) {
        self.sender.closed().await;
    }
}

/// Starts a stream: `session` writes to the outbox until it is done. The stream ends when the client
/// disconnects. The API's tracker owns its task.
pub(super) fn start<T, F>(api: &Api, session: impl FnOnce(Outbox<T>) -> F) -> Response<Answers<T>>
where
    T: Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(OUTBOX);
    let outbox = Outbox {
        sender,
        stall_max: api.config.stall_max,
    };
    api.streams.spawn(session(outbox));
    Response::new(Box::pin(ReceiverStream::new(receiver)))
}
