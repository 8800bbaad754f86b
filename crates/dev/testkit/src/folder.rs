//! Temporary folders, one parent per test process.
//!
//! A process that is killed cannot tidy up, and servers shared by a whole test
//! binary are never dropped. So every process holds a file lock on its parent
//! folder, and the next process removes the folders whose lock has become free.

use std::fs::{self, DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, io, process, thread};

/// A temporary folder that is removed on drop; after a panic it stays until the
/// next test process starts, so that logs can be read.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes a new folder whose name begins with `prefix`.
    #[track_caller]
    pub fn new(prefix: &str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = run().path.join(format!("{prefix}-{number}"));
        if let Err(error) = DirBuilder::new().mode(0o700).create(&path) {
            panic!("could not create {}: {error}", path.display());
        }
        Folder { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file into the folder and returns its path.
    #[track_caller]
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path.join(name);
        if let Err(error) = fs::write(&path, text) {
            panic!("could not write {}: {error}", path.display());
        }
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !thread::panicking() {
            // What cannot be removed now is removed by the next test process.
            fs::remove_dir_all(&self.path).ok();
        }
    }
}

/// The folder that all test processes of one user share: lock files of ports
/// and one folder per running process.
pub(crate) fn root() -> PathBuf {
    env::temp_dir().join(format!("nagaya-testkit-{}", rustix::process::getuid().as_raw()))
}

struct Run {
    path: PathBuf,
    /// Held until the process ends, by whatever cause.
    _lock: File,
}

fn run() -> &'static Run {
    static RUN: OnceLock<Run> = OnceLock::new();
    RUN.get_or_init(|| match open_run(&root()) {
        Ok(run) => run,
        Err(error) => panic!("could not prepare {}: {error}", root().display()),
    })
}

fn open_run(root: &Path) -> io::Result<Run> {
    make_passable(root)?;
    // One process at a time: a sweeper must not find a folder without its lock.
    let gate = File::create(root.join("sweep.lock"))?;
    gate.lock()?;
    sweep(root)?;
    let name = format!("run-{}", process::id());
    let lock = File::create(root.join(&name).with_extension("lock"))?;
    lock.lock()?;
    let path = root.join(name);
    make_passable(&path)?;
    Ok(Run { path, _lock: lock })
}

/// Servers that run as another user must be able to pass through to their own
/// folder, but not to list what else is there.
fn make_passable(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o711))
}

fn sweep(root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        let lock_path = entry?.path();
        let name = lock_path.file_name().unwrap_or_default().to_string_lossy();
        if !(name.starts_with("run-") && name.ends_with(".lock")) {
            continue;
        }
        if File::open(&lock_path)?.try_lock().is_err() {
            continue;
        }
        let folder = lock_path.with_extension("");
        // A server that is just ending may still write; the lock file stays for the next sweep then.
        if !folder.exists() || fs::remove_dir_all(&folder).is_ok() {
            fs::remove_file(&lock_path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_folder_is_removed_with_its_files() {
        let folder = Folder::new("folder");
        let file = folder.write("a.txt", "text");
        assert!(file.exists());
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn a_sweep_removes_the_folders_of_dead_processes_only() {
        let folder = Folder::new("sweep");
        let root = folder.path();
        for name in ["run-1", "run-2"] {
            fs::create_dir(root.join(name)).unwrap();
            File::create(root.join(name).with_extension("lock")).unwrap();
        }
        let held = File::open(root.join("run-2.lock")).unwrap();
        held.lock().unwrap();
        sweep(root).unwrap();
        assert!(!root.join("run-1").exists() && !root.join("run-1.lock").exists());
        assert!(root.join("run-2").exists());
    }
}
