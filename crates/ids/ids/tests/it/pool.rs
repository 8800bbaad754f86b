//! The scripts, one by one.

use nagaya_ids::pool::{Error, Extension, GetAnswer, Phase, Refusal, Released};
use nagaya_redis_client::Need;
use nagaya_testkit::{Redis, Reply};

use crate::support::{block_on, call, grant, holder, make, pool_of, proven};

const LONG: u64 = 60_000;

#[test]
fn a_pool_is_initialized_once_and_given_out_lowest_first() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 9, 11).await.unwrap();
        let again = make(&pool, 1, 5).await;
        assert!(
            matches!(again, Err(Error::AlreadyInitialized { .. })),
            "{again:?}"
        );
        for (token, number) in [("a", 9), ("b", 10), ("c", 11)] {
            assert_eq!(
                grant(&pool, &holder(token, token), &call(LONG)).await.number,
                number
            );
        }
        let full = pool.get(&holder("d", "d"), &call(LONG), Need::PRIMARY_ONLY).await;
        assert!(matches!(full, Ok(GetAnswer::NoneFree { .. })), "{full:?}");
        let stats = pool.report().await.unwrap().stats().to_json();
        assert_eq!(stats["client_get_id_count"], 4);
        assert_eq!(stats["client_get_id_success"], 3);
        assert_eq!(stats["get_id_no_available_id"], 1);
        assert_eq!(stats["using_ids"], 3);
    });
}

#[test]
fn all_taken_then_one_released_is_given_out_again() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 2).await.unwrap();
        let (a, b) = (holder("a", "a"), holder("b", "b"));
        grant(&pool, &a, &call(LONG)).await;
        let second = grant(&pool, &b, &call(LONG)).await;
        pool.release(&b, &second, Released::Last { ms: 5 })
            .await
            .unwrap()
            .unwrap();
        let third = grant(&pool, &holder("c", "c"), &call(LONG)).await;
        assert_eq!((third.number, third.floor_ms), (second.number, 5));
        assert!(third.fence > second.fence);
    });
}

#[test]
fn the_longest_expired_number_goes_first() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 2).await.unwrap();
        redis.cmd(&["ZADD", "t:ids", "20", "A1", "10", "A2"]);
        assert_eq!(grant(&pool, &holder("a", "a"), &call(LONG)).await.number, 2);
        assert_eq!(grant(&pool, &holder("b", "b"), &call(LONG)).await.number, 1);
    });
}

#[test]
fn a_fresh_number_waits_and_a_cleanly_released_one_does_not() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 1).await.unwrap();
        let a = holder("a", "a");
        let first = grant(&pool, &a, &call(LONG)).await;
        assert!(!first.at_once);
        // Released before its delay was over: the holder before it may still be there.
        pool.release(&a, &first, Released::Last { ms: 0 })
            .await
            .unwrap()
            .unwrap();
        let second = grant(&pool, &a, &call(LONG)).await;
        assert!(!second.at_once);
        let opened = pool
            .extend(&a, &second, Phase::DelayOver, &call(LONG), Need::PRIMARY_ONLY)
            .await;
        assert!(
            matches!(
                opened,
                Ok(Extension::Extended {
                    run_changed: false,
                    ..
                })
            ),
            "{opened:?}"
        );
        pool.release(&a, &second, Released::Last { ms: 7 })
            .await
            .unwrap()
            .unwrap();
        let third = grant(&pool, &holder("b", "b"), &call(LONG)).await;
        assert!(third.at_once);
        assert_eq!(third.floor_ms, 7);
    });
}

#[test]
fn a_name_gets_its_number_back_at_once_only_with_proof() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 9).await.unwrap();
        let before = grant(&pool, &holder("a", "one"), &call(LONG)).await;
        let one = holder("a", "one");
        pool.extend(&one, &before, Phase::DelayOver, &call(LONG), Need::PRIMARY_ONLY)
            .await
            .unwrap();
        let unproven = grant(&pool, &holder("a", "two"), &call(LONG)).await;
        assert_eq!(
            (unproven.number, unproven.at_once, unproven.proved),
            (before.number, false, false)
        );
        let id = holder("a", "two");
        let open = pool
            .extend(&id, &unproven, Phase::DelayOver, &call(LONG), Need::PRIMARY_ONLY)
            .await;
        open.unwrap();
        let proven = grant(&pool, &holder("a", "three"), &proven(LONG, "two")).await;
        assert_eq!(
            (proven.number, proven.at_once, proven.proved),
            (before.number, true, true)
        );
        assert!(before.fence < unproven.fence && unproven.fence < proven.fence);
        // The one before was robbed by its own name, and is told so.
        let robbed = pool
            .extend(&id, &unproven, Phase::InUse, &call(LONG), Need::PRIMARY_ONLY)
            .await;
        let same_name = Extension::Refused(Refusal::Robbed { same_name: true });
        assert_eq!(robbed.unwrap(), same_name);
        assert!(matches!(
            pool.release(&id, &unproven, Released::Last { ms: 0 }).await,
            Ok(Err(Refusal::Robbed { .. }))
        ));
    });
}

#[test]
fn a_crash_during_the_delay_does_not_return_at_once() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 1).await.unwrap();
        grant(&pool, &holder("a", "one"), &call(LONG)).await;
        let back = grant(&pool, &holder("a", "two"), &proven(LONG, "one")).await;
        assert!(back.proved && !back.at_once);
    });
}

