//! What works while the cold tier is away.

use std::sync::Arc;
use std::time::Duration;

use nagaya_clock::{Clock, SystemClock};
use nagaya_testkit::{Postgres, Redis, Reply, RespClient, wait};

use super::whole::{Town, client, open_postgres};
use crate::flaky::Flaky;

const PATIENCE: Duration = Duration::from_secs(60);

#[track_caller]
fn is_put_off(client: &mut RespClient, words: &[&str]) {
    let reply = client.cmd(words).unwrap();
    let is_told = |text: &str| text.starts_with("TRYAGAIN") && text.contains("cold tier");
    assert!(reply.error().is_some_and(is_told), "{words:?}: {reply:?}");
}

#[test]
fn tags_in_memory_are_served_through_an_outage_and_others_when_it_ends_in_time() {
    let redis = Redis::start();
    let cold = Arc::new(Flaky::default());
    let town = Town::over(redis.url(), cold.clone());
    let (impatient, patient) = (
        town.serve_with(Duration::from_millis(500)),
        town.serve_with(PATIENCE),
    );
    let (mut one, mut two) = (client(impatient.address()), client(patient.address()));
    assert_eq!(one.cmd(&["SET", "{in}k", "0"]).unwrap(), Reply::ok());
    cold.set_down(true);
    // For longer than a lease, through either server.
    let mut number = 0;
    let start = SystemClock.steady();
    while SystemClock.steady() < start + Duration::from_secs(2) {
        number += 1;
        assert_eq!(one.cmd(&["INCR", "{in}k"]).unwrap().int(), number);
        assert_eq!(
            two.cmd(&["GET", "{in}k"]).unwrap(),
            Reply::bulk(number.to_string())
        );
    }
    is_put_off(&mut one, &["GET", "{out}k"]);
    is_put_off(&mut one, &["SET", "{out}k", "x"]);
    is_put_off(&mut one, &["BLPOP", "{out}list", "1"]);
    one.cmd(&["MULTI"]).unwrap();
    one.cmd(&["SET", "{out}k", "x"]).unwrap();
    is_put_off(&mut one, &["EXEC"]);
    two.send(&["SET", "{out}k", "late"]).unwrap();
    is_put_off(&mut one, &["GET", "{out}k"]);
    cold.set_down(false);
    assert_eq!(two.receive().unwrap(), Reply::ok());
    wait::until("the other server is served again", PATIENCE, || {
        one.cmd(&["GET", "{out}k"]).unwrap() == Reply::bulk("late")
    });
}

#[test]
fn a_database_that_stops_and_starts_again_loses_nothing() {
    let redis = Redis::start();
    let postgres = Postgres::start();
    let database = postgres.create_database();
    let town = Town::over(redis.url(), open_postgres(&database));
    let proxy = town.serve_with(Duration::from_millis(500));
    let tasks = town.tasks("one");
    let mut client = client(proxy.address());
    for number in 0..20 {
        client
            .cmd(&["SET", &format!("{{p{number}}}k"), "before"])
            .unwrap();
    }
    wait::until("all is cold", PATIENCE, || tasks.stats().evicted >= 20);
    assert_eq!(client.cmd(&["SET", "{in}k", "x"]).unwrap(), Reply::ok());
    postgres.kill9();
    assert_eq!(client.cmd(&["APPEND", "{in}k", "y"]).unwrap().int(), 2);
    is_put_off(&mut client, &["GET", "{p1}k"]);
    assert_eq!(client.cmd(&["APPEND", "{in}k", "z"]).unwrap().int(), 3);
    postgres.restart();
    for number in 0..20 {
        let key = format!("{{p{number}}}k");
        wait::until("the tag is loaded again", PATIENCE, || {
            client.cmd(&["GET", &key]).unwrap() == Reply::bulk("before")
        });
    }
    wait::until("what was unsaved is cold", PATIENCE, || {
        town.tier("look").residents().unwrap() == 0
    });
    assert_eq!(client.cmd(&["GET", "{in}k"]).unwrap(), Reply::bulk("xyz"));
    tasks.stop();
}

#[test]
fn unsaved_changes_fill_memory_up_to_the_nodes_limit_and_not_beyond() {
    let redis = Redis::start();
    let cold = Arc::new(Flaky::default());
    let town = Town::over(redis.url(), cold.clone());
    let proxy = town.serve();
    let tasks = town.tasks("one");
    let mut client = client(proxy.address());
    let key = |number: usize| format!("{{m{number}}}k");
    for number in 0..20 {
        client.cmd(&["SET", &key(number), "x"]).unwrap();
    }
    cold.set_down(true);
    let used: u64 = {
        let info = redis.cmd(&["INFO", "memory"]).text();
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:"))
            .unwrap();
        line.parse().unwrap()
    };
    redis.cmd(&["CONFIG", "SET", "maxmemory", &(used + (8 << 20)).to_string()]);
    let part = "p".repeat(50_000);
    let mut lengths = [1_i64; 20];
    let refusal = 'full: loop {
        for (number, length) in lengths.iter_mut().enumerate() {
            match client.cmd(&["APPEND", &key(number), &part]).unwrap() {
                Reply::Int(now) => *length = now,
                refused => break 'full refused,
            }
        }
    };
    assert!(
        refusal.error().is_some_and(|text| text.starts_with("OOM")),
        "{refusal:?}"
    );
    // Nothing that is not saved leaves, reads go on, and so does what frees memory.
    for (number, length) in lengths.iter().enumerate() {
        assert_eq!(client.cmd(&["STRLEN", &key(number)]).unwrap().int(), *length);
    }
    assert_eq!(client.cmd(&["DEL", &key(0)]).unwrap().int(), 1);
    lengths[0] = 0;
    cold.set_down(false);
    wait::until("writes are taken again", PATIENCE, || {
        client.cmd(&["SET", "{new}k", &part]).unwrap() == Reply::ok()
    });
    for (number, length) in lengths.into_iter().enumerate() {
        wait::until("the tag has room again", PATIENCE, || {
            client.cmd(&["STRLEN", &key(number)]).unwrap() == Reply::Int(length)
        });
    }
    tasks.stop();
}
