//! The listener: accepts connections, passes requests to the service, and shuts down gracefully.

mod call;
mod events;
mod handler;
mod merged;
mod problem;
mod told;
mod websocket;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{Either, Full};
use nagaya_http_kit::hosts::{HostRule, is_loopback};
use nagaya_http_kit::proxies::Proxies;
use nagaya_http_kit::server::{self, BodyLimits, Options, Stop, Tls};
use rustix::process::{Resource, getrlimit};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::service::Fanout;

/// A response: a complete body, or a stream of events.
type Reply = Response<Either<Full<Bytes>, UnsyncBoxBody<Bytes, Infallible>>>;

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Concurrent requests of one HTTP/2 connection.
const STREAMS_MAX: u32 = 1000;
/// Longest head of a request, in bytes. Queries are passed on, so they may be long.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How long a client may take nothing of a response before its connection is closed.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// So many bytes of a body earn its sender another second.
const BODY_BYTES_PER_SECOND: u64 = 10_000;

/// The listener, bound.
pub struct Server {
    fanout: Arc<Fanout>,
    listener: TcpListener,
    access: Access,
}

/// How the listener is reached, from settings that all listeners share.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Names that the listener answers to besides its addresses.
    pub hosts: Vec<String>,
    pub proxies: Proxies,
    /// Plain HTTP without it.
    pub tls: Option<Tls>,
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
        Ok(Server {
            fanout,
            listener,
            access: Access::default(),
        })
    }

    pub fn with_access(mut self, access: Access) -> Server {
        self.access = access;
        self
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
            access: self.access.clone(),
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
        let options = options(&fanout, &self.listener, self.access);
        if options.connections_max < fanout.config.connections_max {
            tracing::warn!(
                connections = options.connections_max,
                "the limit of open files allows fewer connections than `fanout.connections_max`"
            );
        }
        let handler = Arc::clone(&fanout);
        let service = move |request| {
            let fanout = Arc::clone(&handler);
            async move { handler::handle(&fanout, request).await }
        };
        let ended = server::serve(self.listener, options, (), stop, service).await;
        Cut {
            connections: ended.answering,
            requests: fanout.drain(cut.cancelled()).await,
        }
    }
}

/// Returns how many connections of clients leave as many file descriptors to endpoints and store.
fn files_for_clients() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok());
    (limit.unwrap_or(usize::MAX) / 2).max(1)
}

fn options(fanout: &Fanout, listener: &TcpListener, access: Access) -> Options {
    let config = &fanout.config;
    Options {
        section: "fanout",
        connections_max: config.connections_max.min(files_for_clients()),
        connections_per_address: config.connections_per_address,
        head_timeout: config.head_timeout,
        head_bytes_max: HEAD_BYTES_MAX,
        body: BodyLimits {
            timeout: config.body_timeout,
            bytes_per_second: BODY_BYTES_PER_SECOND,
            held_max: config.bodies_max.as_usize(),
        },
        streams_max: STREAMS_MAX,
        write_timeout: Some(WRITE_TIMEOUT),
        accept_pause: ACCEPT_PAUSE,
        // Every path is fanned out.
        probes: &[],
        hosts: HostRule {
            names: access.hosts,
            asks_token: config.token.is_some(),
            is_loopback: listener.local_addr().is_ok_and(is_loopback),
            takes_links: false,
        },
        proxies: access.proxies,
        tls: access.tls,
    }
}
