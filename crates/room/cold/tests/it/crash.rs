//! kill -9 in the middle of commits.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::thread;

use nagaya_tiering::cold::{ColdTier, Committed};

use crate::support::{Place, assert_sound, child_path, open, put, snapshot, start_child, version};

const TEST: &str = "crash::commits_that_returned_are_there_and_whole_after_kill_9";
const KILLS: u64 = 20;
const WRITERS: u64 = 3;
const TAGS: u64 = 5;

#[test]
fn commits_that_returned_are_there_and_whole_after_kill_9() {
    if let Some(path) = child_path() {
        commit_for_ever(&path);
    }
    let place = Place::new();
    drop(open(&place.path()));
    // The last snapshot that each writer of a child has reported, over all children.
    let mut reported = vec![0; WRITERS as usize];
    for kill in 0..KILLS {
        let mut child = start_child(TEST, &place.path());
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reports = lines.map_while(Result::ok).filter_map(|line| parse(&line));
        // Kill after some number of reports, then hear the rest of what was said before the end.
        let mut heard = 0;
        for (writer, snap) in reports {
            reported[writer] = snap;
            heard += 1;
            if heard == 3 + kill * 2 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(heard >= 3 + kill * 2, "the child ended by itself");
        check(&place.path(), &reported);
    }
}

fn parse(line: &str) -> Option<(usize, u64)> {
    let (writer, snap) = line.strip_prefix("saved ")?.split_once(' ')?;
    Some((writer.parse().ok()?, snap.parse().ok()?))
}

/// Every reported snapshot, or a later one, is there; each with all tags of its commit and all keys.
fn check(path: &Path, reported: &[u64]) {
    let cold = open(path);
    assert_sound(&cold);
    for (writer, &least) in reported.iter().enumerate() {
        let tags = tags_of(writer as u64);
        let names: Vec<&[u8]> = tags.iter().map(Vec::as_slice).collect();
        let loaded: Vec<_> = cold.read(&names).unwrap().into_iter().flatten().collect();
        if least == 0 && loaded.is_empty() {
            continue;
        }
        let snap = loaded[0].saved.snap;
        assert!(
            snap >= least,
            "snapshot {least} of writer {writer} is lost; {snap} is there"
        );
        for tag in &loaded {
            assert_eq!(tag.saved.snap, snap, "a commit was torn");
            let keys: Vec<u8> = tag.rows.iter().map(|row| row.key[0]).collect();
            let expected: Vec<u8> = (0..snap.min(20) as u8).collect();
            assert_eq!(keys, expected);
        }
    }
}

fn tags_of(writer: u64) -> Vec<Vec<u8>> {
    (0..TAGS)
        .map(|tag| format!("{writer}:{tag}").into_bytes())
        .collect()
}

/// What the child does: each thread saves its tags again and again and reports each commit.
fn commit_for_ever(path: &Path) -> ! {
    let cold = open(path);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let cold = &cold;
            scope.spawn(move || {
                let tags = tags_of(writer);
                let names: Vec<&[u8]> = tags.iter().map(Vec::as_slice).collect();
                cold.ensure(&names).unwrap();
                let mut snap = cold.tag(&tags[0]).unwrap().unwrap().saved.snap;
                loop {
                    snap += 1;
                    let change = || vec![put(&[(snap as u8 - 1) % 20], &snap.to_be_bytes())];
                    let of = |tag: &Vec<u8>| snapshot(tag, version(1, snap), change());
                    let snapshots: Vec<_> = tags.iter().map(of).collect();
                    let outcomes = cold.commit(&snapshots, 1).unwrap();
                    assert!(outcomes.iter().all(|&outcome| outcome == Committed::Saved));
                    let line = format!("\nsaved {writer} {snap}\n");
                    std::io::stdout().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
    unreachable!("the threads never end")
}
