//! How the server ends: open requests finish, late ones are cut, a second signal is obeyed.

use super::*;
use nagaya_testkit::wait;
use std::fs;

/// Waits until the server takes no new connections.
fn wait_until_closed(house: &Nagaya) {
    let address = house.address("http");
    wait::until("the listener is closed", LIMIT, || {
        TcpStream::connect(address).is_err()
    });
}

#[test]
fn open_requests_finish_and_the_exit_code_is_0() {
    let house = house().start();
    let address = house.address("http");
    let mut half_sent = send(address, "GET /healthz HTTP/1.1\r\nhost: local");
    let mut asking = send(address, "GET /readyz HTTP/1.1\r\n");
    let mut idle = send(address, "");
    house.process().terminate();
    wait_until_closed(&house);

    half_sent.write_all(b"host\r\n\r\n").unwrap();
    let answer = read_all(&mut half_sent);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");

    asking.write_all(b"host: localhost\r\n\r\n").unwrap();
    let answer = read_all(&mut asking);
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains(r#""state":"draining""#), "{answer}");

    assert_eq!(read_all(&mut idle), "");
    let status = house.process().wait(LIMIT).unwrap();
    assert_eq!(status.code(), Some(0), "{}", house.process().output());
    let left = fs::read_dir(house.data()).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["jobs", "room"], "the lock file was left behind");
}

#[test]
fn what_outlasts_the_deadline_is_cut_and_reported() {
    let house = house().args(["--set", "house.drain_timeout=50ms"]).start();
    let mut half_sent = send(house.address("http"), "GET /healthz HTTP/1.1\r\n");
    let status = house.shut_down();
    assert_eq!(status.code(), Some(0));
    assert_eq!(read_all(&mut half_sent), "");
    let stderr = house.process().stderr();
    assert!(
        stderr.contains("http: 1 connection with an unfinished request"),
        "{stderr}"
    );
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let house = house()
        .args([
            "--set",
            "house.drain_timeout=1h",
            "--set",
            "http.head_timeout=10m",
        ])
        .start();
    let _half_sent = send(house.address("http"), "GET /healthz HTTP/1.1\r\n");
    house.process().terminate();
    wait_until_closed(&house);
    assert!(house.process().pid().is_some(), "it waits for the open request");
    house.process().terminate();
    assert_eq!(house.process().wait(LIMIT).unwrap().code(), Some(1));
}

#[test]
fn a_killed_house_leaves_a_folder_that_starts_again() {
    let house = house().start();
    house.process().kill9();
    house.restart();
    assert_eq!(house.get("/readyz").unwrap().status, 200);
}
