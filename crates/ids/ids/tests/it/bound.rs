//! The longest use of a pool: who waits, waits for the longest that anybody may have.

use std::sync::Arc;
use std::time::Duration;

use nagaya_clock::{BootClock, SystemClock};
use nagaya_ids::IdClock;
use nagaya_ids::lease::{End, Holder, HolderOptions, Status, Timing};
use nagaya_ids::permit::Permit;
use nagaya_ids::pool::{Error, NewPool};
use nagaya_testkit::{Direction, Folder, Redis, TcpProxy, wait};

use crate::stage::{PATIENCE, Watchman, is_usable, opened, options, reaches};
use crate::support::{USE_MAX, block_on, call, grant, holder, make, pool_at, pool_of, quick_timing};

/// A holder with a window far below the pool's longest. Its id clock is ahead, so that no ceiling makes it wait.
fn short(name: &str) -> HolderOptions {
    let timing = quick_timing();
    let now = SystemClock.now();
    HolderOptions {
        id_clock: IdClock::at(IdClock::start(&SystemClock).unix_ms(now) + 60_000, now),
        timing: Timing {
            use_for: Duration::from_millis(300),
            interval: Duration::from_millis(50),
            ..timing
        },
        ..options(name)
    }
}

fn with_use_max(name: &str, use_max: Duration) -> HolderOptions {
    HolderOptions {
        timing: Timing {
            use_max,
            use_cap: use_max,
            ..quick_timing()
        },
        ..options(name)
    }
}

