//! The code that does the work.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::attempt::Attempt;

/// How an attempt ended: with a result, as JSON, or not.
pub type Outcome = Result<Option<Box<RawValue>>, Failure>;

/// Does one job at a time; many of them at once.
///
/// Functions and closures from an [`Attempt`] to a future of `Result<T, Failure>` are handlers, for any `T`
/// that can be written as JSON.
pub trait Handler: Send + Sync + 'static {
    /// Runs one attempt. The future is dropped when the attempt is lost and it does not end by itself.
    fn run(&self, attempt: Attempt) -> impl Future<Output = Outcome> + Send;
}

impl<F, R, T> Handler for F
where
    F: Fn(Attempt) -> R + Send + Sync + 'static,
    R: Future<Output = Result<T, Failure>> + Send,
    T: Serialize,
{
    async fn run(&self, attempt: Attempt) -> Outcome {
        let result = self(attempt).await?;
        match to_raw_value(&result) {
            Ok(result) => Ok(Some(result)),
            Err(error) => Err(Failure::permanent(format!(
                "the result cannot be written as JSON: {error}"
            ))),
        }
    }
}

/// An attempt that did not succeed.
///
/// Any error becomes one that is tried again, so `?` works in handlers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub error: String,
    /// No retry will help.
    pub permanent: bool,
}

impl Failure {
    /// Try again later.
    pub fn retry(error: impl Into<String>) -> Failure {
        Failure {
            error: error.into(),
            permanent: false,
        }
    }

    /// Never try again.
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
    fn errors_become_failures_with_their_causes() {
        let fail = || -> Result<(), Failure> {
            let number: u8 = "x".parse()?;
            panic!("{number} was read")
        };
        assert_eq!(fail(), Err(Failure::retry("invalid digit found in string")));
    }
}
