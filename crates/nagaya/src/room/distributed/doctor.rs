//! Looks at the servers of a room on real engines, for `nagaya room doctor`.

use nagaya_tiering::cold::{ColdTier, Finding, Totals};

use super::open::Backends;

/// Findings of one of the two backends.
pub(crate) struct Examined<T> {
    /// A fact about the backend, when it answered.
    pub(crate) fact: Option<T>,
    pub(crate) findings: Vec<Finding>,
}

/// What was found.
pub(crate) struct Examination {
    /// The number of Redis servers that hold slots.
    pub(crate) hot: Examined<usize>,
    pub(crate) cold: Examined<Totals>,
}

impl Backends {
    /// Examines Redis and PostgreSQL. Blocks. A backend that does not answer is a finding.
    pub(crate) fn examine(&self) -> anyhow::Result<Examination> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let hot = self.open_hot("nagaya-doctor", runtime.handle().clone())?;
        let asked = || {
            let nodes = hot.parts()?.len();
            Ok::<_, anyhow::Error>((nodes, hot.examine()?))
        };
        let hot = examined(asked(), "see that Redis runs and that `house.redis` names it");
        let asked = || {
            let cold = self.open_cold()?;
            Ok::<_, anyhow::Error>((cold.totals()?, cold.check()?))
        };
        let cold = examined(
            asked(),
            "see that PostgreSQL runs and that `house.postgres` names it",
        );
        Ok(Examination { hot, cold })
    }
}

fn examined<T>(asked: anyhow::Result<(T, Vec<Finding>)>, remedy: &str) -> Examined<T> {
    match asked {
        Ok((fact, findings)) => Examined {
            fact: Some(fact),
            findings,
        },
        Err(error) => Examined {
            fact: None,
            findings: vec![Finding {
                what: format!("it cannot be asked: {error:#}"),
                remedy: remedy.to_owned(),
            }],
        },
    }
}
