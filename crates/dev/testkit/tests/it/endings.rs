//! No server outlives its test process, however that ends.
//!
//! The test binary starts itself once more, as a process that holds servers,
//! and ends it.

use std::env;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::thread;

use nagaya_testkit::{
    Folder, Launch, Memcached, Nginx, Postgres, Process, Redis, Signal, is_alive, shared, wait,
};

use crate::LIMIT;

const PIDS_FILE: &str = "NAGAYA_TESTKIT_PIDS_FILE";
const SERVERS: usize = 6;

/// The part of the started process. Without the variable it has nothing to hold.
#[test]
fn holder_of_servers() {
    let Some(file) = env::var_os(PIDS_FILE) else {
        return;
    };
    let (frozen_redis, frozen_postgres) = (Redis::start(), Postgres::start());
    let (memcached, nginx) = (
        Memcached::start(),
        Nginx::start(|address| format!("server {{ listen {address}; }}")),
    );
    let processes: [&Process; SERVERS] = [
        frozen_redis.process(),
        frozen_postgres.process(),
        memcached.process(),
        nginx.process(),
        shared::redis().process(),
        shared::postgres().process(),
    ];
    let pids: Vec<String> = processes
        .iter()
        .flat_map(|process| process.pids())
        .map(|pid| pid.to_string())
        .collect();
    frozen_redis.stop();
    frozen_postgres.stop();
    let file = Path::new(&file);
    fs::write(file.with_extension("part"), pids.join("\n")).unwrap();
    fs::rename(file.with_extension("part"), file).unwrap();
    loop {
        thread::park();
    }
}

#[track_caller]
fn check_that_nothing_is_left_after(signal: Signal) {
    let folder = Folder::new("endings");
    let file = folder.path().join("pids");
    let launch = Launch::new("holder", env::current_exe().unwrap())
        .args(["--exact", "endings::holder_of_servers", "--nocapture"])
        .env(PIDS_FILE, &file);
    let holder = Process::start(launch, folder.path()).unwrap();
    let ready = || {
        file.exists()
            .then_some(())
            .ok_or_else(|| "no list of servers yet".into())
    };
    holder.wait_ready(LIMIT * 2, ready).unwrap();
    let pids = fs::read_to_string(&file).unwrap();
    // A backend that served the readiness question may have ended meanwhile.
    let pids: Vec<u32> = pids
        .lines()
        .map(|pid| pid.parse().unwrap())
        .filter(|&pid| is_alive(pid))
        .collect();
    assert!(pids.len() >= SERVERS, "{pids:?}");
    // To the holder alone: its servers must notice by themselves.
    holder.signal(signal);
    assert_eq!(holder.wait(LIMIT).unwrap().signal(), Some(signal.as_raw()));
    wait::until("all servers are gone", LIMIT, || {
        !pids.iter().copied().any(is_alive)
    });
}

#[test]
fn no_server_outlives_a_test_process_killed_with_9() {
    check_that_nothing_is_left_after(Signal::KILL);
}

#[test]
fn no_server_outlives_a_test_process_ended_with_ctrl_c() {
    check_that_nothing_is_left_after(Signal::INT);
}

#[test]
fn a_panic_ends_the_servers_of_a_test() {
    let pids = thread::spawn(|| {
        let redis = Redis::start();
        std::panic::panic_any(redis.process().pids());
    })
    .join()
    .unwrap_err();
    let pids = pids.downcast::<Vec<u32>>().unwrap();
    assert!(!pids.is_empty() && !pids.into_iter().any(is_alive));
}
