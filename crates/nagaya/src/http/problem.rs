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

#[cfg(test)]
mod tests {
    use nagaya_http_kit::testing::transcripts;

    use super::*;

    #[test]
    fn responses_are_as_recorded() {
        let problems = [400, 403, 404, 405, 413, 500, 502, 503]
            .map(|status| Problem::new(StatusCode::from_u16(status).unwrap(), "no \"あ\"\n"));
        let mut text = transcripts(problems.map(Problem::into_response));
        text.push_str(&echo(&"あ".repeat(200)));
        text.push('\n');
        text.push_str(&echo(&"あ".repeat(201)));
        text.push('\n');
        assert_eq!(text, include_str!("problem.golden"));
    }
}
