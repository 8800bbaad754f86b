//! A disk with no room left.

use std::thread;

use nagaya_cold::{Options, SqliteCold};
use nagaya_tiering::cold::{ColdError, ColdTier, Committed};

use crate::support::{Place, assert_sound, put, rows, save, snapshot, version};

/// Commits until it does not fit any more; returns how many tags fitted.
fn fill(cold: &SqliteCold) -> u64 {
    for number in 0.. {
        let tag = format!("tag:{number}").into_bytes();
        let one = snapshot(&tag, version(1, 1), vec![put(b"k", &noise(number, 50_000))]);
        match cold.ensure(&[&tag]).and_then(|()| cold.commit(&[one], 1)) {
            Ok(_) => (),
            Err(ColdError::Full(_)) => return number,
            Err(error) => panic!("{error:?}"),
        }
    }
    unreachable!("the disk has an end")
}

/// Lets several threads commit until nothing fits; each finds all that it was told is saved, and nothing of
/// what failed.
fn fill_together(cold: &SqliteCold) {
    thread::scope(|scope| {
        for thread in 0..4u64 {
            scope.spawn(move || {
                let tag = [thread as u8];
                let keys = |snap: u64| (0..3u8).map(move |part| [part, snap as u8]);
                let mut snap = 1;
                loop {
                    let changes = keys(snap).map(|key| put(&key, &noise(snap * 4 + thread, 10_000)));
                    let one = snapshot(&tag, version(1, snap), changes.collect());
                    match cold.commit(&[one], 1) {
                        Ok(outcomes) => assert_eq!(outcomes, [Committed::Saved]),
                        Err(ColdError::Full(_)) => break,
                        Err(error) => panic!("{error:?}"),
                    }
                    snap += 1;
                }
                let mut saved: Vec<_> = (1..snap).flat_map(keys).collect();
                saved.sort();
                let found: Vec<_> = rows(cold, &tag).into_iter().map(|(key, _)| key).collect();
                assert_eq!(found, saved);
            });
        }
    });
    assert_sound(cold);
}

/// Bytes that do not compress.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed + 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// After the disk was full: everything acknowledged is there, and what fits can be written.
fn check_after(cold: &SqliteCold, fitted: u64) {
    assert!(fitted > 3, "{fitted}");
    for number in 0..fitted {
        let tag = format!("tag:{number}").into_bytes();
        assert_eq!(rows(cold, &tag).len(), 1, "{number}");
    }
    let failed = format!("tag:{fitted}").into_bytes();
    assert!(rows(cold, &failed).is_empty());
    assert_sound(cold);
    for number in 0..fitted {
        cold.erase(format!("tag:{number}").as_bytes()).unwrap();
    }
    save(cold, &failed, 9, vec![put(b"k", b"v")]);
    assert_sound(cold);
}

#[test]
fn a_full_database_fails_the_commit_whole_and_works_again_with_room() {
    let place = Place::new();
    let options = Options {
        database_bytes_max: Some(1 << 20),
        ..Options::default()
    };
    let cold = SqliteCold::open(place.path(), options).unwrap();
    let fitted = fill(&cold);
    check_after(&cold, fitted);
}

#[test]
fn calls_that_meet_a_full_database_together_are_each_whole_or_not_there() {
    let place = Place::new();
    let options = Options {
        database_bytes_max: Some(4 << 20),
        ..Options::default()
    };
    let cold = SqliteCold::open(place.path(), options).unwrap();
    cold.ensure(&[&[0], &[1], &[2], &[3]]).unwrap();
    fill_together(&cold);
}

#[cfg(target_os = "linux")]
#[test]
fn calls_that_meet_a_full_disk_together_are_each_whole_or_not_there() {
    // Only root may mount; the bound of the database above is the same case for other users.
    let Some(mount) = Mount::new("8m") else {
        return;
    };
    let cold = SqliteCold::open(mount.0.path().join("cold.db"), Options::default()).unwrap();
    cold.ensure(&[&[0], &[1], &[2], &[3]]).unwrap();
    fill_together(&cold);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_fails_the_commit_whole_and_works_again_with_room() {
    // Only root may mount; the bound of the database above is the same case for other users.
    let Some(mount) = Mount::new("4m") else {
        return;
    };
    let path = mount.0.path().join("cold.db");
    let options = Options {
        wal_bytes_max: 1 << 20,
        ..Options::default()
    };
    let cold = SqliteCold::open(&path, options).unwrap();
    let fitted = fill(&cold);
    for number in 0..fitted {
        let tag = format!("tag:{number}").into_bytes();
        assert_eq!(rows(&cold, &tag).len(), 1, "{number}");
    }
    assert_sound(&cold);
    drop(cold);
    // With room again, the same file goes on.
    mount.resize("16m");
    let cold = SqliteCold::open(&path, Options::default()).unwrap();
    check_after(&cold, fitted);
}

/// A small file system in memory.
#[cfg(target_os = "linux")]
struct Mount(tempfile::TempDir);

#[cfg(target_os = "linux")]
impl Mount {
    fn new(size: &str) -> Option<Mount> {
        let directory = tempfile::TempDir::new().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(directory.path())
            .output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then_some(Mount(directory))
    }

    fn resize(&self, size: &str) {
        let status = std::process::Command::new("mount")
            .args(["-o", &format!("remount,size={size}")])
            .arg(self.0.path())
            .status();
        assert!(status.unwrap().success());
    }
}

#[cfg(target_os = "linux")]
impl Drop for Mount {
    fn drop(&mut self) {
        let unmounted = std::process::Command::new("umount")
            .arg("-l")
            .arg(self.0.path())
            .status();
        assert!(thread::panicking() || unmounted.is_ok_and(|status| status.success()));
    }
}
