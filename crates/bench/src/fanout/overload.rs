//! Below the capacity and far above it: who is answered, and what is stored.

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use super::competitor::Kind;
use super::curve::Point;
use super::{Stage, open_loop, stored};
use crate::progress;

/// Times the capacity of the program itself.
const FACTORS: [f64; 5] = [0.5, 0.7, 1.0, 2.0, 5.0];

/// One program under one load.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Overloaded {
    pub(super) kind: Kind,
    pub(super) factor: f64,
    pub(super) capacity: f64,
    /// Arrivals, and what became of them.
    pub(super) offered: u64,
    pub(super) taken: u64,
    pub(super) refused: u64,
    pub(super) lost: u64,
    /// Of the answers of taken requests.
    pub(super) stored_share: f64,
    /// Requests a second, as far as their answers were stored.
    pub(super) goodput: f64,
    pub(super) p99_ms: f64,
    pub(super) resident_mb: f64,
}

impl Overloaded {
    pub(super) fn point(&self) -> Point {
        Point {
            kind: self.kind,
            factor: self.factor,
            goodput: self.goodput,
        }
    }
}

/// Allows this process as many files as the load may need: a connection of each request under way, and those to the
/// endpoints, which are here as well. The programs inherit the limit.
fn raise_file_limit() -> anyhow::Result<()> {
    const OTHERS: usize = 256;
    let endpoints = open_loop::UNDER_WAY_MAX * 4;
    let wanted = u64::try_from(open_loop::UNDER_WAY_MAX + endpoints + OTHERS)?;
    let now = getrlimit(Resource::Nofile);
    let raised = now.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if now.current.is_some_and(|current| current < raised) {
        let raised = Rlimit {
            current: Some(raised),
            maximum: now.maximum,
        };
        setrlimit(Resource::Nofile, raised).context("the limit of open files cannot be raised")?;
    }
    Ok(())
}

impl Stage<'_> {
    /// Offers each program multiples of what it can do.
    pub(super) fn overload(&mut self) -> anyhow::Result<()> {
        raise_file_limit()?;
        let kinds = self.kinds();
        for kind in kinds.into_iter().filter(|kind| *kind != Kind::Plain) {
            let capacity = self.capacity_of(kind)?;
            for factor in FACTORS {
                let sample = self.offer(kind, capacity, factor)?;
                progress(&format!(
                    "{}, {factor} times {capacity:.0}: {:.0} of {} requests a second good, p99 {:.2} ms",
                    kind.name(),
                    sample.goodput,
                    sample.offered / self.plan.seconds.max(1),
                    sample.p99_ms
                ));
                self.report.overload.push(sample);
            }
        }
        Ok(())
    }

    fn capacity_of(&mut self, kind: Kind) -> anyhow::Result<f64> {
        if let Some(rate) = self.plan.rate {
            return Ok(rate as f64);
        }
        let known = self.report.capacities.iter().find(|(of, _)| *of == kind);
        match known {
            Some((_, capacity)) => Ok(*capacity),
            None => self.capacity(kind),
        }
    }

    fn offer(&mut self, kind: Kind, capacity: f64, factor: f64) -> anyhow::Result<Overloaded> {
        let competitor = self.start(kind, &self.named(self.plan.endpoints))?;
        let seconds = self.plan.seconds as f64;
        if !self.plan.target.quick {
            // The first requests open connections, which is not what is asked here.
            self.runtime
                .block_on(open_loop::run(competitor.address, capacity / 2.0, 1.0));
        }
        let offered = self
            .runtime
            .block_on(open_loop::run(competitor.address, capacity * factor, seconds));
        // What is under way has this long to be stored, which is all that it may take.
        std::thread::sleep(std::time::Duration::from_millis(300));
        let looking = stored::look(self.redis.address, &offered.ids, self.plan.endpoints, None);
        let found = self.runtime.block_on(looking)?;
        Ok(Overloaded {
            kind,
            factor,
            capacity,
            offered: offered.all(),
            taken: offered.taken,
            refused: offered.refused,
            lost: offered.lost,
            stored_share: found.share,
            goodput: offered.taken as f64 / seconds * found.share,
            p99_ms: offered.wait_ms(0.99),
            resident_mb: competitor.resident_bytes()? as f64 / f64::from(1 << 20),
        })
    }
}
