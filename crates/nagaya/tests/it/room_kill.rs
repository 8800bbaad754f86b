//! Acknowledged writes outlive the process, whatever `room.fsync` says: only a crash of the machine may cost some.

use std::sync::atomic::{AtomicI64, Ordering};

use nagaya_testkit::{Nagaya, RespClient, wait};

use super::{LIMIT, house};

const CLIENTS: usize = 4;

fn connect(house: &Nagaya) -> RespClient {
    let client = RespClient::connect(house.address("room")).unwrap();
    client.set_timeout(LIMIT).unwrap();
    client
}

fn key(client: usize) -> String {
    format!("{{c{client}}}count")
}

/// Counts up on one connection, a few requests at a time, until the server is gone.
fn count_up(mut client: RespClient, number: usize, acknowledged: &AtomicI64) {
    const AT_ONCE: usize = 3;
    loop {
        let sent = (0..AT_ONCE).try_for_each(|_| client.send(&["INCR", &key(number)]));
        if sent.is_err() {
            return;
        }
        for _ in 0..AT_ONCE {
            match client.receive() {
                Ok(reply) => acknowledged.store(reply.int(), Ordering::SeqCst),
                Err(_) => return,
            }
        }
    }
}

#[test]
fn kill_9_loses_no_acknowledged_write_under_any_fsync() {
    const ROUNDS: usize = 5;
    for fsync in ["everysec", "no", "always"] {
        let house = house().args(["--set", &format!("room.fsync={fsync}")]).start();
        for round in 0..ROUNDS {
            let acknowledged: Vec<AtomicI64> = (0..CLIENTS).map(|_| AtomicI64::new(0)).collect();
            std::thread::scope(|scope| {
                for (number, acknowledged) in acknowledged.iter().enumerate() {
                    let client = connect(&house);
                    scope.spawn(move || count_up(client, number, acknowledged));
                }
                let before: Vec<i64> = acknowledged
                    .iter()
                    .map(|one| one.load(Ordering::SeqCst))
                    .collect();
                let enough = 50 * (round as i64 + 1);
                wait::until("all have counted for a while", LIMIT, || {
                    let pairs = acknowledged.iter().zip(&before);
                    pairs
                        .into_iter()
                        .all(|(now, before)| now.load(Ordering::SeqCst) >= before + enough)
                });
                house.process().kill9();
            });
            house.restart();
            let mut client = connect(&house);
            for (number, acknowledged) in acknowledged.iter().enumerate() {
                let reply = client.cmd(&["GET", &key(number)]).unwrap();
                let kept: i64 = reply.text().parse().unwrap_or(0);
                let acknowledged = acknowledged.load(Ordering::SeqCst);
                assert!(
                    kept >= acknowledged,
                    "fsync={fsync}, round {round}: {acknowledged} were acknowledged, {kept} are left"
                );
            }
        }
    }
}
