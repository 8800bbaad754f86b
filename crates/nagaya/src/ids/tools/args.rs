//! What can be typed under `nagaya ids`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use nagaya_config::{ByteSize, Listen, Raw, Value};
use nagaya_ids::lease::{USE_MAX_CAP, USE_MAX_STANDARD};

const INIT_EXAMPLES: &str = "\
Examples:
  nagaya ids init --redis redis://localhost:6379/0?ns=yaraus
  nagaya ids init --redis redis://localhost --min 1 --max 255
  nagaya ids init --redis redis://localhost --grow --max 2047

A process that a flushed Redis has forgotten may still use a number. So the
first users of a new pool wait for a minute, unless --unused says that there
is no such process.

The server makes the pool in its own room by itself. Exit code 1 when the pool
is there already, or when a number to be taken away is reserved.";

const RUN_EXAMPLES: &str = "\
Examples:
  nagaya ids run -- app --worker-id {}
  nagaya ids run --name web-1 --state-dir /var/lib/app -- app --worker-id {}
  nagaya ids run --redis redis://localhost --min-replicas 1 -- sh -c 'echo {}'
  nagaya ids run -server redis://localhost -interval 1s -expire 30m app {}

The command finds its number in place of {} and in NAGAYA_ID, in NAGAYA_FENCE
a number that rises with every grant, and in NAGAYA_FLOOR the time, in Unix
milliseconds, above which ids of this number are new. When its number is lost
it gets TERM and, if it does not end, KILL, even if this process was killed or
stopped. Signals are passed on to it.

Exit code: the command's; 128+N when signal N ended it; 127 when there is no
such command, 126 when it cannot be run, 121 when it was ended because its
number was lost, 122 when --use-max is not the pool's, 1 when there is no
number, 2 for bad usage. Flags may have one dash, as yaraus has them, and go
before the command.";

const SERVE_EXAMPLES: &str = "\
Examples:
  nagaya ids serve --redis redis://localhost --name ids-1
  nagaya ids serve --worker-id 5 --listen 127.0.0.1:11212
  nagaya ids serve --redis redis://localhost --http-listen 127.0.0.1:7402

  printf 'get id\\r\\nquit\\r\\n' | curl -s telnet://127.0.0.1:11212
  curl http://127.0.0.1:7402/v1/ids

Ctrl-C or SIGTERM stops it and gives the number back.";

const STATS_EXAMPLES: &str = "\
Examples:
  nagaya ids stats
  nagaya ids stats --redis redis://localhost:6379/0?ns=yaraus --json";

const LIST_EXAMPLES: &str = "\
Examples:
  nagaya ids list
  nagaya ids list --redis redis://localhost:6379/0?ns=yaraus --json

The table has the reserved numbers, or all of them with --all; JSON always has
all of them.";

const RELEASE_EXAMPLES: &str = "\
Examples:
  nagaya ids release 17
  nagaya ids release 17 --forget-ceiling --redis redis://localhost

The holder, if there is one, is refused at its next renewal and stops. The next
one waits until that is certain, and makes ids above the times used with the
number. Forget those only if they came from a wrong clock and no
id with them was kept.";

const DECODE_EXAMPLES: &str = "\
Examples:
  nagaya ids decode 1456074443980820487
  nagaya ids decode 0x143503fe00005007 --json

Bits and epoch are those of the section [ids].";

const AUDIT_EXAMPLES: &str = "\
Examples:
  nagaya ids audit ids.txt              one id per line
  nagaya ids audit --field id app.log   what stands behind id= or \"id\":
  zcat *.log.gz | nagaya ids audit --log -

Exit code 0 when no id comes twice, none is from the future and every line
could be read, else 1. A list may be longer than memory.";

#[derive(Subcommand)]
pub(crate) enum IdsCommand {
    /// Make the pool of numbers, or change its range
    #[command(after_long_help = INIT_EXAMPLES)]
    Init(InitArgs),
    /// Run a command with a number that nobody else has
    #[command(after_long_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Serve ids over memcached, HTTP and gRPC, without the other services
    #[command(after_long_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Show the pool's counters and how many numbers are in use
    #[command(after_long_help = STATS_EXAMPLES)]
    Stats(StatsArgs),
    /// Show who has which number
    #[command(after_long_help = LIST_EXAMPLES)]
    List(ListArgs),
    /// Take a number from its holder
    #[command(after_long_help = RELEASE_EXAMPLES)]
    Release(ReleaseArgs),
    /// Tell when and by which worker ids were made
    #[command(after_long_help = DECODE_EXAMPLES)]
    Decode(DecodeArgs),
    /// Prove that no id comes twice in a list or log
    #[command(after_long_help = AUDIT_EXAMPLES)]
    Audit(AuditArgs),
}

/// Where the pool is.
#[derive(Args)]
pub(super) struct PoolArgs {
    /// The Redis with the pool [default: ids.redis, else the running server]
    #[arg(long, value_name = "URL", alias = "server")]
    pub(super) redis: Option<String>,
}

