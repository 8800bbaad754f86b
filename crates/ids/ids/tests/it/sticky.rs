//! Names that come back, and what they remember.

use std::sync::Arc;
use std::time::Duration;

use nagaya_clock::BootClock;
use nagaya_clock::SystemClock;
use nagaya_ids::IdClock;
use nagaya_ids::lease::{End, Holder, HolderOptions, StateError, Status, Window};
use nagaya_ids::permit::{Permit, Stop};
use nagaya_testkit::{Folder, Redis};

use crate::stage::{Watchman, is_usable, opened, options, reaches};
use crate::support::{block_on, make, pool_of};

fn with_state(name: &str, folder: &Folder) -> HolderOptions {
    HolderOptions {
        state_dir: Some(folder.path().to_owned()),
        ..options(name)
    }
}

fn now_ms() -> u64 {
    IdClock::start(&SystemClock).unix_ms(SystemClock.now())
}

async fn first_status(holder: &Holder) -> Status {
    let granted = |status: &Status| matches!(status, Status::Waiting { .. } | Status::Open(_));
    reaches(holder, "a grant", granted).await
}

/// Returns the window of a number that is used without waiting for anybody's lease: at most until the clock is above
/// the last time that was used.
async fn opened_at_once(holder: &Holder) -> Arc<Window> {
    if let Status::Waiting { opens_after, .. } = first_status(holder).await {
        let left = opens_after.since(SystemClock.now());
        assert!(left < Duration::from_millis(100), "not at once, but in {left:?}");
    }
    opened(holder).await
}

#[test]
fn a_crashed_process_returns_at_once_above_the_last_time_it_used() {
    let (redis, folder) = (Redis::start(), Folder::new("sticky"));
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 5).await.unwrap();
        let first = Holder::start(pool.clone(), with_state("a", &folder)).unwrap();
        let window = opened(&first).await;
        let last_ms = now_ms();
        window.check(SystemClock.now()).unwrap();
        window.note_issued(last_ms).unwrap();
        let busy = Holder::start(pool.clone(), with_state("a", &folder));
        assert!(matches!(busy, Err(StateError::Busy { .. })), "{busy:?}");
        // A drop gives nothing back, as a crash does not.
        drop(first);
        assert_eq!(window.check(SystemClock.now()), Err(Stop::Lost));
        drop(window);
        let again = loop {
            // The task's end lets the lock go.
            match Holder::start(pool.clone(), with_state("a", &folder)) {
                Ok(holder) => break holder,
                Err(StateError::Busy { .. }) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        };
        let window = opened_at_once(&again).await;
        assert_eq!(window.worker(), 1);
        assert_eq!(
            window.floor_ms(),
            last_ms,
            "not the stored ceiling, which is ahead of the clock"
        );
        assert!(window.floor_ms() <= now_ms());
    });
}

#[test]
fn a_process_without_a_state_directory_waits_after_a_crash() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 5).await.unwrap();
        let first = Holder::start(pool.clone(), options("a")).unwrap();
        let window = opened(&first).await;
        drop(first);
        let again = Holder::start(pool, options("a")).unwrap();
        let status = first_status(&again).await;
        assert!(matches!(status, Status::Waiting { number: 1, .. }), "{status:?}");
        assert!(opened(&again).await.fence() > window.fence());
    });
}

#[test]
fn a_released_number_begins_above_the_last_time_for_anybody() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 1).await.unwrap();
        let first = Holder::start(pool.clone(), options("a")).unwrap();
        let window = opened(&first).await;
        let last_ms = now_ms();
        window.note_issued(last_ms).unwrap();
        assert_eq!(first.stop().await, End::Released);
        assert_eq!(window.note_issued(last_ms + 1), Err(Stop::Lost));
        let second = Holder::start(pool, options("b")).unwrap();
        let window = opened_at_once(&second).await;
        assert_eq!(window.floor_ms(), last_ms);
    });
}

#[test]
fn a_second_process_of_the_same_name_takes_over_and_the_first_stays_stopped() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 5).await.unwrap();
        let first = Holder::start(pool.clone(), options("a")).unwrap();
        let before = opened(&first).await;
        let second = Holder::start(pool.clone(), options("a")).unwrap();
        let watch = Watchman::begin(&[&first, &second]);
        let ended = |status: &Status| matches!(status, Status::Ended(End::NameTaken));
        reaches(&first, "the first one's end", ended).await;
        let after = opened(&second).await;
        assert_eq!(after.worker(), before.worker());
        assert!(!is_usable(&before) && after.fence() > before.fence());
        watch.end().await;
        assert_eq!(first.stop().await, End::NameTaken);
        assert_eq!(second.stop().await, End::Released);
        assert_eq!(pool.report().await.unwrap().stats().using_ids, 0);
    });
}

#[test]
fn holders_without_a_name_get_numbers_of_their_own() {
    let redis = Redis::start();
    let pool = pool_of(&redis);
    block_on(async {
        make(&pool, 1, 3).await.unwrap();
        let unnamed = || HolderOptions {
            name: None,
            ..options("")
        };
        let holders: Vec<_> = (0..3)
            .map(|_| Holder::start(pool.clone(), unnamed()).unwrap())
            .collect();
        let mut numbers = Vec::new();
        for holder in &holders {
            numbers.push(opened(holder).await.worker());
        }
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2, 3]);
    });
}
