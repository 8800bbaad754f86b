//! The command line: what may be typed, and what each command calls.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, CommandFactory, Parser, Subcommand};
use nagaya_config::Flag;

use crate::app::{terminal, up};
use crate::jobs::{self, tools::JobsCommand};
use crate::room::{self, tools::RoomCommand};
use crate::{config_command, demo, fanout, fleet, ids, status, token};

const EXAMPLES: &str = "\
Examples:
  nagaya                               start the server on its default ports
  nagaya up --data /var/lib/nagaya     keep the data elsewhere
  nagaya --config nagaya.toml up       take settings from a file
  nagaya config show                   what is in force, and where it comes from
  nagaya status --watch                the state of the server, kept up to date
  nagaya demo                          load to look at, for 100 seconds
  nagaya room export > all.jsonl       every key and value as JSON

Settings come from the defaults, the file given by --config or NAGAYA_CONFIG,
the environment (NAGAYA_SECTION__KEY) and flags; the later one wins.

Exit codes: 0 done, 1 failed, 2 bad usage.";

const UP_EXAMPLES: &str = "\
Examples:
  nagaya up
  nagaya up --data /var/lib/nagaya --http-listen 127.0.0.1:8080
  nagaya up --set house.drain_timeout=30s --log-format json

Ctrl-C or SIGTERM stops it: open requests finish first. A second one ends it
at once.";

/// A Redis that keeps cold data on disk, jobs, fan-out, ids and workers in one server.
#[derive(Parser)]
#[command(
    name = "nagaya",
    version,
    max_term_width = 79,
    after_long_help = EXAMPLES
)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Args, Clone)]
pub(crate) struct GlobalArgs {
    /// Read settings from this TOML file [default: $NAGAYA_CONFIG]
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// What to log: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", global = true)]
    log_level: Option<String>,
    /// How to log: text or json
    #[arg(long, value_name = "FORMAT", global = true)]
    log_format: Option<String>,
}

#[derive(Subcommand)]
enum Command {
    /// Start the server (what plain `nagaya` does too)
    #[command(after_long_help = UP_EXAMPLES)]
    Up(SettingArgs),
    /// Lease numbers that nobody else holds, and make ids of them
    #[command(subcommand)]
    Ids(ids::IdsCommand),
    /// Keep workers running, each on exactly one instance
    #[command(subcommand)]
    Fleet(fleet::FleetCommand),
    /// Send each request to many endpoints and keep all answers
    #[command(subcommand)]
    Fanout(fanout::FanoutCommand),
    /// Show or check the settings
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Show the state of a running server
    #[command(after_long_help = status::EXAMPLES)]
    Status(status::StatusArgs),
    /// Serve the room from real engines, or look after its data
    #[command(subcommand)]
    Room(RoomCommand),
    /// Register jobs, watch them, work on them
    #[command(subcommand)]
    Jobs(JobsCommand),
    /// Put a running server under load, and show what it does
    #[command(after_long_help = demo::EXAMPLES)]
    Demo(demo::DemoArgs),
    /// Hand out tokens, list and revoke them
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Ends the processes of a supervisor that cannot do it in time
    #[command(hide = true)]
    Leash,
    /// Write a completion script for a shell
    Completions {
        /// The shell to write it for
        shell: clap_complete::Shell,
    },
    /// Write a manual page for each command into a folder
    Man {
        /// The folder, which must exist
        folder: PathBuf,
    },
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Print every setting with its value and origin
    Show {
        /// Print JSON instead of TOML
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        settings: SettingArgs,
    },
    /// Check the settings and change nothing
    Check {
        #[command(flatten)]
        settings: SettingArgs,
    },
}

/// Flags that stand for settings, taken by `up` and by `config`, which shows their effect.
#[derive(Args, Default)]
struct SettingArgs {
    /// Keep data in this folder [default: ./nagaya-data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Serve HTTP here [default: 127.0.0.1:7400]
    #[arg(long, value_name = "ADDR:PORT")]
    http_listen: Option<String>,
    /// Serve Redis clients here [default: 127.0.0.1:6380]
    #[arg(long, value_name = "ADDR:PORT")]
    room_listen: Option<String>,
    /// Serve ids to memcached clients here [default: 127.0.0.1:11212]
    #[arg(long, value_name = "ADDR:PORT")]
    ids_listen: Option<String>,
    /// Keep what is in use in this Redis [default: in this process]
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// Keep what rests in this PostgreSQL [default: in the data folder]
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// Take requests to fan out here [default: 127.0.0.1:7401]
    #[arg(long, value_name = "ADDR:PORT")]
    fanout_listen: Option<String>,
    /// Let other machines in without credentials
    #[arg(long)]
    insecure: bool,
    /// Set any setting (may be given several times)
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
}

