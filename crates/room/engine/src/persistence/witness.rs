//! The identity of an engine, which outlives a restart of the process if nothing acknowledged was lost.
//!
//! Clients that lease something from the engine (see `nagaya-ids`) compare the server's run with the one of their last
//! answer: under another run the data may be an older copy. A new run for every start is safe and makes each of them
//! wait. So the identity is kept across a start that can prove that the log holds every acknowledged record:
//!
//! - The folder has a file with the identity, made with it and never written again.
//! - Outside of the folder, in memory-backed storage, the *witness* has the boot of the machine, the device and inode of
//!   that file, the identity, and the position of the last acknowledged record.
//! - A record is handed to the system, then its position goes to the witness, then the answer leaves.
//!
//! The identity is kept if the witness is there, names this boot, this file and this identity, and the log reaches its
//! position. A folder that was restored has another file, or a shorter log; after a reboot the system may have lost what
//! it was handed, and the boot differs. A log that was refused a write voids the witness. In every other case a new
//! identity is written and synced, with a new witness, before the first answer.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

const IDENTITY_FILE: &str = "identity";
const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";
const HEADER: &str = "nagaya-witness 1";
/// The longest witness that is read, in bytes; those written here have some two hundred.
const WITNESS_BYTES_MAX: u64 = 1024;

/// Where witnesses are kept: gone after a reboot, but not with the process.
pub(super) const WITNESS_FOLDER: &str = "/dev/shm";

/// The witness of a running engine.
pub(super) struct Witness {
    path: PathBuf,
    file: File,
    /// Where the position stands in the file.
    at: u64,
    position: AtomicU64,
    /// Held over a write of twenty bytes; says whether the witness still counts.
    is_void: Mutex<bool>,
}

/// An identity and the witness for its next start.
pub(super) struct Identified {
    pub(super) identity: String,
    /// None if there is no place for one: the next start has a new identity.
    pub(super) witness: Option<Witness>,
}

/// Returns the identity of the engine whose log, read to its end, reaches `reached`.
pub(super) fn identify(folder: &Path, witness_folder: &Path, reached: u64) -> io::Result<Identified> {
    let boot = fs::read_to_string(BOOT_ID_FILE)
        .unwrap_or_default()
        .trim()
        .to_owned();
    if let Some((identity, path)) = proven(folder, witness_folder, &boot, reached) {
        let witness = Witness::create(&path, &boot, folder, &identity, reached).ok();
        return Ok(Identified { identity, witness });
    }
    let identity = nagaya_exec::server::random_id();
    write_identity(folder, &identity)?;
    let path = witness_path(folder, witness_folder)?;
    let witness = Witness::create(&path, &boot, folder, &identity, reached);
    let witness = witness.inspect_err(|error| {
        tracing::info!(%error, "no witness: leases of this engine wait after its next start");
    });
    Ok(Identified {
        identity,
        witness: witness.ok(),
    })
}

/// What a witness says of the last run, or a start finds in its folder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Claim {
    /// The boot of the machine.
    boot: String,
    /// Device and inode of the file with the identity.
    file: (u64, u64),
    identity: String,
    /// The end of the last acknowledged record; at a start, of the last that the log has.
    position: u64,
}

impl Claim {
    fn of(boot: &str, folder: &Path, identity: &str, position: u64) -> io::Result<Claim> {
        let file = fs::metadata(folder.join(IDENTITY_FILE))?;
        Ok(Claim {
            boot: boot.to_owned(),
            file: (file.dev(), file.ino()),
            identity: identity.to_owned(),
            position,
        })
    }

    /// Returns whether what a start found is what this witness saw, with nothing acknowledged missing.
    fn is_met_by(&self, found: &Claim) -> bool {
        let is_same = self.boot == found.boot && self.file == found.file && self.identity == found.identity;
        is_same && !self.boot.is_empty() && found.position >= self.position
    }

    /// The text before the position, which alone changes.
    fn head(&self) -> String {
        let (device, inode) = self.file;
        format!(
            "{HEADER}\nboot {}\nfile {device:x}:{inode:x}\nidentity {}\nposition ",
            self.boot, self.identity
        )
    }

    fn parse(text: &str) -> Option<Claim> {
        let mut lines = text.lines();
        if lines.next()? != HEADER {
            return None;
        }
        let mut field = |name: &str| lines.next()?.strip_prefix(name);
        let boot = field("boot ")?.to_owned();
        let (device, inode) = field("file ")?.split_once(':')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        Some(Claim {
            boot,
            file: (hex(device)?, hex(inode)?),
            identity: field("identity ")?.to_owned(),
            position: field("position ")?.parse().ok()?,
        })
    }
}

/// Returns the folder's identity and its witness if that proves that nothing acknowledged is missing.
fn proven(folder: &Path, witness_folder: &Path, boot: &str, reached: u64) -> Option<(String, PathBuf)> {
    let identity = fs::read_to_string(folder.join(IDENTITY_FILE))
        .ok()?
        .trim()
        .to_owned();
    let path = witness_path(folder, witness_folder).ok()?;
    let file = open_own(OpenOptions::new().read(true), &path).ok()?;
    let mut text = String::new();
    file.take(WITNESS_BYTES_MAX).read_to_string(&mut text).ok()?;
    let found = Claim::of(boot, folder, &identity, reached).ok()?;
    Claim::parse(&text)?.is_met_by(&found).then_some((identity, path))
}

