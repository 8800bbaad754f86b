//! Errors as problem documents (RFC 9457).

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use nagaya_jobs::Error;
use serde_json::json;

/// How much of a caller's own words is repeated in an answer, in characters.
const ECHO_MAX: usize = 200;
/// When a client may try again after the store was busy or out of reach, in seconds.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// An error answer: the status says what kind, the detail says what and how to mend it.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        let detail: String = detail.into();
        Problem {
            status,
            detail: detail.chars().take(ECHO_MAX).collect(),
        }
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    /// The last part of the document's `type`, as the jobs service names its problems.
    fn name(&self) -> &'static str {
        match self.status.as_u16() {
            400 => "bad-request",
            403 => "forbidden",
            404 => "not-found",
            413 => "too-large",
            415 => "media-type",
            429 => "busy",
            502 => "not-sent",
            503 => "unavailable",
            _ => "internal",
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let status = match &error {
            Error::Invalid { .. } => StatusCode::BAD_REQUEST,
            Error::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Error::NotFound { .. } => StatusCode::NOT_FOUND,
            Error::WrongState { .. }
            | Error::LeaseLost { .. }
            | Error::DependencyUnknown { .. }
            | Error::DependencyFailed { .. } => StatusCode::CONFLICT,
            Error::QueueFull { .. } | Error::Busy => StatusCode::TOO_MANY_REQUESTS,
            Error::Unavailable(_) | Error::Full(_) | Error::Stopped { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Error::Damaged { .. } | Error::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status.is_server_error() {
            tracing::error!(%error, "a call about deliveries failed");
        }
        Problem::new(status, error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({
            "type": format!("/problems/{}", self.name()),
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let media_type = HeaderValue::from_static("application/problem+json");
        let mut response = (
            self.status,
            [(header::CONTENT_TYPE, media_type)],
            body.to_string(),
        )
            .into_response();
        if matches!(self.status.as_u16(), 429 | 503) {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_SECONDS);
        }
        response
    }
}

/// A refusal: ours, or that of whoever knows the tokens.
pub(super) enum Refused {
    Problem(Problem),
    Answer(Response),
}

impl<E: Into<Problem>> From<E> for Refused {
    fn from(error: E) -> Refused {
        Refused::Problem(error.into())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Refused::Problem(problem) => problem.into_response(),
            Refused::Answer(answer) => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use nagaya_http_kit::testing::transcripts;
    use nagaya_jobs::error::LostWhy;
    use nagaya_jobs::{JobId, QueueName};

    use super::*;

    #[test]
    fn responses_are_as_recorded() {
        let mut problems: Vec<Problem> = errors().into_iter().map(Problem::from).collect();
        problems.push(Problem::bad_request("あ".repeat(201)));
        for status in [403, 415, 418, 502] {
            problems.push(Problem::new(StatusCode::from_u16(status).unwrap(), "no"));
        }
        let text = transcripts(problems.into_iter().map(Problem::into_response));
        assert_eq!(text, include_str!("problem.golden"));
    }

    /// One error of each variant.
    fn errors() -> Vec<Error> {
        let id = JobId::new(7).unwrap();
        let state = nagaya_jobs::State::Waiting;
        let source = || "the disk is away".into();
        vec![
            Error::invalid("queue", "\"x\" is no name"),
            Error::TooLarge {
                what: "payload",
                bytes: 9,
                bytes_max: 8,
            },
            Error::no_such("job", "7"),
            Error::WrongState { id, state },
            Error::LeaseLost {
                why: LostWhy::Conflict,
                state: Some(state),
            },
            Error::LeaseLost {
                why: LostWhy::Unknown,
                state: None,
            },
            Error::DependencyUnknown { id },
            Error::DependencyFailed { id, state },
            Error::QueueFull {
                queue: QueueName::new("mail").unwrap(),
                depth_max: 3,
            },
            Error::Busy,
            Error::Unavailable(source()),
            Error::Full(source()),
            Error::Stopped {
                why: "a write failed".into(),
            },
            Error::Damaged { what: "row 5".into() },
            Error::Failed(source()),
        ]
    }
}
