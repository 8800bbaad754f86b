//! Streams: random requests with given ids, times masked in the replies.

use nagaya_resp::{Frame, Proto, parse_frame};
use nagaya_store::rng::Rng;

use crate::harness::{Compare, Pair, drive, pick, words};

const KEYS: &[&str] = &["s1", "s2", "text"];
const GROUPS: &[&str] = &["g1", "g2"];
const CONSUMERS: &[&str] = &["alice", "bob", "carol"];

#[test]
fn entries_are_added_read_and_removed_alike() {
    drive(3000, |rng| (words(&entries(rng)), Compare::Exact));
}

#[test]
fn dumps_of_streams_are_equal() {
    drive(1500, |rng| {
        let request = if rng.below(4) == 0 {
            format!("DUMP {}", pick(rng, KEYS))
        } else {
            entries(rng)
        };
        (words(&request), Compare::Exact)
    });
}

#[test]
fn groups_read_and_acknowledge_alike() {
    drive(4000, |rng| {
        let request = if rng.below(3) == 0 {
            entries(rng)
        } else {
            groups(rng)
        };
        (words(&request), Compare::Exact)
    });
}

#[test]
fn pending_entries_are_listed_and_claimed_alike() {
    let seed = seed();
    for proto in [Proto::Resp2, Proto::Resp3] {
        let mut rng = Rng::seeded(seed);
        let mut pair = Pair::new(proto);
        for step in 0..3000 {
            let request = match rng.below(8) {
                0 | 1 => entries(&mut rng),
                2..=4 => groups(&mut rng),
                _ => claims(&mut rng),
            };
            let args = words(&request);
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let (ours, theirs) = pair.run(&args);
            let (ours, theirs) = (masked(&request, &ours), masked(&request, &theirs));
            assert_eq!(
                ours, theirs,
                "NAGAYA_SEED={seed} {proto:?} step {step}: {request}"
            );
        }
    }
}

#[test]
fn requests_with_errors_are_refused_alike() {
    let mut pair = Pair::new(Proto::Resp2);
    pair.same("SET text v");
    pair.same("XADD s 1-1 f v");
    pair.same("XGROUP CREATE s g 0");
    for request in ERRORS {
        pair.same(request);
    }
}

