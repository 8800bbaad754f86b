//! The outcome of one endpoint's part of a request.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The result. Exactly one is recorded for each endpoint of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// A response arrived in time and is stored.
    Ok,
    /// A response arrived with a status of 400 or above, or with endless redirects.
    HttpError,
    /// No complete response arrived before the deadline.
    Timeout,
    /// No HTTP server answered: connection refused or reset, unknown host, bad TLS.
    Refused,
    /// The response exceeded a size limit.
    TooLarge,
    /// Nothing was sent: a queue was full, or the endpoint is known to be down.
    Shed,
    /// A response arrived, but the store did not accept it in time.
    StoreFailed,
}

impl State {
    pub const ALL: [State; 7] = [
        State::Ok,
        State::HttpError,
        State::Timeout,
        State::Refused,
        State::TooLarge,
        State::Shed,
        State::StoreFailed,
    ];

    /// Returns the name used in the store, in replies and in metrics.
    pub fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::HttpError => "http_error",
            State::Timeout => "timeout",
            State::Refused => "refused",
            State::TooLarge => "too_large",
            State::Shed => "shed",
            State::StoreFailed => "store_failed",
        }
    }

    /// Returns whether this indicates a problem with the endpoint. An error page is a response, and what we
    /// shed or failed to store says nothing about the endpoint.
    pub(crate) fn is_endpoints_failure(self) -> bool {
        match self {
            State::Timeout | State::Refused => true,
            State::Ok | State::HttpError | State::TooLarge | State::Shed | State::StoreFailed => false,
        }
    }
}

/// The outcome of one endpoint, stored as JSON beside its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub state: State,
    /// The status of the response, if one arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Time from the acceptance of the request to this outcome.
    pub ms: u64,
    /// Length of the response's body, decompressed.
    pub bytes: u64,
    /// The exact failure, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Cow<'static, str>>,
}

impl Outcome {
    pub(crate) fn new(state: State, took: Duration) -> Outcome {
        Outcome {
            state,
            status: None,
            ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            bytes: 0,
            detail: None,
        }
    }

    pub(crate) fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Outcome {
        self.detail = Some(detail.into());
        self
    }

    /// Returns the outcome to record when the store did not accept this one.
    pub(crate) fn not_stored(&self, detail: impl Into<Cow<'static, str>>) -> Outcome {
        Outcome {
            state: State::StoreFailed,
            detail: Some(detail.into()),
            ..self.clone()
        }
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an outcome has only text and numbers")
    }

    /// Parses a stored outcome; `None` if it is not one.
    pub(crate) fn from_json(bytes: &[u8]) -> Option<Outcome> {
        serde_json::from_slice(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_short_json_and_reads_back() {
        let mut outcome = Outcome::new(State::Ok, Duration::from_millis(12));
        outcome.status = Some(200);
        outcome.bytes = 5;
        let json = outcome.to_json();
        assert_eq!(json, r#"{"state":"ok","status":200,"ms":12,"bytes":5}"#);
        assert_eq!(Outcome::from_json(json.as_bytes()), Some(outcome.clone()));
        let failed = outcome.not_stored("late");
        assert_eq!(
            failed.to_json(),
            r#"{"state":"store_failed","status":200,"ms":12,"bytes":5,"detail":"late"}"#
        );
        assert_eq!(Outcome::from_json(b"{}"), None);
    }

    #[test]
    fn words_are_those_of_the_stored_json() {
        for state in State::ALL {
            assert_eq!(
                serde_json::to_string(&state).unwrap(),
                format!("\"{}\"", state.word())
            );
        }
    }
}
