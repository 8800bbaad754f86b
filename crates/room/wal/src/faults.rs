//! A disk in memory that forgets, fills up and fails on demand, for tests.
//!
//! It keeps two versions of every file and of every folder: what the process sees, and what
//! the disk has. A sync makes them equal. [`FaultyFiles::crash`] is a power cut: of what was
//! not synced, some survives, whole, cut short or in pieces in any order, and names that were
//! made or removed without a sync of the folder may or may not have been. What survives
//! depends on the seed and on what was done, so a failing run can be repeated.
//!
//! A failed sync behaves as Linux does: the process still sees its bytes, some of them
//! never reach the disk, and the next sync succeeds without a word about them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::files::{File, Files};

/// Unsynced bytes survive or vanish in pieces of this size, as pages do on a real disk.
const PIECE_BYTES: usize = 64;

/// The disk. Clones are the same disk.
#[derive(Clone)]
pub struct FaultyFiles {
    disk: Arc<Mutex<Disk>>,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    held: Mutex<bool>,
    opened: Condvar,
}

struct Disk {
    random: u64,
    /// Which process runs; those before it are dead.
    process: u64,
    /// Files by number, named by the two maps or by nobody any more.
    files: Vec<Content>,
    names: BTreeMap<PathBuf, usize>,
    safe_names: BTreeMap<PathBuf, usize>,
    capacity: Option<u64>,
    write_bytes_max: Option<usize>,
    failing_sync: Option<u64>,
    syncs: u64,
}

#[derive(Default)]
struct Content {
    seen: Vec<u8>,
    safe: Vec<u8>,
    unsynced: Vec<Change>,
}

enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

impl FaultyFiles {
    pub fn new(seed: u64) -> Self {
        let disk = Disk {
            random: seed,
            process: 0,
            files: Vec::new(),
            names: BTreeMap::new(),
            safe_names: BTreeMap::new(),
            capacity: None,
            write_bytes_max: None,
            failing_sync: None,
            syncs: 0,
        };
        Self {
            disk: Arc::new(Mutex::new(disk)),
            gate: Arc::default(),
        }
    }

    /// Returns the disk for the process that runs now: after a crash or restart, everything asked
    /// through it fails.
    pub fn process(&self) -> Arc<dyn Files> {
        let number = self.disk.lock().process;
        Arc::new(Process {
            files: self.clone(),
            number,
        })
    }

    /// Cuts the power: open files are dead, faults are lifted, and only what the disk has is left.
    pub fn crash(&self) {
        let mut disk = self.disk.lock();
        disk.restart();
        let paths: BTreeSet<PathBuf> = disk.names.keys().chain(disk.safe_names.keys()).cloned().collect();
        for path in paths {
            let (seen, safe) = (
                disk.names.get(&path).copied(),
                disk.safe_names.get(&path).copied(),
            );
            let kept = if disk.chance(2) { seen } else { safe };
            match kept {
                Some(number) => disk.safe_names.insert(path, number),
                None => disk.safe_names.remove(&path),
            };
        }
        disk.names = disk.safe_names.clone();
        for number in 0..disk.files.len() {
            disk.lose_unsynced(number);
            let content = &mut disk.files[number];
            content.seen = content.safe.clone();
        }
    }

    /// Kills the process: open files are dead and faults are lifted, but the system still has
    /// every byte it was given.
    pub fn restart(&self) {
        self.disk.lock().restart();
    }

    /// Lets the files take this much more than they have now; `None` is without limit.
    pub fn limit_space(&self, more: Option<u64>) {
        let mut disk = self.disk.lock();
        disk.capacity = more.map(|more| disk.used() + more);
    }

    /// Makes the sync that comes after `others` further ones fail with an I/O error.
    pub fn fail_sync_after(&self, others: u64) {
        self.disk.lock().failing_sync = Some(others);
    }

    /// Makes each write take at most this many bytes.
    pub fn limit_writes(&self, bytes: Option<usize>) {
        self.disk.lock().write_bytes_max = bytes;
    }

    /// Makes syncs of files wait until [`FaultyFiles::let_syncs_go`].
    pub fn hold_syncs(&self) {
        *self.gate.held.lock() = true;
    }

    pub fn let_syncs_go(&self) {
        *self.gate.held.lock() = false;
        self.gate.opened.notify_all();
    }

