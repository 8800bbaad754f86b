//! Errors as problem documents (RFC 9457), with document 000's names where it has one.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nagaya_fleet::store::Error;
use serde_json::json;

/// How much of a caller's own words is repeated in an answer, in characters.
const ECHO_MAX: usize = 300;
/// When a client may try again, in seconds: leases are renewed about that often.
const RETRY_SECONDS: &str = "1";

/// An error answer: the status says what kind, the detail says what and how to mend it.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: Option<&'static str>,
    detail: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        let detail: String = detail.into();
        Problem {
            status,
            code: None,
            detail: detail.chars().take(ECHO_MAX).collect(),
        }
    }

    /// The caller's mistake.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail)
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
        Problem {
            code: error.code(),
            ..Problem::new(status, error.chain())
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let status = self.status.as_u16();
        let mut body =
            json!({"type": "about:blank", "title": title, "status": status, "detail": self.detail});
        if let Some(code) = self.code {
            body["code"] = code.into();
        }
        let media_type = HeaderValue::from_static("application/problem+json");
        let head = [(header::CONTENT_TYPE, media_type)];
        let mut response = (self.status, head, body.to_string()).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            let seconds = HeaderValue::from_static(RETRY_SECONDS);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
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
