//! Fetches the response of one endpoint, within limits.

mod body;
mod connect;
mod pool;

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderName, HeaderValue, Method, Response};
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::config::{FanoutConfig, Redirects};
use crate::request::Outgoing;
use crate::target::Target;

pub(crate) use body::{Buffers, Held};
pub(crate) use connect::Connector;
pub(crate) use pool::Pool;

/// Pooled connections that are tried before a new one is opened.
const STALE_TRIES_MAX: usize = 3;

/// A complete response.
#[derive(Debug)]
pub struct Fetched {
    pub status: u16,
    pub body: Bytes,
    /// Its `Content-Type`.
    pub kind: Option<HeaderValue>,
    /// The memory that the body accounts for.
    pub(crate) held: Option<Held>,
}

/// Why there is no response. Timeouts are not among the reasons: the caller enforces the deadline.
#[derive(Debug)]
pub enum FetchError {
    /// The server does not accept connections or does not speak HTTP; the text says which.
    Refused(String),
    TooLarge(&'static str),
    /// The client's query and the endpoint's URL together are longer than a URL may be. Nothing was sent.
    LongQuery,
    /// The memory budget for bodies is used up.
    NoMemory,
    /// There is no file descriptor for a connection. Nothing was sent.
    NoFiles,
    /// Too many redirects, or one that leads nowhere; with the status of the last one.
    Redirects(u16),
}

/// Fetches responses. Cancel safe: dropping the call drops its connection.
pub trait Fetch: Send + Sync + 'static {
    /// Gets ready for endpoints with `https`, so that the first call to one does not have to. May take some time.
    fn prepare_tls(&self) {}

    fn fetch<'a>(
        &'a self,
        place: &'a Place,
        outgoing: &'a Outgoing,
        by: Instant,
    ) -> BoxFuture<'a, Result<Fetched, FetchError>>;
}

/// The address of an endpoint, and its pooled connections.
#[derive(Debug)]
pub struct Place {
    pub(crate) target: Target,
    pub(crate) pool: Pool,
    own: Own,
}

/// What an endpoint is asked in another way than the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Own {
    pub(crate) method: Option<Method>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) redirects: Option<Redirects>,
}

impl Place {
    pub(crate) fn new(target: Target, idle_max: usize, own: Own) -> Place {
        let pool = Pool::new(target.origin.clone(), idle_max);
        Place { target, pool, own }
    }

    /// Returns whether a call to this endpoint may be made twice.
    pub(crate) fn is_repeatable(&self, outgoing: &Outgoing) -> bool {
        let method = self.own.method.as_ref().unwrap_or(&outgoing.method);
        matches!(*method, Method::GET | Method::PUT | Method::DELETE)
    }

    /// Returns what this endpoint gets of a request.
    fn outgoing<'a>(&self, outgoing: &'a Outgoing) -> Cow<'a, Outgoing> {
        if self.own.method.is_none() && self.own.headers.is_empty() {
            return Cow::Borrowed(outgoing);
        }
        Cow::Owned(outgoing.for_endpoint(self.own.method.as_ref(), &self.own.headers))
    }
}

/// The client for all endpoints.
pub(crate) struct HttpClient {
    connector: Connector,
    buffers: Arc<Buffers>,
    body_max: usize,
    unpacked_max: usize,
    redirects: Redirects,
    redirects_max: u32,
}

impl HttpClient {
    pub(crate) fn new(config: &FanoutConfig) -> HttpClient {
        let ca: Option<PathBuf> = config.ca.clone();
        HttpClient {
            connector: Connector::new(ca),
            buffers: Arc::new(Buffers::new(config.buffers_max.as_usize())),
            body_max: config.body_max.as_usize(),
            unpacked_max: config.unpacked_max.as_usize(),
            redirects: config.redirects,
            redirects_max: config.redirects_max,
        }
    }