    /// Returns how many syncs of files were begun.
    pub fn syncs(&self) -> u64 {
        self.disk.lock().syncs
    }

    /// Returns what the process sees in a file; `None` if there is none.
    pub fn contents(&self, path: &Path) -> Vec<u8> {
        let disk = self.disk.lock();
        disk.names
            .get(path)
            .map_or(Vec::new(), |number| disk.files[*number].seen.clone())
    }

    /// Puts a file there, on the disk as well, as if it had always been so.
    pub fn set_contents(&self, path: &Path, bytes: &[u8]) {
        let mut disk = self.disk.lock();
        let content = Content {
            seen: bytes.to_vec(),
            safe: bytes.to_vec(),
            unsynced: Vec::new(),
        };
        disk.files.push(content);
        let number = disk.files.len() - 1;
        disk.names.insert(path.to_owned(), number);
        disk.safe_names.insert(path.to_owned(), number);
    }

    /// Returns every file that the process sees.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.disk.lock().names.keys().cloned().collect()
    }

    fn with<T>(&self, process: u64, act: impl FnOnce(&mut Disk) -> io::Result<T>) -> io::Result<T> {
        let mut disk = self.disk.lock();
        if disk.process != process {
            return Err(io::Error::other("the process that asks is gone"));
        }
        act(&mut disk)
    }
}

impl Disk {
    fn restart(&mut self) {
        self.process += 1;
        self.capacity = None;
        self.write_bytes_max = None;
        self.failing_sync = None;
    }

    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next_random() % limit as u64) as usize
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    fn used(&self) -> u64 {
        self.names
            .values()
            .map(|number| self.files[*number].seen.len() as u64)
            .sum()
    }

    /// Settles what of a file's unsynced changes the disk has got.
    fn lose_unsynced(&mut self, number: usize) {
        let changes = std::mem::take(&mut self.files[number].unsynced);
        let mut safe = std::mem::take(&mut self.files[number].safe);
        for change in changes {
            match change {
                Change::Truncate(size) if self.chance(2) => safe.resize(size, 0),
                Change::Truncate(_) => (),
                Change::Write { offset, bytes } => self.lose_write(&mut safe, offset, &bytes),
            }
        }
        self.files[number].safe = safe;
    }

    fn lose_write(&mut self, safe: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
        match self.below(4) {
            0 => (),
            1 => put(safe, offset, bytes),
            2 => {
                let cut = self.below(bytes.len() + 1);
                put(safe, offset, &bytes[..cut]);
            }
            _ => {
                for (index, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
                    if self.chance(2) {
                        put(safe, offset + index * PIECE_BYTES, piece);
                    }
                }
            }
        }
    }
}

fn put(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if content.len() < offset + bytes.len() {
        content.resize(offset + bytes.len(), 0);
    }
    content[offset..offset + bytes.len()].copy_from_slice(bytes);
}

/// The disk as one process sees it; see [`FaultyFiles::process`].
struct Process {
    files: FaultyFiles,
    number: u64,
}

impl Process {
    fn with<T>(&self, act: impl FnOnce(&mut Disk) -> io::Result<T>) -> io::Result<T> {
        self.files.with(self.number, act)
    }

    fn handle(&self, number: usize) -> Box<dyn File> {
        Box::new(FaultyFile {
            files: self.files.clone(),
            number,
            process: self.number,
        })
    }
}

