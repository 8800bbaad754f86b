//! Proves that an agent's previous process on this machine is over, children included.
//!
//! One file per instance holds the token of the current process. The file is locked, and child processes
//! inherit the lock, so it is free only when the agent and all its workers are gone. A restarted agent that
//! gets the lock and finds the recorded token in the file therefore need not wait.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

use crate::name::{AppName, InstanceName};

/// The lock. Held until this is dropped; child processes hold it until they exit.
#[derive(Debug)]
pub(super) struct StateFile {
    _file: File,
    before: Option<String>,
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("another agent named {name}, or a worker of its last process, still runs on this machine")]
    Locked { name: InstanceName },
    #[error("state file in {folder} cannot be used")]
    Io {
        folder: String,
        #[source]
        source: io::Error,
    },
}

impl StateFile {
    /// Takes the lock and writes this process's token into the file.
    pub(super) fn take(
        folder: &Path,
        app: &AppName,
        name: &InstanceName,
        token: &str,
    ) -> Result<StateFile, StateError> {
        let failed = |source: io::Error| StateError::Io {
            folder: folder.display().to_string(),
            source,
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let file_name = format!("{app}.{name}.agent").replace(['/', ':'], "_");
        // Opened without CLOEXEC, so that child processes inherit the lock.
        let flags = OFlags::RDWR | OFlags::CREATE;
        let file = open(folder.join(file_name), flags, Mode::from_raw_mode(0o600))
            .map_err(|error| failed(error.into()))?;
        let mut file = File::from(file);
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(StateError::Locked { name: name.clone() });
        }
        let mut before = String::new();
        file.read_to_string(&mut before).map_err(failed)?;
        file.rewind().map_err(failed)?;
        file.set_len(0).map_err(failed)?;
        file.write_all(token.as_bytes()).map_err(failed)?;
        Ok(StateFile {
            _file: file,
            before: (!before.is_empty()).then_some(before),
        })
    }

    /// Returns whether the process with this token, and every process it started, is over.
    pub(super) fn proves_over(&self, token: &str) -> bool {
        self.before.as_deref() == Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_lock_proves_the_recorded_process_over_and_a_held_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (app, name) = (AppName::new("a").unwrap(), InstanceName::new("i/1").unwrap());
        let first = StateFile::take(folder.path(), &app, &name, "t1").unwrap();
        assert!(!first.proves_over("t0"));
        let second = StateFile::take(folder.path(), &app, &name, "t2");
        assert!(matches!(second, Err(StateError::Locked { .. })));
        drop(first);
        let third = StateFile::take(folder.path(), &app, &name, "t3").unwrap();
        assert!(third.proves_over("t1") && !third.proves_over("t2"));
    }
}