    async fn fetch_following(
        &self,
        place: &Place,
        outgoing: &Outgoing,
        by: Instant,
    ) -> Result<Fetched, FetchError> {
        let outgoing = place.outgoing(outgoing);
        let fetched = self.fetch_one(&place.pool, &place.target, &outgoing, by).await?;
        let redirects = place.own.redirects.unwrap_or(self.redirects);
        let (status, mut location) = match fetched {
            Step::Redirect { status, location, .. } if redirects != Redirects::None => (status, location),
            done => return Ok(done.answer()),
        };
        let (mut target, mut outgoing, mut status) = (place.target.clone(), outgoing.into_owned(), status);
        for _ in 0..self.redirects_max {
            let next = target.follow(&location).ok_or(FetchError::Redirects(status))?;
            let same_origin = next.origin == target.origin;
            if !same_origin && redirects == Redirects::SameOrigin {
                return Err(FetchError::Redirects(status));
            }
            outgoing = outgoing.for_redirect(status, same_origin);
            target = next;
            // A redirect to another server uses an unpooled connection, so that an endpoint cannot fill our
            // pools.
            let step = if target.origin == place.target.origin {
                self.fetch_one(&place.pool, &target, &outgoing, by).await?
            } else {
                self.fetch_apart(&target, &outgoing, by).await?
            };
            match step {
                Step::Redirect {
                    status: next,
                    location: to,
                    ..
                } => (status, location) = (next, to),
                done @ Step::Done(_) => return Ok(done.answer()),
            }
        }
        Err(FetchError::Redirects(status))
    }

    async fn fetch_apart(
        &self,
        target: &Target,
        outgoing: &Outgoing,
        by: Instant,
    ) -> Result<Step, FetchError> {
        let pool = Pool::new(target.origin.clone(), 0);
        self.fetch_one(&pool, target, outgoing, by).await
    }

    /// Sends one request. A pooled connection that turns out to be closed does not count as the endpoint's
    /// failure: an unsent request is sent over another connection, and so is a GET that was sent and got no
    /// response.
    async fn fetch_one(
        &self,
        pool: &Pool,
        target: &Target,
        outgoing: &Outgoing,
        by: Instant,
    ) -> Result<Step, FetchError> {
        let mut stale = 0;
        loop {
            let kept = if stale < STALE_TRIES_MAX {
                pool.take(Instant::now()).await
            } else {
                None
            };
            let (mut transport, is_kept) = match kept {
                Some(transport) => (transport, true),
                None => (self.connector.connect(pool.origin()).await?, false),
            };
            let left = by.saturating_duration_since(Instant::now());
            let version = transport.version();
            let request = outgoing
                .build(target, version, left)
                .ok_or(FetchError::LongQuery)?;
            match transport.send(request).await {
                Ok(response) => {
                    let step = self.receive(response).await?;
                    pool.put_back(transport, Instant::now());
                    return Ok(step);
                }
                Err(refusal) if is_kept && (refusal.unsent || outgoing.method == Method::GET) => stale += 1,
                Err(refusal) => return Err(FetchError::Refused(refusal.reason)),
            }
        }
    }

    async fn receive(&self, response: Response<Incoming>) -> Result<Step, FetchError> {
        let status = response.status().as_u16();
        let location = response
            .headers()
            .get(LOCATION)
            .and_then(|value| value.to_str().ok());
        let location = location
            .filter(|_| matches!(status, 301 | 302 | 303 | 307 | 308))
            .map(str::to_owned);
        let kind = response.headers().get(CONTENT_TYPE).cloned();
        let limits = body::Limits {
            wire: self.body_max,
            unpacked: self.unpacked_max,
        };
        let (body, held) = body::read(response, limits, &self.buffers).await?;
        let answer = Fetched {
            status,
            body,
            kind,
            held: Some(held),
        };
        Ok(match location {
            Some(location) if self.redirects_max > 0 => Step::Redirect {
                status,
                location,
                answer,
            },
            _ => Step::Done(answer),
        })
    }
}

enum Step {
    Done(Fetched),
    Redirect {
        status: u16,
        location: String,
        /// The redirect itself.
        answer: Fetched,
    },
}

impl Step {
    fn answer(self) -> Fetched {
        match self {
            Step::Done(answer) | Step::Redirect { answer, .. } => answer,
        }
    }
}

impl Fetch for HttpClient {
    fn prepare_tls(&self) {
        self.connector.prepare_tls();
    }

    fn fetch<'a>(
        &'a self,
        place: &'a Place,
        outgoing: &'a Outgoing,
        by: Instant,
    ) -> BoxFuture<'a, Result<Fetched, FetchError>> {
        Box::pin(self.fetch_following(place, outgoing, by))
    }
}