const ERRORS: &[&str] = &[
    "XADD s",
    "XADD s * f",
    "XADD s 5-5 f v g",
    "XADD s 0-0 f v",
    "XADD s x f v",
    "XADD s - f v",
    "XADD s 1-1-1 f v",
    "XADD s MAXLEN 10 MINID 1 * f v",
    "XADD s MAXLEN -1 * f v",
    "XADD s MAXLEN x * f v",
    "XADD s MAXLEN = x * f v",
    "XADD s MINID x * f v",
    "XADD s LIMIT 5 * f v",
    "XADD s MAXLEN 5 LIMIT 5 * f v",
    "XADD s MAXLEN ~ 5 LIMIT -5 * f v",
    "XADD s MAXLEN ~ 5 LIMIT x * f v",
    "XADD s NOMKSTREAM 1-0 f v",
    "XADD missing NOMKSTREAM 1-0 f v",
    "XADD text 1-0 f v",
    "XADD s 18446744073709551616-0 f v",
    "XADD s MAXLEN ~ f v",
    "XTRIM s",
    "XTRIM s MAXLEN",
    "XTRIM s MAXLEN x",
    "XTRIM s BAD 5",
    "XTRIM s LIMIT 5",
    "XTRIM s MAXLEN 5 LIMIT 5",
    "XTRIM text MAXLEN 5",
    "XTRIM missing MAXLEN 5",
    "XLEN text",
    "XRANGE s x +",
    "XRANGE s - x",
    "XRANGE s (- +",
    "XRANGE s - (+",
    "XRANGE s ( +",
    "XRANGE s (18446744073709551615-18446744073709551615 +",
    "XRANGE s - (0-0",
    "XRANGE s - + COUNT",
    "XRANGE s - + COUNT x",
    "XRANGE s - + COUNT 0",
    "XRANGE s - + COUNT -5",
    "XRANGE missing - + COUNT 0",
    "XRANGE s - + LIMIT 1",
    "XRANGE text - +",
    "XREVRANGE text + -",
    "XDEL s x",
    "XDEL missing x",
    "XDEL text 1",
    "XREAD STREAMS s",
    "XREAD STREAMS s 0 0",
    "XREAD COUNT x STREAMS s 0",
    "XREAD BLOCK x STREAMS s 0",
    "XREAD BLOCK -1 STREAMS s 0",
    "XREAD BLOCK 9223372036854775807 STREAMS s 0",
    "XREAD GROUP g c STREAMS s 0",
    "XREAD NOACK STREAMS s 0",
    "XREAD STREAMS s >",
    "XREAD STREAMS s x",
    "XREAD STREAMS text 0",
    "XREAD COUNT 5 s 0",
    "XREAD FOO 5 STREAMS s 0",
    "XREADGROUP GROUP g c STREAMS s $",
    "XREADGROUP GROUP g c STREAMS s",
    "XREADGROUP COUNT 5 NOACK BLOCK 5 STREAMS s >",
    "XREADGROUP GROUP nog c STREAMS s >",
    "XREADGROUP GROUP g c STREAMS missing >",
    "XREADGROUP GROUP g c STREAMS text >",
    "XGROUP",
    "XGROUP FOO",
    "XGROUP CREATE s",
    "XGROUP CREATE s g 0",
    "XGROUP CREATE s g2 x",
    "XGROUP CREATE s g2 -",
    "XGROUP CREATE missing g 0",
    "XGROUP CREATE text g 0 MKSTREAM",
    "XGROUP CREATE s g2 0 FOO",
    "XGROUP CREATE s g2 0 ENTRIESREAD",
    "XGROUP CREATE s g2 0 ENTRIESREAD x",
    "XGROUP CREATE s g2 0 ENTRIESREAD -2",
    "XGROUP CREATE s g2 0 ENTRIESREAD 1 ENTRIESREAD 2",
    "XGROUP SETID s nog 0",
    "XGROUP SETID s g x",
    "XGROUP SETID s g 0 MKSTREAM",
    "XGROUP SETID s g 0 ENTRIESREAD 1 ENTRIESREAD 2",
    "XGROUP SETID missing g 0",
    "XGROUP SETID s g -",
    "XGROUP DESTROY s nog",
    "XGROUP DESTROY missing g",
    "XGROUP CREATECONSUMER s nog c",
    "XGROUP CREATECONSUMER missing g c",
    "XGROUP DELCONSUMER s nog c",
    "XGROUP DELCONSUMER s g nobody",
    "XACK s g x",
    "XACK s nog x",
    "XACK missing g 1",
    "XACK text g 1",
    "XPENDING s",
    "XPENDING s g -",
    "XPENDING s nog",
    "XPENDING missing g",
    "XPENDING text g",
    "XPENDING s g - + x",
    "XPENDING s g x + 1",
    "XPENDING s g - x 1",
    "XPENDING s g IDLE x - + 1",
    "XPENDING s g IDLE 1 - +",
    "XPENDING s g IDLE 1 - + 1 c d",
    "XPENDING s g - + -5",
    "XPENDING s g + - 5",
    "XPENDING s g (18446744073709551615-18446744073709551615 + 5",
    "XPENDING s g - (0-0 5",
    "XCLAIM s g c",
    "XCLAIM s g c x 1-1",
    "XCLAIM s nog c 0 1-1",
    "XCLAIM missing g c 0 1-1",
    "XCLAIM text g c 0 1-1",
    "XCLAIM s g c 0 1-1 FOO",
    "XCLAIM s g c 0 1-1 IDLE",
    "XCLAIM s g c 0 1-1 IDLE x",
    "XCLAIM s g c 0 1-1 TIME x",
    "XCLAIM s g c 0 1-1 RETRYCOUNT x",
    "XCLAIM s g c 0 1-1 LASTID x",
    "XCLAIM s g c 0 x 1-1",
    "XAUTOCLAIM s g c x 0",
    "XAUTOCLAIM s g c 0 x",
    "XAUTOCLAIM s g c 0 0 COUNT 0",
    "XAUTOCLAIM s g c 0 0 COUNT x",
    "XAUTOCLAIM s g c 0 0 COUNT 9223372036854775807",
    "XAUTOCLAIM s g c 0 0 FOO",
    "XAUTOCLAIM s nog c 0 0",
    "XAUTOCLAIM missing g c 0 0",
    "XAUTOCLAIM text g c 0 0",
    "XSETID s x",
    "XSETID s 0-1",
    "XSETID missing 1-1",
    "XSETID text 1-1",
    "XSETID s 5-5 ENTRIESADDED -1",
    "XSETID s 5-5 ENTRIESADDED 0",
    "XSETID s 5-5 MAXDELETEDID 6-6",
    "XSETID s 5-5 FOO 6-6",
    "XSETID s 18446744073709551615-18446744073709551615",
    "XADD s * f v",
    "XADD s 18446744073709551615-* f v",
    "XINFO",
    "XINFO FOO s",
    "XINFO STREAM",
    "XINFO STREAM missing",
    "XINFO STREAM text",
    "XINFO STREAM s FOO",
    "XINFO STREAM s FULL COUNT",
    "XINFO STREAM s FULL COUNT x",
    "XINFO STREAM s FULL FOO 5",
    "XINFO STREAM s FULL",
    "XINFO GROUPS missing",
    "XINFO GROUPS text",
    "XINFO GROUPS s g",
    "XINFO CONSUMERS s nog",
    "XINFO CONSUMERS missing g",
    "XINFO CONSUMERS text g",
];

