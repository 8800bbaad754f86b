//! Calls an endpoint and interprets its response.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use nagaya_http_kit::client::{self, HttpsClient};
use serde_json::value::RawValue;

use super::signature::Secret;
use crate::error::{Error, Failure};
use crate::transport::pool;
use crate::worker::Outcome;

/// The largest response that is accepted as a result, in bytes; a larger one is a failure.
const RESULT_BYTES_MAX: usize = 1 << 20;
/// Characters kept of an endpoint's error text.
const ERROR_CHARS_MAX: usize = 500;
const IDLE_CONNECTIONS_MAX: usize = 256;

/// The data of one call.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    pub job: &'a str,
    pub attempt: u32,
    pub queue: &'a str,
    /// The attempt's credential, for progress and extensions.
    pub token: &'a str,
    pub content_type: &'a str,
    pub payload: &'a [u8],
    /// The trace context for the endpoint's spans.
    pub traceparent: Option<&'a str>,
}

/// An HTTP endpoint that runs jobs.
pub struct Endpoint {
    pool: HttpsClient,
    url: Uri,
    headers: HeaderMap,
    secrets: Vec<Secret>,
    timeout: Duration,
}

impl Endpoint {
    /// Creates an endpoint with unsigned calls. Redirects are not followed.
    pub fn new(url: &str) -> Result<Endpoint, Error> {
        let bad = |reason: String| Error::Address {
            url: url.to_owned(),
            reason,
        };
        let parsed: Uri = url
            .parse()
            .map_err(|error: http::uri::InvalidUri| bad(error.to_string()))?;
        let tls = match parsed.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(bad("http:// or https:// is missing".to_owned())),
        };
        if parsed.host().is_none_or(str::is_empty) {
            return Err(bad("the host is missing".to_owned()));
        }
        Ok(Endpoint {
            pool: pool(tls, None, IDLE_CONNECTIONS_MAX)?,
            url: parsed,
            headers: HeaderMap::new(),
            secrets: Vec::new(),
            timeout: Duration::from_secs(24 * 3600),
        })
    }

    /// Signs calls with this secret, in addition to those given before. During a rotation, give the new one
    /// first.
    pub fn secret(mut self, secret: Secret) -> Endpoint {
        self.secrets.push(secret);
        self
    }

    /// How long a response may take; a day by default, because the lease is extended meanwhile.
    pub fn timeout(mut self, timeout: Duration) -> Endpoint {
        self.timeout = timeout;
        self
    }

    /// Sends this header with every call.
    pub fn header(mut self, name: &str, value: &str) -> Result<Endpoint, Error> {
        let bad = || Error::Address {
            url: name.to_owned(),
            reason: "it is no header".to_owned(),
        };
        let name = HeaderName::try_from(name).map_err(|_| bad())?;
        self.headers
            .insert(name, HeaderValue::try_from(value).map_err(|_| bad())?);
        Ok(self)
    }

    /// Calls the endpoint once and reads its response. Cancel safe for the caller, but the endpoint may keep
    /// working.
    pub async fn call(&self, delivery: &Delivery<'_>) -> Outcome {
        let call = self
            .pool
            .post(self.url.clone(), Bytes::copy_from_slice(delivery.payload))
            .headers(self.headers(delivery)?)
            .timeout(self.timeout)
            .body_max(RESULT_BYTES_MAX);
        match call.send().await {
            Ok(response) => judge(response.status(), response.body()),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: client::Error) -> Failure {
        let unread = |why: &str| Failure::retry(format!("the endpoint's answer could not be read: {why}"));
        match error {
            client::Error::Connect(source) | client::Error::Broken(source) => Failure::from(&*source),
            client::Error::TimedOut { limit } => {
                let seconds = limit.as_secs();
                Failure::retry(format!("the endpoint did not answer within {seconds} s"))
            }
            client::Error::TooLarge { .. } => unread("length limit exceeded"),
            client::Error::Body(source) => unread(&source.to_string()),
        }
    }

    fn headers(&self, delivery: &Delivery<'_>) -> Result<HeaderMap, Failure> {
        // The same for every call of one attempt, so that an endpoint can drop duplicates.
        let id = format!("job_{}_{}", delivery.job, delivery.attempt);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut headers = self.headers.clone();
        headers.insert(USER_AGENT, HeaderValue::from_static("nagaya-push"));
        let attempt = delivery.attempt.to_string();
        let seconds = since.as_secs().to_string();
        let mut own = vec![
            (CONTENT_TYPE, delivery.content_type),
            (HeaderName::from_static("nagaya-job-id"), delivery.job),
            (HeaderName::from_static("nagaya-job-attempt"), &attempt),
            (HeaderName::from_static("nagaya-job-queue"), delivery.queue),
            (HeaderName::from_static("nagaya-job-token"), delivery.token),
            (HeaderName::from_static("webhook-id"), &id),
            (HeaderName::from_static("webhook-timestamp"), &seconds),
        ];
        let sign = |secret: &Secret| secret.sign(&id, since.as_secs(), delivery.payload);
        let signatures = self.secrets.iter().map(sign).collect::<Vec<_>>().join(" ");
        if !signatures.is_empty() {
            own.push((HeaderName::from_static("webhook-signature"), &signatures));
        }
        if let Some(traceparent) = delivery.traceparent {
            own.push((HeaderName::from_static("traceparent"), traceparent));
        }
        for (name, value) in own {
            headers.insert(name, HeaderValue::try_from(value)?);
        }
        Ok(headers)
    }
}

