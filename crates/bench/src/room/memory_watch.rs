//! The peak memory use of a server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, anyhow};
use serde::Serialize;

use crate::connection::{Connection, Reply};
use crate::proc;
use crate::servers::Server;

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The maxima over all samples.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct MostMemory {
    /// `used_memory` of INFO: what counts against the limit.
    pub(super) used_bytes: u64,
    /// What the process occupies, the binary and SQLite's caches included.
    pub(super) resident_bytes: u64,
    pub(super) looks: u64,
}

/// A thread that samples memory until its result is requested.
pub(super) struct MemoryWatch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<MostMemory>>,
}

impl MemoryWatch {
    pub(super) fn start(server: &Server) -> anyhow::Result<MemoryWatch> {
        let (address, pid) = (server.address, server.pid());
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("nagaya-watch".to_owned())
            .spawn(move || watch(address, pid, &stopped))
            .context("cannot start a thread")?;
        Ok(MemoryWatch { stop, thread })
    }

    pub(super) fn finish(self) -> anyhow::Result<MostMemory> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        ended.map_err(|_| anyhow!("the thread that watched the memory panicked"))?
    }
}

fn watch(address: SocketAddr, pid: u32, stop: &AtomicBool) -> anyhow::Result<MostMemory> {
    let mut connection = Connection::open(address)?;
    let mut most = MostMemory::default();
    while !stop.load(Ordering::Relaxed) {
        let Reply::Bytes(info) = connection.ask(&[b"INFO", b"memory"])? else {
            anyhow::bail!("INFO did not answer with text");
        };
        most.used_bytes = most
            .used_bytes
            .max(used_memory(&info).context("INFO has no used_memory")?);
        most.resident_bytes = most.resident_bytes.max(proc::resident_bytes(pid)?);
        most.looks += 1;
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(most)
}

fn used_memory(info: &[u8]) -> Option<u64> {
    let info = std::str::from_utf8(info).ok()?;
    let value = info.lines().find_map(|line| line.strip_prefix("used_memory:"))?;
    value.trim().parse().ok()
}
