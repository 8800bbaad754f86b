//! A pooled HTTP/1.1 client with a limit on time and on the size of what it reads.
//!
//! It follows no redirects: a response with a 3xx status is returned like any other. A request on a pooled
//! connection that the server closed meanwhile is sent again on a new one, if none of it was sent before.

use std::error::Error as StdError;
use std::future::Future;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::{Instant, timeout, timeout_at};

/// How much of a response is read unless the request says otherwise.
const BODY_BYTES_MAX: usize = 1 << 20;

type BoxError = Box<dyn StdError + Send + Sync>;

/// A client that speaks plain HTTP and HTTPS.
pub type HttpsClient = Client<HttpsConnector<HttpConnector>>;

/// Limits of a client's connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a connection may take to open, all addresses of a name together. A connector of the caller's own
    /// has its own limit.
    pub connect: Option<Duration>,
    /// How long an unused connection is kept.
    pub idle: Duration,
    /// How many unused connections to one host are kept; with 0 each request has a connection of its own.
    pub idle_per_host_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connect: Some(Duration::from_secs(5)),
            // Below the usual limits of load balancers, so that it is not they who close.
            idle: Duration::from_secs(50),
            idle_per_host_max: 8,
        }
    }
}

/// Why there is no response, or no whole one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing was sent.
    #[error("no connection")]
    Connect(#[source] BoxError),
    /// The server may have received the request.
    #[error("the connection failed")]
    Broken(#[source] BoxError),
    /// The server may have received the request.
    #[error("no response within {limit:?}")]
    TimedOut { limit: Duration },
    #[error("the response is longer than {bytes_max} bytes")]
    TooLarge { bytes_max: usize },
    /// The head came, the body broke off.
    #[error("the response broke off")]
    Body(#[source] BoxError),
}

impl Error {
    /// Returns the first error of this type among the causes.
    pub fn find<E: StdError + 'static>(&self) -> Option<&E> {
        causes(self).find_map(|cause| cause.downcast_ref())
    }

    /// Returns the innermost cause, which mostly is the operating system's error.
    pub fn root(&self) -> &(dyn StdError + 'static) {
        causes(self).last().unwrap_or(self)
    }

    /// Returns whether the server sent something else than the head of an HTTP response, or nothing.
    pub fn is_not_http(&self) -> bool {
        let cause = self.find::<hyper::Error>();
        matches!(self, Error::Broken(_))
            && cause.is_some_and(|cause| cause.is_parse() || cause.is_incomplete_message())
    }
}

/// Returns the causes of an error, the outermost first.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    let mut next = error.source();
    std::iter::from_fn(move || {
        let cause = next?;
        next = cause.source();
        Some(cause)
    })
}

/// Sends requests over a pool of connections. Clones share the pool.
#[derive(Clone, Debug)]
pub struct Client<C = HttpConnector> {
    pool: legacy::Client<C, Full<Bytes>>,
}

impl Client {
    /// Makes a client for `http` URLs only.
    pub fn new(limits: Limits) -> Client {
        Client::with_connector(limits, tcp(limits, true))
    }
}

impl HttpsClient {
    /// Makes a client for `http` URLs whose type is that of one for both.
    pub fn without_certificates(limits: Limits) -> Result<HttpsClient, String> {
        let config = nagaya_net::tls::client_without_certificates()?;
        Ok(HttpsClient::with_tls(limits, config))
    }

    /// Makes a client for `http` and `https` URLs. The settings must not name protocols (ALPN).
    pub fn with_tls(limits: Limits, tls: rustls::ClientConfig) -> HttpsClient {
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp(limits, false));
        Client::with_connector(limits, connector)
    }
}

fn tcp(limits: Limits, http_only: bool) -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(http_only);
    connector.set_nodelay(true);
    connector.set_connect_timeout(limits.connect);
    connector
}

impl<C: Connect + Clone + Send + Sync + 'static> Client<C> {
    /// Makes a client whose connections are opened by `connector`.
    pub fn with_connector(limits: Limits, connector: C) -> Client<C> {
        let pool = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(limits.idle)
            .pool_max_idle_per_host(limits.idle_per_host_max)
            .build(connector);
        Client { pool }
    }

    pub fn get(&self, url: Uri) -> Call<C> {
        self.call(Method::GET, url)
    }

    pub fn post(&self, url: Uri, body: impl Into<Bytes>) -> Call<C> {
        self.call(Method::POST, url).body(body)
    }

    /// Begins a request with any method.
    pub fn call(&self, method: Method, url: Uri) -> Call<C> {
        let mut request = Request::new(Full::default());
        *request.method_mut() = method;
        *request.uri_mut() = url;
        Call {
            client: self.clone(),
            request,
            timeout: None,
            read_timeout: None,
            body: BodyRule::Whole {
                bytes_max: BODY_BYTES_MAX,
            },
        }
    }
}

