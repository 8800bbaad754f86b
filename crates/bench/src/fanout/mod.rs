//! `nagaya-bench fanout`: how many requests a second are fanned out, and what that costs.
//!
//! Redis, the endpoints and the load generator share the machine with the program that is measured, so a
//! figure by itself says little; ratios of one run say much. A rate counts only if 99 of 100 answers were
//! stored in time, because a fan-out that drops its work is quick.

mod options;

mod competitor;
mod endpoints;
mod load;
mod open_loop;
mod overload;
mod stored;

mod curve;
mod report;

use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use tokio::runtime::Runtime;

pub(crate) use options::FanoutArgs;
pub(super) use options::{Part, Plan};
pub(super) use report::Report;

use super::progress;
use super::servers::{Server, Side};
use competitor::{Competitor, Kind};
use endpoints::Endpoints;
use load::Loaded;
use stored::Found;

/// The share of answers that must be stored in time.
const SHARE_MIN: f64 = 0.99;
/// Where the search for a capacity begins, and how finely it ends.
const FIRST_RATE: f64 = 200.0;
const STEPS: usize = 4;
/// Of the capacity, for everything that is measured below it.
const USUAL_LOAD: f64 = 0.7;
/// Answers a second in the part about the number of endpoints.
const ANSWERS_PER_SECOND: f64 = 3000.0;

/// One run of the load.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Sample {
    part: Part,
    kind: Kind,
    endpoints: usize,
    /// Requests a second that were asked for, and that were answered 200.
    rate: f64,
    per_second: f64,
    share: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// 99th percentile of the time to store an answer; `None` for serinin, which records no times.
    answers_p99_ms: Option<u64>,
    /// CPU milliseconds of the program for each request and for each answer.
    cpu_ms: f64,
    cpu_us_per_answer: f64,
}

/// Memory at twice the capacity.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Memory {
    rate: f64,
    seconds: u64,
    first_mb: f64,
    last_mb: f64,
    most_mb: f64,
    refused_share: f64,
}

/// What all parts share.
struct Stage<'a> {
    plan: &'a Plan,
    folder: &'a Path,
    redis: Server,
    endpoints: Endpoints,
    runtime: Runtime,
    report: Report,
}

/// Measures the parts of the plan, one after the other.
pub(super) fn measure(plan: &Plan, folder: &Path) -> anyhow::Result<Report> {
    let redis = Server::start_with(Side::Redis, &plan.programs, folder, &[])?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let mut stage = Stage {
        plan,
        folder,
        redis,
        endpoints: Endpoints::start()?,
        runtime,
        report: Report::new(plan),
    };
    let mut capacity = plan.rate.map(|rate| rate as f64);
    for &part in &plan.parts {
        match part {
            Part::Capacity => {
                let ours = stage.capacities()?;
                capacity = capacity.or(Some(ours));
            }
            Part::Latency => {
                let rate = USUAL_LOAD * stage.known(&mut capacity)?;
                stage.latency(rate)?;
            }
            Part::Dead => {
                let rate = USUAL_LOAD * stage.known(&mut capacity)?;
                stage.dead(rate)?;
            }
            Part::Memory => {
                let rate = 2.0 * stage.known(&mut capacity)?;
                stage.memory(rate)?;
            }
            Part::Endpoints => stage.numbers()?,
            Part::Overload => stage.overload()?,
        }
    }
    Ok(stage.report)
}

