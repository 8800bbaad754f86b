//! `nagaya room doctor`: looks at everything that can go wrong with the data, and says what to do.
//!
//! A folder that is not in use is locked and read in full; `--fix` repairs what it can and checks everything
//! again. Beside a running server nothing is changed: the log is read, a sample of the cold tier is checked,
//! and the server is asked about its memory. A room on Redis and PostgreSQL has no folder; its servers are
//! asked instead.

mod cold;
mod fix;
mod folder;
mod log;
mod memory;
mod report;
mod tiered;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use nagaya_cold::sqlite::Scope;
use nagaya_config::Flag;

use super::room_data::{DataUse, RoomData};
use crate::app::settings::{self, Settings};
use crate::app::terminal;
use crate::cli::GlobalArgs;
use crate::room::distributed::Backends;
use report::Report;

/// Tags that are looked at while the server runs: a longer look would keep SQLite's own log from being emptied.
const SAMPLE_TAGS: u64 = 10_000;

#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// The data folder [default: ./nagaya-data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Look at a room on this Redis, Sentinel or Cluster instead
    #[arg(long, value_name = "URL", requires = "postgres")]
    redis: Option<String>,
    /// The PostgreSQL of that room
    #[arg(long, value_name = "URL", requires = "redis")]
    postgres: Option<String>,
    /// Repair what can be repaired; the server must not be running
    #[arg(long)]
    fix: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(super) fn doctor(global: &GlobalArgs, args: DoctorArgs) -> anyhow::Result<ExitCode> {
    let report = match tiers_of(global, &args)? {
        Some(_) if args.fix => {
            eprintln!("error: --fix mends a data folder; this room is on Redis and PostgreSQL");
            return Ok(ExitCode::from(2));
        }
        Some(backends) => tiered::examine(&backends)?,
        None => match of_folder(global, &args)? {
            Some(report) => report,
            None => {
                eprintln!("error: the server is running; stop it before --fix");
                return Ok(ExitCode::from(2));
            }
        },
    };
    let text = if args.json {
        report.json()
    } else {
        report.text(terminal::stdout())
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(if report.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The servers that the flags or the settings name; none when the room is in a folder.
fn tiers_of(global: &GlobalArgs, args: &DoctorArgs) -> anyhow::Result<Option<Backends>> {
    let flag = |name: &str, key: &str, value: &Option<String>| {
        value.clone().map(|value| Flag {
            name: name.to_owned(),
            key: key.to_owned(),
            value,
        })
    };
    let flags = [
        flag("--redis", "house.redis", &args.redis),
        flag("--postgres", "house.postgres", &args.postgres),
    ];
    let loaded = settings::load(global, flags.into_iter().flatten().collect())?;
    Backends::of(&Settings::new(&loaded)?)
}

/// Looks at a data folder; nothing when it is to be mended and cannot be, because it is in use.
fn of_folder(global: &GlobalArgs, args: &DoctorArgs) -> anyhow::Result<Option<Report>> {
    let room_data = RoomData::new(global, args.data.clone())?;
    let report = match room_data.user()? {
        DataUse::Stopped(stopped) => {
            let mut report = examine(&room_data, Scope::Whole);
            if args.fix && !report.is_clean() {
                let mended = fix::fix(&room_data, &stopped, &report)?;
                report = examine(&room_data, Scope::Whole);
                report.mended = mended;
            }
            report
        }
        DataUse::Running(_) if args.fix => return Ok(None),
        DataUse::Running(holder) => {
            let mut report = examine(&room_data, Scope::Sample { tags: SAMPLE_TAGS });
            report.running = true;
            memory::check(&room_data, &holder, &mut report);
            report
        }
    };
    Ok(Some(report))
}

/// Looks at all that is on disk.
fn examine(room_data: &RoomData, scope: Scope) -> Report {
    let mut report = Report::default();
    folder::check(room_data, &mut report);
    let checkpoint = cold::check(room_data, scope, &mut report);
    log::check(room_data, scope, checkpoint, &mut report);
    report
}
