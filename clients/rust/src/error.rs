//! Errors, and whether a retry helps.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{url}` is no address such as http://127.0.0.1:7400: {reason}")]
    Address { url: String, reason: String },
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
    /// Nothing was sent.
    #[error("nothing answers at {url}")]
    Unreachable {
        url: String,
        #[source]
        source: Source,
    },
    /// Whether the server executed the call is unknown.
    #[error("the connection to {url} broke")]
    Broken {
        url: String,
        #[source]
        source: Source,
    },
    #[error("{url} did not answer within {} ms", waited.as_millis())]
    Timeout { url: String, waited: Duration },
    /// The attempt's token is no longer valid: its lease expired, or the job was cancelled.
    #[error("the attempt is no longer ours: {0}")]
    LeaseLost(Problem),
    #[error("{0}")]
    Refused(Problem),
    #[error("the answer to {path} could not be understood")]
    Answer {
        path: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("the answer to {path} is larger than {bytes_max} bytes")]
    AnswerTooLarge { path: String, bytes_max: usize },
    #[error("the {what} cannot be written as JSON")]
    Encode {
        what: &'static str,
        #[source]
        source: serde_json::Error,
    },
}

impl Error {
    /// Returns whether the same call may succeed a moment later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Error::Unreachable { .. } | Error::Broken { .. } | Error::Timeout { .. } => true,
            Error::Refused(problem) => matches!(problem.status, 408 | 425 | 429 | 500 | 502 | 503 | 504),
            Error::Address { .. }
            | Error::Tls(_)
            | Error::LeaseLost(_)
            | Error::Answer { .. }
            | Error::AnswerTooLarge { .. }
            | Error::Encode { .. } => false,
        }
    }

    /// Returns whether the server certainly did nothing, so that repeating the call cannot execute it twice.
    pub fn was_not_done(&self) -> bool {
        match self {
            Error::Unreachable { .. } => true,
            Error::Refused(problem) => problem.status < 500,
            Error::LeaseLost(_) | Error::Address { .. } | Error::Tls(_) | Error::Encode { .. } => true,
            Error::Broken { .. }
            | Error::Timeout { .. }
            | Error::Answer { .. }
            | Error::AnswerTooLarge { .. } => false,
        }
    }

    /// Returns the server's problem document, if it sent one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Error::LeaseLost(problem) | Error::Refused(problem) => Some(problem),
            _ => None,
        }
    }
}

/// A problem document (RFC 9457).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    pub status: u16,
    /// The kind of problem, for programs: the last segment of the document's `type`.
    pub kind: String,
    pub title: String,
    pub detail: String,
    /// When the server wants the call to be repeated.
    pub retry_after: Option<Duration>,
}

impl Problem {
    /// Parses a response's body. One that is not a problem document becomes the detail.
    pub(crate) fn read(status: u16, body: &[u8], retry_after: Option<Duration>) -> Problem {
        let document = serde_json::from_slice::<Document>(body).unwrap_or_else(|_| Document {
            detail: String::from_utf8_lossy(body).chars().take(200).collect(),
            ..Document::default()
        });
        Problem {
            status,
            retry_after,
            ..document.into()
        }
    }

    pub(crate) fn is_lease_lost(&self) -> bool {
        self.status == 409 && self.kind == "lease-lost"
    }
}

/// A problem document as serialized.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Document {
    r#type: String,
    title: String,
    status: u16,
    detail: String,
}

impl From<Document> for Problem {
    fn from(document: Document) -> Problem {
        let kind = document.r#type.rsplit('/').next().unwrap_or_default();
        Problem {
            status: document.status,
            kind: kind.to_owned(),
            title: document.title,
            detail: document.detail,
            retry_after: None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match (self.detail.as_str(), self.title.as_str()) {
            ("", "") => "no reason given",
            ("", title) => title,
            (detail, _) => detail,
        };
        write!(out, "{words} (status {})", self.status)
    }
}

/// A failed attempt.
///
/// Any error converts to a failure that is retried, so `?` works in handlers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub error: String,
    /// No retry will help.
    pub permanent: bool,
}

impl Failure {
    /// Returns a failure that is retried later.
    pub fn retry(error: impl Into<String>) -> Failure {
        Failure {
            error: error.into(),
            permanent: false,
        }
    }

    /// Returns a failure that is never retried.
    pub fn permanent(error: impl Into<String>) -> Failure {
        Failure {
            error: error.into(),
            permanent: true,
        }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        Failure::retry(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_document_is_read_and_a_stale_token_recognised() {
        let body = br#"{"type":"https://nagaya/problems/lease-lost","title":"Conflict","status":409,"detail":"attempt 2 runs"}"#;
        let problem = Problem::read(409, body, None);
        assert!(problem.is_lease_lost());
        assert_eq!(problem.to_string(), "attempt 2 runs (status 409)");
        assert!(!Problem::read(409, br#"{"type":"about:blank"}"#, None).is_lease_lost());
    }

    #[test]
    fn an_answer_that_is_no_document_is_shown_as_it_is() {
        let problem = Problem::read(502, b"<h1>Bad Gateway</h1>", None);
        assert_eq!(problem.to_string(), "<h1>Bad Gateway</h1> (status 502)");
        assert!(Error::Refused(problem).is_temporary());
    }

    #[test]
    fn only_what_certainly_was_not_done_is_called_so() {
        let of = |status| {
            Error::Refused(Problem {
                status,
                ..Problem::default()
            })
        };
        assert!(of(429).was_not_done() && of(429).is_temporary());
        assert!(of(422).was_not_done() && !of(422).is_temporary());
        assert!(!of(503).was_not_done());
        let timeout = Error::Timeout {
            url: String::new(),
            waited: Duration::ZERO,
        };
        assert!(!timeout.was_not_done() && timeout.is_temporary());
    }

    #[test]
    fn errors_become_failures_with_their_causes() {
        let fail = || -> Result<(), Failure> {
            let number: u8 = "x".parse()?;
            panic!("{number} was read")
        };
        assert_eq!(fail(), Err(Failure::retry("invalid digit found in string")));
    }
}
