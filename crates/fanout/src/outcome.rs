//! What became of one endpoint's part of a request.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How it ended. Exactly one of these is recorded for each endpoint of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// An answer came in time and is stored.
    Ok,
    /// An answer came with a status from 400 up, or with redirects that do not end.
    HttpError,
    /// No whole answer came before the time was up.
    Timeout,
    /// There was nobody to answer, or nobody who speaks HTTP: refused, reset, unknown host, bad TLS.
    Refused,
    /// The answer was longer than is kept.
    TooLarge,
    /// It was never sent: too much was under way already, or the endpoint is known to be down.
    Shed,
    /// An answer came, but the store did not take it in time.
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

    /// The word in the store, in replies and in metrics.
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

    /// Whether it says that the endpoint is unwell. An error page is an answer, and what we shed or
    /// could not store says nothing about the endpoint.
    pub(crate) fn is_endpoints_failure(self) -> bool {
        match self {
            State::Timeout | State::Refused => true,
            State::Ok | State::HttpError | State::TooLarge | State::Shed | State::StoreFailed => false,
        }
    }
}

/// The record of one endpoint, as JSON beside its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub state: State,
    /// The status of the answer, if one came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// From the acceptance of the request to this outcome.
    pub ms: u64,
    /// Length of the answer's body, unpacked.
    pub bytes: u64,
    /// What exactly went wrong, for people.
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

    /// What became of it when the store did not take it.
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

    /// Reads a stored record; nothing if it is not one.
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