async fn waiting(holder: &Holder) -> Duration {
    let begun = |status: &Status| matches!(status, Status::Waiting { .. } | Status::Open(_));
    match reaches(holder, "a grant", begun).await {
        Status::Waiting { opens_after, .. } => opens_after.since(SystemClock.now()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_holder_with_a_short_window_waits_for_one_with_a_long_window() {
    let redis = Redis::start();
    let link = TcpProxy::start(redis.address());
    block_on(async {
        let pool = pool_of(&redis);
        make(&pool, 1, 1).await.unwrap();
        let long = Holder::start(
            pool_at(&format!("redis://{}?ns=t", link.address())),
            options("long"),
        )
        .unwrap();
        let window = opened(&long).await;
        // The long one is cut off just after a renewal, and the pool gives its number away.
        link.cut(Direction::Both);
        redis.cmd(&["ZADD", "t:ids", "1", "A1"]);
        let taker = Holder::start(pool, short("short")).unwrap();
        let watch = Watchman::begin(&[&long, &taker]);
        let after = opened(&taker).await;
        assert!(!is_usable(&window) && after.worker() == window.worker());
        watch.end().await;
    });
}

#[test]
fn settings_that_differ_from_the_pools_are_refused_at_the_start() {
    let redis = Redis::start();
    block_on(async {
        let pool = pool_of(&redis);
        make(&pool, 1, 9).await.unwrap();
        let other = Holder::start(pool.clone(), with_use_max("a", USE_MAX * 2)).unwrap();
        let end = other.window().await.unwrap_err();
        assert!(
            matches!(&end, End::BoundDiffers(text) if text.contains("2.4s")),
            "{end:?}"
        );
        assert_eq!(pool.report().await.unwrap().stats().using_ids, 0);
    });
}

#[test]
fn a_pool_without_a_bound_takes_the_first_ones_and_is_young() {
    let redis = Redis::start();
    block_on(async {
        let pool = pool_of(&redis);
        // As yaraus makes it.
        redis.cmd(&["ZADD", "t:ids", "0", "A1", "0", "A2"]);
        let first = grant(&pool, &holder("a", "a"), &call(60_000)).await;
        assert!(first.young.is_some() && !first.at_once);
        assert_eq!(redis.cmd(&["HGET", "t:leases", "bound"]).text(), "1200");
    });
}

#[test]
fn the_first_users_of_a_young_pool_wait_for_the_longest_use_of_any_pool() {
    let redis = Redis::start();
    block_on(async {
        let pool = pool_of(&redis);
        make(&pool, 1, 9).await.unwrap();
        let mut first = options("a");
        first.timing.use_cap = USE_MAX * 2;
        let second = HolderOptions {
            name: Some("b".into()),
            ..first.clone()
        };
        let first = Holder::start(pool.clone(), first).unwrap();
        assert!(waiting(&first).await > USE_MAX + USE_MAX / 2);
        opened(&first).await;
        // It has waited for all others too.
        wait::until("the pool is ripe", PATIENCE, || {
            redis.cmd(&["HGET", "t:leases", "young"]).text() == "0"
        });
        let second = Holder::start(pool, second).unwrap();
        assert!(waiting(&second).await < USE_MAX + USE_MAX / 2);
    });
}

#[test]
fn numbers_that_an_operator_vouched_for_are_used_at_once_in_that_run_only() {
    let redis = Redis::start();
    block_on(async {
        let pool = pool_of(&redis);
        let new = NewPool {
            use_max: USE_MAX,
            unused: true,
        };
        pool.init(1, 3, new).await.unwrap();
        let (a, b) = (holder("a", "a"), holder("b", "b"));
        let first = grant(&pool, &a, &call(60_000)).await;
        assert!(first.at_once && first.young.is_none());
        // Another server's record may lack the grants since.
        redis.cmd(&["HSET", "t:leases", "unused_run", "another"]);
        assert!(!grant(&pool, &b, &call(60_000)).await.at_once);
    });
}

#[test]
fn numbers_added_later_are_vouched_for_by_nobody() {
    let redis = Redis::start();
    block_on(async {
        let pool = pool_of(&redis);
        let new = NewPool {
            use_max: USE_MAX,
            unused: true,
        };
        pool.init(1, 1, new).await.unwrap();
        pool.grow(1, 2).await.unwrap();
        assert!(!grant(&pool, &holder("a", "a"), &call(60_000)).await.at_once);
    });
}

#[test]
fn a_holder_that_saw_the_pool_vanish_waits_for_the_bound_that_it_knew() {
    let redis = Redis::start();
    block_on(async {
        let pool = pool_of(&redis);
        make(&pool, 1, 1).await.unwrap();
        let holder = Holder::start(pool.clone(), options("a")).unwrap();
        opened(&holder).await;
        wait::until("the pool is ripe", PATIENCE, || {
            redis.cmd(&["HGET", "t:leases", "young"]).text() == "0"
        });
        redis.cmd(&["FLUSHALL"]);
        reaches(&holder, "the loss", |status| {
            matches!(status, Status::Seeking { .. })
        })
        .await;
        make(&pool, 1, 1).await.unwrap();
        assert!(waiting(&holder).await < USE_MAX + USE_MAX / 2);
        opened(&holder).await;
    });
}

#[test]
fn the_longest_use_ever_seen_is_waited_for_after_the_settings_shrank() {
    let (redis, folder) = (Redis::start(), Folder::new("bound"));
    block_on(async {
        let pool = pool_of(&redis);
        let in_state = |use_max| HolderOptions {
            state_dir: Some(folder.path().to_owned()),
            ..with_use_max("a", use_max)
        };
        let long = NewPool {
            use_max: USE_MAX * 3,
            unused: true,
        };
        pool.init(1, 1, long).await.unwrap();
        let first = Holder::start(pool.clone(), in_state(USE_MAX * 3)).unwrap();
        opened(&first).await;
        assert_eq!(first.stop().await, End::Released);
        redis.cmd(&["FLUSHALL"]);
        make(&pool, 1, 1).await.unwrap();
        let second = Holder::start(pool, in_state(USE_MAX)).unwrap();
        assert!(waiting(&second).await > USE_MAX * 2);
    });
}

#[test]
fn the_bound_of_a_pool_changes_only_while_nobody_uses_it() {
    let redis = Redis::start();
    block_on(async {
        let pool = pool_of(&redis);
        make(&pool, 1, 2).await.unwrap();
        let held = grant(&pool, &holder("a", "a"), &call(60_000)).await;
        let idle = Duration::from_secs(60);
        let refused = pool.change_use_max(USE_MAX * 2, idle).await;
        assert!(
            matches!(refused, Err(Error::NotIdle { number: 1, .. })),
            "{refused:?}"
        );
        let freed = pool.free(held.number, false).await.unwrap();
        assert_eq!((freed.name.as_str(), freed.ceil_ms), ("a", 1000));
        // Freed a moment ago: its holder may still use it.
        assert!(matches!(
            pool.change_use_max(USE_MAX * 2, idle).await,
            Err(Error::NotIdle { .. })
        ));
        redis.cmd(&["ZADD", "t:ids", "5", "A1"]);
        pool.change_use_max(USE_MAX * 2, idle).await.unwrap();
        let other = Holder::start(pool.clone(), options("b")).unwrap();
        let end = other.window().await.unwrap_err();
        assert!(matches!(end, End::BoundDiffers(_)), "{end:?}");
        let fits = Holder::start(pool, with_use_max("b", USE_MAX * 2)).unwrap();
        let window = opened(&fits).await;
        assert!(Arc::strong_count(&window) > 0 && window.worker() > 0);
    });
}

#[test]
fn a_freed_number_is_refused_to_its_holder_and_waited_for_by_the_next() {
    let redis = Redis::start();
    block_on(async {
        let pool = pool_of(&redis);
        make(&pool, 1, 1).await.unwrap();
        let first = Holder::start(pool.clone(), options("a")).unwrap();
        let window = opened(&first).await;
        pool.free(1, false).await.unwrap();
        let watch = Watchman::begin(&[&first]);
        let second = Holder::start(pool.clone(), options("b")).unwrap();
        watch.follow(&second);
        let after = opened(&second).await;
        assert!(after.fence() > window.fence() && !is_usable(&window));
        watch.end().await;
        let missing = pool.free(77, false).await;
        assert!(
            matches!(missing, Err(Error::NoSuchNumber { number: 77, .. })),
            "{missing:?}"
        );
    });
}
