//! Ports that no test running now will be given a second time.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::Mutex;

use crate::{Error, folder};

/// Below the range from which Linux picks ports for outgoing connections
/// (32768 and up), so that a busy client cannot take a port in between.
const FIRST: u16 = 12_000;
const COUNT: u16 = 10_000;
/// A Redis Cluster node also listens on its port plus this.
const BUS_OFFSET: u16 = 10_000;
const RETRIES: usize = 4;

struct Given {
    next: u16,
    /// One locked file per port given out, held until the process ends.
    locks: Vec<File>,
}

/// Returns a TCP port of 127.0.0.1 that is free, as is the port 10000 above it
/// (a Redis Cluster node uses both).
///
/// The port is not given out again by this process, nor by other test processes
/// of the same user while this one lives.
#[track_caller]
pub fn free_port() -> u16 {
    static GIVEN: Mutex<Option<Given>> = Mutex::new(None);
    let mut given = GIVEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let given = given.get_or_insert_with(|| Given {
        // Test processes that start together have neighbouring pids: spread them out.
        next: u16::try_from(process::id() % 1250 * 8).expect("below 10000"),
        locks: Vec::new(),
    });
    for _ in 0..COUNT {
        let port = FIRST + given.next;
        given.next = (given.next + 1) % COUNT;
        if let Some(lock) = lock_port(port)
            && is_free(port)
            && is_free(port + BUS_OFFSET)
        {
            given.locks.push(lock);
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}

/// Retries `start` with another port when another process took the first one.
pub(crate) fn retry<T>(mut start: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 0..RETRIES {
        match start() {
            Err(error) if error.is_port_taken() => (),
            other => return other,
        }
    }
    start()
}

fn lock_port(port: u16) -> Option<File> {
    let folder = folder::root().join("ports");
    if let Err(error) = fs::create_dir_all(&folder) {
        panic!("could not create {}: {error}", folder.display());
    }
    let path = folder.join(port.to_string());
    match File::create(&path) {
        Ok(file) => file.try_lock().is_ok().then_some(file),
        Err(error) => panic!("could not create {}: {error}", path.display()),
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_port_is_given_out_once() {
        let ports: HashSet<u16> = (0..100).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 100);
    }

    #[test]
    fn a_port_given_out_is_locked_against_other_processes() {
        assert!(lock_port(free_port()).is_none());
    }
}
