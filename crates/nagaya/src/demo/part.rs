//! What the parts of a demo have in common.

use futures_util::future::LocalBoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// When to end.
pub(super) struct End {
    /// The user has interrupted the demo.
    pub(super) interrupted: CancellationToken,
    /// The demo has lasted long enough; what was begun may be finished. Comes with `interrupted`, too.
    pub(super) time_is_up: CancellationToken,
}

impl Default for End {
    fn default() -> End {
        let interrupted = CancellationToken::new();
        End {
            time_is_up: interrupted.child_token(),
            interrupted,
        }
    }
}

/// The traffic for one service.
pub(super) trait Part {
    fn name(&self) -> &'static str;

    /// Makes traffic until the end.
    fn run<'a>(&'a self, end: &'a End) -> LocalBoxFuture<'a, anyhow::Result<()>>;

    /// Takes away what this demo, or an earlier one that was killed, has brought.
    fn clean(&self) -> LocalBoxFuture<'_, anyhow::Result<()>>;

    /// What is going on, in one line.
    fn line(&self) -> String;

    /// What was seen, in a sentence.
    fn sentence(&self) -> String;

    /// The same for programs.
    fn figures(&self) -> Value;

    /// Why there was no traffic at all, if this server has no such service.
    fn skipped(&self) -> Option<&'static str> {
        None
    }

    /// Whether something was seen that must not be.
    fn is_wrong(&self) -> bool {
        false
    }
}

/// A number with its word, in the plural where that is due.
pub(super) fn count(number: u64, word: &str) -> String {
    match number {
        1 => format!("1 {word}"),
        _ => format!("{number} {word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_is_also_the_end_of_the_time() {
        let end = End::default();
        end.time_is_up.cancel();
        assert!(!end.interrupted.is_cancelled());
        let end = End::default();
        end.interrupted.cancel();
        assert!(end.time_is_up.is_cancelled());
    }

    #[test]
    fn one_thing_is_not_many() {
        assert_eq!(
            (count(1, "job"), count(0, "job")),
            ("1 job".into(), "0 jobs".into())
        );
    }
}
