//! The handler of a worker's jobs.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::attempt::Attempt;
use crate::error::Failure;

/// The outcome of an attempt: an optional JSON result, or a failure.
pub type Outcome = Result<Option<Box<RawValue>>, Failure>;

/// Runs jobs, several of them concurrently.
///
/// Functions and closures from an [`Attempt`] to a future of `Result<T, Failure>` are handlers, for any
/// serializable `T`.
pub trait Handler: Send + Sync + 'static {
    /// Runs one attempt. The future is dropped if the attempt is lost and it does not end on its own.
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
