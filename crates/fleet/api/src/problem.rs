//! Errors of the fleet's store as problem documents, with document 000's names where it has one.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use nagaya_fleet::store::Error;
use nagaya_http_kit::problem::{self, truncate};

/// How much of a client's own text is repeated in a response, in characters.
const ECHO_MAX: usize = 300;
/// When a client may try again, in seconds: leases are renewed about that often.
const RETRY_SECONDS: u32 = 1;

/// An error response of this API.
#[derive(Debug)]
pub(crate) struct Problem(problem::Problem);

impl Problem {
    /// `detail` may repeat the client's text: it is shortened.
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        let problem = problem::Problem::new(status, truncate(&detail.into(), ECHO_MAX));
        Problem(if status == StatusCode::SERVICE_UNAVAILABLE {
            problem.retry_after(RETRY_SECONDS)
        } else {
            problem
        })
    }

    /// The client's mistake.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Asks the client for a bearer token.
    pub(crate) fn challenge(self) -> Problem {
        Problem(self.0.challenge())
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let status = match &error {
            Error::NotInstalled(_) | Error::UnknownInstance(_) => StatusCode::NOT_FOUND,
            Error::AlreadyInstalled(_) | Error::NoNeedToRelocate(_) | Error::OtherTiming { .. } => {
                StatusCode::CONFLICT
            }
            Error::NoAcceptableWorker(_) | Error::NoOtherAcceptableWorker(_) => StatusCode::CONFLICT,
            Error::BadName(_) => StatusCode::BAD_REQUEST,
            Error::Contended | Error::Redis(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let Problem(problem) = Problem::new(status, error.chain());
        Problem(match error.code() {
            Some(code) => problem.with("code", code),
            None => problem,
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
    use std::time::Duration;

    use nagaya_fleet::name::{InstanceName, WorkerId};
    use nagaya_http_kit::testing::transcripts;
    use nagaya_redis_client::Error as RedisError;

    use super::*;

    #[test]
    fn responses_are_as_recorded() {
        let worker = || WorkerId::new("w1").unwrap();
        let errors = [
            Error::NoAcceptableWorker(worker()),
            Error::AlreadyInstalled(worker()),
            Error::NotInstalled(worker()),
            Error::NoNeedToRelocate(worker()),
            Error::NoOtherAcceptableWorker(worker()),
            Error::UnknownInstance(InstanceName::new("i1").unwrap()),
            Error::OtherTiming {
                wanted: "5s and 1s".into(),
                agreed: "9s and 1s".into(),
            },
            Error::Contended,
            Error::BadName(WorkerId::new("").unwrap_err()),
            Error::Redis(RedisError::TimedOut {
                address: "r:1".into(),
                what: "a call",
                limit: Duration::from_secs(1),
            }),
        ];
        let mut problems: Vec<Problem> = errors.into_iter().map(Problem::from).collect();
        problems.push(Problem::bad_request("あ".repeat(301)));
        problems.push(Problem::new(StatusCode::FORBIDDEN, "no \"secret\"\n"));
        let text = transcripts(problems.into_iter().map(Problem::into_response));
        assert_eq!(text, include_str!("problem.golden"));
    }
}
