//! The table beside Redis's own: COMMAND INFO and COMMAND GETKEYS of everything that both have.

use std::collections::BTreeSet;

use nagaya_commands::table;
use nagaya_resp::{Frame, Proto, parse_frame};

use crate::harness::Pair;

/// Asks both sides and returns the parsed replies.
fn both(pair: &mut Pair, args: &[&[u8]]) -> (Frame, Frame) {
    let (ours, theirs) = pair.run(args);
    let frame = |bytes: &[u8]| parse_frame(bytes).unwrap().unwrap().0;
    (frame(&ours), frame(&theirs))
}

fn items(frame: &Frame) -> &[Frame] {
    match frame {
        Frame::Array(items) | Frame::Set(items) => items,
        other => panic!("not a list: {other:?}"),
    }
}

fn names(frame: &Frame) -> BTreeSet<String> {
    let texts = items(frame).iter().map(|name| match name {
        Frame::Simple(text) | Frame::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("not a name: {other:?}"),
    });
    texts.collect()
}

/// Returns key specs without their notes, their flags sorted.
fn key_specs(frame: &Frame) -> Vec<String> {
    let specs = items(frame).iter().map(|spec| {
        let Frame::Map(pairs) = spec else {
            panic!("{spec:?}")
        };
        let told = pairs
            .iter()
            .filter(|(name, _)| *name != Frame::Bulk(b"notes".to_vec()));
        told.map(|(name, value)| match value {
            Frame::Set(_) => format!("{name:?}={:?} ", names(value)),
            _ => format!("{name:?}={value:?} "),
        })
        .collect()
    });
    specs.collect()
}

/// Tells how two entries of COMMAND INFO differ.
fn differences(ours: &Frame, theirs: &Frame) -> Vec<String> {
    let (ours, theirs) = (items(ours), items(theirs));
    let mut found = Vec::new();
    let mut compare = |what: &str, ours: String, theirs: String| {
        if ours != theirs {
            found.push(format!("{what}: ours {ours}, theirs {theirs}"));
        }
    };
    for (at, what) in [(0, "name"), (1, "arity"), (3, "first"), (4, "last"), (5, "step")] {
        compare(what, format!("{:?}", ours[at]), format!("{:?}", theirs[at]));
    }
    for (at, what) in [(2, "flags"), (6, "categories")] {
        compare(
            what,
            format!("{:?}", names(&ours[at])),
            format!("{:?}", names(&theirs[at])),
        );
    }
    compare(
        "keys",
        key_specs(&ours[8]).join("\n"),
        key_specs(&theirs[8]).join("\n"),
    );
    found
}

/// Commands that take more since a later version than the one we are compared with.
const GROWN: &[&str] = &["zrank: arity", "zrevrank: arity"];

#[test]
fn the_table_describes_commands_as_redis_does() {
    let mut pair = Pair::new(Proto::Resp3);
    let mut wrong = Vec::new();
    let is_newer = |since: &str| {
        ["7.2", "7.4", "8.", "9."]
            .iter()
            .any(|new| since.starts_with(new))
    };
    let known =
        table::every().filter(|command| command.spec.group != "room" && !is_newer(command.spec.since));
    for command in known {
        let name = command.full_name.as_bytes();
        let (ours, theirs) = both(&mut pair, &[b"COMMAND", b"INFO", name]);
        let (ours, theirs) = (&items(&ours)[0], &items(&theirs)[0]);
        if *theirs == Frame::Null {
            wrong.push(format!("{}: Redis has no such command", command.full_name));
            continue;
        }
        let found = differences(ours, theirs).into_iter();
        let told = found.map(|difference| format!("{}: {difference}", command.full_name));
        wrong.extend(told.filter(|told| !GROWN.iter().any(|grown| told.starts_with(grown))));
    }
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn keys_are_found_where_redis_finds_them() {
    for proto in [Proto::Resp2, Proto::Resp3] {
        let mut pair = Pair::new(proto);
        for request in [
            "GET key",
            "GET",
            "SET k v",
            "SET k v GET",
            "MSET a 1 b 2",
            "MSET a 1 b",
            "LCS a b",
            "XGROUP CREATE key group $",
            "XREAD COUNT 2 STREAMS a b 0 0",
            "XREAD COUNT 2",
            "SORT k STORE d",
            "SORT k BY w* GET x* STORE d STORE e",
            "LMOVE a b LEFT RIGHT",
            "LMPOP 2 a b LEFT",
            "LMPOP 9 a b LEFT",
            "LMPOP x a b LEFT",
            "SINTERCARD 2 a b LIMIT 1",
            "SINTERCARD 0 a b",
            "COPY a b",
            "ZUNIONSTORE d 2 a b WEIGHTS 1 2",
            "ZUNIONSTORE d 9 a b",
            "ZMPOP 2 a b MIN",
            "GEORADIUS k 1 2 3 m STORE d",
            "GEORADIUS k 1 2 3 m STOREDIST d",
            "BITFIELD k GET u4 0",
            "BITFIELD k SET u4 0 1",
            "BITOP AND d a b",
            "PFCOUNT a b",
            "OBJECT ENCODING key",
            "PING text",
            "MULTI x",
            "NOSUCH a",
            "ACL WHOAMI",
            "ACL NOSUCH",
        ] {
            pair.same(&format!("COMMAND GETKEYS {request}"));
            pair.same(&format!("COMMAND GETKEYSANDFLAGS {request}"));
        }
    }
}

#[test]
fn names_are_listed_by_filter() {
    let mut pair = Pair::new(Proto::Resp2);
    for request in [
        "COMMAND LIST bad",
        "COMMAND LIST FILTERBY bad",
        "COMMAND LIST FILTERBY bad worse",
        "COMMAND LIST FILTERBY ACLCAT nosuch",
        "COMMAND LIST FILTERBY MODULE nosuch",
        "COMMAND LIST FILTERBY PATTERN set",
        "COMMAND LIST FILTERBY PATTERN nosuch*",
        "COMMAND LIST FILTERBY ACLCAT",
        "COMMAND INFO get|key acl|list|key nosuch",
        "COMMAND DOCS nosuch",
        "COMMAND COUNT x",
        "COMMAND NOSUCH",
        "COMMAND GETKEYS",
    ] {
        pair.same(request);
    }
    let (ours, theirs) = both(
        &mut pair,
        &[b"COMMAND", b"LIST", b"FILTERBY", b"ACLCAT", b"TRANSACTION"],
    );
    assert_eq!(names(&ours), names(&theirs));
}
