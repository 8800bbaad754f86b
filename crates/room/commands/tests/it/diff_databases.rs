//! Databases: the same requests to an engine and to a server of the test's own, which both have sixteen.

use nagaya_resp::Proto;
use nagaya_store::rng::Rng;
use nagaya_testkit::Redis;

use crate::harness::{Compare, Pair, pick, seed, words};

const KEYS: &[&str] = &["a", "b", "{t}1", "{t}2", "l"];

fn request(rng: &mut Rng) -> (Vec<Vec<u8>>, Compare) {
    let (key, other) = (pick(rng, KEYS), pick(rng, KEYS));
    let (database, second) = (rng.below(5), rng.below(5));
    let edge = pick(rng, &["-1", "16", "x", "99999999999", "2147483648", ""]);
    let text = match rng.below(30) {
        0..=4 => format!("SELECT {database}"),
        5..=7 => format!("MOVE {key} {database}"),
        8 | 9 => format!("COPY {key} {other} DB {database}"),
        10 => format!("COPY {key} {other} DB {database} REPLACE"),
        11 => format!("COPY {key} {other} REPLACE DB {database}"),
        12 => format!("SWAPDB {database} {second}"),
        13 => format!("SET {key} {}", rng.below(1000)),
        14 => format!("SET {key} v EX {}", 100 + rng.below(100)),
        15 => format!("APPEND {key} x"),
        16 => format!("RPUSH l {}", rng.below(9)),
        17 => "DBSIZE".to_owned(),
        18 if rng.below(6) == 0 => "FLUSHDB".to_owned(),
        19 if rng.below(20) == 0 => "FLUSHALL".to_owned(),
        20 => return (words("KEYS *"), Compare::Unordered),
        21 => format!("SELECT {edge}"),
        22 => match rng.below(4) {
            0 => format!("MOVE {key} {edge}"),
            1 => format!("COPY {key} {other} DB {edge}"),
            2 => format!("SWAPDB {edge} {database}"),
            _ => format!("SWAPDB {database} {edge}"),
        },
        23 => format!("TTL {key}"),
        24 => "INFO keyspace".to_owned(),
        25 => "MULTI".to_owned(),
        26 | 27 => "EXEC".to_owned(),
        28 => format!("WATCH {key}"),
        _ => format!("GET {key}"),
    };
    let compare = match text.as_str() {
        // The average time to live is an estimate.
        "INFO keyspace" => Compare::Skip,
        text if text.starts_with("TTL") => Compare::Near(1),
        _ => Compare::Exact,
    };
    (words(&text), compare)
}

#[test]
fn databases_behave_alike() {
    let seed = seed();
    let steps = match std::env::var_os("NAGAYA_TEST_LONG") {
        Some(_) => 200_000,
        None => 6_000,
    };
    for proto in [Proto::Resp2, Proto::Resp3] {
        let server = Redis::start();
        let mut pair = Pair::on(&server, proto);
        pair.note(format!("NAGAYA_SEED={seed} {proto:?}: "));
        let mut rng = Rng::seeded(seed);
        // How alike the replies of the open transaction must be.
        let mut transaction: Option<Compare> = None;
        for _ in 0..steps {
            let (request, mut compare) = request(&mut rng);
            match (request[0].as_slice(), &mut transaction) {
                (b"MULTI", None) => transaction = Some(Compare::Exact),
                (b"EXEC", open) => compare = open.take().unwrap_or(Compare::Exact),
                (_, Some(open)) if compare != Compare::Exact => {
                    *open = Compare::Skip;
                    compare = Compare::Exact;
                }
                _ => {}
            }
            let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            pair.check(&args, compare);
        }
    }
}

#[test]
fn scripts_transactions_and_listings_know_their_database() {
    let server = Redis::start();
    let mut pair = Pair::on(&server, Proto::Resp2);
    for request in [
        "SELECT 9",
        "SET k nine",
        "CONFIG GET databases",
        "EVAL return(redis.call('get','k')) 0",
        "MULTI",
        "SELECT 3",
        "SET k three",
        "EXEC",
        "GET k",
        "DBSIZE",
        "DEBUG DIGEST",
        "SELECT 9",
        "INFO keyspace",
        "MOVE k 3",
        "COPY k k DB 3",
        "COPY k k DB 9",
        "RESET",
        "GET k",
        "DBSIZE",
        "OBJECT ENCODING k",
        "SELECT 3",
        "OBJECT ENCODING k",
        "TYPE k",
        "SWAPDB 3 9",
        "GET k",
        "FLUSHDB",
        "INFO keyspace",
        "FLUSHALL",
        "INFO keyspace",
    ] {
        pair.same(request);
    }
}
