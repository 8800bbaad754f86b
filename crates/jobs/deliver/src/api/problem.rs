//! Errors of the job store as problem documents, with the names that the jobs API gives them.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use nagaya_http_kit::problem::{self, truncate};
use nagaya_jobs::Error;

/// How much of a client's own text is repeated in a response, in characters.
const ECHO_MAX: usize = 200;
/// When a client may try again after the store was busy or out of reach, in seconds.
const RETRY_SECONDS: u32 = 1;

/// An error response of this API.
#[derive(Debug)]
pub(super) struct Problem(problem::Problem);

impl Problem {
    /// `detail` may repeat the client's text: it is shortened.
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        let problem = problem::Problem::new(status, truncate(&detail.into(), ECHO_MAX)).kind(kind(status));
        Problem(if matches!(status.as_u16(), 429 | 503) {
            problem.retry_after(RETRY_SECONDS)
        } else {
            problem
        })
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }
}

/// Returns the name that the jobs API has for problems with this status.
fn kind(status: StatusCode) -> &'static str {
    match status.as_u16() {
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

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let status = match &error {
            Error::Invalid { .. } => StatusCode::BAD_REQUEST,
            Error::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Error::NotFound { .. } => StatusCode::NOT_FOUND,
            Error::WrongState { .. }
            | Error::LeaseLost { .. }
            | Error::DependencyUnknown { .. }
            | Error::DependencyFailed { .. }
            | Error::KeyReused { .. }
            | Error::QueueNotEmpty { .. } => StatusCode::CONFLICT,
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
        self.0.into_response()
    }
}

/// A refusal: a problem of ours, or the response of the service that checks tokens.
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
