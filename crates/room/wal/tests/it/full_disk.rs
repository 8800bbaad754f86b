//! A real file system that is really full.

use std::path::Path;
use std::process::Command;

use nagaya_wal::{LogError, SyncMode};

use crate::kit;

/// A small file system in memory, until it is dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` when this process may not mount; then only [`nagaya_wal::faults`] tests a full disk.
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("mount");
        command
            .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
            .arg(dir.path());
        let mounted = command.output().is_ok_and(|output| output.status.success());
        mounted.then_some(Self(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg(self.path()).status().unwrap();
    }
}

#[test]
fn a_full_file_system_refuses_and_heals_when_a_segment_is_released() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("not tested: this process may not mount a tmpfs");
        return;
    };
    let mut options = kit::options(SyncMode::Always);
    options.segment_bytes = 32 << 10;
    let (log, _) = kit::open_real(disk.path(), &options).unwrap();
    let mut taken = Vec::new();
    let error = (0..).find_map(|n| {
        let record = vec![n as u8; 1000];
        let position = log.append(&record).unwrap();
        taken.push((position, record));
        log.commit(position).err()
    });
    assert!(matches!(error, Some(LogError::Failed(failure)) if failure.is_full()));
    let saved = taken[taken.len() / 2].0;
    assert!(log.durable() > saved);
    log.release(saved).unwrap();
    log.try_heal().unwrap();
    log.commit(log.append(b"more").unwrap()).unwrap();
    log.close().unwrap();
    drop(log);
    let (log, mut recovery) = kit::open_real(disk.path(), &options).unwrap();
    recovery.skip_to(saved).unwrap();
    let found = kit::read(&mut recovery).unwrap();
    taken.retain(|(position, _)| *position > saved);
    assert_eq!(found[..taken.len()], taken);
    assert_eq!(found.len(), taken.len() + 1);
    drop(log);
}
