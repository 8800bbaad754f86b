//! One request to an untrusted URL, with a limit on everything.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, Uri};
use nagaya_http_kit::client;
use nagaya_net::tls;
use tokio_rustls::TlsConnector;

use super::allow::Allow;
use super::connector::{ConnectError, Connector};
use super::resolve::{Resolve, SystemResolver};

/// Upper bound for reading the body of a reply.
const BODY_TIME_MAX: Duration = Duration::from_secs(2);

/// How long an idle connection is kept.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// Idle connections kept per target.
const IDLE_CONNECTIONS_MAX: usize = 8;

/// Limits on durations and sizes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For name resolution, connection and TLS together.
    pub connect: Duration,
    /// For the whole attempt.
    pub total: Duration,
    /// Bytes read of a reply; the rest is dropped.
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

/// A target's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    /// The delay that it asked for.
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
    /// Returns whether retrying is pointless while the settings stay as they are.
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
    client: client::Client<Connector>,
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
        let pool = client::Limits {
            // The connector enforces the limit.
            connect: None,
            idle: IDLE_MAX,
            idle_per_host_max: IDLE_CONNECTIONS_MAX,
        };
        let client = client::Client::with_connector(pool, connector);
        Ok(Client { client, limits })
    }

    /// Posts a body and reads the beginning of the reply. Cancel safe, but a dropped call may have been
    /// received.
    pub async fn post(&self, url: &str, headers: HeaderMap, body: Bytes) -> Result<Reply, SendError> {
        let unusable = |why: String| SendError::Request { why };
        let uri: Uri = url
            .parse()
            .map_err(|error: http::uri::InvalidUri| unusable(error.to_string()))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
            return Err(unusable("it needs an http or https URL with a host".to_owned()));
        }
        // A status is a reply, whatever follows: a body that stalls or breaks off does not revoke it.
        let call = self.client.post(uri, body).headers(headers);
        let call = call
            .timeout(self.limits.total)
            .body_prefix(self.limits.reply_bytes_max, BODY_TIME_MAX);
        let reply = call.send().await.map_err(explain)?;
        Ok(Reply {
            status: reply.status().as_u16(),
            retry_after: retry_after(reply.headers()),
            body: reply.into_body().into(),
        })
    }
}

/// Parses the delay that a target asks for: seconds, or a date relative to the target's own clock.
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

fn explain(error: client::Error) -> SendError {
    if let client::Error::TimedOut { limit } = error {
        return SendError::TimedOut { limit };
    }
    match error.find::<ConnectError>() {
        Some(connect) => SendError::Connect(copy(connect)),
        None => SendError::Broken {
            why: error.root().to_string(),
        },
    }
}

/// Copies an error without its sources.
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
