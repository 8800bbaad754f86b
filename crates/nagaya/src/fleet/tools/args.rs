//! What can be typed under `nagaya fleet`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use nagaya_config::{Listen, Raw, Value};
use nagaya_fleet::name::{InstanceName, WorkerId};

use super::examples;

#[derive(Subcommand)]
pub(crate) enum FleetCommand {
    /// Keep the workers as an outside list says (any number of managers)
    #[command(after_long_help = examples::MANAGER)]
    Manager(ManagerArgs),
    /// Run the workers that this instance is given
    #[command(after_long_help = examples::AGENT)]
    Agent(AgentArgs),
    /// Show instances and workers: where, since when, and why there
    #[command(after_long_help = examples::LIST)]
    List(ListArgs),
    /// Show what a rebalance would do, with its proof, and change nothing
    #[command(after_long_help = examples::PLAN)]
    Plan(PlanArgs),
    /// Move a worker, or all that have to move for equal shares
    #[command(after_long_help = examples::RELOCATE)]
    Relocate(RelocateArgs),
    /// Empty an instance; it gets no more workers until that is taken back
    #[command(after_long_help = examples::DRAIN)]
    Drain(DrainArgs),
    /// Ask all workers, or one, a question
    #[command(after_long_help = examples::ASK)]
    Ask(AskArgs),
    /// Show what happened to the fleet
    #[command(after_long_help = examples::EVENTS)]
    Events(EventsArgs),
    /// Let the stops happen that the brake holds
    #[command(after_long_help = examples::CONFIRM)]
    Confirm(ConfirmArgs),
    /// Try to break the promises in virtual time, with your own settings
    #[command(after_long_help = examples::SIMULATE)]
    #[cfg(feature = "simulator")]
    Simulate(SimulateArgs),
}

/// Which fleet.
#[derive(Args)]
pub(in crate::fleet) struct StoreArgs {
    /// The Redis with the fleet [default: fleet.redis, else the running server]
    #[arg(long, value_name = "URL")]
    pub(in crate::fleet) redis: Option<String>,
    /// The app whose workers these are [default: fleet.app]
    #[arg(long, value_name = "NAME")]
    pub(in crate::fleet) app: Option<String>,
}

/// Lengths of time; what is not given comes from the settings.
#[derive(Args)]
pub(super) struct TimingArgs {
    /// How long workers run on after the last confirmed heartbeat [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) lease: Option<Duration>,
    /// How often a lease is renewed [default: a fifth of the lease]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) heartbeat: Option<Duration>,
    /// How long a worker may take to end [default: a fifth of the lease]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) grace: Option<Duration>,
    /// Silence after which an instance is dead [default: the least safe one]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) death: Option<Duration>,
    /// How often managers look [default: a tenth of the lease]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) poll: Option<Duration>,
    /// How far clock rates may be off, in millionths [default: 500]
    #[arg(long, value_name = "PPM")]
    pub(super) drift_ppm: Option<u64>,
}

#[derive(Args)]
pub(crate) struct ManagerArgs {
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// The outside list: https://, http://, file:PATH or exec:COMMAND
    #[arg(long)]
    pub(super) source: Option<String>,
    /// How often the list is read [default: 1m]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) source_interval: Option<Duration>,
    /// The manager's name [default: host name and process id]
    #[arg(long)]
    pub(super) name: Option<String>,
    /// Serve the API, the webhook and metrics here
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen)]
    pub(super) http_listen: Option<Listen>,
    /// Let other machines in without credentials
    #[arg(long)]
    pub(super) insecure: bool,
    /// Print a line of JSON with is_first_manager once it is ready
    #[arg(long)]
    pub(super) wait_ready: bool,
    #[command(flatten)]
    pub(super) timing: TimingArgs,
    /// Leave running workers where they are
    #[arg(long)]
    pub(super) no_rebalance: bool,
    /// Workers that may be on the move at once [default: 50]
    #[arg(long, value_name = "N")]
    pub(super) moves_at_once: Option<usize>,
    /// Workers of one group that may be in one zone
    #[arg(long, value_name = "N")]
    pub(super) per_zone_max: Option<u32>,
    /// Share of the workers that a list may stop unasked [default: 30]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(super) brake_percent: Option<u32>,
}