impl Files for Process {
    /// Folders are always there.
    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        self.with(|_| Ok(()))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.with(|disk| {
            let inside = disk.names.keys().filter(|path| path.parent() == Some(dir));
            let names = inside.filter_map(|path| path.file_name());
            Ok(names.map(|name| name.to_string_lossy().into_owned()).collect())
        })
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.with(|disk| {
            if disk.names.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            disk.files.push(Content::default());
            let number = disk.files.len() - 1;
            disk.names.insert(path.to_owned(), number);
            Ok(self.handle(number))
        })
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.with(|disk| {
            let number = *disk.names.get(path).ok_or(io::ErrorKind::NotFound)?;
            Ok(self.handle(number))
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.with(|disk| {
            disk.names
                .remove(path)
                .map(|_| ())
                .ok_or(io::ErrorKind::NotFound.into())
        })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.with(|disk| {
            let inside = |path: &PathBuf| path.parent() == Some(dir);
            disk.safe_names.retain(|path, _| !inside(path));
            let names = disk.names.iter().filter(|(path, _)| inside(path));
            disk.safe_names
                .extend(names.map(|(path, number)| (path.clone(), *number)));
            Ok(())
        })
    }
}

struct FaultyFile {
    files: FaultyFiles,
    number: usize,
    process: u64,
}

impl FaultyFile {
    fn with<T>(&self, act: impl FnOnce(&mut Disk) -> io::Result<T>) -> io::Result<T> {
        self.files.with(self.process, act)
    }
}

impl File for FaultyFile {
    fn size(&self) -> io::Result<u64> {
        self.with(|disk| Ok(disk.files[self.number].seen.len() as u64))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.with(|disk| {
            let seen = &disk.files[self.number].seen;
            let from = (offset as usize).min(seen.len());
            let count = buffer.len().min(seen.len() - from);
            buffer[..count].copy_from_slice(&seen[from..from + count]);
            Ok(count)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.with(|disk| {
            let mut count = bytes.len().min(disk.write_bytes_max.unwrap_or(usize::MAX));
            let size = disk.files[self.number].seen.len();
            if let Some(capacity) = disk.capacity {
                let room = size as u64 + capacity.saturating_sub(disk.used());
                count = count.min(room.saturating_sub(offset) as usize);
                if count == 0 {
                    return Err(io::ErrorKind::StorageFull.into());
                }
            }
            let content = &mut disk.files[self.number];
            put(&mut content.seen, offset as usize, &bytes[..count]);
            let change = Change::Write {
                offset: offset as usize,
                bytes: bytes[..count].to_vec(),
            };
            content.unsynced.push(change);
            Ok(count)
        })
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.with(|disk| {
            let content = &mut disk.files[self.number];
            content.seen.resize(size as usize, 0);
            content.unsynced.push(Change::Truncate(size as usize));
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.with(|disk| {
            disk.syncs += 1;
            Ok(())
        })?;
        let mut held = self.files.gate.held.lock();
        while *held {
            self.files.gate.opened.wait(&mut held);
        }
        drop(held);
        self.with(|disk| {
            match &mut disk.failing_sync {
                Some(0) => {
                    disk.failing_sync = None;
                    disk.lose_unsynced(self.number);
                    return Err(io::Error::other("injected I/O error"));
                }
                Some(others) => *others -= 1,
                None => (),
            }
            let content = &mut disk.files[self.number];
            for change in std::mem::take(&mut content.unsynced) {
                match change {
                    Change::Truncate(size) => content.safe.resize(size, 0),
                    Change::Write { offset, bytes } => put(&mut content.safe, offset, &bytes),
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synced_bytes_and_names_survive_every_crash() {
        for seed in 0..200 {
            let files = FaultyFiles::new(seed);
            let path = Path::new("/d/a");
            let file = files.process().create(path).unwrap();
            file.write_at(b"safe", 0).unwrap();
            file.sync().unwrap();
            files.process().sync_dir(Path::new("/d")).unwrap();
            file.write_at(b"perhaps", 4).unwrap();
            files.crash();
            assert!(files.contents(path).starts_with(b"safe"), "seed {seed}");
            assert!(file.write_at(b"x", 0).is_err());
        }
    }

    #[test]
    fn bytes_of_a_failed_sync_can_be_seen_and_yet_be_lost() {
        let lost = (0..50).any(|seed| {
            let files = FaultyFiles::new(seed);
            let path = Path::new("/d/a");
            let file = files.process().create(path).unwrap();
            files.process().sync_dir(Path::new("/d")).unwrap();
            file.write_at(b"bytes", 0).unwrap();
            files.fail_sync_after(0);
            assert!(file.sync().is_err());
            assert!(file.sync().is_ok());
            assert_eq!(files.contents(path), b"bytes");
            files.crash();
            files.contents(path) != b"bytes"
        });
        assert!(lost);
    }

    #[test]
    fn a_full_disk_takes_what_fits_and_then_refuses() {
        let files = FaultyFiles::new(1);
        let file = files.process().create(Path::new("/d/a")).unwrap();
        files.limit_space(Some(3));
        assert_eq!(file.write_at(b"hello", 0).unwrap(), 3);
        assert_eq!(
            file.write_at(b"lo", 3).unwrap_err().kind(),
            io::ErrorKind::StorageFull
        );
        files.limit_space(None);
        assert_eq!(file.write_at(b"lo", 3).unwrap(), 2);
    }
}
