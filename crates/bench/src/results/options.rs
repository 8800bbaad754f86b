//! What `nagaya-bench results` accepts, with its defaults filled in.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use nagaya_config::with_unit;

use super::ways::Way;
use crate::jobs::nagaya_server::Store;
use crate::plan::Target;
use crate::subject::Nagaya;

/// Measure how results reach submitters
#[derive(Args)]
pub(crate) struct ResultsArgs {
    /// Parts to run
    #[arg(
        long,
        value_name = "PART,..",
        value_delimiter = ',',
        default_value = "latency,idle,webhooks,dead"
    )]
    parts: Vec<Part>,
    /// Ways of being told that the latency part measures [default: all of them]
    #[arg(long, value_name = "WAY,..", value_delimiter = ',')]
    ways: Vec<Way>,
    /// Where jobs are kept
    #[arg(long, value_name = "STORE", default_value = "sqlite")]
    store: StoreArg,
    /// A short run to see that everything works
    #[arg(long)]
    quick: bool,
    /// Jobs a second of the latency part [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: Option<u32>,
    /// How long each rate is kept up [default: 20s]
    #[arg(long, value_name = "TIME", value_parser = with_unit::<Duration>)]
    duration: Option<Duration>,
    /// Streams of the idle part [default: 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: Option<u32>,
    /// Deliveries of the webhooks part [default: 20000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    deliveries: Option<u32>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Write tables, raw figures, machine and commands here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    /// Registration to result, by each way
    Latency,
    /// Memory of streams on which nothing happens
    Idle,
    /// Deliveries a second to a fast target
    Webhooks,
    /// Whether a dead target changes anything for 99 others
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StoreArg {
    Sqlite,
    Postgres,
}

/// What will be measured.
pub(crate) struct Plan {
    pub(super) nagaya: Nagaya,
    pub(super) parts: Vec<Part>,
    pub(super) ways: Vec<Way>,
    pub(super) store: Store,
    pub(super) rate: f64,
    pub(super) duration: Duration,
    pub(super) connections: usize,
    pub(super) deliveries: usize,
    /// Deliveries a second to all targets while one of them is dead.
    pub(super) targets_rate: f64,
    pub(crate) target: Target,
}

impl Plan {
    pub(crate) fn new(args: &ResultsArgs, nagaya: Nagaya) -> Plan {
        let of = |full, quick| if args.quick { quick } else { full };
        let ways = match args.ways.as_slice() {
            [] => Way::value_variants().to_vec(),
            named => named.to_vec(),
        };
        Plan {
            nagaya,
            parts: args.parts.clone(),
            ways,
            store: match args.store {
                StoreArg::Sqlite => Store::Sqlite,
                StoreArg::Postgres => Store::Postgres,
            },
            rate: f64::from(args.rate.unwrap_or(of(1_000, 50))),
            duration: args.duration.unwrap_or(Duration::from_secs(u64::from(of(20, 2)))),
            connections: args.connections.unwrap_or(of(10_000, 200)) as usize,
            deliveries: args.deliveries.unwrap_or(of(20_000, 300)) as usize,
            targets_rate: f64::from(of(500, 50)),
            target: Target {
                name: "results",
                quick: args.quick,
                out: args.out.clone(),
            },
        }
    }
}
