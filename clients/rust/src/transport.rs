//! Sends calls and reads their responses.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Uri};
use hyper_rustls::ConfigBuilderExt;
use nagaya_http_kit::client::{self, HttpsClient, Limits};
use nagaya_net::tls::{client_config, crypto_provider};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Problem};
use crate::options::Options;
use crate::retry::RetryPolicy;

/// How long a connection may take to open.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Connections unused for this long are closed; below the usual limits of load balancers.
const IDLE_LIMIT: Duration = Duration::from_secs(50);

/// Whether a call may be repeated when its outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// The server recognises a repetition, or the call is idempotent.
    Safe,
    /// Only if it certainly was not executed.
    IfNotDone,
    Never,
}

/// A call, ready to be sent as often as needed.
pub(crate) struct Call {
    pub(crate) method: Method,
    /// With the query, percent-encoded.
    pub(crate) path: String,
    pub(crate) body: Bytes,
    /// How long the server was asked to wait before it answers.
    pub(crate) wait: Duration,
    pub(crate) repeat: Repeat,
}

impl Call {
    pub(crate) fn get(path: String) -> Call {
        Call {
            method: Method::GET,
            path,
            body: Bytes::new(),
            wait: Duration::ZERO,
            repeat: Repeat::Safe,
        }
    }

    pub(crate) fn post(path: String, body: &impl Serialize, repeat: Repeat) -> Result<Call, Error> {
        let body = serde_json::to_vec(body).map_err(|source| Error::Encode {
            what: "request",
            source,
        })?;
        Ok(Call {
            method: Method::POST,
            path,
            body: body.into(),
            wait: Duration::ZERO,
            repeat,
        })
    }
}

/// Connections to one server.
pub(crate) struct Transport {
    pool: HttpsClient,
    scheme: Scheme,
    authority: http::uri::Authority,
    /// Prefix of all paths, for servers behind a shared host name.
    prefix: String,
    authorization: Option<HeaderValue>,
    timeout: Duration,
    retry: RetryPolicy,
    answer_bytes_max: usize,
}

impl Transport {
    pub(crate) fn new(options: Options) -> Result<Transport, Error> {
        let (scheme, authority, prefix) = split(&options.url)?;
        let authorization = options.token.map(|token| bearer(&token)).transpose()?;
        Ok(Transport {
            pool: pool(
                scheme == Scheme::HTTPS,
                options.ca.as_deref(),
                options.idle_connections_max,
            )?,
            scheme,
            authority,
            prefix,
            authorization,
            timeout: options.timeout,
            retry: options.retry,
            answer_bytes_max: options.answer_bytes_max,
        })
    }

    /// Sends a call, repeats it where that is safe, and reads the response.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, call: Call) -> Result<T, Error> {
        let body = self.send(&call).await?;
        // An empty response is read as `null`.
        let text = if body.is_empty() { b"null" } else { &body[..] };
        serde_json::from_slice(text).map_err(|source| Error::Answer {
            path: call.path,
            source,
        })
    }

    async fn send(&self, call: &Call) -> Result<Bytes, Error> {
        let mut failures = 0;
        loop {
            let error = match self.send_once(call).await {
                Ok(body) => return Ok(body),
                Err(error) => error,
            };
            failures += 1;
            let allowed = match call.repeat {
                Repeat::Safe => true,
                Repeat::IfNotDone => error.was_not_done(),
                Repeat::Never => false,
            };
            if !allowed || !error.is_temporary() || failures >= self.retry.attempts {
                return Err(error);
            }
            let wish = error.problem().and_then(|problem| problem.retry_after);
            let pause = self.retry.pause(failures, wish);
            tracing::debug!(path = call.path, %error, failures, "call failed, repeating it");
            tokio::time::sleep(pause).await;
        }
    }

    async fn send_once(&self, call: &Call) -> Result<Bytes, Error> {
        let request = self.pool.call(call.method.clone(), self.uri(call)?);
        let request = request.headers(self.headers(call)).body(call.body.clone());
        let request = request
            .timeout(self.timeout + call.wait)
            .body_max(self.answer_bytes_max);
        let response = request.send().await.map_err(|error| self.failed(call, error))?;
        let (head, body) = response.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let retry_after = head.headers.get(RETRY_AFTER).and_then(seconds);
        let problem = Problem::read(head.status.as_u16(), &body, retry_after);
        Err(if problem.is_lease_lost() {
            Error::LeaseLost(problem)
        } else {
            Error::Refused(problem)
        })
    }

    fn failed(&self, call: &Call, error: client::Error) -> Error {
        let url = self.url();
        match error {
            client::Error::Connect(source) => Error::Unreachable { url, source },
            client::Error::Broken(source) | client::Error::Body(source) => Error::Broken { url, source },
            client::Error::TimedOut { limit } => Error::Timeout { url, waited: limit },
            client::Error::TooLarge { bytes_max } => Error::AnswerTooLarge {
                path: call.path.clone(),
                bytes_max,
            },
        }
    }

    fn uri(&self, call: &Call) -> Result<Uri, Error> {
        let path = match self.prefix.as_str() {
            "" => PathAndQuery::try_from(call.path.as_str()),
            prefix => PathAndQuery::try_from(format!("{prefix}{}", call.path)),
        };
        let bad = |reason: String| Error::Address {
            url: self.url(),
            reason,
        };
        let path = path.map_err(|error| bad(error.to_string()))?;
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(path)
            .build()
            .map_err(|error| bad(error.to_string()))
    }

    fn headers(&self, call: &Call) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static("nagaya-client"));
        if !call.body.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        headers
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority, self.prefix)
    }
}

