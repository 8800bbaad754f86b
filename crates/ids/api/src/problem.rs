//! Errors of the minter as problem documents.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use nagaya_http_kit::problem::{self, truncate};
use nagaya_ids::mint::MintError;

/// How much of a client's own text is repeated in a response, in characters.
const ECHO_MAX: usize = 200;
/// When a client may try again, in seconds: leases are renewed about that often.
const RETRY_SECONDS: u32 = 1;

/// An error response of this API.
#[derive(Debug)]
pub(crate) struct Problem(problem::Problem);

impl Problem {
    /// The client's mistake. `detail` may repeat the client's text: it is shortened.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Problem {
        let detail = detail.into();
        Problem(problem::Problem::new(
            StatusCode::BAD_REQUEST,
            truncate(&detail, ECHO_MAX),
        ))
    }
}

impl From<MintError> for Problem {
    fn from(error: MintError) -> Problem {
        let detail = error.to_string();
        Problem(if error.is_passing() {
            problem::Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).retry_after(RETRY_SECONDS)
        } else {
            problem::Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
        })
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.0.into_response()
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