impl Stage<'_> {
    fn kinds(&self) -> Vec<Kind> {
        let serinin = self.plan.serinin.as_ref().map(|_| Kind::Serinin);
        [Kind::Ours, Kind::Plain].into_iter().chain(serinin).collect()
    }

    fn named(&self, count: usize) -> Vec<(String, String)> {
        (0..count)
            .map(|n| (format!("e{n:04}"), self.endpoints.url(n)))
            .collect()
    }

    fn start(&self, kind: Kind, endpoints: &[(String, String)]) -> anyhow::Result<Competitor> {
        self.redis.flush()?;
        Competitor::start(kind, self.plan, self.folder, &self.redis, endpoints)
    }

    /// Returns the capacity; measures it if no option sets it.
    fn known(&mut self, capacity: &mut Option<f64>) -> anyhow::Result<f64> {
        match capacity {
            Some(capacity) => Ok(*capacity),
            None => Ok(*capacity.insert(self.capacity(Kind::Ours)?)),
        }
    }

    /// Finds every contender's capacity; returns ours.
    fn capacities(&mut self) -> anyhow::Result<f64> {
        let mut ours = 0.0;
        for kind in self.kinds() {
            let capacity = self.capacity(kind)?;
            self.report.capacities.push((kind, capacity));
            if kind == Kind::Ours {
                ours = capacity;
            }
        }
        Ok(ours)
    }

    /// Doubles the rate until it is too much, then halves the distance a few times.
    fn capacity(&mut self, kind: Kind) -> anyhow::Result<f64> {
        let competitor = self.start(kind, &self.named(self.plan.endpoints))?;
        let (mut good, mut rate, mut bad) =
            (0.0, self.plan.rate.map_or(FIRST_RATE, |rate| rate as f64), None);
        let mut steps = 0;
        while steps < STEPS {
            let sample = self.sample(Part::Capacity, kind, &competitor, self.plan.endpoints, rate, None)?;
            let kept_up = sample.per_second >= 0.97 * rate;
            if kept_up && sample.share >= SHARE_MIN {
                good = sample.per_second.min(rate);
            } else {
                bad = Some(rate);
            }
            rate = match bad {
                None => rate * 2.0,
                Some(bad) => {
                    steps += 1;
                    f64::midpoint(good, bad)
                }
            };
            if self.plan.target.quick {
                break;
            }
        }
        progress(&format!("{}: {good:.0} requests a second", kind.name()));
        Ok(good)
    }

    fn latency(&mut self, rate: f64) -> anyhow::Result<()> {
        for kind in self.kinds() {
            let competitor = self.start(kind, &self.named(self.plan.endpoints))?;
            self.sample(Part::Latency, kind, &competitor, self.plan.endpoints, rate, None)?;
        }
        Ok(())
    }

    /// With all endpoints well, and with one more that never answers.
    fn dead(&mut self, rate: f64) -> anyhow::Result<()> {
        const DEAD: &str = "dead";
        let count = self.plan.endpoints;
        let well = self.named(count);
        let mut with_dead = well.clone();
        with_dead.push((DEAD.to_owned(), self.endpoints.dead_url()));
        for endpoints in [well, with_dead] {
            let competitor = self.start(Kind::Ours, &endpoints)?;
            self.sample(Part::Dead, Kind::Ours, &competitor, count, rate, Some(DEAD))?;
        }
        Ok(())
    }

    fn memory(&mut self, rate: f64) -> anyhow::Result<()> {
        let competitor = self.start(Kind::Ours, &self.named(self.plan.endpoints))?;
        let seconds = self.plan.memory_seconds;
        let mut seen = Vec::new();
        let (mut taken, mut refused) = (0, 0);
        for _ in 0..seconds {
            let loaded = self.load(&competitor, rate, 1.0)?;
            taken += loaded.taken;
            refused += loaded.refused;
            seen.push(competitor.resident_bytes()? as f64 / f64::from(1 << 20));
        }
        let quarter = (seen.len() / 4).max(1);
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        self.report.memory = Some(Memory {
            rate,
            seconds,
            // The first quarter is left to warming up.
            first_mb: mean(&seen[quarter.min(seen.len() - 1)..(2 * quarter).clamp(quarter + 1, seen.len())]),
            last_mb: mean(&seen[seen.len() - quarter..]),
            most_mb: seen.iter().copied().fold(0.0, f64::max),
            refused_share: refused as f64 / (taken + refused).max(1) as f64,
        });
        Ok(())
    }

    /// As many answers a second from few endpoints as from many.
    fn numbers(&mut self) -> anyhow::Result<()> {
        for count in [1, 6, 50, 1000] {
            let rate = (ANSWERS_PER_SECOND / count as f64).max(1.0);
            let competitor = self.start(Kind::Ours, &self.named(count))?;
            // The first requests open connections, which is not what is asked here.
            self.load(&competitor, rate, self.plan.seconds.min(2) as f64)?;
            self.sample(Part::Endpoints, Kind::Ours, &competitor, count, rate, None)?;
        }
        Ok(())
    }

    fn load(&self, competitor: &Competitor, rate: f64, seconds: f64) -> anyhow::Result<Loaded> {
        self.runtime
            .block_on(load::run(competitor.address, rate, seconds, self.plan.clients))
    }

    fn sample(
        &mut self,
        part: Part,
        kind: Kind,
        competitor: &Competitor,
        endpoints: usize,
        rate: f64,
        skip: Option<&str>,
    ) -> anyhow::Result<Sample> {
        let cpu_before = competitor.cpu_seconds()?;
        let loaded = self.load(competitor, rate, self.plan.seconds as f64)?;
        // What is under way has this long to be stored, which is all that it may take.
        std::thread::sleep(std::time::Duration::from_millis(300));
        let cpu = competitor.cpu_seconds()? - cpu_before;
        let found: Found =
            self.runtime
                .block_on(stored::look(self.redis.address, &loaded.ids, endpoints, skip))?;
        let sample = Sample {
            part,
            kind,
            endpoints,
            rate,
            per_second: loaded.per_second(),
            share: found.share,
            p50_ms: loaded.wait_ms(0.5),
            p99_ms: loaded.wait_ms(0.99),
            answers_p99_ms: found.p99_ms(),
            cpu_ms: cpu * 1e3 / loaded.taken.max(1) as f64,
            cpu_us_per_answer: cpu * 1e6 / (loaded.taken.max(1) as f64 * endpoints as f64),
        };
        progress(&format!(
            "{}, {endpoints} endpoints: {:.0} of {rate:.0} requests a second, {:.1} % stored, p99 {:.2} ms",
            kind.name(),
            sample.per_second,
            sample.share * 100.0,
            sample.p99_ms
        ));
        self.report.raw.push(sample);
        Ok(sample)
    }
}
