//! The data folder: made private, used by one process at a time.
//!
//! The lock is an advisory lock on `nagaya.lock`, which the kernel releases when the holding process ends for
//! any reason. The file's first line is the holder's pid, for error messages; the second, once the server
//! listens, is where Redis clients connect, for the tools. The file is removed at the end, under the lock. A
//! process that opened it just before sees by its identity that the name no longer leads to what it locked, and
//! starts over.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use nagaya_process::Ground;
use tracing::warn;

const LOCK_FILE: &str = "nagaya.lock";

/// The data folder, locked for as long as this lives.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    /// Dropped before `created`: the lock file must go before its folder can.
    lock: Lock,
    created: CreatedFolders,
    ground: Ground,
}

/// The state in which a tool finds a data folder.
pub(crate) enum Found {
    /// No process used it; the tool now holds the lock.
    Free(DataDir),
    Used(Holder),
}

/// The process that uses a data folder, as recorded in its lock file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) pid: Option<u32>,
    /// The address on which it accepts Redis clients.
    pub(crate) room: Option<SocketAddr>,
}

/// Held for its lock; the file goes when it is dropped, while the lock still stands.
#[derive(Debug)]
struct Lock {
    path: PathBuf,
    file: File,
}

/// Folders made by this run, outermost first; removed again on drop, if still empty.
#[derive(Debug, Default)]
struct CreatedFolders(Vec<PathBuf>);

impl DataDir {
    /// Makes the folder if it is missing and locks it.
    ///
    /// Until [`DataDir::keep`] is called, dropping it also removes the folders it made.
    pub(crate) fn claim(path: &Path) -> anyhow::Result<DataDir> {
        let created = CreatedFolders::create(path).map_err(|error| {
            anyhow!(
                "cannot make the data folder {}: {error}; choose another with --data",
                path.display()
            )
        })?;
        let path = path
            .canonicalize()
            .with_context(|| format!("cannot use the data folder {}", path.display()))?;
        let lock = lock(&path)?;
        warn_if_others_can_read(&path);
        let ground = Ground::default();
        for place in [&path, &lock.path] {
            ground
                .watch(place)
                .with_context(|| format!("cannot use the data folder {}", path.display()))?;
        }
        Ok(DataDir {
            path,
            lock,
            created,
            ground,
        })
    }

    /// Locks an existing folder, or returns the process that holds its lock.
    pub(crate) fn find(path: &Path) -> anyhow::Result<Found> {
        let path = path.canonicalize().map_err(|error| {
            anyhow!(
                "there is no data folder {}: {error}; name it with --data",
                path.display()
            )
        })?;
        match try_lock(&path)? {
            Ok(lock) => Ok(Found::Free(DataDir {
                path,
                lock,
                created: CreatedFolders::default(),
                ground: Ground::default(),
            })),
            Err(holder) => Ok(Found::Used(holder)),
        }
    }

    /// Records in the lock file where Redis clients connect.
    pub(crate) fn announce(&mut self, room: SocketAddr) -> io::Result<()> {
        writeln!(self.lock.file, "room {room}")
    }

    /// The folder's absolute path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder and its lock file, and whatever else must not be lost while the server runs.
    pub(crate) fn ground(&self) -> &Ground {
        &self.ground
    }

    /// From now on the folder stays, even if it is empty.
    pub(crate) fn keep(&mut self) {
        self.created.0.clear();
    }
}

impl CreatedFolders {
    fn create(path: &Path) -> io::Result<CreatedFolders> {
        let mut created = CreatedFolders::default();
        let missing: Vec<&Path> = path
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && folder.symlink_metadata().is_err())
            .collect();
        for folder in missing.into_iter().rev() {
            match DirBuilder::new().mode(0o700).create(folder) {
                Ok(()) => created.0.push(folder.to_owned()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
                Err(error) => return Err(error),
            }
        }
        if !path.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(created)
    }
}

impl Drop for CreatedFolders {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            // A folder that another process has used meanwhile is not empty and stays.
            if std::fs::remove_dir(folder).is_err() {
                return;
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The name may lead to the lock file of another process, if the folder was removed meanwhile.
        if !is_same_file(&self.file, &self.path).unwrap_or(false) {
            return;
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            warn!(path = %self.path.display(), %error, "the lock file was left behind");
        }
    }
}

