//! The state of an instance on its own disk: its token, the time up to which it made ids, and the longest use
//! time that it has seen in the pool.
//!
//! One file per name, locked for as long as the process lives, or, if children use its number, for
//! as long as any of them does: then they inherit the lock's descriptor. So the process that gets the
//! lock knows that the process whose token is in the file has ended. The file survives the process but
//! not a crash of the machine: it is not synced, and the boot id in it tells the two apart.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

const HEADER: &str = "nagaya-ids 1";
const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";
/// The longest file that is read, in bytes; the files written here have a few hundred.
const FILE_BYTES_MAX: usize = 4096;

/// Why a state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("{path} is locked: a process of the name {name:?}, or a child it left behind, still runs")]
    Busy { path: PathBuf, name: String },
    #[error("{path} cannot be used: {source}")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Which processes keep the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockScope {
    #[default]
    Process,
    /// Every child that is started from now on keeps it too, by whatever means it is started.
    ProcessAndChildren,
}

/// The state that a process has saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    pub token: String,
    pub number: u64,
    pub fence: u64,
    /// The highest time that was issued, in Unix milliseconds.
    pub last_ms: u64,
    boot: String,
    /// The longest use time that this name has ever seen in the pool, in milliseconds.
    pub use_max_ms: u64,
    /// How far the wall clock was ahead of the boot clock at most, in milliseconds, when a command had the
    /// number; 0 otherwise.
    pub offset_ms: u64,
}

/// The locked file of one name.
#[derive(Debug)]
pub struct StateDir {
    file: File,
    path: PathBuf,
    boot: String,
    previous: Option<Saved>,
}