fn seed() -> u64 {
    match std::env::var("NAGAYA_SEED") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => Rng::from_entropy().next_u64(),
    }
}

fn id(rng: &mut Rng) -> String {
    match rng.below(6) {
        0 => format!("{}-{}", rng.below(60), rng.below(3)),
        1 => format!("{}", rng.below(60)),
        _ => format!("{}-0", rng.below(60)),
    }
}

fn trim(rng: &mut Rng) -> String {
    match rng.below(7) {
        0 => format!("MAXLEN {}", rng.below(30)),
        1 => format!("MAXLEN = {}", rng.below(30)),
        2 => format!("MAXLEN ~ {}", rng.below(30)),
        3 => format!("MAXLEN ~ {} LIMIT {}", rng.below(30), rng.below(300)),
        4 => format!("MINID {}", id(rng)),
        5 => format!("MINID ~ {}", id(rng)),
        _ => format!("MINID = {}", id(rng)),
    }
}

/// A request about entries only. Streams live until their ids are used up, then start anew.
pub(crate) fn entries(rng: &mut Rng) -> String {
    let key = pick(rng, KEYS);
    let value = pick(
        rng,
        &["v", "12", "-700000", "some longer text that is not a number", ""],
    );
    let fields = match rng.below(5) {
        0 => format!("other {value}"),
        1 => format!("name {value} age {}", rng.below(100)),
        _ => format!("name {value}"),
    };
    match rng.below(26) {
        0..=6 => format!("XADD {key} {} {fields}", id(rng)),
        7..=10 => format!("XADD {key} {}-* {fields}", rng.below(60)),
        11 => format!("XADD {key} {} {}-* {fields}", trim(rng), rng.below(60)),
        12 => format!("XADD {key} NOMKSTREAM {}-* {fields}", rng.below(60)),
        13 => format!("XTRIM {key} {}", trim(rng)),
        14 => format!("XDEL {key} {} {}", id(rng), id(rng)),
        15 => format!("XDEL {key} {}", id(rng)),
        16 => format!("XLEN {key}"),
        17 => format!("XRANGE {key} {} {}", id(rng), id(rng)),
        18 => format!("XRANGE {key} - + COUNT {}", rng.below(5)),
        19 => format!("XREVRANGE {key} {} ({}", id(rng), id(rng)),
        20 => format!("XREVRANGE {key} + - COUNT {}", rng.below(5)),
        21 => format!(
            "XREAD COUNT {} STREAMS s1 s2 {} {}",
            rng.below(4),
            id(rng),
            id(rng)
        ),
        22 => format!("XINFO STREAM {key}"),
        23 => format!("XSETID {key} {}", id(rng)),
        24 if rng.below(4) == 0 => format!("DEL {key}"),
        25 if rng.below(4) == 0 => "SET text v".to_owned(),
        _ => format!("XREAD STREAMS {key} $"),
    }
}

