//! Whether two places hold the same, also while both are in use.
//!
//! The first side is walked over and each key looked up on the second; then the second is walked over for keys
//! that the first does not have. What differs is looked at again after a pause: a write may have been on its way
//! to the other side. A key that differs every time and changes from look to look is told apart from one that
//! just differs.

use std::time::Duration;

use nagaya_clock::Clock;
use serde::Serialize;

use crate::key_set::KeySet;
use crate::side::{Lookup, Records, Stamp, Wanted};
use crate::{Error, Progress, Selection, Side, shown};

/// Differing keys that are looked at again together.
const DOUBTS_MAX: usize = 1000;
/// Pauses before further looks.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
];

/// How to compare.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    pub selection: Selection,
    /// The part of all keys to look at, from 0 to 1.
    pub share: f64,
    /// How far apart two expiries may be.
    pub tolerance_ms: i64,
    /// Differences that are listed; of further ones the number is told.
    pub listed_max: usize,
}

impl Default for CompareOptions {
    fn default() -> CompareOptions {
        CompareOptions {
            selection: Selection::default(),
            share: 1.0,
            tolerance_ms: 1000,
            listed_max: 100,
        }
    }
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Equal,
    Different,
    /// What differs was being changed all the while.
    Unsettled,
}

/// How a key differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    Value,
    Expiry,
    OnlyInA,
    OnlyInB,
    /// It was another at every look.
    Changing,
}

/// The result of a comparison.
#[derive(Debug, Serialize)]
pub struct Comparison {
    pub verdict: Verdict,
    /// Keys that were looked at.
    pub keys: u64,
    /// Keys that were equal only at a later look.
    pub equal_later: u64,
    pub values: u64,
    pub expiries: u64,
    pub only_in_a: u64,
    pub only_in_b: u64,
    pub changing: u64,
    pub differences: Vec<(String, Difference)>,
}

/// A key that seemed to differ.
struct Doubt {
    name: Vec<u8>,
    a: Option<Stamp>,
    b: Option<Stamp>,
    is_changing: bool,
}

/// Compares two places.
pub async fn compare(
    a: &Side,
    b: &Side,
    options: &CompareOptions,
    clock: &dyn Clock,
    progress: &Progress,
) -> Result<Comparison, Error> {
    let wanted = Wanted {
        selection: options.selection.clone(),
        share: options.share,
    };
    let lookup_a = match a {
        Side::File(_) => Lookup::Remembered,
        Side::Server(url) => Lookup::server(url, clock).await?,
    };
    let lookup_b = match b {
        Side::File(_) => Lookup::index(b, &wanted, clock).await?,
        Side::Server(url) => Lookup::server(url, clock).await?,
    };
    let mut comparer = Comparer {
        lookup_a,
        lookup_b,
        options,
        clock,
        doubts: Vec::new(),
        result: Comparison {
            verdict: Verdict::Equal,
            keys: 0,
            equal_later: 0,
            values: 0,
            expiries: 0,
            only_in_a: 0,
            only_in_b: 0,
            changing: 0,
            differences: Vec::new(),
        },
    };
    let mut seen = KeySet::default();
    let mut records = Records::of(a, &wanted, clock).await?;
    while let Some(batch) = records.next().await? {
        progress.add_keys(batch.len() as u64);
        for (name, _) in &batch {
            seen.insert(name);
        }
        comparer.forwards(batch).await?;
    }
    // What is left to see of the other side: keys that were not met.
    let mut records = Records::of(b, &wanted, clock).await?;
    while let Some(mut batch) = records.next().await? {
        batch.retain(|(name, _)| !seen.contains(name));
        progress.add_keys(batch.len() as u64);
        comparer.backwards(batch).await?;
    }
    comparer.settle().await?;
    Ok(comparer.finish())
}

struct Comparer<'c> {
    lookup_a: Lookup<'c>,
    lookup_b: Lookup<'c>,
    options: &'c CompareOptions,
    clock: &'c dyn Clock,
    doubts: Vec<Doubt>,
    result: Comparison,
}

