//! Tags that several writers write to: each id exactly once, each writer's ids in order.

use std::collections::HashSet;
use std::net::SocketAddr;

use super::Round;
use super::state::{items, text};
use super::wire::{Wire, frame, words};

/// Tags that all writers share.
const TAGS: usize = 3;

/// A writer of numbered ids to lists, and of ones to counters, that others write to as well.
pub(super) struct Crowded {
    number: usize,
    next_id: u64,
    /// Per tag and round: the ids that were acknowledged.
    lists: Vec<(usize, usize, u64)>,
    /// Per tag: the counts that INCR gave.
    counts: Vec<HashSet<i64>>,
    /// Per tag: INCRs sent.
    sent: Vec<i64>,
    pub(super) acknowledged: u64,
}

impl Crowded {
    pub(super) fn new(number: usize) -> Crowded {
        Crowded {
            number,
            next_id: 0,
            lists: Vec::new(),
            counts: vec![HashSet::new(); TAGS],
            sent: vec![0; TAGS],
            acknowledged: 0,
        }
    }

    /// Writes until the server is gone.
    pub(super) fn run(&mut self, round: &Round<'_>) {
        let Ok(mut wire) = Wire::connect(round.address) else {
            return;
        };
        while round.goes_on() {
            let (id, tag) = (self.next_id, self.next_id as usize % TAGS);
            self.next_id += 1;
            let push = words(&format!("RPUSH {} {}:{id}", list(tag, round.number), self.number));
            match wire.ask(&push) {
                Ok(reply) if reply.starts_with(b"-OOM") => (),
                Ok(reply) => {
                    assert!(reply.starts_with(b":"), "{}", reply.escape_ascii());
                    self.lists.push((tag, round.number, id));
                    self.acknowledged += 1;
                    round.wrote();
                }
                Err(_) => return,
            }
            self.sent[tag] += 1;
            match wire.ask(&words(&format!("INCR {}", counter(tag)))) {
                Ok(reply) if reply.starts_with(b"-OOM") => (),
                Ok(reply) => {
                    let count = text(&frame(&reply)).parse().unwrap();
                    assert!(self.counts[tag].insert(count), "one count twice: {count}");
                    self.acknowledged += 1;
                    round.wrote();
                }
                Err(_) => return,
            }
        }
    }
}

fn list(tag: usize, round: usize) -> String {
    format!("{{shared{tag}}}list{round}")
}

fn counter(tag: usize) -> String {
    format!("{{shared{tag}}}count")
}

/// Compares lists of the given rounds and all counters with what the writers were told.
pub(super) fn verify(crowd: &[Crowded], rounds: std::ops::Range<usize>, address: SocketAddr, context: &str) {
    let mut wire = Wire::connect(address).unwrap();
    for tag in 0..TAGS {
        for round in rounds.clone() {
            let replies = wire.ask_all(&[words(&format!("LRANGE {} 0 -1", list(tag, round)))]);
            let there: Vec<String> = items(&replies[0]).iter().map(text).collect();
            let unique: HashSet<&String> = there.iter().collect();
            assert_eq!(unique.len(), there.len(), "{context}: an id is there twice");
            for writer in crowd {
                check_list(writer, tag, round, &there, &unique, context);
            }
        }
        let counts: Vec<i64> = crowd
            .iter()
            .flat_map(|writer| writer.counts[tag].iter().copied())
            .collect();
        let unique: HashSet<i64> = counts.iter().copied().collect();
        assert_eq!(unique.len(), counts.len(), "{context}: one count was given twice");
        let reply = wire.ask_all(&[words(&format!("INCRBY {} 0", counter(tag)))]);
        let count: i64 = text(&reply[0]).parse().unwrap();
        let highest = counts.iter().copied().max().unwrap_or(0);
        let sent: i64 = crowd.iter().map(|writer| writer.sent[tag]).sum();
        assert!(
            (highest..=sent).contains(&count) && count >= counts.len() as i64,
            "{context}: the counter is {count}, {highest} was told, {sent} were sent"
        );
    }
}

fn check_list(
    writer: &Crowded,
    tag: usize,
    round: usize,
    there: &[String],
    unique: &HashSet<&String>,
    context: &str,
) {
    let told = writer
        .lists
        .iter()
        .filter(|(of_tag, of_round, _)| (*of_tag, *of_round) == (tag, round));
    for (_, _, id) in told {
        let name = format!("{}:{id}", writer.number);
        assert!(
            unique.contains(&name),
            "{context}: {name} was acknowledged and is not there"
        );
    }
    let prefix = format!("{}:", writer.number);
    let ids = there.iter().filter_map(|name| name.strip_prefix(&prefix));
    let ids: Vec<u64> = ids.map(|id| id.parse().unwrap()).collect();
    assert!(ids.is_sorted(), "{context}: {prefix} is out of order");
}