/// Converts an endpoint's response to the attempt's outcome.
fn judge(status: StatusCode, body: &[u8]) -> Outcome {
    if status.is_success() {
        return Ok(result_of(body));
    }
    let words: String = String::from_utf8_lossy(body)
        .chars()
        .take(ERROR_CHARS_MAX)
        .collect();
    let error = match words.trim() {
        "" => format!("the endpoint answered {status}"),
        words => format!("the endpoint answered {status}: {words}"),
    };
    Err(match status {
        StatusCode::CONFLICT | StatusCode::GONE | StatusCode::UNPROCESSABLE_ENTITY => {
            Failure::permanent(error)
        }
        _ => Failure::retry(error),
    })
}

/// Converts a body to a result: JSON unchanged, other text as a JSON string, `None` if it is empty.
fn result_of(body: &[u8]) -> Option<Box<RawValue>> {
    let text = String::from_utf8_lossy(body);
    if text.trim().is_empty() {
        return None;
    }
    let as_json = RawValue::from_string(text.trim().to_owned());
    as_json.or_else(|_| serde_json::value::to_raw_value(&text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_success_permanent_or_worth_a_retry() {
        let permanent = |status: u16| {
            let status = StatusCode::from_u16(status).unwrap();
            judge(status, b"no")
                .map(drop)
                .map_err(|failure| failure.permanent)
        };
        assert_eq!(permanent(204), Ok(()));
        for status in [409, 410, 422] {
            assert_eq!(permanent(status), Err(true), "{status}");
        }
        for status in [301, 400, 401, 404, 408, 429, 500, 503] {
            assert_eq!(permanent(status), Err(false), "{status}");
        }
        let Err(failure) = judge(StatusCode::BAD_GATEWAY, b" down ") else {
            panic!("502 is no success")
        };
        assert_eq!(failure.error, "the endpoint answered 502 Bad Gateway: down");
    }

    #[test]
    fn bodies_become_results() {
        let text = |body: &[u8]| result_of(body).map(|raw| raw.get().to_owned());
        assert_eq!(text(b"{\"a\": 1}\n").as_deref(), Some("{\"a\": 1}"));
        assert_eq!(text(b"plain").as_deref(), Some("\"plain\""));
        assert_eq!(text(b" \n"), None);
    }
}