#[test]
fn asking_again_with_the_same_token_finds_the_grant_and_renews_the_fence() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 9).await.unwrap();
        let id = holder("a", "one");
        let first = grant(&pool, &id, &call(LONG)).await;
        let again = grant(&pool, &id, &call(LONG)).await;
        assert_eq!(again.number, first.number);
        assert_eq!(again.fence, first.fence + 1);
        let stale = pool
            .extend(&id, &first, Phase::InUse, &call(LONG), Need::PRIMARY_ONLY)
            .await;
        assert!(
            matches!(stale, Ok(Extension::Refused(Refusal::Robbed { .. }))),
            "{stale:?}"
        );
    });
}

#[test]
fn ceilings_only_rise_until_a_release_names_the_last_time() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 1).await.unwrap();
        let id = holder("a", "one");
        let first = grant(&pool, &id, &call(LONG)).await;
        let mut lower = call(LONG);
        lower.ceil_ms = 10;
        let extended = pool
            .extend(&id, &first, Phase::Waiting, &lower, Need::PRIMARY_ONLY)
            .await
            .unwrap();
        assert!(
            matches!(extended, Extension::Extended { ceil_ms: 1000, .. }),
            "{extended:?}"
        );
        let again = grant(&pool, &id, &lower).await;
        assert_eq!(again.floor_ms, 1000);
        pool.release(&id, &again, Released::Last { ms: 400 })
            .await
            .unwrap()
            .unwrap();
        assert_eq!(grant(&pool, &id, &lower).await.floor_ms, 400);
    });
}

#[test]
fn an_expired_reservation_alone_refuses_nothing_and_is_counted() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 1).await.unwrap();
        let id = holder("a", "one");
        let held = grant(&pool, &id, &call(LONG)).await;
        redis.cmd(&["ZADD", "t:ids", "1", "A1"]);
        let late = pool
            .extend(&id, &held, Phase::InUse, &call(LONG), Need::PRIMARY_ONLY)
            .await;
        assert!(matches!(late, Ok(Extension::Extended { .. })), "{late:?}");
        let stats = pool.report().await.unwrap().stats().to_json();
        assert_eq!(stats["extend_ttl_expire_warning"], 1);
        assert_eq!(stats["extend_ttl_success"], 1);
    });
}

#[test]
fn a_clock_that_went_back_does_not_lock_the_pool() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 1).await.unwrap();
        grant(&pool, &holder("a", "one"), &call(LONG)).await;
        // As if the server's clock had been a day ahead when the number was reserved.
        let far = redis.cmd(&["TIME"]).items()[0].text().parse::<u64>().unwrap() + 86_400;
        redis.cmd(&["ZADD", "t:ids", &far.to_string(), "A1"]);
        let full = pool
            .get(&holder("b", "two"), &call(LONG), Need::PRIMARY_ONLY)
            .await
            .unwrap();
        let GetAnswer::NoneFree { next_in } = full else {
            panic!("{full:?}")
        };
        assert!(next_in.as_secs() <= 60, "{next_in:?}");
    });
}

#[test]
fn a_pool_grows_under_holders_and_shrinks_only_over_unused_numbers() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        assert!(matches!(pool.grow(1, 2).await, Err(Error::NotInitialized { .. })));
        make(&pool, 5, 6).await.unwrap();
        let id = holder("a", "one");
        let held = grant(&pool, &id, &call(LONG)).await;
        assert!(matches!(pool.grow(6, 9).await, Err(Error::NotWider { .. })));
        pool.grow(4, 8).await.unwrap();
        assert_eq!(pool.range().await.unwrap(), (4, 8));
        assert_eq!(redis.cmd(&["ZCARD", "t:ids"]), Reply::Int(5));
        let still = pool
            .extend(&id, &held, Phase::Waiting, &call(LONG), Need::PRIMARY_ONLY)
            .await;
        assert!(matches!(still, Ok(Extension::Extended { .. })), "{still:?}");
        let used = pool.shrink(6, 8).await;
        assert!(matches!(used, Err(Error::Used { number: 5, .. })), "{used:?}");
        assert_eq!(redis.cmd(&["ZCARD", "t:ids"]), Reply::Int(5), "all or nothing");
        pool.release(&id, &held, Released::Last { ms: 0 })
            .await
            .unwrap()
            .unwrap();
        pool.shrink(6, 8).await.unwrap();
        assert_eq!(redis.cmd(&["ZCARD", "t:ids"]), Reply::Int(3));
        let gone = pool
            .extend(&id, &held, Phase::InUse, &call(LONG), Need::PRIMARY_ONLY)
            .await
            .unwrap();
        assert_eq!(gone, Extension::Refused(Refusal::Missing));
        let bad = pool.shrink(8, 7).await;
        assert!(matches!(bad, Err(Error::BadRange { .. })), "{bad:?}");
    });
}

#[test]
fn flushall_refuses_holders_and_fences_go_on_rising() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 1).await.unwrap();
        let id = holder("a", "one");
        let held = grant(&pool, &id, &call(LONG)).await;
        redis.cmd(&["FLUSHALL"]);
        let gone = pool
            .extend(&id, &held, Phase::InUse, &call(LONG), Need::PRIMARY_ONLY)
            .await
            .unwrap();
        assert_eq!(gone, Extension::Refused(Refusal::Missing));
        let missing = pool.get(&id, &call(LONG), Need::PRIMARY_ONLY).await;
        assert!(
            matches!(missing, Err(Error::NotInitialized { .. })),
            "{missing:?}"
        );
        make(&pool, 1, 1).await.unwrap();
        let next = grant(&pool, &id, &call(LONG)).await;
        assert!(next.fence > held.fence && !next.at_once);
    });
}

#[test]
fn keys_of_another_type_are_the_callers_error() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        redis.cmd(&["SET", "t:ids", "x"]);
        let error = pool
            .get(&holder("a", "a"), &call(LONG), Need::PRIMARY_ONLY)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("WRONGTYPE"), "{error}");
        assert!(!error.is_retryable());
    });
}