pub(crate) fn groups(rng: &mut Rng) -> String {
    let (key, group, consumer) = (pick(rng, KEYS), pick(rng, GROUPS), pick(rng, CONSUMERS));
    match rng.below(22) {
        0 => format!(
            "XGROUP CREATE {key} {group} {} MKSTREAM",
            pick(rng, &["0", "$", "5", "30"])
        ),
        1 => format!(
            "XGROUP CREATE {key} {group} {} ENTRIESREAD {}",
            id(rng),
            rng.below(20)
        ),
        2 => format!("XGROUP SETID {key} {group} {}", pick(rng, &["0", "$", "20", "+"])),
        3 => format!(
            "XGROUP SETID {key} {group} {} ENTRIESREAD {}",
            id(rng),
            rng.below(20)
        ),
        4 if rng.below(3) == 0 => format!("XGROUP DESTROY {key} {group}"),
        5 => format!("XGROUP CREATECONSUMER {key} {group} {consumer}"),
        6 if rng.below(2) == 0 => format!("XGROUP DELCONSUMER {key} {group} {consumer}"),
        7..=11 => format!(
            "XREADGROUP GROUP {group} {consumer} COUNT {} STREAMS {key} >",
            rng.below(6)
        ),
        12 => format!("XREADGROUP GROUP {group} {consumer} NOACK COUNT 2 STREAMS {key} >"),
        13 => format!("XREADGROUP GROUP {group} {consumer} STREAMS s1 s2 > >"),
        14 | 15 => format!(
            "XREADGROUP GROUP {group} {consumer} COUNT {} STREAMS {key} {}",
            rng.below(5),
            id(rng)
        ),
        16 | 17 => format!("XACK {key} {group} {} {} {}", id(rng), id(rng), id(rng)),
        18 => format!("XPENDING {key} {group}"),
        19 | 20 => format!("XINFO GROUPS {key}"),
        _ => format!("XINFO STREAM {key}"),
    }
}

pub(crate) fn claims(rng: &mut Rng) -> String {
    let (key, group, consumer) = (pick(rng, KEYS), pick(rng, GROUPS), pick(rng, CONSUMERS));
    let idle = pick(rng, &["0", "0", "10000000"]);
    let options = pick(
        rng,
        &[
            "",
            " JUSTID",
            " FORCE",
            " TIME 1000",
            " IDLE 50000000",
            " RETRYCOUNT 7",
            " FORCE JUSTID TIME 1000",
            " LASTID 20-0",
        ],
    );
    match rng.below(9) {
        0 | 1 => format!(
            "XCLAIM {key} {group} {consumer} {idle} {} {}{options}",
            id(rng),
            id(rng)
        ),
        2 => format!("XAUTOCLAIM {key} {group} {consumer} {idle} {}", id(rng)),
        3 => format!(
            "XAUTOCLAIM {key} {group} {consumer} {idle} - COUNT {} JUSTID",
            1 + rng.below(3)
        ),
        4 => format!("XPENDING {key} {group} - + {}", rng.below(10)),
        5 => format!("XPENDING {key} {group} IDLE 10000000 {} {} 10", id(rng), id(rng)),
        6 => format!("XPENDING {key} {group} ({} + 10 {consumer}", id(rng)),
        7 => format!("XINFO CONSUMERS {key} {group}"),
        _ => format!("XINFO STREAM {key} FULL COUNT {}", rng.below(4)),
    }
}

/// Shows a reply without what depends on the clock: idle times, and anything as large as a Unix time.
fn masked(request: &str, reply: &[u8]) -> String {
    let Ok(Some((mut frame, _))) = parse_frame(reply) else {
        return format!("{reply:?}");
    };
    mask_large(&mut frame);
    let Frame::Array(items) = &mut frame else {
        return format!("{frame:?}");
    };
    for item in items {
        match item {
            Frame::Array(parts) if request.starts_with("XPENDING") && parts.len() == 4 => {
                parts[2] = Frame::Int(0)
            }
            Frame::Array(parts) if request.starts_with("XINFO CONSUMERS") => parts[5] = Frame::Int(0),
            Frame::Map(pairs) if request.starts_with("XINFO CONSUMERS") => pairs[2].1 = Frame::Int(0),
            _ => (),
        }
    }
    format!("{frame:?}")
}

fn mask_large(frame: &mut Frame) {
    match frame {
        Frame::Int(number) if *number > 1_000_000_000_000 => *number = -1,
        Frame::Array(items) => items.iter_mut().for_each(mask_large),
        Frame::Map(pairs) => pairs.iter_mut().for_each(|(_, value)| mask_large(value)),
        _ => (),
    }
}