/// What is read of a body.
#[derive(Clone, Copy, Debug)]
enum BodyRule {
    /// All of it; a longer one is an error.
    Whole { bytes_max: usize },
    /// Its beginning. What breaks off or takes too long is no error, the response then has what came.
    Prefix { bytes_max: usize, within: Duration },
}

/// A request to be sent.
#[must_use = "a request is sent by `send`"]
pub struct Call<C> {
    client: Client<C>,
    request: Request<Full<Bytes>>,
    timeout: Option<Duration>,
    read_timeout: Option<Duration>,
    body: BodyRule,
}

impl<C: Connect + Clone + Send + Sync + 'static> Call<C> {
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.request.headers_mut().insert(name, value);
        self
    }

    /// Adds headers; those with the same name are replaced.
    pub fn headers(mut self, headers: HeaderMap) -> Self {
        self.request.headers_mut().extend(headers);
        self
    }

    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        *self.request.body_mut() = Full::new(body.into());
        self
    }

    /// Limits the whole request, from connecting to the last byte. There is no limit without it.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Limits the wait for the head, and for each further part of the body. There is no limit without it.
    pub fn read_timeout(mut self, limit: Duration) -> Self {
        self.read_timeout = Some(limit);
        self
    }

    /// Makes a response with a longer body an error.
    pub fn body_max(mut self, bytes_max: usize) -> Self {
        self.body = BodyRule::Whole { bytes_max };
        self
    }

    /// Reads at most so many bytes of the body and for at most so long, and ignores the rest. The connection is
    /// closed then.
    pub fn body_prefix(mut self, bytes_max: usize, within: Duration) -> Self {
        self.body = BodyRule::Prefix { bytes_max, within };
        self
    }

    /// Sends the request and reads the response.
    ///
    /// Cancel safe, except that the server may have received a request whose call was dropped.
    pub async fn send(self) -> Result<Response<Bytes>, Error> {
        let deadline = self.timeout.map(Deadline::new);
        let head = within(
            deadline,
            self.read_timeout,
            self.client.pool.request(self.request),
        );
        let response = head.await?.map_err(|error| {
            if error.is_connect() {
                Error::Connect(error.into())
            } else {
                Error::Broken(error.into())
            }
        })?;
        let (head, incoming) = response.into_parts();
        let body = match self.body {
            BodyRule::Whole { bytes_max } => whole(incoming, bytes_max, deadline, self.read_timeout).await?,
            BodyRule::Prefix { bytes_max, within } => {
                let until = Instant::now() + within;
                let until = deadline.map_or(until, |deadline| until.min(deadline.at));
                prefix(incoming, bytes_max, until).await
            }
        };
        Ok(Response::from_parts(head, body))
    }
}

#[derive(Clone, Copy)]
struct Deadline {
    at: Instant,
    limit: Duration,
}

impl Deadline {
    fn new(limit: Duration) -> Deadline {
        Deadline {
            at: Instant::now() + limit,
            limit,
        }
    }
}

/// Runs one step within the limit of the whole request and that of a single read.
async fn within<T>(
    deadline: Option<Deadline>,
    read_timeout: Option<Duration>,
    step: impl Future<Output = T>,
) -> Result<T, Error> {
    let step = async {
        match read_timeout {
            Some(limit) => timeout(limit, step).await.map_err(|_| Error::TimedOut { limit }),
            None => Ok(step.await),
        }
    };
    match deadline {
        Some(Deadline { at, limit }) => timeout_at(at, step)
            .await
            .unwrap_or(Err(Error::TimedOut { limit })),
        None => step.await,
    }
}

async fn whole(
    mut incoming: Incoming,
    bytes_max: usize,
    deadline: Option<Deadline>,
    read_timeout: Option<Duration>,
) -> Result<Bytes, Error> {
    let announced = usize::try_from(incoming.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > bytes_max {
        return Err(Error::TooLarge { bytes_max });
    }
    let mut body = BytesMut::new();
    while let Some(frame) = within(deadline, read_timeout, incoming.frame()).await? {
        let frame = frame.map_err(|error| Error::Body(error.into()))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if body.len() + data.len() > bytes_max {
            return Err(Error::TooLarge { bytes_max });
        }
        body.extend_from_slice(&data);
    }
    Ok(body.freeze())
}

async fn prefix(mut incoming: Incoming, bytes_max: usize, until: Instant) -> Bytes {
    let mut body = BytesMut::new();
    while body.len() < bytes_max {
        let Ok(Some(Ok(frame))) = timeout_at(until, incoming.frame()).await else {
            break;
        };
        if let Some(data) = frame.data_ref() {
            let left = bytes_max - body.len();
            body.extend_from_slice(&data[..data.len().min(left)]);
        }
    }
    body.freeze()
}

#[cfg(test)]
mod tests;
