//! Errors as problem documents, with serinin's `request_id` where there is one.

use http::header::{ALLOW, SEC_WEBSOCKET_VERSION};
use http::{HeaderValue, StatusCode};
use http_body_util::Either;
use nagaya_http_kit::problem;
use serde_json::Value;

use super::Reply;

/// After how many seconds a rejected client may try again.
const RETRY_SECONDS: u32 = 1;

/// An error response of this listener.
pub(super) struct Problem(problem::Problem);

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        let problem = problem::Problem::new(status, detail);
        Problem(match status {
            StatusCode::SERVICE_UNAVAILABLE => problem.retry_after(RETRY_SECONDS),
            StatusCode::METHOD_NOT_ALLOWED => problem.header(ALLOW, HeaderValue::from_static("GET, POST")),
            StatusCode::UPGRADE_REQUIRED => {
                problem.header(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"))
            }
            StatusCode::UNAUTHORIZED => problem.challenge(),
            _ => problem,
        })
    }

    /// Sets a member of the document.
    pub(super) fn with(self, name: &str, value: impl Into<Value>) -> Problem {
        Problem(self.0.with(name, value))
    }

    pub(super) fn reply(self) -> Reply {
        self.0.into_http_line().map(Either::Left)
    }
}
