//! A process killed while it writes to a real disk.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nagaya_wal::{Options, SyncMode};

use crate::kit;

const CHILD_DIR: &str = "NAGAYA_WAL_TEST_CHILD_DIR";

fn options() -> Options {
    Options {
        mode: SyncMode::Always,
        segment_bytes: 64 << 10,
        ..Options::default()
    }
}

/// Not a test of its own: the child that the test below starts and kills. Two threads write;
/// each acknowledged record's position is printed.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else {
        return;
    };
    let (log, _) = kit::open_real(Path::new(&dir), &options()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let log = &log;
            scope.spawn(move || {
                for n in 0.. {
                    let position = log.append(&kit::record(thread * 31 + n % 997)).unwrap();
                    log.commit(position).unwrap();
                    // Straight to the pipe: a captured line would die with the process.
                    writeln!(std::io::stdout().lock(), "acknowledged {position}").unwrap();
                }
            });
        }
    });
}

#[test]
fn a_killed_process_loses_nothing_acknowledged() {
    let repeats = if std::env::var_os("NAGAYA_TEST_LONG").is_some() {
        200
    } else {
        20
    };
    let dir = tempfile::tempdir().unwrap();
    let mut known = Vec::new();
    for repeat in 0..repeats {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "kill::child_that_writes_until_it_is_killed",
                "--nocapture",
            ])
            .env(CHILD_DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let positions = lines.filter_map(|line| line.strip_prefix("acknowledged ")?.parse::<u64>().ok());
        // The moment of the kill differs from time to time, in records and within one.
        let mut acknowledged = Vec::new();
        for position in positions {
            acknowledged.push(position);
            if acknowledged.len() == 5 + repeat * 13 % 80 {
                std::thread::park_timeout(Duration::from_micros(repeat as u64 * 97 % 1500));
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(acknowledged.len() >= 5, "the child wrote");
        let (log, mut recovery) = kit::open_real(dir.path(), &options()).unwrap();
        let found: Vec<u64> = kit::read(&mut recovery)
            .unwrap()
            .iter()
            .map(|(end, _)| end.0)
            .collect();
        known.extend(&acknowledged);
        for position in &known {
            assert!(
                found.binary_search(position).is_ok(),
                "repeat {repeat} lost {position}"
            );
        }
        drop(log);
    }
}
