//! What an append costs, and how many commits a second the disk here gives.
//!
//! `cargo run --release -p nagaya-wal --example append [folder]`

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures time and prints it"
)]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nagaya_wal::{Log, LogError, Options, OsFiles, SyncMode};
use parking_lot::Mutex;

const RECORD: [u8; 60] = [b'x'; 60];
const COMMITTING_FOR: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    let scratch = tempfile::tempdir()?;
    let dir = std::env::args_os()
        .nth(1)
        .map_or(scratch.path().to_owned(), Into::into);
    for mode in [SyncMode::No, SyncMode::EverySecond] {
        for threads in [1, 2] {
            let ns = in_new_log(&dir, mode, |log| append(log, threads))?;
            println!("append, {mode:?}, {threads} threads: {ns:.1} ns each");
        }
    }
    for threads in [1, 2, 50] {
        let (commits, shared) = in_new_log(&dir, SyncMode::Always, |log| commit(log, threads))?;
        println!("commit, Always, {threads} threads: {commits:.0} a second, {shared:.1} to a sync");
    }
    Ok(())
}

fn in_new_log<T>(
    dir: &Path,
    mode: SyncMode,
    act: impl FnOnce(&Log) -> Result<T, LogError>,
) -> Result<T, Box<dyn Error>> {
    let dir = tempfile::tempdir_in(dir)?;
    let options = Options {
        mode,
        ..Options::default()
    };
    let (log, _) = Log::open(dir.path(), &options, Arc::new(OsFiles))?;
    let measured = act(&log)?;
    log.close()?;
    Ok(measured)
}

/// Nanoseconds per append as a thread sees them, the median of bursts that are too small to
/// call the flusher: what is measured is the append, not the disk.
fn append(log: &Log, threads: usize) -> Result<f64, LogError> {
    const BURSTS: usize = 300;
    const BURST: usize = 10_000;
    let spent = Mutex::new(Vec::new());
    for _ in 0..BURSTS {
        together(threads, || {
            let started = Instant::now();
            for _ in 0..BURST / threads {
                log.append(&RECORD)?;
            }
            spent.lock().push(started.elapsed());
            Ok(())
        })?;
        log.sync(log.end())?;
    }
    let mut spent = spent.into_inner();
    spent.sort();
    Ok(spent[spent.len() / 2].as_nanos() as f64 / (BURST / threads) as f64)
}

/// Commits a second, and how many went with one sync as far as the file's marks tell.
fn commit(log: &Log, threads: usize) -> Result<(f64, f64), LogError> {
    let counts = AtomicU64::new(0);
    let started = Instant::now();
    together(threads, || {
        while started.elapsed() < COMMITTING_FOR {
            log.commit(log.append(&RECORD)?)?;
            counts.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    })?;
    let commits = counts.into_inner() as f64;
    let record_bytes = (RECORD.len() + 8) as f64;
    let marks = (log.end().0 as f64 - commits * record_bytes) / 16.0;
    Ok((
        commits / started.elapsed().as_secs_f64(),
        commits / marks.max(1.0),
    ))
}

fn together(threads: usize, act: impl Fn() -> Result<(), LogError> + Sync) -> Result<(), LogError> {
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(&act)).collect();
        running
            .into_iter()
            .try_for_each(|thread| thread.join().expect("a measuring thread panicked"))
    })
}