/// Creates a connection pool that follows no redirects.
pub(crate) fn pool(tls: bool, ca: Option<&Path>, idle_max: usize) -> Result<HttpsClient, Error> {
    let limits = Limits {
        connect: Some(CONNECT_LIMIT),
        idle: IDLE_LIMIT,
        idle_per_host_max: idle_max,
    };
    if let Some(ca) = ca.filter(|_| tls) {
        let config = client_config(Some(ca)).map_err(Error::Tls)?;
        return Ok(HttpsClient::with_tls(limits, config));
    }
    let config = rustls::ClientConfig::builder_with_provider(crypto_provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Tls(error.to_string()))?;
    let config = if tls {
        config
            .with_native_roots()
            .map_err(|error| Error::Tls(error.to_string()))?
    } else {
        // A plain-text connection needs no certificates.
        config.with_root_certificates(rustls::RootCertStore::empty())
    };
    Ok(HttpsClient::with_tls(limits, config.with_no_client_auth()))
}

/// Percent-encodes text for a path or query.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

fn split(url: &str) -> Result<(Scheme, http::uri::Authority, String), Error> {
    let bad = |reason: &str| Error::Address {
        url: url.to_owned(),
        reason: reason.to_owned(),
    };
    let uri: Uri = url
        .parse()
        .map_err(|error: http::uri::InvalidUri| bad(&error.to_string()))?;
    let parts = uri.into_parts();
    let scheme = parts
        .scheme
        .ok_or_else(|| bad("http:// or https:// is missing"))?;
    if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
        return Err(bad("only http and https are spoken"));
    }
    let authority = parts.authority.ok_or_else(|| bad("the host is missing"))?;
    let path = parts
        .path_and_query
        .map(|path| path.to_string())
        .unwrap_or_default();
    if path.contains('?') {
        return Err(bad("it must not have a query"));
    }
    Ok((scheme, authority, path.trim_end_matches('/').to_owned()))
}

fn bearer(token: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| Error::Address {
        url: "Authorization".to_owned(),
        reason: "the token holds characters that no header may hold".to_owned(),
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn seconds(value: &HeaderValue) -> Option<Duration> {
    Some(Duration::from_secs(value.to_str().ok()?.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart_and_bad_ones_explained() {
        let (scheme, authority, prefix) = split("https://house.example:8443/jobs/").unwrap();
        assert_eq!(
            (scheme.as_str(), authority.as_str(), prefix.as_str()),
            ("https", "house.example:8443", "/jobs")
        );
        assert_eq!(split("http://[::1]:7400").unwrap().1.port_u16(), Some(7400));
        for (url, word) in [
            ("127.0.0.1:7400", "is no address"),
            ("/x", "missing"),
            ("ftp://a", "only http"),
            ("http://a/?b", "query"),
        ] {
            let error = split(url).unwrap_err().to_string();
            assert!(error.contains(word), "{url}: {error}");
        }
    }

    #[test]
    fn names_are_encoded_for_paths() {
        assert_eq!(encoded("a-b_c.d~9"), "a-b_c.d~9");
        assert_eq!(encoded("ä/b c?"), "%C3%A4%2Fb%20c%3F");
    }
}
