//! Errors as problem documents (RFC 9457).
//!
//! The document's members are written in alphabetical order, those of a service among the standard ones.

use axum_core::body::Body;
use axum_core::response::IntoResponse;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde_json::{Map, Value};

const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");

/// An error response: the status is its class, the detail says what is wrong and how to correct it.
#[derive(Clone, Debug)]
pub struct Problem {
    status: StatusCode,
    members: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// Makes a problem of the type `about:blank`, whose title is the status's own.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        let title = status.canonical_reason().unwrap_or("Error");
        let problem = Problem {
            status,
            members: Map::new(),
            headers: Vec::new(),
        };
        problem
            .with("type", "about:blank")
            .with("title", title)
            .with("status", status.as_u16())
            .with("detail", detail.into())
    }

    /// Sets the type to `/problems/NAME`, a relative reference.
    pub fn kind(self, name: &str) -> Problem {
        self.with("type", format!("/problems/{name}"))
    }

    /// Sets a member of the document.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Problem {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// Tells the client after how many seconds to try again.
    pub fn retry_after(self, seconds: u32) -> Problem {
        self.header(RETRY_AFTER, seconds.into())
    }

    /// Asks the client for a bearer token.
    pub fn challenge(self) -> Problem {
        self.header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    /// Adds a header to the response.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Problem {
        self.headers.push((name, value));
        self
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the document as JSON without spaces.
    pub fn body(&self) -> String {
        serde_json::to_string(&self.members).expect("a map of JSON values can be written")
    }

    pub fn into_http(self) -> Response<Full<Bytes>> {
        let body = self.body();
        self.into_http_with(body)
    }

    /// Like [`Problem::into_http`], with a line break after the document.
    pub fn into_http_line(self) -> Response<Full<Bytes>> {
        let body = self.body() + "\n";
        self.into_http_with(body)
    }

    fn into_http_with(self, body: String) -> Response<Full<Bytes>> {
        let mut response = respond(self.status, body);
        response.headers_mut().extend(self.headers);
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        self.into_http().map(Body::new)
    }
}

/// Makes a response of a document that is written already, for services that have a type of their own for it.
pub fn respond(status: StatusCode, document: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(document.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, MEDIA_TYPE);
    response
}

/// Returns at most `max` characters of a client's text for repeating it, with `...` in place of the rest.
pub fn echo(text: &str, max: usize) -> String {
    let kept = truncate(text, max);
    if kept.len() < text.len() {
        format!("{kept}...")
    } else {
        kept.to_owned()
    }
}

/// Returns the first `max` characters of a text.
pub fn truncate(text: &str, max: usize) -> &str {
    match text.char_indices().nth(max) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::transcript;

    #[test]
    fn a_plain_problem_is_about_blank() {
        let problem = Problem::new(StatusCode::NOT_FOUND, "there is no \"x\"");
        assert_eq!(problem.status(), 404);
        assert_eq!(
            transcript(problem.into_http()),
            "404\ncontent-type: application/problem+json\n\n\
             {\"detail\":\"there is no \\\"x\\\"\",\"status\":404,\"title\":\"Not Found\",\"type\":\"about:blank\"}"
        );
    }

    #[test]
    fn members_and_headers_are_added() {
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "later")
            .kind("lease-lost")
            .retry_after(1)
            .challenge()
            .with("request_id", "7");
        assert_eq!(
            transcript(problem.clone().into_response()),
            "503\ncontent-type: application/problem+json\nretry-after: 1\nwww-authenticate: Bearer\n\n\
             {\"detail\":\"later\",\"request_id\":\"7\",\"status\":503,\"title\":\"Service Unavailable\",\
             \"type\":\"/problems/lease-lost\"}"
        );
        let line = transcript(problem.into_http_line());
        assert!(line.ends_with("lease-lost\"}\n"), "{line}");
    }

    #[test]
    fn a_status_without_a_name_is_an_error() {
        let status = StatusCode::from_u16(599).unwrap();
        assert!(Problem::new(status, "").body().contains("\"title\":\"Error\""));
    }

    #[test]
    fn text_is_shortened_between_characters() {
        assert_eq!(echo("あいう", 3), "あいう");
        assert_eq!(echo("あいうえ", 3), "あいう...");
        assert_eq!((truncate("あいう", 2), truncate("", 0)), ("あい", ""));
    }
}