impl Comparer<'_> {
    async fn forwards(&mut self, batch: Vec<(Vec<u8>, Stamp)>) -> Result<(), Error> {
        let (names, a): (Vec<_>, Vec<_>) = batch.into_iter().map(|(name, stamp)| (name, Some(stamp))).unzip();
        let b = self.lookup_b.stamps(&names, &vec![None; names.len()]).await?;
        self.take(names, a, b).await
    }

    async fn backwards(&mut self, batch: Vec<(Vec<u8>, Stamp)>) -> Result<(), Error> {
        let (names, b): (Vec<_>, Vec<_>) = batch.into_iter().map(|(name, stamp)| (name, Some(stamp))).unzip();
        let a = self.lookup_a.stamps(&names, &vec![None; names.len()]).await?;
        self.take(names, a, b).await
    }

    async fn take(
        &mut self,
        names: Vec<Vec<u8>>,
        a: Vec<Option<Stamp>>,
        b: Vec<Option<Stamp>>,
    ) -> Result<(), Error> {
        self.result.keys += names.len() as u64;
        for ((name, a), b) in names.into_iter().zip(a).zip(b) {
            if self.difference(a, b).is_some() {
                let is_changing = false;
                self.doubts.push(Doubt {
                    name,
                    a,
                    b,
                    is_changing,
                });
            }
        }
        if self.doubts.len() >= DOUBTS_MAX {
            self.settle().await?;
        }
        Ok(())
    }

    /// Says how two states of a key differ. One that is about to expire may be gone on either side.
    fn difference(&self, a: Option<Stamp>, b: Option<Stamp>) -> Option<Difference> {
        let tolerance_ms = self.options.tolerance_ms;
        let gone_by_ms = self.clock.unix_ms() + tolerance_ms;
        let lasting = |stamp: &Stamp| stamp.expires_at_ms.is_none_or(|at_ms| at_ms > gone_by_ms);
        match (a, b) {
            (None, None) => None,
            (Some(a), None) => lasting(&a).then_some(Difference::OnlyInA),
            (None, Some(b)) => lasting(&b).then_some(Difference::OnlyInB),
            (Some(a), Some(b)) if a.digest != b.digest => {
                (lasting(&a) || lasting(&b)).then_some(Difference::Value)
            }
            (Some(a), Some(b)) => {
                let near = match (a.expires_at_ms, b.expires_at_ms) {
                    (None, None) => true,
                    (Some(a), Some(b)) => a.abs_diff(b) <= tolerance_ms.unsigned_abs(),
                    _ => false,
                };
                (!near).then_some(Difference::Expiry)
            }
        }
    }

    /// Looks again at what seemed to differ, and counts what still does.
    async fn settle(&mut self) -> Result<(), Error> {
        let mut doubts = std::mem::take(&mut self.doubts);
        if self.lookup_a.is_server() || self.lookup_b.is_server() {
            for pause in PAUSES {
                if doubts.is_empty() {
                    break;
                }
                tokio::time::sleep(pause).await;
                let before = doubts.len();
                doubts = self.look_again(doubts).await?;
                self.result.equal_later += (before - doubts.len()) as u64;
            }
        }
        for doubt in doubts {
            if let Some(difference) = self.difference(doubt.a, doubt.b) {
                self.count(&doubt, difference);
            }
        }
        Ok(())
    }

    async fn look_again(&mut self, doubts: Vec<Doubt>) -> Result<Vec<Doubt>, Error> {
        let names: Vec<Vec<u8>> = doubts.iter().map(|doubt| doubt.name.clone()).collect();
        let known = |of: fn(&Doubt) -> Option<Stamp>| doubts.iter().map(of).collect::<Vec<_>>();
        let a = self.lookup_a.stamps(&names, &known(|doubt| doubt.a)).await?;
        let b = self.lookup_b.stamps(&names, &known(|doubt| doubt.b)).await?;
        let mut left = Vec::new();
        for ((mut doubt, a), b) in doubts.into_iter().zip(a).zip(b) {
            if self.difference(a, b).is_some() {
                // Only the last look decides: changes before it may have come to rest.
                doubt.is_changing = doubt.a != a || doubt.b != b;
                (doubt.a, doubt.b) = (a, b);
                left.push(doubt);
            }
        }
        Ok(left)
    }

    fn count(&mut self, doubt: &Doubt, difference: Difference) {
        let difference = if doubt.is_changing {
            Difference::Changing
        } else {
            difference
        };
        let result = &mut self.result;
        match difference {
            Difference::Value => result.values += 1,
            Difference::Expiry => result.expiries += 1,
            Difference::OnlyInA => result.only_in_a += 1,
            Difference::OnlyInB => result.only_in_b += 1,
            Difference::Changing => result.changing += 1,
        }
        if result.differences.len() < self.options.listed_max {
            result.differences.push((shown(&doubt.name), difference));
        }
    }

    fn finish(mut self) -> Comparison {
        let result = &mut self.result;
        let different = result.values + result.expiries + result.only_in_a + result.only_in_b;
        result.verdict = match (different, result.changing) {
            (0, 0) => Verdict::Equal,
            (0, _) => Verdict::Unsettled,
            _ => Verdict::Different,
        };
        self.result
    }
}
