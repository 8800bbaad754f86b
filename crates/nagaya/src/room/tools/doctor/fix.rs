//! Mending what a program can mend.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;
use nagaya_clock::{Clock, SystemClock};
use nagaya_wal::OsFiles;

use super::folder::others_can_read;
use super::report::{Remedy, Report};
use crate::room::tools::room_data::RoomData;
use crate::room::tools::size::count;
use crate::room::tools::stopped::Stopped;

/// Mends what the report found and says what was done.
pub(super) fn fix(room_data: &RoomData, stopped: &Stopped, report: &Report) -> anyhow::Result<Vec<String>> {
    let asked = |remedy: Remedy| report.findings.iter().any(|finding| finding.fix == remedy);
    let mut done = Vec::new();
    if asked(Remedy::MakePrivate) {
        for path in [room_data.data.clone(), room_data.folder()] {
            if others_can_read(&path) {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o700))
                    .with_context(|| format!("cannot change the rights of {}", path.display()))?;
                done.push(format!("made {} private", path.display()));
            }
        }
    }
    if asked(Remedy::Salvage) {
        done.push(salvage(room_data)?);
    }
    if asked(Remedy::Recount) {
        stopped.open()?.recount()?;
        done.push("counted the sizes of all tags anew".to_owned());
    }
    Ok(done)
}

/// Copies the log out of the room's folder, then cuts it before the damage.
fn salvage(room_data: &RoomData) -> anyhow::Result<String> {
    let (log, copy) = (
        room_data.log_folder(),
        room_data
            .data
            .join(format!("damaged-log-{}", SystemClock.unix_ms())),
    );
    copy_folder(&log, &copy).with_context(|| format!("cannot copy the log to {}", copy.display()))?;
    let salvaged = nagaya_wal::salvage(&log, &OsFiles)?;
    Ok(format!(
        "cut {} and {} off the log; what it was is in {}",
        count(salvaged.bytes_cut, "byte"),
        count(salvaged.removed.len() as u64, "whole file"),
        copy.display()
    ))
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    fs::File::open(to)?.sync_all()
}
