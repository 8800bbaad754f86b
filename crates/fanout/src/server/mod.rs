//! The listener: connections in, requests to the service, and an orderly end.

mod events;
mod handler;
mod problem;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{Either, Full};
use nagaya_http_kit::server::{self, Options, Stop};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::service::Fanout;

/// What a client gets: a whole body, or events as they come.
type Reply = Response<Either<Full<Bytes>, UnsyncBoxBody<Bytes, Infallible>>>;

/// How long to wait after accepting failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Concurrent requests of one HTTP/2 connection.
const STREAMS_MAX: u32 = 1000;
/// Longest head of a request. Queries are handed on, so they may be long.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The listener, bound.
pub struct Server {
    fanout: Arc<Fanout>,
    listener: TcpListener,
}

/// What had to be cut at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Connections with a request unanswered.
    pub connections: usize,
    /// Requests whose endpoints were marked as stopped.
    pub requests: usize,
}

impl Server {
    pub async fn bind(fanout: Arc<Fanout>, address: SocketAddr) -> io::Result<Server> {
        let listener = TcpListener::bind(address).await?;
        Ok(Server { fanout, listener })
    }

    /// The bound address, with the port the system chose if it was asked to.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `draining`, then until everything under way is finished, or `cut` comes; then what is
    /// unfinished is marked as such.
    pub async fn run(self, draining: CancellationToken, cut: CancellationToken) -> Cut {
        let fanout = self.fanout;
        let stop = Stop {
            draining,
            closing: fanout.closing.clone(),
            cut: cut.clone(),
        };
        let options = Options {
            connections_max: fanout.config.connections_max,
            head_timeout: fanout.config.head_timeout,
            head_bytes_max: HEAD_BYTES_MAX,
            streams_max: STREAMS_MAX,
            write_timeout: None,
            accept_pause: ACCEPT_PAUSE,
        };
        let handler = Arc::clone(&fanout);
        let service = move |request, _| {
            let fanout = Arc::clone(&handler);
            async move { handler::handle(&fanout, request).await }
        };
        // A connection beyond the limit is closed without a response.
        let ended = server::serve(self.listener, options, (), stop, service).await;
        Cut {
            connections: ended.answering,
            requests: fanout.drain(cut.cancelled()).await,
        }
    }
}
