//! Errors as problem documents (RFC 9457).
//!
//! The `type` is a relative reference whose last part is the problem's name: `/problems/lease-lost`. gRPC tells
//! the same names in its metadata.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nagaya_http_kit::problem;
use nagaya_jobs::Error;
use serde::Serialize;
use utoipa::ToSchema;

/// How much of a caller's own words is repeated in an answer, in characters.
const ECHO_MAX: usize = 200;
/// When a client may try again after the store was busy or out of reach, in seconds.
const RETRY_SECONDS: u32 = 1;
/// The same for a queue that is full, which takes longer to change.
const FULL_RETRY_SECONDS: u32 = 5;

/// What sorts of problems there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    WrongState,
    LeaseLost,
    DependencyUnusable,
    TooLarge,
    MediaType,
    QueueFull,
    Busy,
    Timeout,
    /// Somebody else did not take what we sent for the caller.
    NotSent,
    Unavailable,
    Internal,
}

impl Sort {
    #[cfg(test)]
    const ALL: [Sort; 15] = [
        Sort::BadRequest,
        Sort::Unauthorized,
        Sort::Forbidden,
        Sort::NotFound,
        Sort::WrongState,
        Sort::LeaseLost,
        Sort::DependencyUnusable,
        Sort::TooLarge,
        Sort::MediaType,
        Sort::QueueFull,
        Sort::Busy,
        Sort::Timeout,
        Sort::NotSent,
        Sort::Unavailable,
        Sort::Internal,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Sort::BadRequest => "bad-request",
            Sort::Unauthorized => "unauthorized",
            Sort::Forbidden => "forbidden",
            Sort::NotFound => "not-found",
            Sort::WrongState => "wrong-state",
            Sort::LeaseLost => "lease-lost",
            Sort::DependencyUnusable => "dependency-unusable",
            Sort::TooLarge => "too-large",
            Sort::MediaType => "media-type",
            Sort::QueueFull => "queue-full",
            Sort::Busy => "busy",
            Sort::Timeout => "timeout",
            Sort::NotSent => "not-sent",
            Sort::Unavailable => "unavailable",
            Sort::Internal => "internal",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Sort::BadRequest => "The request cannot be understood",
            Sort::Unauthorized => "A token is needed",
            Sort::Forbidden => "The token does not allow this",
            Sort::NotFound => "There is no such thing",
            Sort::WrongState => "The job's state does not allow this",
            Sort::LeaseLost => "The token is no longer worth anything",
            Sort::DependencyUnusable => "A dependency cannot be waited for",
            Sort::TooLarge => "Something is too large",
            Sort::MediaType => "The body must be JSON",
            Sort::QueueFull => "The queue is full",
            Sort::Busy => "Too much to do",
            Sort::Timeout => "The body did not come in time",
            Sort::NotSent => "The other side did not take it",
            Sort::Unavailable => "The job store is out of reach",
            Sort::Internal => "The server failed",
        }
    }

    pub(crate) fn status(self) -> StatusCode {
        match self {
            Sort::BadRequest => StatusCode::BAD_REQUEST,
            Sort::Unauthorized => StatusCode::UNAUTHORIZED,
            Sort::Forbidden => StatusCode::FORBIDDEN,
            Sort::NotFound => StatusCode::NOT_FOUND,
            Sort::WrongState | Sort::LeaseLost => StatusCode::CONFLICT,
            Sort::DependencyUnusable => StatusCode::UNPROCESSABLE_ENTITY,
            Sort::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Sort::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Sort::QueueFull | Sort::Busy => StatusCode::TOO_MANY_REQUESTS,
            Sort::Timeout => StatusCode::REQUEST_TIMEOUT,
            Sort::NotSent => StatusCode::BAD_GATEWAY,
            Sort::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Sort::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn retry_seconds(self) -> Option<u32> {
        match self {
            Sort::QueueFull => Some(FULL_RETRY_SECONDS),
            Sort::Busy | Sort::Unavailable => Some(RETRY_SECONDS),
            _ => None,
        }
    }
}

/// An error answer: the sort says what kind, the detail says what and how to mend it.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) sort: Sort,
    pub(crate) detail: String,
    /// Why a lease is lost.
    pub(crate) reason: Option<&'static str>,
    /// The state of the job in question.
    pub(crate) state: Option<&'static str>,
}

