//! What `nagaya-bench fanout` accepts, and the plan made from it.

use std::path::PathBuf;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::plan::{Programs, Target};
use crate::subject::Nagaya;

/// Measure the fan-out beside serinin and beside plain writes
#[derive(Args)]
pub(crate) struct FanoutArgs {
    /// Parts to measure [default: all of them]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', ignore_case = true)]
    pub(super) parts: Vec<Part>,
    /// A short run to see that everything works
    #[arg(long)]
    pub(super) quick: bool,
    /// A serinin to compare with, built beforehand
    #[arg(long, value_name = "FILE")]
    pub(super) serinin: Option<PathBuf>,
    /// Endpoints that each request goes to
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(super) endpoints: u64,
    /// Seconds of load for each figure
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(super) seconds: Option<u64>,
    /// Seconds of the overload in the memory part [default: 600]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=36_000))]
    pub(super) memory_seconds: Option<u64>,
    /// Requests a second for the parts that need a rate [default: found out]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(10..=1_000_000))]
    pub(super) rate: Option<u64>,
    /// Connections of the load generator
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(super) clients: u64,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Write tables, raw figures, machine and commands here
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
}

/// A part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    /// The most requests a second with 99 of 100 answers stored in time
    Capacity,
    /// The client's wait at 70 % of that
    Latency,
    /// What one dead endpoint does to the others
    Dead,
    /// Memory at twice the capacity
    Memory,
    /// The cost of an answer with 1, 6, 50 and 1000 endpoints
    Endpoints,
    /// Half of the capacity to five times of it, arrivals that wait for nobody
    Overload,
}

/// What will be measured.
pub(crate) struct Plan {
    pub(super) parts: Vec<Part>,
    pub(super) serinin: Option<PathBuf>,
    pub(super) endpoints: usize,
    pub(super) seconds: u64,
    pub(super) memory_seconds: u64,
    pub(super) rate: Option<u64>,
    pub(super) clients: usize,
    pub(super) programs: Programs,
    pub(crate) target: Target,
}

impl Plan {
    pub(crate) fn new(args: &FanoutArgs, nagaya: Nagaya) -> anyhow::Result<Plan> {
        let of = |full, quick| if args.quick { quick } else { full };
        let parts = match args.parts.as_slice() {
            [] => Part::value_variants().to_vec(),
            named => named.to_vec(),
        };
        if let Some(serinin) = &args.serinin {
            ensure!(serinin.is_file(), "there is no serinin at {}", serinin.display());
        }
        Ok(Plan {
            parts,
            serinin: args.serinin.clone(),
            endpoints: args.endpoints as usize,
            seconds: args.seconds.unwrap_or(of(8, 1)),
            memory_seconds: args.memory_seconds.unwrap_or(of(600, 4)),
            rate: args.rate.or(args.quick.then_some(100)),
            clients: args.clients as usize,
            programs: Programs::find(nagaya)?,
            target: Target {
                name: "fanout",
                quick: args.quick,
                out: args.out.clone(),
            },
        })
    }
}