#[derive(Args)]
#[command(group = ArgGroup::new("runner").required(true))]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// The instance's name [default: the host's]
    #[arg(long)]
    pub(super) name: Option<InstanceName>,
    /// Run each worker as this command, {} being its id
    #[arg(long, value_name = "COMMAND", group = "runner")]
    pub(super) exec: Option<String>,
    /// Run workers by calling this URL/start, /renew, /update, /stop
    #[arg(long, value_name = "URL", group = "runner")]
    pub(super) http: Option<String>,
    /// Answer questions with this command, {key} being what is asked
    #[arg(long, value_name = "COMMAND", requires = "exec")]
    pub(super) request: Option<String>,
    /// Replace a worker that writes nothing for so long
    #[arg(long, value_name = "TIME", requires = "exec", value_parser = duration)]
    pub(super) progress_limit: Option<Duration>,
    /// Keep state here, so that a restart need not wait
    #[arg(long, value_name = "DIR")]
    pub(super) state_dir: Option<PathBuf>,
    /// Its share against other instances'
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) weight: u32,
    /// Workers it can take at most
    #[arg(long, value_name = "N")]
    pub(super) capacity: Option<u32>,
    /// The zone it is in
    #[arg(long)]
    pub(super) zone: Option<String>,
    /// A label it has (may be given several times)
    #[arg(long = "label", value_name = "LABEL")]
    pub(super) labels: Vec<String>,
    /// Replicas that must have a heartbeat for it to count
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) min_replicas: u32,
    /// Workers that may be starting at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) starts_at_once: u32,
    /// How long handing over may take at the end
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(super) leave_limit: Duration,
    #[command(flatten)]
    pub(super) timing: TimingArgs,
}

#[derive(Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// Workers of one group that may be in one zone
    #[arg(long, value_name = "N")]
    pub(super) per_zone_max: Option<u32>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
#[command(group = ArgGroup::new("which").required(true))]
pub(crate) struct RelocateArgs {
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// The worker to move
    #[arg(group = "which")]
    pub(super) worker: Option<WorkerId>,
    /// Move all that have to move for equal shares
    #[arg(long, group = "which")]
    pub(super) all: bool,
    /// Move it although its instance lives
    #[arg(long, conflicts_with = "all")]
    pub(super) force: bool,
    /// How all are moved
    #[arg(long, value_enum, default_value_t = PolicyName::Even, requires = "all")]
    pub(super) policy: PolicyName,
    /// Print JSON instead of words
    #[arg(long)]
    pub(super) json: bool,
}

/// Which way all workers are relocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PolicyName {
    /// Equal shares with the fewest moves
    Even,
    /// As document 000 describes it
    Seed,
    /// As the program that the document describes does it
    SeedCode,
}

#[derive(Args)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// The instance to empty
    pub(super) instance: InstanceName,
    /// Take it back: the instance gets workers again
    #[arg(long)]
    pub(super) off: bool,
    /// Print JSON instead of words
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(crate) struct AskArgs {
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// What is asked
    pub(super) key: String,
    /// Ask this worker only
    #[arg(long, value_name = "W")]
    pub(super) worker: Option<WorkerId>,
    /// How long to wait for answers
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(super) timeout: Duration,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(crate) struct EventsArgs {
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// Begin after this event instead of at the last ones
    #[arg(long, value_name = "ID")]
    pub(super) after: Option<String>,
    /// Show so many at most
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(super) count: usize,
    /// Go on showing what happens
    #[arg(long)]
    pub(super) follow: bool,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(crate) struct ConfirmArgs {
    #[command(flatten)]
    pub(super) store: StoreArgs,
    /// Confirm only these very stops, by the digest that was shown
    #[arg(long, value_name = "DIGEST")]
    pub(super) digest: Option<String>,
    /// Print JSON instead of words
    #[arg(long)]
    pub(super) json: bool,
}

#[cfg(feature = "simulator")]
#[derive(Args)]
pub(crate) struct SimulateArgs {
    /// Worlds to try
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(super) seeds: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub(super) first: u64,
    #[command(flatten)]
    pub(super) timing: TimingArgs,
    /// Instances in each world
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) agents: u32,
    /// Managers in each world
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub(super) managers: u32,
    /// Workers in each world
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) workers: u32,
    /// Faults in each world at most
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub(super) faults: u32,
    /// Accept lengths that cannot be kept, to see what they lead to
    #[arg(long)]
    pub(super) unsafe_timing: bool,
    /// Print JSON instead of text
    #[arg(long)]
    pub(super) json: bool,
}

fn duration(text: &str) -> Result<Duration, String> {
    read(text)
}

fn listen(text: &str) -> Result<Listen, String> {
    read(text)
}

/// Reads a flag as a setting of the same type is read.
fn read<T: Value>(text: &str) -> Result<T, String> {
    T::read(&Raw::Words(text.to_owned())).ok_or_else(|| format!("must be {}", T::KIND.replace('`', "")))
}
