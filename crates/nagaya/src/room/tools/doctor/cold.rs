//! The cold tier's file.

use indicatif::{ProgressBar, ProgressStyle};
use nagaya_cold::sqlite::{Options, Scope, SqliteCold};
use nagaya_cold::{OpenError, SchemaError};
use nagaya_tiering::cold::{ColdError, ColdTier};

use super::report::{Part, Remedy, Report};
use crate::room::tools::room_data::RoomData;
use crate::room::tools::size::{count, human};

/// Checks the file and returns how far it has the log, if it can be read.
pub(super) fn check(room_data: &RoomData, scope: Scope, report: &mut Report) -> Option<u64> {
    let path = room_data.cold_file();
    if !path.exists() {
        report.note(Part::Cold, "there is none yet; the next start makes it");
        return Some(0);
    }
    let cold = match SqliteCold::open_read_only(&path, Options::default()) {
        Ok(cold) => cold,
        Err(error) => {
            let remedy = match &error {
                OpenError::Schema(SchemaError::Older { .. }) => "start the server once",
                OpenError::Schema(SchemaError::Newer { .. }) => "use a newer program",
                OpenError::Schema(SchemaError::NotOurs { .. }) => "put the right file in its place",
                OpenError::Schema(SchemaError::Changed { .. } | SchemaError::Unknown { .. }) => {
                    "use the program that made it, or export there and load here"
                }
                OpenError::Schema(SchemaError::Failed { .. }) | OpenError::Failed { .. } => RESTORE,
            };
            report.find(Part::Cold, format!("{:#}", anyhow::Error::from(error)), remedy);
            return None;
        }
    };
    if let Err(error) = look(&cold, scope, report) {
        report.find(Part::Cold, format!("{:#}", anyhow::Error::from(error)), RESTORE);
    }
    nagaya_engine::checkpoint(&cold).ok()
}

const RESTORE: &str =
    "restore the folder from a backup, or save what can be read with `sqlite3 FILE .recover`";

fn look(cold: &SqliteCold, scope: Scope, report: &mut Report) -> Result<(), ColdError> {
    let bar = ProgressBar::no_length();
    if let Ok(style) = ProgressStyle::with_template("cold tier {bar:30} {pos} of {len} tags") {
        bar.set_style(style);
    }
    let findings = cold.check_with(scope, &mut |progress| {
        bar.set_length(progress.tags_total);
        bar.set_position(progress.tags_done);
    });
    bar.finish_and_clear();
    let findings = findings?;
    if findings.is_empty() {
        let totals = cold.totals()?;
        let words = format!(
            "{} of {}, {} on disk",
            count(totals.keys, "key"),
            count(totals.tags, "tag"),
            human(totals.disk_bytes)
        );
        report.note(Part::Cold, words);
    }
    for finding in findings {
        let counts = finding.remedy == nagaya_cold::sqlite::COUNT_ANEW;
        let (remedy, fix) = if counts {
            (format!("use --fix to {}", finding.remedy), Remedy::Recount)
        } else {
            (finding.remedy, Remedy::ByHand)
        };
        report.find_fixable(Part::Cold, finding.what, remedy, fix);
    }
    Ok(())
}
