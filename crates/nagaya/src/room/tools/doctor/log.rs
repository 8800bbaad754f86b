//! The write-ahead log.

use std::io;

use nagaya_cold::sqlite::Scope;
use nagaya_wal::{Inspection, OpenError, Position, ReadOnlyFiles};

use super::report::{Part, Remedy, Report};
use crate::room::tools::room_data::RoomData;
use crate::room::tools::size::{count, human};

/// Number of attempts to read a log of which the running server removes files.
const TRIES: usize = 5;

/// Reads the whole log. `checkpoint` is how far the cold tier has it, if that is known.
pub(super) fn check(room_data: &RoomData, scope: Scope, checkpoint: Option<u64>, report: &mut Report) {
    match inspect(room_data, checkpoint.unwrap_or(0)) {
        Ok(found) => judge(&found, scope, checkpoint, report),
        Err(OpenError::Version { path, found }) => report.find(
            Part::Log,
            format!(
                "{} has log format {found}, which this program does not know",
                path.display()
            ),
            "use the program that wrote it, or a newer one",
        ),
        Err(error) => report.find(
            Part::Log,
            error.to_string(),
            "look at the rights of the files and the health of the disk",
        ),
    }
}

fn inspect(room_data: &RoomData, checkpoint: u64) -> Result<Inspection, OpenError> {
    let folder = room_data.log_folder();
    let mut tries = 1;
    loop {
        match nagaya_wal::inspect(&folder, &ReadOnlyFiles, Position(checkpoint)) {
            Err(OpenError::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound && tries < TRIES =>
            {
                tries += 1;
            }
            done => return done,
        }
    }
}

fn judge(found: &Inspection, scope: Scope, checkpoint: Option<u64>, report: &mut Report) {
    let stopped = scope == Scope::Whole;
    if let Some(damage) = &found.damage {
        report.find_fixable(
            Part::Log,
            damage.to_string(),
            "restore the folder from a backup; or --fix copies the log and cuts it there, which loses the \
             writes after that place that were not saved to the cold tier",
            Remedy::Salvage,
        );
        return;
    }
    if let (Some(first), Some(checkpoint)) = (found.first, checkpoint)
        && first.0 > checkpoint
    {
        report.find(
            Part::Log,
            format!("the log begins at position {first}, the cold tier has only what is before {checkpoint}"),
            "files of the log are missing: restore the whole folder from one backup",
        );
        return;
    }
    let mut words = format!(
        "{}, {}",
        count(found.segments as u64, "segment"),
        human(found.bytes)
    );
    if stopped {
        words += &match found.records_after {
            0 => ", all of it saved".to_owned(),
            records => format!(", {} to be replayed at the next start", count(records, "record")),
        };
        if found.torn_bytes > 0 {
            words += &format!(
                "; the last {} were never acknowledged as safe and will be cut",
                count(found.torn_bytes, "byte")
            );
        }
    }
    report.note(Part::Log, words);
}
