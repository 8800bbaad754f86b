//! Times used with a number: every next holder starts above them.

use std::sync::Arc;
use std::time::Duration;

use nagaya_clock::{Clock, SystemClock};
use nagaya_ids::lease::{End, Holder, HolderOptions, Status, Usage};
use nagaya_ids::permit::Permit;
use nagaya_testkit::{Folder, Redis};

use crate::stage::{opened, options, reaches};
use crate::support::{block_on, make, pool_of};

/// A wall clock that is wrong by some milliseconds.
struct Wrong(i64);

impl Clock for Wrong {
    fn unix_us(&self) -> i64 {
        SystemClock.unix_us() + self.0 * 1000
    }

    fn steady_us(&self) -> u64 {
        SystemClock.steady_us()
    }
}

/// A holder whose number a command uses, on a machine whose clock is wrong by so much.
fn command(name: &str, wrong_ms: i64) -> HolderOptions {
    HolderOptions {
        usage: Usage::Command,
        wall: Arc::new(Wrong(wrong_ms)),
        ..options(name)
    }
}

async fn first_status(holder: &Holder) -> Status {
    let granted = |status: &Status| matches!(status, Status::Waiting { .. } | Status::Open(_));
    reaches(holder, "a grant", granted).await
}

#[test]
fn a_number_that_a_command_released_begins_above_its_times_for_strangers() {
    let redis = Redis::start();
    block_on(async {
        let pool = pool_of(&redis);
        make(&pool, 1, 1).await.unwrap();
        let first = Holder::start(pool.clone(), command("a", 1_000)).unwrap();
        opened(&first).await;
        let used_ms = Wrong(1_000).unix_ms();
        assert_eq!(first.stop().await, End::Released);
        let second = Holder::start(pool, command("b", 0)).unwrap();
        let status = first_status(&second).await;
        assert!(matches!(status, Status::Waiting { .. }), "{status:?}");
        let window = opened(&second).await;
        let floor_ms = i64::try_from(window.floor_ms()).unwrap();
        assert!(floor_ms >= used_ms, "{floor_ms} covers {used_ms}");
        assert!(
            Wrong(0).unix_ms() > floor_ms,
            "not open before its own clock has passed it"
        );
    });
}

#[test]
fn the_same_name_on_the_same_machine_gets_a_released_number_without_the_wait() {
    let (redis, folder) = (Redis::start(), Folder::new("ceilings"));
    block_on(async {
        let pool = pool_of(&redis);
        make(&pool, 1, 1).await.unwrap();
        let here = || HolderOptions {
            state_dir: Some(folder.path().to_owned()),
            ..command("a", 0)
        };
        let first = Holder::start(pool.clone(), here()).unwrap();
        opened(&first).await;
        assert_eq!(first.stop().await, End::Released);
        let mut again = here();
        // Nobody here waits that long.
        again.timing.delay = Duration::from_secs(600);
        let again = Holder::start(pool.clone(), again).unwrap();
        opened(&again).await;
        assert_eq!(again.stop().await, End::Released);
        // The same name elsewhere proves nothing.
        let elsewhere = Holder::start(pool, command("a", 0)).unwrap();
        let status = first_status(&elsewhere).await;
        assert!(matches!(status, Status::Waiting { .. }), "{status:?}");
    });
}

#[test]
fn a_killed_commands_number_is_soon_its_own_again_unless_the_clock_was_set_back() {
    let (redis, folder) = (Redis::start(), Folder::new("ceilings"));
    block_on(async {
        let pool = pool_of(&redis);
        make(&pool, 1, 1).await.unwrap();
        let here = |wrong_ms| HolderOptions {
            state_dir: Some(folder.path().to_owned()),
            ..command("a", wrong_ms)
        };
        let first = Holder::start(pool.clone(), here(0)).unwrap();
        opened(&first).await;
        drop(first);
        let again = |wrong_ms| loop {
            // The task's end lets the lock go.
            match Holder::start(pool.clone(), here(wrong_ms)) {
                Ok(holder) => return holder,
                Err(nagaya_ids::lease::StateError::Busy { .. }) => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        };
        let second = again(0);
        let window = opened(&second).await;
        let stored: i64 = redis
            .cmd(&["HGET", "t:leases", "A1.ceil"])
            .text()
            .parse()
            .unwrap();
        assert!(i64::try_from(window.floor_ms()).unwrap() < stored);
        let last_ms = Wrong(0).unix_ms();
        drop((second, window));
        // Half a second back: more than may be a matter of measuring.
        let third = again(-500);
        let window = opened(&third).await;
        assert!(i64::try_from(window.floor_ms()).unwrap() >= last_ms);
    });
}

fn set_ceiling(redis: &Redis, member: &str, ahead_ms: i64) -> String {
    let ceil = (SystemClock.unix_ms() + ahead_ms).to_string();
    redis.cmd(&["HSET", "t:leases", &format!("{member}.ceil"), &ceil]);
    ceil
}

#[test]
fn a_number_with_a_ceiling_far_ahead_is_passed_over_and_keeps_it() {
    let redis = Redis::start();
    block_on(async {
        let pool = pool_of(&redis);
        make(&pool, 1, 50).await.unwrap();
        let ceil = set_ceiling(&redis, "A1", 3_600_000);
        let holder = Holder::start(pool, options("a")).unwrap();
        let window = opened(&holder).await;
        assert_eq!(window.worker(), 2);
        assert_eq!(redis.cmd(&["HGET", "t:leases", "A1.ceil"]).text(), ceil);
        assert_eq!(redis.cmd(&["ZSCORE", "t:ids", "A1"]).text(), "0");
    });
}

#[test]
fn a_name_whose_own_number_is_far_ahead_gets_another() {
    let (redis, folder) = (Redis::start(), Folder::new("ceilings"));
    block_on(async {
        let pool = pool_of(&redis);
        make(&pool, 1, 2).await.unwrap();
        let here = || HolderOptions {
            state_dir: Some(folder.path().to_owned()),
            ..options("a")
        };
        let first = Holder::start(pool.clone(), here()).unwrap();
        assert_eq!(opened(&first).await.worker(), 1);
        assert_eq!(first.stop().await, End::Released);
        set_ceiling(&redis, "A1", 3_600_000);
        let again = Holder::start(pool, here()).unwrap();
        assert_eq!(opened(&again).await.worker(), 2);
    });
}

#[test]
fn a_clock_behind_every_number_is_told_and_takes_none() {
    let redis = Redis::start();
    block_on(async {
        let pool = pool_of(&redis);
        make(&pool, 1, 2).await.unwrap();
        set_ceiling(&redis, "A1", 3_600_000);
        set_ceiling(&redis, "A2", 1_800_000);
        let holder = Holder::start(pool.clone(), options("a")).unwrap();
        let told = |status: &Status| matches!(status, Status::Seeking { trouble: Some(trouble) } if trouble.contains("number 2"));
        reaches(&holder, "the trouble", told).await;
        assert!(holder.stats().late.load(std::sync::atomic::Ordering::Relaxed) > 0);
        assert_eq!(pool.report().await.unwrap().stats().using_ids, 0);
        // An operator who knows better clears one.
        pool.free(2, true).await.unwrap();
        assert_eq!(opened(&holder).await.worker(), 2);
    });
}