fn witness_path(folder: &Path, witness_folder: &Path) -> io::Result<PathBuf> {
    let file = fs::metadata(folder.join(IDENTITY_FILE))?;
    Ok(witness_folder.join(format!("nagaya-witness-{:x}-{:x}", file.dev(), file.ino())))
}

/// Writes a new file with the identity; a crash leaves the old one or the new one.
fn write_identity(folder: &Path, identity: &str) -> io::Result<()> {
    let (path, made) = (folder.join(IDENTITY_FILE), folder.join("identity.new"));
    let mut file = File::create(&made)?;
    writeln!(file, "{identity}")?;
    file.sync_all()?;
    fs::rename(&made, &path)?;
    File::open(folder)?.sync_all()
}

/// Opens a file that is ours: the folder of witnesses is everybody's.
fn open_own(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = options.mode(0o600).custom_flags(no_follow).open(path)?;
    let found = file.metadata()?;
    let is_ours = found.is_file() && found.uid() == rustix::process::geteuid().as_raw();
    if is_ours {
        Ok(file)
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

impl Witness {
    fn create(path: &Path, boot: &str, folder: &Path, identity: &str, position: u64) -> io::Result<Witness> {
        let head = Claim::of(boot, folder, identity, position)?.head();
        let file = open_own(OpenOptions::new().write(true).create(true).truncate(false), path)?;
        let text = format!("{head}{position:020}\n");
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(text.len() as u64)?;
        Ok(Witness {
            path: path.to_owned(),
            file,
            at: head.len() as u64,
            position: AtomicU64::new(position),
            is_void: Mutex::new(false),
        })
    }

    /// Returns the last position that was witnessed.
    #[inline]
    pub(super) fn position(&self) -> u64 {
        self.position.load(Ordering::Acquire)
    }

    /// Witnesses that the records up to a position are in the system's hands and may be acknowledged.
    pub(super) fn reach(&self, position: u64) {
        let mut is_void = self.is_void.lock();
        if position <= self.position() {
            return;
        }
        let text = format!("{position:020}");
        if !*is_void && let Err(error) = self.file.write_all_at(text.as_bytes(), self.at) {
            tracing::warn!(%error, "witness not written: the next start has a new identity");
            *is_void = true;
            fs::remove_file(&self.path).ok();
        }
        self.position.store(position, Ordering::Release);
    }

    /// The next start has a new identity: the log may lack what was acknowledged.
    pub(super) fn void(&self) {
        let mut is_void = self.is_void.lock();
        if !*is_void {
            *is_void = true;
            // Overwritten first: a file that cannot be removed must not count.
            self.file.write_all_at(b"void", 0).ok();
            fs::remove_file(&self.path).ok();
        }
    }
}

#[cfg(test)]
#[path = "witness_model.rs"]
mod model;

#[cfg(test)]
mod tests {
    use nagaya_testkit::Folder;

    use super::*;

    struct Case {
        data: Folder,
        shm: Folder,
    }

    impl Case {
        fn new() -> Case {
            Case {
                data: Folder::new("identity"),
                shm: Folder::new("witness"),
            }
        }

        fn start(&self, reached: u64) -> Identified {
            identify(self.data.path(), self.shm.path(), reached).unwrap()
        }

        fn witness(&self) -> PathBuf {
            witness_path(self.data.path(), self.shm.path()).unwrap()
        }
    }

    #[test]
    fn it_is_kept_if_the_log_reaches_what_was_acknowledged() {
        let case = Case::new();
        let first = case.start(0);
        first.witness.as_ref().unwrap().reach(70);
        first.witness.as_ref().unwrap().reach(50);
        for reached in [70, 90] {
            let next = case.start(reached);
            assert_eq!(next.identity, first.identity);
            assert_eq!(next.witness.unwrap().position(), reached);
        }
        assert_ne!(case.start(89).identity, first.identity, "a record is missing");
    }

    #[test]
    fn it_is_new_without_its_witness_or_after_a_reboot() {
        let case = Case::new();
        let first = case.start(5).identity;
        fs::remove_file(case.witness()).unwrap();
        let second = case.start(5).identity;
        assert_ne!(second, first);
        let text = fs::read_to_string(case.witness()).unwrap();
        let boot = fs::read_to_string(BOOT_ID_FILE).unwrap();
        let other = text.replace(boot.trim(), "00000000-0000-0000-0000-000000000000");
        fs::write(case.witness(), other).unwrap();
        assert_ne!(case.start(5).identity, second);
    }

    #[test]
    fn a_restored_folder_has_a_new_one_even_in_its_old_place() {
        let case = Case::new();
        let first = case.start(5).identity;
        let file = case.data.path().join(IDENTITY_FILE);
        let copy = case.data.path().join("copy");
        fs::copy(&file, &copy).unwrap();
        fs::rename(&copy, &file).unwrap();
        assert_ne!(case.start(5).identity, first, "another file with the same text");
    }

    #[test]
    fn a_void_witness_proves_nothing() {
        let case = Case::new();
        let first = case.start(5);
        let witness = first.witness.unwrap();
        witness.void();
        witness.reach(9);
        assert_ne!(case.start(9).identity, first.identity);
    }

    #[test]
    fn a_link_in_the_place_of_a_witness_is_not_followed() {
        let case = Case::new();
        let first = case.start(5).identity;
        let (path, away) = (case.witness(), case.shm.path().join("away"));
        fs::rename(&path, &away).unwrap();
        std::os::unix::fs::symlink(&away, &path).unwrap();
        assert_ne!(case.start(5).identity, first);
    }
}
