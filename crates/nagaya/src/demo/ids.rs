//! Ids are fetched in batches, and none may come twice.

use std::cell::RefCell;
use std::collections::HashSet;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use nagaya_client::{Client, Error};
use serde::Deserialize;
use serde_json::{Value, json};

use super::part::{End, Part, count};
use super::target::Target;

/// Ids of one batch, and the pause between two.
const BATCH: usize = 50;
const PAUSE: Duration = Duration::from_millis(250);
/// Ids that are remembered: more than the longest demo fetches.
const REMEMBERED_MAX: usize = 1_000_000;

pub(super) struct IdsPart {
    client: Client,
    is_there: bool,
    seen: RefCell<Seen>,
}

#[derive(Default)]
struct Seen {
    ids: HashSet<u64>,
    fetched: u64,
    twice: u64,
    /// Batches that did not rise from one id to the next.
    unordered: u64,
    /// The server had no number at that moment.
    refused: u64,
    worker: Option<u64>,
}

#[derive(Deserialize)]
struct Fetched {
    numbers: Vec<u64>,
    worker: Option<u64>,
}

impl IdsPart {
    pub(super) fn new(target: &Target) -> IdsPart {
        IdsPart {
            client: target.client.clone(),
            is_there: target.has("ids"),
            seen: RefCell::default(),
        }
    }

    async fn fetch(&self) -> anyhow::Result<()> {
        let fetched = self.client.get::<Fetched>(&format!("/v1/ids?n={BATCH}")).await;
        let mut seen = self.seen.borrow_mut();
        match fetched {
            Ok(fetched) => seen.add(&fetched),
            // Between two numbers there are no ids, and that is right.
            Err(Error::Refused(problem)) if problem.status == 503 => seen.refused += 1,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

impl Seen {
    fn add(&mut self, fetched: &Fetched) {
        self.worker = fetched.worker.or(self.worker);
        self.fetched += fetched.numbers.len() as u64;
        if !fetched.numbers.is_sorted() {
            self.unordered += 1;
        }
        for id in &fetched.numbers {
            let is_known = if self.ids.len() < REMEMBERED_MAX {
                !self.ids.insert(*id)
            } else {
                self.ids.contains(id)
            };
            self.twice += u64::from(is_known);
        }
    }
}

impl Part for IdsPart {
    fn name(&self) -> &'static str {
        "ids"
    }

    fn run<'a>(&'a self, end: &'a End) -> LocalBoxFuture<'a, anyhow::Result<()>> {
        async move {
            while self.is_there && !end.time_is_up.is_cancelled() {
                self.fetch().await?;
                tokio::select! {
                    () = end.time_is_up.cancelled() => (),
                    () = tokio::time::sleep(PAUSE) => (),
                }
            }
            Ok(())
        }
        .boxed_local()
    }

    fn clean(&self) -> LocalBoxFuture<'_, anyhow::Result<()>> {
        std::future::ready(Ok(())).boxed_local()
    }

    fn line(&self) -> String {
        let seen = self.seen.borrow();
        let worker = seen.worker.map_or("-".to_owned(), |worker| worker.to_string());
        format!(
            "{} from number {worker}, {} twice",
            count(seen.fetched, "id"),
            seen.twice
        )
    }

    fn sentence(&self) -> String {
        let seen = self.seen.borrow();
        let twice = match seen.twice {
            0 => "none of them twice".to_owned(),
            twice => format!("{twice} OF THEM TWICE"),
        };
        format!("{} were fetched, {twice}", count(seen.fetched, "id"))
    }

    fn figures(&self) -> Value {
        let seen = self.seen.borrow();
        json!({
            "fetched": seen.fetched, "twice": seen.twice, "unordered": seen.unordered, "refused": seen.refused,
            "worker": seen.worker,
        })
    }

    fn skipped(&self) -> Option<&'static str> {
        (!self.is_there).then_some("ids are off on this server (ids.enabled)")
    }

    fn is_wrong(&self) -> bool {
        let seen = self.seen.borrow();
        seen.twice > 0 || seen.unordered > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_comes_twice_is_noticed() {
        let mut seen = Seen::default();
        let batch = |numbers: &[u64]| Fetched {
            numbers: numbers.to_vec(),
            worker: Some(3),
        };
        seen.add(&batch(&[1, 2, 3]));
        assert_eq!((seen.fetched, seen.twice, seen.unordered), (3, 0, 0));
        seen.add(&batch(&[5, 3]));
        assert_eq!((seen.fetched, seen.twice, seen.unordered), (5, 1, 1));
    }
}
