//! Errors as problem documents (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nagaya_ids::mint::MintError;
use serde_json::json;

/// How much of a caller's own words is repeated in an answer, in characters.
const ECHO_MAX: usize = 200;
/// When a client may try again, in seconds: leases are renewed about that often.
const RETRY_SECONDS: &str = "1";

/// An error answer: the status says what kind, the detail says what and how to mend it.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    detail: String,
}

impl Problem {
    /// The caller's mistake. `detail` may repeat the caller's words: it is shortened.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Problem {
        let detail: String = detail.into();
        Problem {
            status: StatusCode::BAD_REQUEST,
            detail: detail.chars().take(ECHO_MAX).collect(),
        }
    }
}

impl From<MintError> for Problem {
    fn from(error: MintError) -> Problem {
        let status = if error.is_passing() {
            StatusCode::SERVICE_UNAVAILABLE
        } else {
            StatusCode::INTERNAL_SERVER_ERROR
        };
        Problem {
            status,
            detail: error.to_string(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let status = self.status.as_u16();
        let body = json!({"type": "about:blank", "title": title, "status": status, "detail": self.detail});
        let media_type = HeaderValue::from_static("application/problem+json");
        let head = (self.status, [(header::CONTENT_TYPE, media_type)]);
        let mut response = (head.0, head.1, body.to_string()).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            let seconds = HeaderValue::from_static(RETRY_SECONDS);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use nagaya_http_kit::testing::transcripts;

    use super::*;

    #[test]
    fn responses_are_as_recorded() {
        let errors = [
            MintError::NoNumber,
            MintError::PastCeiling,
            MintError::ClockBehind { by_ms: 7 },
            MintError::BeforeEpoch,
            MintError::TimeEnded,
            MintError::WorkerTooLarge { worker: 9, max: 8 },
            MintError::Busy { waited_ms: 5 },
        ];
        let mut problems: Vec<Problem> = errors.into_iter().map(Problem::from).collect();
        problems.push(Problem::bad_request("あ".repeat(201)));
        let text = transcripts(problems.into_iter().map(Problem::into_response));
        assert_eq!(text, include_str!("problem.golden"));
    }
}
