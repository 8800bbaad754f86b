//! What `nagaya-bench room` accepts, and the plan made from it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use nagaya_config::{ByteSize, Raw, Value};
use serde::Serialize;

use crate::options::Test;
use crate::plan::{self, Programs, Target};
use crate::subject::Nagaya;

/// Keys that redis-benchmark's random keys are drawn from.
const KEYSPACE: u64 = 100_000;

/// Measure what keeping data costs, beside redis-server with its append-only file
#[derive(Args)]
pub(crate) struct RoomArgs {
    /// Parts to measure [default: all of them]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', ignore_case = true)]
    pub(super) parts: Vec<Part>,
    /// A short run to see that everything works
    #[arg(long)]
    pub(super) quick: bool,
    /// Requests per test at depth 1; four times as many deeper down
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..))]
    pub(super) requests: Option<u64>,
    /// Times each test is run on each server
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=101))]
    pub(super) rounds: Option<u32>,
    /// Keys of the restart part
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    pub(super) keys: Option<u64>,
    /// max_memory of the larger part
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(super) memory: Option<ByteSize>,
    /// How many times as much data as memory the larger part has
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(super) times: u64,
    /// Seconds that the larger part's load lasts, per server
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(super) seconds: Option<u64>,
    /// Connections of the larger part
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) connections: u32,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Write tables, raw figures, machine and commands here
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
}

/// Below this, buffers and tables alone fill the memory.
const MEMORY_BYTES_MIN: u64 = 32 << 20;

fn size(text: &str) -> Result<ByteSize, String> {
    match ByteSize::read(&Raw::Words(text.to_owned())) {
        Some(size) if size.0 >= MEMORY_BYTES_MIN => Ok(size),
        Some(_) => Err("must be at least 32mb".to_owned()),
        None => Err(format!("must be {}", ByteSize::KIND)),
    }
}

/// A part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// Throughput with a sync every second
    Everysec,
    /// Throughput with a sync before each answer
    Always,
    /// Data ten times larger than the memory
    Larger,
    /// Start after a crash
    Restart,
}

/// What will be measured.
pub(crate) struct Plan {
    pub(super) parts: Vec<Part>,
    pub(super) requests: u64,
    pub(super) rounds: u32,
    pub(super) restart_keys: u64,
    pub(super) memory_bytes: u64,
    /// Data over memory.
    pub(super) times: u64,
    pub(super) seconds: u64,
    pub(super) connections: u32,
    pub(super) programs: Programs,
    pub(crate) target: Target,
}

impl Plan {
    pub(crate) fn new(args: &RoomArgs, nagaya: Nagaya) -> anyhow::Result<Plan> {
        let of = |full, quick| if args.quick { quick } else { full };
        let memory_bytes = args.memory.map_or(of(64 << 20, 32 << 20), |size| size.0);
        Ok(Plan {
            parts: match args.parts.as_slice() {
                [] => Part::value_variants().to_vec(),
                named => named.to_vec(),
            },
            requests: args.requests.unwrap_or(of(100_000, 10_000)),
            rounds: args.rounds.unwrap_or(if args.quick { 1 } else { 3 }),
            restart_keys: args.keys.unwrap_or(of(1_000_000, 50_000)),
            memory_bytes,
            times: args.times,
            seconds: args.seconds.unwrap_or(of(30, 3)),
            connections: args.connections,
            programs: Programs::find(nagaya)?,
            target: Target {
                name: "room",
                quick: args.quick,
                out: args.out.clone(),
            },
        })
    }

    /// The plan for redis-benchmark. Fifty clients; an answer that waits for a disk takes longer, so
    /// there are fewer of those.
    pub(super) fn throughput(&self, part: Part) -> plan::Plan {
        let (depths, requests) = match part {
            Part::Always => (vec![1], (self.requests / 5).max(100)),
            _ => (vec![1, 16], self.requests),
        };
        plan::Plan {
            throughput: true,
            memory: false,
            scaling: false,
            requests,
            rounds: self.rounds,
            clients: 50,
            depths,
            keyspace: KEYSPACE.min(requests),
            tests: vec![Test::Set, Test::Incr, Test::Lpush, Test::Hset],
            keys: 0,
            large_keys: 0,
            programs: self.programs.clone(),
            target: Target {
                name: "room",
                quick: true,
                out: None,
            },
        }
    }
}
