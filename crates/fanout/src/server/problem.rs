//! Errors as problem documents (RFC 9457), with serinin's `request_id` where there is one.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::{Either, Full};
use serde_json::{Value, json};

use super::Reply;

/// After how many seconds a client that was turned away may try again.
const RETRY_SECONDS: &str = "1";

pub(super) struct Problem {
    status: StatusCode,
    members: Value,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        let title = status.canonical_reason().unwrap_or("Error");
        let detail: String = detail.into();
        Problem {
            status,
            members: json!({
                "type": "about:blank", "title": title, "status": status.as_u16(), "detail": detail,
            }),
        }
    }

    /// Adds a member of our own.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Problem {
        self.members[name] = value.into();
        self
    }

    pub(super) fn reply(self) -> Reply {
        let body = format!("{}\n", self.members);
        let mut reply = Response::new(Either::Left(Full::new(Bytes::from(body))));
        *reply.status_mut() = self.status;
        let headers = reply.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static(RETRY_SECONDS));
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                headers.insert(ALLOW, HeaderValue::from_static("GET, POST"));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => (),
        }
        reply
    }
}
