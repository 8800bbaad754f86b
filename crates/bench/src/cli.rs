//! The command line: what can be measured, and which binary.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::fanout::FanoutArgs;
use crate::fleet::FleetArgs;
use crate::jobs::JobsArgs;
use crate::options::RedisArgs;
use crate::proxy::ProxyArgs;
use crate::results::ResultsArgs;
use crate::room::RoomArgs;
use crate::subject::Nagaya;

const BENCH_EXAMPLES: &str = "\
Examples:
  nagaya-bench redis --quick           see that everything works
  nagaya-bench redis                   throughput, latency and CPU
  nagaya-bench redis --all --out runs  memory and scaling as well, recorded

Needs redis-server and redis-benchmark. In a checkout, full runs are recorded
under bench/runs; bench/README.md says what the figures mean.";

const BENCH_ROOM_EXAMPLES: &str = "\
Examples:
  nagaya-bench room --quick            see that everything works
  nagaya-bench room                    all parts, about five minutes
  nagaya-bench room --parts larger --memory 256mb --seconds 120

Needs redis-server and redis-benchmark. The data is kept below TMPDIR: let it
be on the disk that you want to know about, and not in memory.";

const BENCH_PROXY_EXAMPLES: &str = "\
Examples:
  nagaya-bench proxy --quick           see that everything works
  nagaya-bench proxy                   beside twemproxy, about half an hour
  nagaya-bench proxy --nodes 3 --depth 16 --rounds 3
  nagaya-bench proxy --saves           log, loads and staleness on PostgreSQL

Needs redis-server, redis-benchmark, nutcracker (twemproxy) and PostgreSQL.";

const BENCH_JOBS_EXAMPLES: &str = "\
Examples:
  nagaya-bench jobs --quick            see that everything works
  nagaya-bench jobs                    all of it, about half an hour
  nagaya-bench jobs --subjects http-sqlite --parts flat --waiting 10000,10000000

Needs PostgreSQL's programs; the peers also npm, python3 and redis-server. They
are installed under target/bench-peers. Run it from a checkout.";

const BENCH_FANOUT_EXAMPLES: &str = "\
Examples:
  nagaya-bench fanout --quick          see that everything works
  nagaya-bench fanout --serinin ./serinin
  nagaya-bench fanout --parts memory --memory-seconds 60
  nagaya-bench fanout --parts capacity,overload --serinin ./serinin

Needs redis-server. serinin is built from its own sources with Go.";

const BENCH_RESULTS_EXAMPLES: &str = "\
Examples:
  nagaya-bench results --quick              see that everything works
  nagaya-bench results                      all parts, about five minutes
  nagaya-bench results --store postgres     with jobs in PostgreSQL
  nagaya-bench results --parts idle --connections 2000

10000 idle streams need as many open files: ulimit -Hn must allow them.";

const BENCH_FLEET_EXAMPLES: &str = "\
Examples:
  nagaya-bench fleet --quick           see that everything works
  nagaya-bench fleet                   all scenarios, about four minutes
  nagaya-bench fleet --partition 20    cut an agent off for a shorter time

Needs redis-server. The other column is what document 000's program needed on
the same kind of machine; bench/README.md says how.";

/// Measure nagaya against the servers it stands in for
#[derive(Parser)]
#[command(
    name = "nagaya-bench",
    version,
    max_term_width = 79,
    disable_help_subcommand = true
)]
struct Cli {
    /// The nagaya to measure [default: NAGAYA_BIN, or the one beside this program]
    #[arg(long, value_name = "PATH", global = true)]
    nagaya: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compare our engine with the installed redis-server
    #[command(after_long_help = BENCH_EXAMPLES)]
    Redis(RedisArgs),
    /// Measure what keeping data costs, and having more than memory
    #[command(after_long_help = BENCH_ROOM_EXAMPLES)]
    Room(RoomArgs),
    /// Compare the proxy with twemproxy, and measure saves and loads
    #[command(after_long_help = BENCH_PROXY_EXAMPLES)]
    Proxy(ProxyArgs),
    /// Compare our job queue with others on the same database
    #[command(after_long_help = BENCH_JOBS_EXAMPLES)]
    Jobs(JobsArgs),
    /// Measure how results reach submitters
    #[command(after_long_help = BENCH_RESULTS_EXAMPLES)]
    Results(ResultsArgs),
    /// Measure the fan-out beside serinin and beside plain writes
    #[command(after_long_help = BENCH_FANOUT_EXAMPLES)]
    Fanout(FanoutArgs),
    /// Measure placing and moving workers
    #[command(after_long_help = BENCH_FLEET_EXAMPLES)]
    Fleet(FleetArgs),
}

/// Runs the command that was typed and returns its exit code.
pub(crate) fn run() -> ExitCode {
    let cli = Cli::parse();
    match dispatch(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(cli: Cli) -> anyhow::Result<()> {
    let nagaya = || Nagaya::find(cli.nagaya.as_deref());
    match cli.command {
        Command::Redis(args) => crate::redis(&args, nagaya()?),
        Command::Room(args) => crate::room(&args, nagaya()?),
        Command::Proxy(args) => crate::proxy(&args, nagaya()?),
        Command::Jobs(args) => crate::jobs(&args, nagaya()?),
        Command::Results(args) => crate::results(&args, nagaya()?),
        Command::Fanout(args) => crate::fanout(&args, nagaya()?),
        Command::Fleet(args) => crate::fleet(&args, nagaya()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_help_text_fits_79_columns() {
        let mut cli = Cli::command();
        cli.build();
        let names: Vec<String> = cli
            .get_subcommands()
            .map(|command| command.get_name().to_owned())
            .collect();
        assert_eq!(names.len(), 7);
        let mut texts = vec![cli.render_help(), cli.render_long_help()];
        for name in names {
            let command = cli.find_subcommand_mut(&name).unwrap();
            texts.extend([command.render_help(), command.render_long_help()]);
        }
        for text in texts {
            let text = text.to_string();
            let wide = text.lines().find(|line| line.chars().count() > 79);
            assert_eq!(wide, None);
        }
    }
}
