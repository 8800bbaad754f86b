//! Errors as problem documents (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// How much of a caller's own words is repeated in an answer, in characters.
const ECHO_MAX: usize = 200;

/// An error answer: the status says what kind, the detail says what and how to mend it.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    detail: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem {
            status,
            detail: detail.into(),
        }
    }

    /// The document as text, for answers that no handler writes.
    pub(crate) fn body(&self) -> String {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let status = self.status.as_u16();
        json!({"type": "about:blank", "title": title, "status": status, "detail": self.detail}).to_string()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let media_type = HeaderValue::from_static("application/problem+json");
        (self.status, [(header::CONTENT_TYPE, media_type)], self.body()).into_response()
    }
}

/// Shortens a caller's words for repeating them.
pub(crate) fn echo(text: &str) -> String {
    if text.chars().count() <= ECHO_MAX {
        return text.to_owned();
    }
    text.chars().take(ECHO_MAX).chain("...".chars()).collect()
}
