//! What `nagaya-bench proxy` accepts, and the plan made from it.

use std::path::PathBuf;

use clap::Args;

use crate::plan::{Programs, Target, find_program};
use crate::subject::Nagaya;

/// Measure the proxy beside twemproxy and beside the servers themselves
#[derive(Args)]
pub(crate) struct ProxyArgs {
    /// Measure what saving and loading costs instead
    #[arg(long)]
    pub(super) saves: bool,
    /// A short run to see that everything works
    #[arg(long)]
    pub(super) quick: bool,
    /// Servers behind the proxies, one run each
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1,3",
        value_parser = clap::value_parser!(u16).range(1..=9))]
    pub(super) nodes: Vec<u16>,
    /// Requests a client sends before it waits for replies
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "1,16",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) depth: Vec<u32>,
    /// Requests per test at depth 1; four times as many deeper down
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..))]
    pub(super) requests: Option<u64>,
    /// Times each test is run on each of them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=101))]
    pub(super) rounds: Option<u32>,
    /// Connections of the load generator
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) clients: u32,
    /// Keys that random keys are drawn from; each is a tag of its own
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(super) keyspace: u64,
    /// Seconds that the load of the saves part lasts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(super) seconds: Option<u64>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Write tables, raw figures, machine and commands here
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
}

/// What will be measured.
pub(crate) struct Plan {
    pub(super) saves: bool,
    pub(super) is_quick: bool,
    pub(super) nodes: Vec<u16>,
    pub(super) depths: Vec<u32>,
    pub(super) requests: u64,
    pub(super) rounds: u32,
    pub(super) clients: u32,
    pub(super) keyspace: u64,
    pub(super) seconds: u64,
    pub(super) programs: Programs,
    /// twemproxy; the saves part does without.
    pub(super) twemproxy: Option<PathBuf>,
    pub(crate) target: Target,
}

impl Plan {
    pub(crate) fn new(args: &ProxyArgs, nagaya: Nagaya) -> anyhow::Result<Plan> {
        let of = |full, quick| if args.quick { quick } else { full };
        let twemproxy = if args.saves {
            None
        } else {
            Some(find_program("nutcracker", "nutcracker")?)
        };
        Ok(Plan {
            saves: args.saves,
            is_quick: args.quick,
            nodes: args.nodes.clone(),
            depths: args.depth.clone(),
            requests: args.requests.unwrap_or(of(300_000, 5_000)),
            rounds: args.rounds.unwrap_or(if args.quick { 1 } else { 5 }),
            clients: args.clients,
            keyspace: args.keyspace,
            seconds: args.seconds.unwrap_or(of(30, 3)),
            programs: Programs::find(nagaya)?,
            twemproxy,
            target: Target {
                name: if args.saves { "proxy-saves" } else { "proxy" },
                quick: args.quick,
                out: args.out.clone(),
            },
        })
    }

    pub(super) fn requests_at(&self, depth: u32) -> u64 {
        self.requests * if depth > 1 { 4 } else { 1 }
    }
}
