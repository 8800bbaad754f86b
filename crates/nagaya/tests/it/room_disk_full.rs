//! A real file system that fills up: writes are refused, reads go on, nothing acknowledged is lost.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use nagaya_testkit::{Folder, Nagaya, Reply, RespClient, wait};

use super::{LIMIT, house};

/// The size of the file system. An empty cold tier and log take a small part of it.
const DISK_MB: u64 = 24;
const VALUE_BYTES: usize = 20_000;

/// A file system in memory, mounted while this value lives.
struct SmallDisk {
    folder: Folder,
}

impl SmallDisk {
    /// Mounts it; nothing where the user may not.
    fn mount() -> Option<SmallDisk> {
        let folder = Folder::new("disk");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={DISK_MB}m"), "none"])
            .arg(folder.path())
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(SmallDisk { folder }),
            _ => None,
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Takes all the space that is left.
    fn fill(&self) -> PathBuf {
        let path = self.folder.path().join("ballast");
        let mut file = fs::File::create(&path).unwrap();
        for size in [64 << 10, 4096, 1] {
            let block = vec![7; size];
            while file.write_all(&block).is_ok() {}
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.folder.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

fn connect(house: &Nagaya) -> RespClient {
    let client = RespClient::connect(house.address("room")).unwrap();
    client.set_timeout(LIMIT).unwrap();
    client
}

/// Writes numbered keys until one is refused; returns the acknowledged ones and the refusal.
fn write_until_refused(house: &Nagaya, prefix: &str) -> (Vec<String>, String) {
    let mut client = connect(house);
    let value = "v".repeat(VALUE_BYTES);
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let key = format!("{prefix}{number}");
        match client.cmd(&["SET", &key, &value]) {
            Ok(reply) if reply == Reply::ok() => acknowledged.push(key),
            Ok(Reply::Error(error)) => return (acknowledged, error),
            Ok(other) => panic!("{other:?}"),
            // The outcome is unknown; the next client is told.
            Err(_) => client = connect(house),
        }
    }
    unreachable!("a small disk is full at some time")
}

fn is_ready(house: &Nagaya) -> bool {
    house.get("/readyz").is_ok_and(|answer| answer.status == 200)
}

#[track_caller]
fn all_there(house: &Nagaya, acknowledged: &[String]) {
    let mut client = connect(house);
    for key in acknowledged {
        let reply = client.cmd(&["STRLEN", key]).unwrap();
        assert_eq!(reply, Reply::Int(VALUE_BYTES as i64), "{key} is lost");
    }
}

fn start(data: &Path, fsync: &str) -> Nagaya {
    house()
        .data(data)
        .args([
            "--set",
            &format!("room.fsync={fsync}"),
            "--set",
            "room.max_staleness=200ms",
        ])
        .start()
}

fn a_full_disk(fsync: &str) {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("skipped: this user may not mount a file system");
        return;
    };
    let house = start(&disk.data(), fsync);
    let mut client = connect(&house);
    assert_eq!(client.cmd(&["SET", "before", "kept"]).unwrap(), Reply::ok());
    assert_eq!(client.cmd(&["ROOM.EVICT", "before"]).unwrap(), Reply::Int(1));
    assert_eq!(client.cmd(&["SET", "memory", "kept"]).unwrap(), Reply::ok());

    let ballast = disk.fill();
    let (acknowledged, error) = write_until_refused(&house, "full:");
    assert!(error.starts_with("MISCONF"), "{error}");
    wait::until("it is not ready", LIMIT, || !is_ready(&house));
    // Reads go on, of both tiers.
    let mut client = connect(&house);
    assert_eq!(client.cmd(&["GET", "memory"]).unwrap(), Reply::bulk("kept"));
    assert_eq!(client.cmd(&["GET", "before"]).unwrap(), Reply::bulk("kept"));
    all_there(&house, &acknowledged);

    // Space again: writes are taken without a restart.
    fs::remove_file(&ballast).unwrap();
    let mut client = connect(&house);
    wait::until("writes are taken again", LIMIT, || {
        client.cmd(&["SET", "after", "kept"]).unwrap() == Reply::ok()
    });
    wait::until("it is ready", LIMIT, || is_ready(&house));
    all_there(&house, &acknowledged);

    // Full once more, and killed: what was acknowledged is there when there is space again.
    let ballast = disk.fill();
    let (second, error) = write_until_refused(&house, "again:");
    assert!(error.starts_with("MISCONF"), "{error}");
    house.process().kill9();
    fs::remove_file(&ballast).unwrap();
    house.restart();
    let mut client = connect(&house);
    for key in ["before", "memory", "after"] {
        assert_eq!(client.cmd(&["GET", key]).unwrap(), Reply::bulk("kept"), "{key}");
    }
    all_there(&house, &acknowledged);
    if fsync == "always" {
        all_there(&house, &second);
    }
    assert_eq!(client.cmd(&["SET", "last", "kept"]).unwrap(), Reply::ok());
    assert!(
        !house.process().output().contains("panicked"),
        "{}",
        house.process().output()
    );
}

#[test]
fn a_full_disk_refuses_writes_and_loses_nothing_under_always() {
    a_full_disk("always");
}

#[test]
fn a_full_disk_refuses_writes_and_comes_back_under_everysec() {
    a_full_disk("everysec");
}