#[derive(Args)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    pub(super) pool: PoolArgs,
    /// The lowest number [default: 1, or as it is]
    #[arg(long, value_name = "N")]
    pub(super) min: Option<u64>,
    /// The highest number [default: 1023, or as it is]
    #[arg(long, value_name = "N")]
    pub(super) max: Option<u64>,
    /// Widen the range of a pool; its holders keep their numbers
    #[arg(long, conflicts_with = "shrink")]
    pub(super) grow: bool,
    /// Take numbers away that nobody has reserved
    #[arg(long)]
    pub(super) shrink: bool,
    /// Nobody uses these numbers: the first users need not wait
    #[arg(long, conflicts_with_all = ["grow", "shrink"])]
    pub(super) unused: bool,
    /// The longest use of a number in this pool [default: ids.use_max]
    #[arg(long, value_name = "TIME", value_parser = use_max)]
    pub(super) use_max: Option<Duration>,
    /// Give an idle pool the longest use that --use-max or the settings say
    #[arg(long, conflicts_with_all = ["grow", "shrink", "unused", "min", "max"])]
    pub(super) change_use_max: bool,
}

/// How a number is held.
#[derive(Args)]
pub(super) struct HolderArgs {
    /// Get the number back that this name had before
    #[arg(long)]
    pub(super) name: Option<String>,
    /// Keep state here, so that a restart need not wait
    #[arg(long, value_name = "DIR", requires = "name")]
    pub(super) state_dir: Option<PathBuf>,
    /// Replicas that must confirm grants and renewals [default: ids.min_replicas]
    #[arg(long, value_name = "N")]
    pub(super) min_replicas: Option<u32>,
    /// The longest use of a number in this pool [default: ids.use_max]
    #[arg(long, value_name = "TIME", value_parser = use_max)]
    pub(super) use_max: Option<Duration>,
    /// Renew this often [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) interval: Option<Duration>,
    /// Wait this long before using a number that was not ours
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) delay: Option<Duration>,
    /// Keep the number from others this long after each renewal [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) expire: Option<Duration>,
    /// Accept lengths of time that yaraus corrects
    #[arg(long, hide_short_help = true)]
    pub(super) i_am_a_database_removable_specialist: bool,
}

#[derive(Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(super) pool: PoolArgs,
    #[command(flatten)]
    pub(super) holder: HolderArgs,
    /// What is replaced by the number in the command's arguments
    #[arg(long, value_name = "TEXT", default_value = "{}")]
    pub(super) replacement: String,
    /// How long the command may take to end after TERM when its number is lost
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    pub(super) grace: Duration,
    /// How long what the command leaves behind may take to end after TERM
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(super) stop_timeout: Duration,
    /// Taken for yaraus's sake, which ignores it too
    #[arg(long, hide = true)]
    pub(super) min: Option<u64>,
    /// Taken for yaraus's sake, which ignores it too
    #[arg(long, hide = true)]
    pub(super) max: Option<u64>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    pub(super) command: Vec<OsString>,
}

#[derive(Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(super) pool: PoolArgs,
    #[command(flatten)]
    pub(super) holder: HolderArgs,
    /// Use this number, without a pool; see to it that nobody else does
    #[arg(long, value_name = "N", conflicts_with_all = ["redis", "name", "state_dir"])]
    pub(super) worker_id: Option<u64>,
    /// Serve memcached clients here [default: ids.listen]
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen)]
    pub(super) listen: Option<Listen>,
    /// Serve HTTP and gRPC here too
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen)]
    pub(super) http_listen: Option<Listen>,
    /// Let other machines in without credentials
    #[arg(long)]
    pub(super) insecure: bool,
}

#[derive(Args)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    pub(super) pool: PoolArgs,
    /// Print JSON with yaraus's names instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(super) pool: PoolArgs,
    /// Show the numbers that nobody has, too
    #[arg(long)]
    pub(super) all: bool,
    /// Print JSON with yaraus's names instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    pub(super) pool: PoolArgs,
    /// The number
    #[arg(value_name = "NUMBER")]
    pub(super) number: u64,
    /// Let the next ids carry times that were used already
    #[arg(long)]
    pub(super) forget_ceiling: bool,
}

#[derive(Args)]
pub(crate) struct DecodeArgs {
    /// Ids, decimal or hexadecimal after 0x
    #[arg(required = true, value_name = "ID")]
    pub(super) ids: Vec<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(crate) struct AuditArgs {
    /// A file with one id per line; - for standard input
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// Lines are those of a log: every long number that can be an id is one
    #[arg(long)]
    pub(super) log: bool,
    /// Lines are those of a log: ids stand behind this name
    #[arg(long, value_name = "NAME")]
    pub(super) field: Option<String>,
    /// Memory for sorting; what exceeds it goes to temporary files
    #[arg(long, value_name = "SIZE", default_value = "512mb", value_parser = size)]
    pub(super) memory: ByteSize,
    /// How many offenders of each kind are named
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(super) named: usize,
    /// Print JSON instead of text
    #[arg(long)]
    pub(super) json: bool,
}

fn duration(text: &str) -> Result<Duration, String> {
    read(text)
}

/// Reads a length that the setting of that name allows.
fn use_max(text: &str) -> Result<Duration, String> {
    let length = duration(text)?;
    if (USE_MAX_STANDARD..=USE_MAX_CAP).contains(&length) {
        Ok(length)
    } else {
        Err(format!(
            "must be between {USE_MAX_STANDARD:?} and {USE_MAX_CAP:?}"
        ))
    }
}

fn size(text: &str) -> Result<ByteSize, String> {
    read(text)
}

fn listen(text: &str) -> Result<Listen, String> {
    read(text)
}

/// Reads a flag as a setting of the same type is read.
fn read<T: Value>(text: &str) -> Result<T, String> {
    T::read(&Raw::Words(text.to_owned())).ok_or_else(|| format!("must be {}", T::KIND.replace('`', "")))
}