/// The document.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemDocument<'a> {
    /// A reference whose last part is the problem's name.
    #[serde(rename = "type")]
    kind: String,
    title: &'a str,
    status: u16,
    /// What is wrong, and how to mend it.
    detail: &'a str,
    /// Why a lease is lost: unknown, expired, reported, cancelled or conflict.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// The state of the job in question.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a str>,
}

impl Problem {
    /// `detail` may repeat the caller's words: it is shortened.
    pub(crate) fn new(sort: Sort, detail: impl Into<String>) -> Problem {
        Problem {
            sort,
            detail: problem::echo(&detail.into(), ECHO_MAX),
            reason: None,
            state: None,
        }
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(Sort::BadRequest, detail)
    }

    /// The token is none that this store gave out for this job.
    pub(crate) fn foreign_token() -> Problem {
        Error::LeaseLost {
            why: nagaya_jobs::error::LostWhy::Unknown,
            state: None,
        }
        .into()
    }

    pub(crate) fn document(&self) -> ProblemDocument<'_> {
        ProblemDocument {
            kind: format!("/problems/{}", self.sort.name()),
            title: self.sort.title(),
            status: self.sort.status().as_u16(),
            detail: &self.detail,
            reason: self.reason,
            state: self.state,
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let sort = match &error {
            Error::Invalid { .. } => Sort::BadRequest,
            Error::TooLarge { .. } => Sort::TooLarge,
            Error::NotFound { .. } => Sort::NotFound,
            Error::WrongState { .. } => Sort::WrongState,
            Error::LeaseLost { .. } => Sort::LeaseLost,
            Error::DependencyUnknown { .. } | Error::DependencyFailed { .. } => Sort::DependencyUnusable,
            Error::QueueFull { .. } => Sort::QueueFull,
            Error::Busy => Sort::Busy,
            Error::Unavailable(_) | Error::Full(_) | Error::Stopped { .. } => Sort::Unavailable,
            Error::Damaged { .. } | Error::Failed(_) => Sort::Internal,
        };
        if sort.status().is_server_error() {
            tracing::error!(error = chain(&error), "a jobs call failed");
        }
        let mut problem = Problem::new(sort, error.to_string());
        match &error {
            Error::LeaseLost { why, state } => {
                problem.reason = Some(why.name());
                problem.state = state.map(|state| state.name());
            }
            Error::WrongState { state, .. } => problem.state = Some(state.name()),
            _ => (),
        }
        problem
    }
}

fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self.document()).expect("a document of plain fields");
        let mut response = problem::respond(self.sort.status(), body).map(Body::new);
        let headers = response.headers_mut();
        if let Some(seconds) = self.sort.retry_seconds() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.sort == Sort::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagaya_http_kit::testing::transcripts;
    use nagaya_jobs::error::LostWhy;
    use nagaya_jobs::{JobId, QueueName};

    #[test]
    fn responses_are_as_recorded() {
        let mut problems: Vec<Problem> = errors().into_iter().map(Problem::from).collect();
        problems.push(Problem::bad_request("あ".repeat(201)));
        problems.extend(Sort::ALL.iter().map(|sort| Problem::new(*sort, "no")));
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

    #[test]
    fn a_lost_lease_names_its_reason() {
        let problem = Problem::from(Error::LeaseLost {
            why: LostWhy::Expired,
            state: Some(nagaya_jobs::State::Waiting),
        });
        let text = serde_json::to_string(&problem.document()).unwrap();
        assert_eq!(
            text,
            r#"{"type":"/problems/lease-lost","title":"The token is no longer worth anything","status":409,"detail":"lease lost: the lease ran out and the job was taken back","reason":"expired","state":"waiting"}"#
        );
    }

    #[test]
    fn a_callers_words_are_shortened() {
        let problem = Problem::bad_request("あ".repeat(1_000));
        assert_eq!(problem.detail.chars().count(), ECHO_MAX + 3);
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<&str> = Sort::ALL.iter().map(|sort| sort.name()).collect();
        assert_eq!(names.len(), Sort::ALL.len());
    }

    #[test]
    fn load_asks_to_come_back() {
        let response = Problem::from(Error::Busy).into_response();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }
}
