//! What `nagaya-bench jobs` accepts, with its defaults filled in.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use nagaya_config::with_unit;

use super::Protocol;
use super::nagaya_server::Store;
use crate::plan::Target;
use crate::subject::Nagaya;

/// Compare our job queue with others on the same database
#[derive(Args)]
pub(crate) struct JobsArgs {
    /// What to measure [default: all of them]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    subjects: Vec<Subject>,
    /// Parts to run
    #[arg(
        long,
        value_name = "PART,..",
        value_delimiter = ',',
        default_value = "core,flat,snapshot"
    )]
    parts: Vec<Part>,
    /// A short run to see that everything works
    #[arg(long)]
    quick: bool,
    /// Jobs that are registered in batches and burnt down [default: 200000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..))]
    jobs: Option<u64>,
    /// Waiting jobs of the flat part [default: 10000,100000]
    #[arg(long, value_name = "N,..", value_delimiter = ',')]
    waiting: Vec<u64>,
    /// How long the snapshot part holds its transaction open [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = with_unit::<Duration>)]
    hold: Option<Duration>,
    /// Make databases on this server instead of starting one
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// Where the peers are installed [default: target/bench-peers]
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Write tables, raw figures, machine and commands here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// What is measured: one of ours, by protocol and store, or a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Subject {
    HttpPostgres,
    GrpcPostgres,
    HttpSqlite,
    GrpcSqlite,
    GraphileWorker,
    PgBoss,
    Bullmq,
    Procrastinate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    /// Batches, burn-down, single registrations, latency
    Core,
    /// Cost per job with few and many waiting (ours)
    Flat,
    /// Speed while a transaction stays open (ours on PostgreSQL)
    Snapshot,
}

impl Subject {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Subject::HttpPostgres => "nagaya-http-postgres",
            Subject::GrpcPostgres => "nagaya-grpc-postgres",
            Subject::HttpSqlite => "nagaya-http-sqlite",
            Subject::GrpcSqlite => "nagaya-grpc-sqlite",
            Subject::GraphileWorker => "graphile-worker",
            Subject::PgBoss => "pg-boss",
            Subject::Bullmq => "bullmq-redis",
            Subject::Procrastinate => "procrastinate",
        }
    }

    /// Returns protocol and store of one of our own subjects; `None` for a peer.
    pub(super) fn ours(self) -> Option<(Protocol, Store)> {
        match self {
            Subject::HttpPostgres => Some((Protocol::Http, Store::Postgres)),
            Subject::GrpcPostgres => Some((Protocol::Grpc, Store::Postgres)),
            Subject::HttpSqlite => Some((Protocol::Http, Store::Sqlite)),
            Subject::GrpcSqlite => Some((Protocol::Grpc, Store::Sqlite)),
            Subject::GraphileWorker | Subject::PgBoss | Subject::Bullmq | Subject::Procrastinate => None,
        }
    }
}

/// What will be measured.
pub(crate) struct Plan {
    pub(super) nagaya: Nagaya,
    pub(super) subjects: Vec<Subject>,
    pub(super) parts: Vec<Part>,
    pub(super) jobs: u64,
    /// Clients, and the jobs they register one at a time.
    pub(super) single: Vec<(usize, u64)>,
    pub(super) latency: Duration,
    pub(super) waiting: Vec<u64>,
    pub(super) hold: Duration,
    pub(super) postgres: Option<String>,
    pub(super) peers: PathBuf,
    pub(crate) target: Target,
}

impl Plan {
    pub(crate) fn new(args: &JobsArgs, nagaya: Nagaya) -> Plan {
        let of = |full, quick| if args.quick { quick } else { full };
        let subjects = match args.subjects.as_slice() {
            [] => Subject::value_variants().to_vec(),
            named => named.to_vec(),
        };
        let waiting = match args.waiting.as_slice() {
            [] => vec![of(10_000, 1_000), of(100_000, 3_000)],
            named => named.to_vec(),
        };
        let single = if args.quick {
            vec![(1, 50), (16, 200), (256, 1_000)]
        } else {
            vec![(1, 1_000), (16, 8_000), (256, 40_000)]
        };
        Plan {
            nagaya,
            subjects,
            parts: args.parts.clone(),
            jobs: args.jobs.unwrap_or(of(200_000, 5_000)),
            single,
            latency: Duration::from_secs(of(10, 2)),
            waiting,
            hold: args.hold.unwrap_or(Duration::from_secs(of(60, 4))),
            postgres: args.postgres.clone(),
            peers: args
                .peers
                .clone()
                .unwrap_or_else(|| PathBuf::from("target/bench-peers")),
            target: Target {
                name: "jobs",
                quick: args.quick,
                out: args.out.clone(),
            },
        }
    }

    pub(super) fn needs_postgres(&self) -> bool {
        let without = [Subject::HttpSqlite, Subject::GrpcSqlite, Subject::Bullmq];
        self.subjects.iter().any(|subject| !without.contains(subject))
    }
}
