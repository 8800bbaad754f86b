//! Ids made from a number that is leased from a real Redis.

use std::sync::Arc;

use nagaya_ids::id_clock::RunningClock;
use nagaya_ids::layout::Layout;
use nagaya_ids::lease::{End, Holder, HolderOptions, Status};
use nagaya_ids::lease_follower::follow;
use nagaya_ids::mint::{Mint, MintError};
use nagaya_ids::permit::{Permit, Stop};
use nagaya_testkit::{Redis, wait};

use crate::stage::{PATIENCE, opened, options, reaches};
use crate::support::{block_on, make, pool_of};

/// A holder and the mint that uses its number.
struct Leased {
    holder: Holder,
    mint: Arc<Mint>,
}

impl Leased {
    fn start(redis: &Redis, options: HolderOptions) -> Leased {
        let clock = RunningClock::new(Arc::clone(&options.clock), options.id_clock);
        let mint = Arc::new(Mint::new(Layout::default(), clock));
        let holder = Holder::start(pool_of(redis), options).unwrap();
        let (follower, status) = (Arc::clone(&mint), holder.status());
        // Ends with the holder.
        tokio::spawn(async move { follow(&follower, status).await });
        Leased { holder, mint }
    }

    /// Waits until ids are to be had and returns one.
    fn first(&self) -> u64 {
        let mut first = None;
        wait::until("there are ids", PATIENCE, || {
            first = self.mint.one().ok();
            first.is_some()
        });
        first.unwrap()
    }
}

#[test]
fn ids_carry_the_leased_number_and_go_on_above_the_last_after_a_restart() {
    let redis = Redis::start();
    block_on(async {
        make(&pool_of(&redis), 5, 5).await.unwrap();
        let leased = Leased::start(&redis, options("a"));
        let window = opened(&leased.holder).await;
        let first = leased.first();
        let parts = leased.mint.layout().decode(first).unwrap();
        assert_eq!((window.worker(), parts.worker), (5, 5));
        assert_eq!(leased.mint.worker(), Some((5, window.fence())));
        let mut ids = vec![first];
        leased.mint.fill(10_000, &mut ids).unwrap();
        assert!(ids.is_sorted_by(|a, b| a < b));
        let mint = Arc::clone(&leased.mint);
        assert_eq!(leased.holder.stop().await, End::Released);
        wait::until("the mint has no number", PATIENCE, || {
            mint.one() == Err(MintError::NoNumber)
        });

        // Another one with a clock set back by a minute gets no number, and no id below.
        let mut behind = options("b");
        let now = behind.clock.now();
        behind.id_clock = nagaya_ids::IdClock::at(behind.id_clock.unix_ms(now) - 60_000, now);
        let next = Leased::start(&redis, behind);
        let told = |status: &Status| matches!(status, Status::Seeking { trouble: Some(trouble) } if trouble.contains("clock is behind"));
        reaches(&next.holder, "the clock is found to be behind", told).await;
        assert_eq!(next.mint.one(), Err(MintError::NoNumber));
        next.holder.stop().await;

        // With the right clock it goes on above.
        let last = Leased::start(&redis, options("c"));
        assert!(last.first() > ids[ids.len() - 1]);
        last.holder.stop().await;
    });
}

#[test]
fn without_redis_ids_end_with_the_window_and_come_back_with_it() {
    let redis = Redis::start();
    block_on(async {
        make(&pool_of(&redis), 1, 9).await.unwrap();
        let leased = Leased::start(&redis, options("a"));
        let before = leased.first();
        redis.stop();
        wait::until("the window is over", PATIENCE, || {
            let late = |error| {
                matches!(
                    error,
                    MintError::Stopped(Stop::Late { .. } | Stop::Lost) | MintError::NoNumber
                )
            };
            leased.mint.one().is_err_and(late)
        });
        redis.cont();
        assert!(leased.first() > before);
        leased.holder.stop().await;
    });
}
