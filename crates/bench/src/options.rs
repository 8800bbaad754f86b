//! What `nagaya-bench redis` can be told.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;

/// Compare our engine with the installed redis-server
#[derive(Args)]
pub(crate) struct RedisArgs {
    /// Measure memory instead of throughput
    #[arg(long)]
    pub(super) memory: bool,
    /// Measure CPU per command with few and with many keys instead
    #[arg(long)]
    pub(super) scaling: bool,
    /// Measure throughput, memory and scaling
    #[arg(long)]
    pub(super) all: bool,
    /// A short run to see that everything works
    #[arg(long)]
    pub(super) quick: bool,
    /// Requests per test at depth 1; four times as many deeper down
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..))]
    pub(super) requests: Option<u64>,
    /// Times each test is run on each server
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=101))]
    pub(super) rounds: Option<u32>,
    /// Connections of the load generator
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) clients: u32,
    /// Requests sent before the first reply is awaited
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1,16",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) depth: Vec<u32>,
    /// Keys that random keys are drawn from
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(super) keyspace: u64,
    /// Commands to measure
    #[arg(
        long,
        value_name = "NAME,..",
        value_delimiter = ',',
        ignore_case = true,
        hide_possible_values = true
    )]
    pub(super) tests: Vec<Test>,
    /// Keys and hashes of the memory part, and list elements per 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1000..=100_000_000))]
    pub(super) keys: Option<u64>,
    /// Keys of the scaling part when they are many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(10_000..=100_000_000))]
    pub(super) large_keys: Option<u64>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(super) json: bool,
    /// Write tables, raw figures, machine and commands here
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
}

/// A command that redis-benchmark can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Test {
    Get,
    Set,
    Incr,
    Hset,
    Lpush,
    Rpop,
    Sadd,
    Zadd,
    Mset,
}

impl Test {
    /// The name as redis-benchmark's `-t` takes it.
    pub(super) fn flag(self) -> &'static str {
        match self {
            Test::Get => "get",
            Test::Set => "set",
            Test::Incr => "incr",
            Test::Hset => "hset",
            Test::Lpush => "lpush",
            Test::Rpop => "rpop",
            Test::Sadd => "sadd",
            Test::Zadd => "zadd",
            Test::Mset => "mset",
        }
    }

    pub(super) fn name(self) -> String {
        self.flag().to_uppercase()
    }
}
