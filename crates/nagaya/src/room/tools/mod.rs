//! `nagaya room`: the roles of a room on real engines, and tools for the data of one in this process.
//!
//! Each tool works beside a running server, which is found by the lock file of its data folder, and on a folder
//! that is not in use, which it locks. The write-ahead log is never left out: a running server is asked to save
//! first, a stopped folder's log is replayed as the next start would do.

mod client;
mod compare;
pub(crate) mod confirm;
mod copy;
mod doctor;
mod erase;
mod export;
mod export_rdb;
mod import;
mod moving;
mod room_data;
mod size;
mod stopped;

use std::process::ExitCode;

use clap::Subcommand;
use nagaya_config::Flag;

pub(crate) use export::line as export_line;

use crate::cli::GlobalArgs;
use crate::room::{distributed, redis_conf};

const EXPORT_EXAMPLES: &str = "\
Examples:
  nagaya room export > all.jsonl
  nagaya room export user:17 user:18 --output two.jsonl
  nagaya room export --payload --data /var/lib/nagaya | gzip > all.jsonl.gz
  nagaya room export --rdb dump.rdb

One line per key: tag, key, type, expires_at_ms, value. Bytes that are not
UTF-8 come as {\"base64\": \"...\"}. --payload adds what DUMP gives, in base64.
--rdb writes a file that redis-server loads, out of a running server.
Exit code 1 when a tag was not found or a value could not be read.";

const ERASE_EXAMPLES: &str = "\
Examples:
  nagaya room erase user:17            asks first
  nagaya room erase user:17 --yes      for scripts

Removes every key of the tag from memory and from disk. Beside a running server
its write-ahead log may hold earlier writes of the tag until it has moved on;
docs/room.md says for how long. Exit code 0 also when there was nothing.";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  nagaya room doctor
  nagaya room doctor --json | jq .findings
  nagaya room doctor --fix             the server must not be running

--fix cuts a damaged log before the damage, after copying it beside the log,
counts sizes anew and makes files private. Exit code 0 when all is well, 1 when
something was found.";

const IMPORT_EXAMPLES: &str = "\
Examples:
  nagaya room import dump.rdb --dry-run
  nagaya room import dump.rdb
  nagaya room import dump.rdb --keep         go on after a stop
  redis-cli -h old --rdb - | nagaya room import -

The whole file is checked first: nothing of a damaged one is imported, unless
--salvage is given. Keys past their time are left out. Exit code 1 when
anything else was.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  nagaya room compare redis://old:6379
  nagaya room compare dump.rdb redis://127.0.0.1:6380 --json
  nagaya room compare redis://old redis://new --sample 5

Both may be in use: a key that differs is looked at again. Exit code 0 when
equal, 1 when not.";

#[derive(Subcommand)]
pub(crate) enum RoomCommand {
    #[command(flatten)]
    Role(distributed::RoleArgs),
    /// Write keys and values as JSON lines
    #[command(after_long_help = EXPORT_EXAMPLES)]
    Export(export::ExportArgs),
    /// Bring in the keys of an RDB file of Redis or Valkey
    #[command(after_long_help = IMPORT_EXAMPLES)]
    Import(import::ImportArgs),
    /// Say whether two servers or RDB files hold the same
    #[command(after_long_help = COMPARE_EXAMPLES)]
    Compare(compare::CompareArgs),
    /// Remove a tag from memory and from disk
    #[command(after_long_help = ERASE_EXAMPLES)]
    Erase(erase::EraseArgs),
    /// Look for damage and say what to do about it
    #[command(after_long_help = DOCTOR_EXAMPLES)]
    Doctor(doctor::DoctorArgs),
}

/// Runs one of the tools.
pub(crate) fn run(global: &GlobalArgs, flags: Vec<Flag>, command: RoomCommand) -> anyhow::Result<ExitCode> {
    match command {
        RoomCommand::Role(args) => match args.redis_conf() {
            Some(words) => redis_conf::serve(global, flags, words),
            None => distributed::run(global, flags, args),
        },
        RoomCommand::Export(args) => export::export(global, args),
        RoomCommand::Import(args) => import::import(global, args),
        RoomCommand::Compare(args) => compare::compare(global, args),
        RoomCommand::Erase(args) => erase::erase(global, args),
        RoomCommand::Doctor(args) => doctor::doctor(global, args),
    }
}
