//! One request to a stranger's URL, with a limit on everything.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use nagaya_net::tls;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::allow::Allow;
use super::connector::{ConnectError, Connector};
use super::resolve::{Resolve, SystemResolver};

/// The longest that the body of a reply is worth.
const BODY_TIME_MAX: Duration = Duration::from_secs(2);

/// How long things may take and how large they may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For name, connection and TLS together.
    pub connect: Duration,
    /// For the whole try.
    pub total: Duration,
    /// What is read of a reply; the rest is not.
    pub reply_bytes_max: usize,
    pub https_only: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connect: Duration::from_secs(5),
            total: Duration::from_secs(20),
            reply_bytes_max: 1024,
            https_only: false,
        }
    }
}

/// What a target said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    /// The wait that it asked for.
    pub retry_after: Option<Duration>,
    /// The first bytes of the body.
    pub body: Vec<u8>,
}

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error(transparent)]
    Connect(ConnectError),
    #[error("no reply within {limit:?}")]
    TimedOut { limit: Duration },
    #[error("the request cannot be made: {why}")]
    Request { why: String },
    #[error("the connection failed: {why}")]
    Broken { why: String },
}

impl SendError {
    /// Tells whether no later try can be better while the settings stay as they are.
    pub fn is_refusal(&self) -> bool {
        match self {
            SendError::Connect(error) => error.is_refusal(),
            SendError::Request { .. } => true,
            SendError::TimedOut { .. } | SendError::Broken { .. } => false,
        }
    }
}

/// Sends requests. Clones share their connections.
#[derive(Clone)]
pub struct Client {
    client: legacy::Client<Connector, Full<Bytes>>,
    limits: Limits,
}

impl Client {
    /// Trusts the certificates of a file, or the system's without one.
    pub fn new(allow: Allow, limits: Limits, ca: Option<&Path>) -> Result<Client, String> {
        Client::with_resolver(allow, limits, ca, Arc::new(SystemResolver))
    }

    pub fn with_resolver(
        allow: Allow,
        limits: Limits,
        ca: Option<&Path>,
        resolver: Arc<dyn Resolve>,
    ) -> Result<Client, String> {
        let connector = Connector {
            allow: Arc::new(allow),
            resolver,
            tls: TlsConnector::from(Arc::new(tls::client_config(ca)?)),
            https_only: limits.https_only,
            limit: limits.connect,
        };
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .pool_max_idle_per_host(8)
            .build(connector);
        Ok(Client { client, limits })
    }

    /// Posts a body and reads the beginning of the reply. Cancel safe: a dropped call may have been received.
    pub async fn post(&self, url: &str, headers: HeaderMap, body: Bytes) -> Result<Reply, SendError> {
        let unusable = |why: String| SendError::Request { why };
        let uri: Uri = url
            .parse()
            .map_err(|error: http::uri::InvalidUri| unusable(error.to_string()))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
            return Err(unusable("it needs an http or https URL with a host".to_owned()));
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let limit = self.limits.total;
        let deadline = Instant::now() + limit;
        let reply = match timeout_at(deadline, self.client.request(request)).await {
            Ok(reply) => reply.map_err(explain)?,
            Err(_) => return Err(SendError::TimedOut { limit }),
        };
        let status = reply.status().as_u16();
        let retry_after = retry_after(reply.headers());
        // A status is a reply, whatever comes after it: a body that stalls or breaks off takes nothing back.
        let body_deadline = deadline.min(Instant::now() + BODY_TIME_MAX);
        let body = beginning(reply.into_body(), self.limits.reply_bytes_max, body_deadline).await;
        Ok(Reply {
            status,
            retry_after,
            body,
        })
    }
}

/// Reads the beginning of a body: so many bytes, until then. Dropping the rest closes the connection.
async fn beginning(mut incoming: Incoming, bytes_max: usize, deadline: Instant) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < bytes_max {
        let Ok(Some(Ok(frame))) = timeout_at(deadline, incoming.frame()).await else {
            break;
        };
        if let Some(data) = frame.data_ref() {
            let room = bytes_max - body.len();
            body.extend_from_slice(&data[..data.len().min(room)]);
        }
    }
    body
}

/// Reads the wait that a target asks for: seconds, or a date that is measured by the target's own clock.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::trim)
    };
    let asked = text(RETRY_AFTER)?;
    if let Ok(seconds) = asked.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = |text: &str| jiff::fmt::rfc2822::parse(text).ok().map(|date| date.timestamp());
    let now = text(DATE).and_then(date).unwrap_or_else(jiff::Timestamp::now);
    let wait = date(asked)?.as_second() - now.as_second();
    Some(Duration::from_secs(u64::try_from(wait).unwrap_or(0)))
}

fn explain(error: legacy::Error) -> SendError {
    let mut source = std::error::Error::source(&error);
    let mut why = error.to_string();
    while let Some(cause) = source {
        why = cause.to_string();
        source = cause.source();
        if let Some(connect) = cause.downcast_ref::<ConnectError>() {
            return SendError::Connect(copy(connect));
        }
    }
    SendError::Broken { why }
}

/// The same error, apart from its sources.
fn copy(error: &ConnectError) -> ConnectError {
    let other = |source: &std::io::Error| std::io::Error::new(source.kind(), source.to_string());
    match error {
        ConnectError::NoHost => ConnectError::NoHost,
        ConnectError::NotHttps => ConnectError::NotHttps,
        ConnectError::Refused { host, address, why } => ConnectError::Refused {
            host: host.clone(),
            address: *address,
            why: *why,
        },
        ConnectError::Resolve { host, source } => ConnectError::Resolve {
            host: host.clone(),
            source: other(source),
        },
        ConnectError::Connect { host, source } => ConnectError::Connect {
            host: host.clone(),
            source: other(source),
        },
        ConnectError::Tls { host, why } => ConnectError::Tls {
            host: host.clone(),
            why: why.clone(),
        },
        ConnectError::TimedOut { host, limit } => ConnectError::TimedOut {
            host: host.clone(),
            limit: *limit,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_wait_is_asked_for_in_seconds_or_as_a_date() {
        let wait = |pairs: &[(http::HeaderName, &'static str)]| {
            let pair = |(name, value): &(http::HeaderName, &'static str)| {
                (name.clone(), HeaderValue::from_static(value))
            };
            retry_after(&pairs.iter().map(pair).collect())
        };
        assert_eq!(wait(&[(RETRY_AFTER, "120")]), Some(Duration::from_secs(120)));
        let date = (DATE, "Sun, 15 Nov 2026 10:00:00 GMT");
        let later = (RETRY_AFTER, "Sun, 15 Nov 2026 10:01:30 GMT");
        let past = (RETRY_AFTER, "Sun, 15 Nov 2026 09:00:00 GMT");
        assert_eq!(wait(&[date.clone(), later]), Some(Duration::from_secs(90)));
        assert_eq!(wait(&[date, past]), Some(Duration::ZERO));
        assert_eq!(wait(&[(RETRY_AFTER, "soon")]), None);
        assert_eq!(wait(&[]), None);
    }
}
