//! `nagaya room doctor`: looks at everything that can go wrong with the data, and says what to do.
//!
//! A folder that nobody uses is locked and read whole; what `--fix` can mend is mended, and then all of it
//! is looked at again. Beside a running house nothing is changed: the log is read, a sample of the cold
//! tier is checked, and the house is asked about its memory.

mod cold;
mod fix;
mod folder;
mod log;
mod memory;
mod report;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use nagaya_cold::sqlite::Scope;

use super::place::{Place, User};
use crate::cli::GlobalArgs;
use crate::terminal;
use report::Report;

/// Tags that are looked at while the house runs: a longer look would keep SQLite's own log from being
/// emptied.
const SAMPLE_TAGS: u64 = 10_000;

#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// The data folder [default: ./nagaya-data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Mend what can be mended; the house must not be running
    #[arg(long)]
    fix: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(super) fn doctor(global: &GlobalArgs, args: DoctorArgs) -> anyhow::Result<ExitCode> {
    let place = Place::new(global, args.data.clone())?;
    let report = match place.user()? {
        User::Nobody(stopped) => {
            let mut report = examine(&place, Scope::Whole);
            if args.fix && !report.is_clean() {
                let mended = fix::fix(&place, &stopped, &report)?;
                report = examine(&place, Scope::Whole);
                report.mended = mended;
            }
            report
        }
        User::House(_) if args.fix => {
            eprintln!("error: the house is running; stop it before --fix");
            return Ok(ExitCode::from(2));
        }
        User::House(holder) => {
            let mut report = examine(&place, Scope::Sample { tags: SAMPLE_TAGS });
            report.running = true;
            memory::check(&place, &holder, &mut report);
            report
        }
    };
    let text = if args.json {
        report.json()
    } else {
        report.text(terminal::stdout())
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(match report.is_clean() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Looks at all that is on disk.
fn examine(place: &Place, scope: Scope) -> Report {
    let mut report = Report::default();
    folder::check(place, &mut report);
    let checkpoint = cold::check(place, scope, &mut report);
    log::check(place, scope, checkpoint, &mut report);
    report
}
