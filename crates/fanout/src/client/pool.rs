//! The idle connections to one origin, most recently used first.
//!
//! A caller takes a connection out and returns it after a complete response. A connection that fails or is
//! abandoned is dropped, which closes it. So the number of connections is bounded by the endpoint's
//! concurrency plus the idle limit. An HTTP/2 connection is shared instead of taken.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::target::Origin;

/// How long a connection stays idle before it is closed. Below the minute after which servers usually close
/// theirs.
const IDLE_LIMIT: Duration = Duration::from_secs(50);

/// A connection that can send a request.
#[derive(Debug)]
pub(crate) enum Transport {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// Why a request got no response.
pub(crate) struct Refusal {
    /// Nothing of the request was sent.
    pub(crate) unsent: bool,
    pub(crate) reason: String,
}

#[derive(Debug)]
pub(crate) struct Pool {
    origin: Origin,
    idle_max: usize,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    /// The longest idle connection is in front.
    http1: VecDeque<(http1::SendRequest<Full<Bytes>>, Instant)>,
    http2: Option<http2::SendRequest<Full<Bytes>>>,
}

impl Pool {
    /// Keeps at most `idle_max` connections; 0 disables pooling.
    pub(crate) fn new(origin: Origin, idle_max: usize) -> Pool {
        Pool {
            origin,
            idle_max,
            idle: Mutex::default(),
        }
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Takes an idle connection that is ready for a request, if there is one.
    pub(crate) async fn take(&self, now: Instant) -> Option<Transport> {
        loop {
            let mut transport = self.pop(now)?;
            if transport.ready().await {
                return Some(transport);
            }
        }
    }

    fn pop(&self, now: Instant) -> Option<Transport> {
        let mut idle = self.idle.lock();
        if let Some(shared) = &idle.http2 {
            if !shared.is_closed() {
                return Some(Transport::Http2(shared.clone()));
            }
            idle.http2 = None;
        }
        while let Some((sender, since)) = idle.http1.pop_back() {
            if now.saturating_duration_since(since) > IDLE_LIMIT {
                // All others have been idle for longer.
                idle.http1.clear();
                return None;
            }
            if !sender.is_closed() {
                return Some(Transport::Http1(sender));
            }
        }
        None
    }

    /// Returns a connection after a complete response.
    pub(crate) fn put_back(&self, transport: Transport, now: Instant) {
        let mut idle = self.idle.lock();
        match transport {
            Transport::Http2(sender) if self.idle_max > 0 => {
                if idle.http2.as_ref().is_none_or(http2::SendRequest::is_closed) {
                    idle.http2 = Some(sender);
                }
            }
            Transport::Http1(sender) if self.idle_max > 0 && !sender.is_closed() => {
                idle.http1.push_back((sender, now));
                let expired = |(_, since): &(_, Instant)| now.saturating_duration_since(*since) > IDLE_LIMIT;
                while idle.http1.len() > self.idle_max || idle.http1.front().is_some_and(expired) {
                    idle.http1.pop_front();
                }
            }
            Transport::Http1(_) | Transport::Http2(_) => (),
        }
    }

    /// Closes all idle connections.
    pub(crate) fn clear(&self) {
        *self.idle.lock() = Idle::default();
    }
}

impl Transport {
    pub(crate) fn version(&self) -> Version {
        match self {
            Transport::Http1(_) => Version::HTTP_11,
            Transport::Http2(_) => Version::HTTP_2,
        }
    }

    /// Waits until the previous response is consumed. Returns false if the connection has ended.
    async fn ready(&mut self) -> bool {
        match self {
            Transport::Http1(sender) => sender.ready().await.is_ok(),
            Transport::Http2(sender) => sender.ready().await.is_ok(),
        }
    }

    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Refusal> {
        let sent = match self {
            Transport::Http1(sender) => sender.try_send_request(request).await,
            Transport::Http2(sender) => sender.try_send_request(request).await,
        };
        sent.map_err(|error| Refusal {
            unsent: error.message().is_some(),
            reason: chain(error.error()),
        })
    }
}

/// Formats an error with its causes on one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