/// Runs the command that was typed and returns its exit code.
pub fn run() -> ExitCode {
    let words = ids::accept_single_dashes(std::env::args_os().collect(), &Cli::command());
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => {
            // Nothing is left to tell a terminal that is gone.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match dispatch(cli) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let label = terminal::stderr().red("error:");
            eprintln!("{label} {error:#}");
            let usage = error
                .downcast_ref::<nagaya_config::Error>()
                .is_some_and(|error| error.is_usage());
            ExitCode::from(if usage { 2 } else { 1 })
        }
    }
}

/// The whole command line as clap knows it, for tests of the help texts.
pub fn command_line() -> clap::Command {
    Cli::command()
}

fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    let global = cli.global;
    match cli.command.unwrap_or_else(|| Command::Up(SettingArgs::default())) {
        Command::Up(settings) => up::up(&global, settings.flags(&global)),
        Command::Ids(command) => ids::run(&global, SettingArgs::default().flags(&global), command),
        Command::Fleet(command) => fleet::run(&global, SettingArgs::default().flags(&global), command),
        Command::Fanout(command) => fanout::run(&global, SettingArgs::default().flags(&global), command),
        Command::Config(ConfigCommand::Show { json, settings }) => {
            config_command::show(&global, settings.flags(&global), json)
        }
        Command::Config(ConfigCommand::Check { settings }) => {
            config_command::check(&global, settings.flags(&global))
        }
        Command::Status(args) => status::status(&global, SettingArgs::default().flags(&global), args),
        Command::Room(command) => room::tools::run(&global, SettingArgs::default().flags(&global), command),
        Command::Jobs(command) => jobs::tools::run(&global, SettingArgs::default().flags(&global), command),
        Command::Demo(args) => demo::run(&global, SettingArgs::default().flags(&global), args),
        Command::Token(command) => token::run(&global, SettingArgs::default().flags(&global), command),
        Command::Leash => {
            nagaya_leash::watch()?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "nagaya", &mut script);
            io::stdout().write_all(&script)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { folder } => {
            // Not generated: pages for `help help` and the like say nothing.
            let command = Cli::command().disable_help_subcommand(true);
            clap_mangen::generate_to(command, &folder)
                .with_context(|| format!("cannot write into the folder {}", folder.display()))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

impl SettingArgs {
    /// The flags as settings, in the order in which they override each other: a flag of
    /// its own says more than `--set` and wins.
    fn flags(self, global: &GlobalArgs) -> Vec<Flag> {
        let flag = |name: &str, key: &str, value: String| Flag {
            name: name.to_owned(),
            key: key.to_owned(),
            value,
        };
        let mut flags: Vec<Flag> = self
            .set
            .into_iter()
            .map(|(key, value)| flag("--set", &key, value))
            .collect();
        let insecure = self.insecure.then(|| "true".to_owned());
        let own = [
            ("--data", "house.data", self.data),
            ("--insecure", "house.insecure", insecure),
            ("--redis", "house.redis", self.redis),
            ("--postgres", "house.postgres", self.postgres),
            ("--http-listen", "http.listen", self.http_listen),
            ("--room-listen", "room.listen", self.room_listen),
            ("--ids-listen", "ids.listen", self.ids_listen),
            ("--fanout-listen", "fanout.listen", self.fanout_listen),
            ("--log-level", "telemetry.log_level", global.log_level.clone()),
            ("--log-format", "telemetry.log_format", global.log_format.clone()),
        ];
        flags.extend(
            own.into_iter()
                .filter_map(|(name, key, value)| Some(flag(name, key, value?))),
        );
        flags
    }
}

pub(crate) fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("must look like section.key=value".to_owned()),
    }
}

/// Whether the reader of our output went away, as in `nagaya config show | head -1`.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
