//! Whether Redis and PostgreSQL answer, for `/readyz`.

use std::time::Duration;

use nagaya_tiering::hot::HotTier;
use tokio::task::JoinHandle;

use super::open::Tiers;
use crate::app::readiness::Ready;

/// Interval of the checks, while all answer and while one does not.
const LOOK_WELL: Duration = Duration::from_millis(500);
const LOOK_UNWELL: Duration = Duration::from_millis(200);
/// What takes longer to answer counts as away, although its own time limit is longer.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// A value that nobody sets: reading it shows that the database answers.
const NO_FACT: &str = "health";

/// One tier, and the question that it has not answered yet.
struct Asked {
    name: &'static str,
    question: Option<JoinHandle<Result<(), String>>>,
}

impl Asked {
    fn new(name: &'static str) -> Asked {
        Asked { name, question: None }
    }

    /// Asks, unless an earlier question is open; returns what is wrong.
    async fn trouble(&mut self, ask: impl FnOnce() -> Result<(), String> + Send + 'static) -> Option<String> {
        let question = self
            .question
            .get_or_insert_with(|| tokio::task::spawn_blocking(ask));
        let name = self.name;
        match tokio::time::timeout(ANSWER_LIMIT, &mut *question).await {
            Err(_) => {
                let limit_s = ANSWER_LIMIT.as_secs();
                Some(format!("{name} has not answered for {limit_s} s"))
            }
            Ok(answer) => {
                self.question = None;
                match answer {
                    Ok(Ok(())) => None,
                    Ok(Err(why)) => Some(format!("{name} does not answer: {why}")),
                    Err(why) => Some(format!("{name} could not be asked: {why}")),
                }
            }
        }
    }
}

/// Asks both tiers periodically and publishes what they say. Never returns.
pub(super) async fn watch(tiers: Tiers, ready: &Ready) {
    let (mut redis, mut postgres) = (Asked::new("Redis"), Asked::new("PostgreSQL"));
    let mut told = None;
    loop {
        let (hot, cold) = (tiers.hot.clone(), tiers.cold.clone());
        let (no_redis, no_postgres) = tokio::join!(
            redis.trouble(move || hot.probe().map_err(|error| chain(&error))),
            postgres.trouble(move || cold.fact(NO_FACT).map(drop).map_err(|error| chain(&error))),
        );
        let is_well = no_redis.is_none() && no_postgres.is_none();
        let detail = detail(no_redis, no_postgres);
        if told.as_ref() != Some(&detail) {
            if is_well {
                ready.ready();
            } else {
                ready.failed();
                tracing::warn!(detail, "the room cannot serve everything");
            }
            ready.set_detail(detail.clone());
            told = Some(detail);
        }
        tokio::time::sleep(if is_well { LOOK_WELL } else { LOOK_UNWELL }).await;
    }
}

/// Returns what operators are told of both tiers.
fn detail(no_redis: Option<String>, no_postgres: Option<String>) -> String {
    match (no_redis, no_postgres) {
        (None, None) => "Redis and PostgreSQL answer".to_owned(),
        (Some(redis), None) => format!("{redis}; PostgreSQL answers"),
        (None, Some(postgres)) => format!(
            "Redis answers; {postgres}; tags in memory are served, others are not, and nothing is saved"
        ),
        (Some(redis), Some(postgres)) => format!("{redis}; {postgres}"),
    }
}

/// Returns an error with what caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_tier_that_hangs_is_told_before_its_own_limit_and_recovers_with_its_answer() {
        let (answer, waits) = std::sync::mpsc::channel();
        let mut asked = Asked::new("PostgreSQL");
        let hangs = move || waits.recv().map_err(|_| "gone".to_owned());
        let trouble = asked.trouble(hangs).await;
        assert_eq!(trouble.as_deref(), Some("PostgreSQL has not answered for 1 s"));
        answer.send(()).unwrap();
        assert_eq!(asked.trouble(|| Err("not asked".to_owned())).await, None);
        let refused = asked.trouble(|| Err("refused".to_owned())).await;
        assert_eq!(refused.as_deref(), Some("PostgreSQL does not answer: refused"));
    }

    #[test]
    fn each_tier_is_told_by_its_name() {
        let text = detail(None, Some("PostgreSQL does not answer: refused".into()));
        let expected = "Redis answers; PostgreSQL does not answer: refused; tags in memory";
        assert!(text.starts_with(expected), "{text}");
        let text = detail(Some("Redis is away".into()), None);
        assert_eq!(text, "Redis is away; PostgreSQL answers");
    }
}