fn lock(folder: &Path) -> anyhow::Result<Lock> {
    match try_lock(folder)? {
        Ok(lock) => Ok(lock),
        Err(Holder { pid, .. }) => {
            let holder = pid.map_or(String::new(), |pid| format!(" (pid {pid})"));
            let folder = folder.display();
            bail!("the data folder {folder} is in use by another nagaya{holder}; choose another with --data");
        }
    }
}

fn try_lock(folder: &Path) -> anyhow::Result<Result<Lock, Holder>> {
    let path = folder.join(LOCK_FILE);
    loop {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| {
                let folder = folder.display();
                anyhow!("cannot write to the data folder {folder}: {error}; choose another with --data")
            })?;
        match file.try_lock() {
            Ok(()) => (),
            Err(TryLockError::WouldBlock) => return Ok(Err(Holder::read(&mut file))),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        if is_same_file(&file, &path)? {
            file.set_len(0)?;
            writeln!(file, "{}", std::process::id())?;
            return Ok(Ok(Lock { path, file }));
        }
    }
}

impl Holder {
    /// Empty until the holder has written its process id.
    fn read(file: &mut File) -> Holder {
        let mut text = String::new();
        if file.read_to_string(&mut text).is_err() {
            return Holder::default();
        }
        let room = text.lines().find_map(|line| line.strip_prefix("room "));
        Holder {
            pid: text.lines().next().and_then(|line| line.parse().ok()),
            room: room.and_then(|address| address.parse().ok()),
        }
    }
}

/// Whether the name still leads to the file that was locked.
fn is_same_file(file: &File, path: &Path) -> io::Result<bool> {
    let locked = file.metadata()?;
    match path.metadata() {
        Ok(named) => Ok((named.dev(), named.ino()) == (locked.dev(), locked.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn warn_if_others_can_read(path: &Path) {
    let mode = path
        .metadata()
        .map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o077 != 0 {
        let mode = format!("{:o}", mode & 0o777);
        warn!(path = %path.display(), mode, "other users can read the data folder");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_private_and_the_lock_names_its_holder() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        let mut held = DataDir::claim(&path).unwrap();
        held.keep();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let refused = DataDir::claim(&path).unwrap_err().to_string();
        assert!(
            refused.contains(&format!("pid {}", std::process::id())),
            "{refused}"
        );
        drop(held);
        assert_eq!(path.read_dir().unwrap().count(), 0);
        assert!(DataDir::claim(&path).is_ok());
        assert!(path.exists());
    }

    #[test]
    fn a_tool_finds_the_holder_and_its_address() {
        let root = tempfile::tempdir().unwrap();
        let mut held = DataDir::claim(root.path()).unwrap();
        let address = "127.0.0.1:6380".parse().unwrap();
        held.announce(address).unwrap();
        let Found::Used(holder) = DataDir::find(root.path()).unwrap() else {
            panic!("the folder is in use");
        };
        let expected = Holder {
            pid: Some(std::process::id()),
            room: Some(address),
        };
        assert_eq!(holder, expected);
        drop(held);
        assert!(matches!(DataDir::find(root.path()).unwrap(), Found::Free(_)));
        assert!(DataDir::find(&root.path().join("missing")).is_err());
    }

    #[test]
    fn folders_made_in_vain_are_removed_and_others_stay() {
        let root = tempfile::tempdir().unwrap();
        drop(DataDir::claim(&root.path().join("a/b")).unwrap());
        assert_eq!(root.path().read_dir().unwrap().count(), 0);
        let claimed = DataDir::claim(&root.path().join("a")).unwrap();
        std::fs::write(root.path().join("a/something"), "").unwrap();
        drop(claimed);
        assert!(root.path().join("a/something").exists());
    }

    #[test]
    fn the_lock_file_of_another_process_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("data");
        let mut first = DataDir::claim(&path).unwrap();
        first.keep();
        std::fs::remove_dir_all(&path).unwrap();
        let second = DataDir::claim(&path).unwrap();
        assert!(first.ground().check().is_err());
        assert!(second.ground().check().is_ok());
        drop(first);
        assert!(path.join(LOCK_FILE).exists());
        second.ground().check().unwrap();
    }

    #[test]
    fn a_lock_on_a_removed_file_is_not_taken_for_a_lock() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(LOCK_FILE);
        let file = File::create(&path).unwrap();
        assert!(is_same_file(&file, &path).unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(!is_same_file(&file, &path).unwrap());
        File::create(&path).unwrap();
        assert!(!is_same_file(&file, &path).unwrap());
    }
}
