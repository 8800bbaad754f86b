//! The files: permissions, unknown files, and free disk space.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::report::{Part, Remedy, Report};
use crate::room::embedded::{COLD_FILE, LOG_FOLDER, USERS_FILE};
use crate::room::tools::room_data::RoomData;
use crate::room::tools::size::human;

/// Free space below which saving may soon fail: this many bytes, or this fraction of the disk.
const FREE_BYTES_MIN: u64 = 512 << 20;
const FREE_PART: u64 = 50;

pub(super) fn check(room_data: &RoomData, report: &mut Report) {
    rights(room_data, report);
    strangers(room_data, report);
    space(room_data, report);
}

fn rights(room_data: &RoomData, report: &mut Report) {
    let open = [room_data.data.clone(), room_data.folder()];
    let mut private = true;
    for path in open.iter().filter(|path| others_can_read(path)) {
        private = false;
        report.find_fixable(
            Part::Folder,
            format!("other users can read {}", path.display()),
            format!("--fix makes it private, as does: chmod 700 {}", path.display()),
            Remedy::MakePrivate,
        );
    }
    if private {
        report.note(Part::Folder, format!("{} is private", room_data.data.display()));
    }
}

/// Returns whether users other than the owner may enter a folder. A private folder protects its contents.
pub(super) fn others_can_read(path: &Path) -> bool {
    let mode = path.metadata().map_or(0, |file| file.permissions().mode());
    let above = path.parent().and_then(|parent| parent.metadata().ok());
    let covered = above.is_some_and(|parent| parent.permissions().mode() & 0o077 == 0);
    mode & 0o077 != 0 && !covered
}

fn strangers(room_data: &RoomData, report: &mut Report) {
    let known = |name: &str| {
        name == LOG_FOLDER
            || name == USERS_FILE
            || [COLD_FILE.to_owned(), wal(), shm()]
                .iter()
                .any(|known| known == name)
    };
    let in_log = |name: &str| name.ends_with(".wal");
    for (folder, known) in [
        (room_data.folder(), &known as &dyn Fn(&str) -> bool),
        (room_data.log_folder(), &in_log),
    ] {
        let names = folder.read_dir().into_iter().flatten().flatten();
        for name in names.map(|entry| entry.file_name().to_string_lossy().into_owned()) {
            if !known(&name) {
                report.find(
                    Part::Folder,
                    format!("{} belongs to nothing", folder.join(&name).display()),
                    "move it elsewhere, or remove it if nobody needs it",
                );
            }
        }
    }
}

fn wal() -> String {
    format!("{COLD_FILE}-wal")
}

fn shm() -> String {
    format!("{COLD_FILE}-shm")
}

fn space(room_data: &RoomData, report: &mut Report) {
    let Ok(disk) = rustix::fs::statvfs(&room_data.data) else {
        report.find(
            Part::Disk,
            "the free space cannot be told",
            "look at the disk's health",
        );
        return;
    };
    let (free, total) = (disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize);
    let words = format!("{} of {} are free", human(free), human(total));
    if free < FREE_BYTES_MIN && free < total / FREE_PART * 5 || free < total / FREE_PART {
        report.find(
            Part::Disk,
            words,
            "make room: when the disk is full, writes are refused until there is some",
        );
    } else {
        report.note(Part::Disk, words);
    }
}