impl StateDir {
    /// Locks the file of `name` in the pool `namespace`, making folder and file if needed.
    pub fn open(
        folder: &Path,
        namespace: &str,
        name: &str,
        scope: LockScope,
    ) -> Result<StateDir, StateError> {
        let path = folder.join(format!("{}.{}.lease", plain(namespace), plain(name)));
        let failed = |source: io::Error| StateError::Io {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(folder).map_err(failed)?;
        let inherited = match scope {
            LockScope::Process => OFlags::CLOEXEC,
            LockScope::ProcessAndChildren => OFlags::empty(),
        };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | inherited;
        let file = open(&path, flags, Mode::RUSR | Mode::WUSR).map_err(|error| failed(error.into()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => (),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let name = name.to_owned();
                return Err(StateError::Busy { path, name });
            }
            Err(error) => return Err(failed(error.into())),
        }
        let file = File::from(file);
        let mut bytes = vec![0; FILE_BYTES_MAX];
        let length = file.read_at(&mut bytes, 0).map_err(failed)?;
        let previous = parse(&String::from_utf8_lossy(&bytes[..length]));
        let boot = fs::read_to_string(BOOT_ID_FILE)
            .unwrap_or_default()
            .trim()
            .to_owned();
        Ok(StateDir {
            file,
            path,
            boot,
            previous,
        })
    }

    /// Returns what the last process of this name has saved. That process has ended.
    pub fn previous(&self) -> Option<&Saved> {
        self.previous.as_ref()
    }

    /// Returns whether the machine has not restarted since `saved` was written, so that nothing is missing
    /// in it.
    pub fn is_same_boot(&self, saved: &Saved) -> bool {
        !self.boot.is_empty() && saved.boot == self.boot
    }

    /// Begins to save the times of a grant in a pool with this longest use time.
    pub(crate) fn begin(
        &self,
        token: &str,
        (number, fence): (u64, u64),
        last_ms: u64,
        use_max: Duration,
    ) -> Result<StateFile, StateError> {
        let failed = |source| StateError::Io {
            path: self.path.clone(),
            source,
        };
        let seen_ms = self.previous.as_ref().map_or(0, |saved| saved.use_max_ms);
        let use_max_ms = u64::try_from(use_max.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let mut file = StateFile {
            file: self.file.try_clone().map_err(failed)?,
            saved: Saved {
                token: token.to_owned(),
                number,
                fence,
                last_ms: 0,
                boot: self.boot.clone(),
                use_max_ms: seen_ms.max(use_max_ms),
                offset_ms: 0,
            },
        };
        file.save_last(last_ms).map_err(failed)?;
        Ok(file)
    }
}

/// The file while a grant lasts.
#[derive(Debug)]
pub(crate) struct StateFile {
    file: File,
    saved: Saved,
}

impl StateFile {
    /// Notes how far the wall clock is ahead of the boot clock; the next save writes the greatest.
    pub(crate) fn note_offset(&mut self, offset_ms: u64) {
        self.saved.offset_ms = self.saved.offset_ms.max(offset_ms);
    }

    /// Writes a later time down; an earlier one is ignored.
    pub(crate) fn save_last(&mut self, last_ms: u64) -> io::Result<()> {
        self.saved.last_ms = self.saved.last_ms.max(last_ms);
        let Saved {
            token,
            number,
            fence,
            last_ms,
            boot,
            use_max_ms,
            offset_ms,
        } = &self.saved;
        // Numbers have a fixed width, so the text never gets shorter.
        let text = format!(
            "{HEADER}\ntoken {token:<32}\nnumber {number:020}\nfence {fence:020}\nlast {last_ms:020}\nboot {boot:<36}\n\
             use_max {use_max_ms:020}\noffset {offset_ms:020}\n"
        );
        self.file.write_all_at(text.as_bytes(), 0)
    }
}

fn parse(text: &str) -> Option<Saved> {
    let mut lines = text.lines();
    if lines.next()? != HEADER {
        return None;
    }
    let mut field = |name: &str| Some(lines.next()?.strip_prefix(name)?.trim().to_owned());
    let mut saved = Saved {
        token: field("token ")?,
        number: field("number ")?.parse().ok()?,
        fence: field("fence ")?.parse().ok()?,
        last_ms: field("last ")?.parse().ok()?,
        boot: field("boot ")?,
        use_max_ms: 0,
        offset_ms: 0,
    };
    // Files of earlier versions end here.
    let mut number = |name: &str| field(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    saved.use_max_ms = number("use_max ");
    saved.offset_ms = number("offset ");
    Some(saved)
}

/// Encodes a name for a file name: anything but plain letters and digits becomes hexadecimal.
fn plain(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            out.push(byte.into());
        } else {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path, namespace: &str, name: &str) -> Result<StateDir, StateError> {
        StateDir::open(folder, namespace, name, LockScope::Process)
    }

    #[test]
    fn what_is_saved_is_read_by_the_next_process() {
        let folder = tempfile::tempdir().unwrap();
        {
            let state = open(folder.path(), "ns", "a/b").unwrap();
            assert_eq!(state.previous(), None);
            let mut file = state.begin("0123", (7, 9), 1000, Duration::from_secs(8)).unwrap();
            file.note_offset(77);
            file.save_last(2000).unwrap();
            file.save_last(1500).unwrap();
        }
        let state = open(folder.path(), "ns", "a/b").unwrap();
        let saved = state.previous().unwrap();
        assert_eq!((saved.token.as_str(), saved.number, saved.fence), ("0123", 7, 9));
        assert_eq!(
            (saved.last_ms, saved.use_max_ms, saved.offset_ms),
            (2000, 8000, 77)
        );
        assert!(state.is_same_boot(saved));
        let other_boot = Saved {
            boot: "other".into(),
            ..saved.clone()
        };
        assert!(!state.is_same_boot(&other_boot));
    }

    #[test]
    fn the_longest_use_time_ever_seen_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        for (use_max, seen_ms) in [(8, 8000), (5, 8000), (9, 9000)] {
            let state = open(folder.path(), "ns", "a").unwrap();
            state
                .begin("0123", (7, 9), 1000, Duration::from_secs(use_max))
                .unwrap();
            drop(state);
            let state = open(folder.path(), "ns", "a").unwrap();
            assert_eq!(state.previous().unwrap().use_max_ms, seen_ms);
        }
    }

    #[test]
    fn a_file_of_an_earlier_version_is_read() {
        let text = "nagaya-ids 1\ntoken a\nnumber 7\nfence 9\nlast 5\nboot b\n";
        let saved = parse(text).unwrap();
        assert_eq!((saved.number, saved.use_max_ms, saved.offset_ms), (7, 0, 0));
    }

    #[test]
    fn a_name_in_use_is_refused_and_other_names_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let held = open(folder.path(), "ns", "a").unwrap();
        let again = open(folder.path(), "ns", "a");
        assert!(matches!(again, Err(StateError::Busy { .. })), "{again:?}");
        open(folder.path(), "ns", "b").unwrap();
        open(folder.path(), "ns2", "a").unwrap();
        drop(held);
        open(folder.path(), "ns", "a").unwrap();
    }

    #[test]
    fn a_child_that_was_left_behind_keeps_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let held = StateDir::open(folder.path(), "ns", "a", LockScope::ProcessAndChildren).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        drop(held);
        let again = open(folder.path(), "ns", "a");
        assert!(matches!(again, Err(StateError::Busy { .. })), "{again:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        open(folder.path(), "ns", "a").unwrap();
    }

    #[test]
    fn a_damaged_file_is_as_none() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "nagaya-ids 2\n", "nagaya-ids 1\ntoken a\nnumber x\n"] {
            fs::write(folder.path().join("ns.a.lease"), text).unwrap();
            let state = open(folder.path(), "ns", "a").unwrap();
            assert_eq!(state.previous(), None, "{text:?}");
        }
    }
}
