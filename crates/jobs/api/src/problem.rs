//! Errors as problem documents (RFC 9457).
//!
//! The `type` is a relative reference whose last segment is the problem's name: `/problems/lease-lost`. gRPC
//! carries the same names in its metadata.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nagaya_http_kit::problem;
use nagaya_jobs::Error;
use serde::Serialize;
use utoipa::ToSchema;

/// Characters of a caller's own text that a response repeats.
const ECHO_MAX: usize = 200;
/// Retry-After, in seconds, when the store was busy or unreachable.
const RETRY_SECONDS: u32 = 1;
/// Retry-After, in seconds, for a full queue, which takes longer to change.
const FULL_RETRY_SECONDS: u32 = 5;

/// The kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProblemKind {
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    WrongState,
    LeaseLost,
    DependencyUnusable,
    KeyReused,
    NotEmpty,
    TooLarge,
    MediaType,
    QueueFull,
    Busy,
    Timeout,
    /// A third party did not accept what we sent for the caller.
    NotSent,
    Unavailable,
    Internal,
}

impl ProblemKind {
    #[cfg(test)]
    const ALL: [ProblemKind; 17] = [
        ProblemKind::BadRequest,
        ProblemKind::Unauthorized,
        ProblemKind::Forbidden,
        ProblemKind::NotFound,
        ProblemKind::WrongState,
        ProblemKind::LeaseLost,
        ProblemKind::DependencyUnusable,
        ProblemKind::KeyReused,
        ProblemKind::NotEmpty,
        ProblemKind::TooLarge,
        ProblemKind::MediaType,
        ProblemKind::QueueFull,
        ProblemKind::Busy,
        ProblemKind::Timeout,
        ProblemKind::NotSent,
        ProblemKind::Unavailable,
        ProblemKind::Internal,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            ProblemKind::BadRequest => "bad-request",
            ProblemKind::Unauthorized => "unauthorized",
            ProblemKind::Forbidden => "forbidden",
            ProblemKind::NotFound => "not-found",
            ProblemKind::WrongState => "wrong-state",
            ProblemKind::LeaseLost => "lease-lost",
            ProblemKind::DependencyUnusable => "dependency-unusable",
            ProblemKind::KeyReused => "key-reused",
            ProblemKind::NotEmpty => "not-empty",
            ProblemKind::TooLarge => "too-large",
            ProblemKind::MediaType => "media-type",
            ProblemKind::QueueFull => "queue-full",
            ProblemKind::Busy => "busy",
            ProblemKind::Timeout => "timeout",
            ProblemKind::NotSent => "not-sent",
            ProblemKind::Unavailable => "unavailable",
            ProblemKind::Internal => "internal",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            ProblemKind::BadRequest => "The request cannot be understood",
            ProblemKind::Unauthorized => "A token is needed",
            ProblemKind::Forbidden => "The token does not allow this",
            ProblemKind::NotFound => "There is no such thing",
            ProblemKind::WrongState => "The job's state does not allow this",
            ProblemKind::LeaseLost => "The token is no longer worth anything",
            ProblemKind::DependencyUnusable => "A dependency cannot be waited for",
            ProblemKind::KeyReused => "The idempotency key stands for something else",
            ProblemKind::NotEmpty => "The queue is not empty",
            ProblemKind::TooLarge => "Something is too large",
            ProblemKind::MediaType => "The body must be JSON",
            ProblemKind::QueueFull => "The queue is full",
            ProblemKind::Busy => "Too much to do",
            ProblemKind::Timeout => "The body did not come in time",
            ProblemKind::NotSent => "The other side did not take it",
            ProblemKind::Unavailable => "The job store is out of reach",
            ProblemKind::Internal => "The server failed",
        }
    }

    pub(crate) fn status(self) -> StatusCode {
        match self {
            ProblemKind::BadRequest => StatusCode::BAD_REQUEST,
            ProblemKind::Unauthorized => StatusCode::UNAUTHORIZED,
            ProblemKind::Forbidden => StatusCode::FORBIDDEN,
            ProblemKind::NotFound => StatusCode::NOT_FOUND,
            ProblemKind::WrongState | ProblemKind::LeaseLost | ProblemKind::NotEmpty => StatusCode::CONFLICT,
            ProblemKind::DependencyUnusable | ProblemKind::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            ProblemKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ProblemKind::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ProblemKind::QueueFull | ProblemKind::Busy => StatusCode::TOO_MANY_REQUESTS,
            ProblemKind::Timeout => StatusCode::REQUEST_TIMEOUT,
            ProblemKind::NotSent => StatusCode::BAD_GATEWAY,
            ProblemKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            ProblemKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn retry_seconds(self) -> Option<u32> {
        match self {
            ProblemKind::QueueFull => Some(FULL_RETRY_SECONDS),
            ProblemKind::Busy | ProblemKind::Unavailable => Some(RETRY_SECONDS),
            _ => None,
        }
    }
}

/// An error response: the kind for programs, and a detail that says what is wrong and how to fix it.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) kind: ProblemKind,
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
    /// `detail` may repeat the caller's text, so it is truncated.
    pub(crate) fn new(kind: ProblemKind, detail: impl Into<String>) -> Problem {
        Problem {
            kind,
            detail: problem::echo(&detail.into(), ECHO_MAX),
            reason: None,
            state: None,
        }
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(ProblemKind::BadRequest, detail)
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Problem {
        Problem::new(ProblemKind::Forbidden, detail)
    }

    /// The token was not issued by this store for this job.
    pub(crate) fn foreign_token() -> Problem {
        Error::LeaseLost {
            why: nagaya_jobs::error::LostWhy::Unknown,
            state: None,
        }
        .into()
    }

    pub(crate) fn document(&self) -> ProblemDocument<'_> {
        ProblemDocument {
            kind: format!("/problems/{}", self.kind.name()),
            title: self.kind.title(),
            status: self.kind.status().as_u16(),
            detail: &self.detail,
            reason: self.reason,
            state: self.state,
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let kind = match &error {
            Error::Invalid { .. } => ProblemKind::BadRequest,
            Error::TooLarge { .. } => ProblemKind::TooLarge,
            Error::NotFound { .. } => ProblemKind::NotFound,
            Error::WrongState { .. } => ProblemKind::WrongState,
            Error::LeaseLost { .. } => ProblemKind::LeaseLost,
            Error::DependencyUnknown { .. } | Error::DependencyFailed { .. } => {
                ProblemKind::DependencyUnusable
            }
            Error::KeyReused { .. } => ProblemKind::KeyReused,
            Error::QueueNotEmpty { .. } => ProblemKind::NotEmpty,
            Error::QueueFull { .. } => ProblemKind::QueueFull,
            Error::Busy => ProblemKind::Busy,
            Error::Unavailable(_) | Error::Full(_) | Error::Stopped { .. } => ProblemKind::Unavailable,
            Error::Damaged { .. } | Error::Failed(_) => ProblemKind::Internal,
        };
        if kind.status().is_server_error() {
            tracing::error!(error = chain(&error), "a jobs call failed");
        }
        let mut problem = Problem::new(kind, error.to_string());
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
        let mut response = problem::respond(self.kind.status(), body).map(Body::new);
        let headers = response.headers_mut();
        if let Some(seconds) = self.kind.retry_seconds() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.kind == ProblemKind::Unauthorized {
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
        problems.extend(ProblemKind::ALL.iter().map(|kind| Problem::new(*kind, "no")));
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
            Error::KeyReused { id },
            Error::QueueNotEmpty {
                queue: QueueName::new("mail").unwrap(),
                jobs: 2,
            },
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
        let names: std::collections::BTreeSet<&str> =
            ProblemKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), ProblemKind::ALL.len());
    }

    #[test]
    fn load_asks_to_come_back() {
        let response = Problem::from(Error::Busy).into_response();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }
}
