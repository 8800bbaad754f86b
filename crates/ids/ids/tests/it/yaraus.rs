//! A pool that an original yaraus made and uses beside us.

use nagaya_ids::pool::{Entry, Extension, Phase, Refusal, Released};
use nagaya_redis_client::Need;
use nagaya_testkit::{Redis, Reply};

use crate::support::{block_on, call, grant, holder, pool_of};

const LONG: u64 = 60_000;

/// What yaraus's init leaves behind, and one of its clients at work.
fn yaraus_pool(redis: &Redis) {
    for (member, score) in [("A8", "0"), ("A9", "0"), ("B10", "1487000000.25")] {
        redis.cmd(&["ZADD", "t:ids", score, member]);
    }
    let now: u64 = redis.cmd(&["TIME"]).items()[0].text().parse().unwrap();
    let reserved = format!("{}.123456789", now + 1800);
    redis.cmd(&["ZADD", "t:ids", &reserved, "A7"]);
    redis.cmd(&[
        "HSET",
        "t:clients",
        "A7",
        "other-1487000000.123-4",
        "B10",
        "old-1486000000.000-1",
    ]);
    redis.cmd(&[
        "HSET",
        "t:stats",
        "min",
        "7",
        "max",
        "10",
        "client_id_count",
        "4",
        "get_id_count",
        "5",
    ]);
}

fn entry(redis: &Redis, number: u64) -> Entry {
    let report = block_on(pool_of(redis).report()).unwrap();
    report
        .entries
        .into_iter()
        .find(|entry| entry.number == number)
        .unwrap()
}

#[test]
fn a_live_yaraus_pool_is_used_extended_and_released_in_its_own_format() {
    let redis = Redis::start();
    yaraus_pool(&redis);
    let pool = pool_of(&redis);
    let id = holder("a", "a");
    let held = block_on(grant(&pool, &id, &call(LONG)));
    assert_eq!(held.number, 8, "never used first, the lowest of them");
    assert_eq!(redis.cmd(&["HGET", "t:clients", "A8"]), Reply::bulk("client-a"));
    let score = |member: &str| {
        redis
            .cmd(&["ZSCORE", "t:ids", member])
            .text()
            .parse::<f64>()
            .unwrap()
    };
    let now: f64 = redis.cmd(&["TIME"]).items()[0].text().parse().unwrap();
    let reserved = score("A8");
    assert!(
        reserved > now + 50.0 && reserved < now + 70.0,
        "{reserved} at {now}"
    );
    let extended = block_on(pool.extend(&id, &held, Phase::DelayOver, &call(2 * LONG), Need::PRIMARY_ONLY));
    assert!(matches!(extended, Ok(Extension::Extended { .. })), "{extended:?}");
    assert!(score("A8") > now + 110.0);
    assert!(!entry(&redis, 7).owner.is_empty() && entry(&redis, 7).using());
    block_on(pool.release(&id, &held, Released::Last { ms: 0 }))
        .unwrap()
        .unwrap();
    assert_eq!(redis.cmd(&["HGET", "t:clients", "A8"]), Reply::Nil);
    let released = score("A8");
    assert!(released >= now && released < now + 10.0, "{released} at {now}");
    for (counter, count) in [
        ("get_id_count", "6"),
        ("get_id_success", "1"),
        ("extend_ttl_success", "1"),
    ] {
        assert_eq!(
            redis.cmd(&["HGET", "t:stats", counter]),
            Reply::bulk(count),
            "{counter}"
        );
    }
}

#[test]
fn the_client_id_has_yarauss_form_and_counts_on() {
    let redis = Redis::start();
    yaraus_pool(&redis);
    let owner = block_on(pool_of(&redis).register()).unwrap();
    let mut parts = owner.rsplitn(3, '-');
    assert_eq!(parts.next(), Some("5"));
    let (seconds, millis) = parts.next().unwrap().split_once('.').unwrap();
    assert!(
        seconds.parse::<u64>().unwrap() > 1_700_000_000 && millis.len() == 3,
        "{owner}"
    );
    assert!(!parts.next().unwrap().is_empty());
}

#[test]
fn a_number_that_a_yaraus_client_took_is_not_ours_and_not_at_once() {
    let redis = Redis::start();
    yaraus_pool(&redis);
    let pool = pool_of(&redis);
    let id = holder("a", "a");
    let held = block_on(grant(&pool, &id, &call(LONG)));
    block_on(pool.extend(&id, &held, Phase::DelayOver, &call(LONG), Need::PRIMARY_ONLY)).unwrap();
    // As its get script does: score and owner, and nothing else.
    let now: u64 = redis.cmd(&["TIME"]).items()[0].text().parse().unwrap();
    redis.cmd(&["ZADD", "t:ids", &(now + 1800).to_string(), "A8"]);
    redis.cmd(&["HSET", "t:clients", "A8", "thief-1-1"]);
    let robbed = block_on(pool.extend(&id, &held, Phase::InUse, &call(LONG), Need::PRIMARY_ONLY)).unwrap();
    assert_eq!(robbed, Extension::Refused(Refusal::Robbed { same_name: false }));
    assert!(matches!(
        block_on(pool.release(&id, &held, Released::Last { ms: 0 })),
        Ok(Err(Refusal::Robbed { .. }))
    ));
    assert_eq!(redis.cmd(&["HGET", "t:clients", "A8"]), Reply::bulk("thief-1-1"));
    assert_eq!(entry(&redis, 8).name, None);
    let other = block_on(grant(&pool, &id, &call(LONG)));
    assert_eq!(other.number, 9, "our name's number is in use");
}

#[test]
fn a_number_that_a_yaraus_client_used_in_between_is_not_given_out_at_once() {
    let redis = Redis::start();
    yaraus_pool(&redis);
    let pool = pool_of(&redis);
    let id = holder("a", "a");
    let held = block_on(grant(&pool, &id, &call(LONG)));
    block_on(pool.extend(&id, &held, Phase::DelayOver, &call(LONG), Need::PRIMARY_ONLY)).unwrap();
    block_on(pool.release(&id, &held, Released::Last { ms: 0 }))
        .unwrap()
        .unwrap();
    // Taken and released by yaraus: only the score tells.
    redis.cmd(&["ZADD", "t:ids", "1", "A8"]);
    redis.cmd(&["ZREM", "t:ids", "A9", "B10"]);
    let again = block_on(grant(&pool, &holder("b", "b"), &call(LONG)));
    assert_eq!((again.number, again.at_once), (8, false));
}
