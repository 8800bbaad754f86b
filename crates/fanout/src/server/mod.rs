//! The listener: accepts connections, passes requests to the service, and shuts down gracefully.

mod events;
mod handler;
mod problem;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
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

/// A response: a complete body, or a stream of events.
type Reply = Response<Either<Full<Bytes>, UnsyncBoxBody<Bytes, Infallible>>>;

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Concurrent requests of one HTTP/2 connection.
const STREAMS_MAX: u32 = 1000;
/// Longest head of a request, in bytes. Queries are passed on, so they may be long.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The listener, bound.
pub struct Server {
    fanout: Arc<Fanout>,
    listener: TcpListener,
}

/// What was cut at shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Connections with an unanswered request.
    pub connections: usize,
    /// Requests whose endpoints were marked as stopped.
    pub requests: usize,
}

impl Server {
    pub async fn bind(fanout: Arc<Fanout>, address: SocketAddr) -> io::Result<Server> {
        let listener = TcpListener::bind(address).await?;
        Ok(Server { fanout, listener })
    }

    /// Returns the bound address, with the port that the system chose if it was 0.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns a second server on the same listener, to take over should this one fail.
    pub fn try_clone(&self) -> io::Result<Server> {
        let listener = std::net::TcpListener::from(self.listener.as_fd().try_clone_to_owned()?);
        Ok(Server {
            fanout: Arc::clone(&self.fanout),
            listener: TcpListener::from_std(listener)?,
        })
    }

    /// Serves until `draining`, then until everything in progress is finished, or `cut` comes; the rest is
    /// then marked as stopped.
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
