//! Makes ids: strictly rising, never two the same, at most as many per millisecond as the
//! layout has room for.
//!
//! The whole state is one number: the time and sequence of the last id. To issue a block of
//! ids is to move it forward by compare-and-swap, so threads never wait for each other. The
//! order inside an attempt is the one that `permit.rs` asks for: the clock gives the time,
//! then the permit is checked, then the time is noted, then the ids are claimed. A block lies
//! inside one millisecond, so one check covers all of it.
//!
//! An id's time is never ahead of the clock. When a millisecond is used up, or the clock is
//! behind ids issued before (a restart with the wall clock set back), the caller waits; a
//! wait that would be longer than [`Mint::wait_max`] is an error at once, not after waiting.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

use crate::id_clock::RunningClock;
use crate::layout::Layout;
use crate::permit::{Permit, Stop};
use nagaya_clock::BootTime;

/// The default of the longest wait for ids. Serving threads block for it, so it is short; a clock that
/// is further behind is an error.
pub const DEFAULT_WAIT_MAX: Duration = Duration::from_millis(250);
/// How late a sleep wakes up. The last part of a wait is spent reading the clock instead.
const SLEEP_LATE: Duration = Duration::from_micros(80);

/// The generator of ids, shared by all threads and tasks that need some.
pub struct Mint {
    layout: Layout,
    clock: RunningClock,
    wait_max: Duration,
    /// The permit in use; none before the first lease and after a lost one. Read-locked while ids are
    /// made, so that none of an earlier permit is made once `set_permit` has returned.
    permit: RwLock<Option<Arc<dyn Permit>>>,
    /// Time since the epoch in milliseconds, then the sequence, of the last id. It stays when
    /// the worker changes: rising over all numbers held is more than asked, and simpler.
    last: AtomicU64,
}

/// The most ids that are made as ranges in one go.
const RANGES_IDS_MAX: u64 = 1_000_000;
const MILLISECOND: Duration = Duration::from_millis(1);

/// Ids of one worker and millisecond: consecutive numbers, never none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block(Range<u64>);

/// The outcome of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Ready(Block),
    /// There are none now; ask again after this time.
    Wait(Duration),
}

/// Why there is no id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MintError {
    #[error("no worker number is held yet")]
    NoNumber,
    #[error(transparent)]
    Stopped(#[from] Stop),
    #[error("the lease allows ids only up to an earlier time and was not renewed for it")]
    PastCeiling,
    #[error("the clock is {by_ms} ms behind ids issued before; no id until it has caught up")]
    ClockBehind { by_ms: u64 },
    #[error("the clock is before the epoch of the id layout")]
    BeforeEpoch,
    #[error("the time field of the id layout is used up")]
    TimeEnded,
    #[error("the worker number {worker} does not fit the id layout, whose greatest is {max}")]
    WorkerTooLarge { worker: u64, max: u64 },
    #[error("more ids are asked for than one worker can make; gave up after {waited_ms} ms")]
    Busy { waited_ms: u64 },
}

impl MintError {
    /// Returns whether the same call may succeed soon without a change by an operator.
    pub fn is_passing(&self) -> bool {
        match self {
            MintError::NoNumber
            | MintError::Stopped(_)
            | MintError::PastCeiling
            | MintError::ClockBehind { .. }
            | MintError::Busy { .. } => true,
            MintError::BeforeEpoch | MintError::TimeEnded | MintError::WorkerTooLarge { .. } => false,
        }
    }
}

impl Block {
    pub fn ids(self) -> Range<u64> {
        self.0
    }

    pub fn count(&self) -> u64 {
        self.0.end - self.0.start
    }
}

impl Mint {
    /// Makes a mint without a number; [`Mint::set_permit`] gives it one.
    pub fn new(layout: Layout, clock: RunningClock) -> Mint {
        Mint {
            layout,
            clock,
            wait_max: DEFAULT_WAIT_MAX,
            permit: RwLock::new(None),
            last: AtomicU64::new(0),
        }
    }

    /// Sets the longest wait for ids; at least until the next millisecond.
    pub fn with_wait_max(mut self, wait_max: Duration) -> Mint {
        self.wait_max = wait_max.max(Duration::from_millis(2));
        self
    }

    pub fn wait_max(&self) -> Duration {
        self.wait_max
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub fn clock(&self) -> &RunningClock {
        &self.clock
    }

    /// Uses another grant's number from now on, or none. Once this returns, no id of the earlier grant
    /// is made.
    pub fn set_permit(&self, permit: Option<Arc<dyn Permit>>) {
        *self.permit.write() = permit;
    }

    /// Returns the number in use and its fence.
    pub fn worker(&self) -> Option<(u64, u64)> {
        let permit = self.permit.read();
        permit.as_ref().map(|permit| (permit.worker(), permit.fence()))
    }

    /// Returns the time of the last id, in milliseconds since 1970; nothing before the first.
    pub fn last_issued_ms(&self) -> Option<u64> {
        let last = self.last.load(Ordering::Acquire);
        (last > 0).then(|| self.layout.epoch_ms() + (last >> self.layout.sequence_bits()))
    }

    /// Tries once for up to `want` ids (at least one). Never waits.
    pub fn step(&self, want: u64) -> Result<Step, MintError> {
        let permit = self.permit.read();
        let permit = permit.as_deref().ok_or(MintError::NoNumber)?;
        let worker = permit.worker();
        if worker > self.layout.worker_max() {
            let max = self.layout.worker_max();
            return Err(MintError::WorkerTooLarge { worker, max });
        }
        loop {
            // Read before the clock: otherwise another thread's newer id could make the clock look behind.
            let last = self.last.load(Ordering::Acquire);
            let now_nanos = self.clock.unix_nanos();
            let now_ms = now_nanos / 1_000_000;
            let first = match self.first_after(last, now_ms)? {
                Ok(first) => first,
                Err(ready_ms) => return self.wait(now_nanos, ready_ms),
            };
            if now_ms <= permit.floor_ms() {
                return self.wait(now_nanos, permit.floor_ms().saturating_add(1));
            }
            if now_ms > permit.check(self.clock.boot())?.unix_ms {
                return Err(MintError::PastCeiling);
            }
            permit.note_issued(now_ms)?;
            let sequence = first & self.layout.sequence_max();
            let count = want.clamp(1, self.layout.per_ms() - sequence);
            let end = first + count;
            let claimed = self
                .last
                .compare_exchange(last, end - 1, Ordering::AcqRel, Ordering::Relaxed);
            if claimed.is_ok() {
                let time = now_ms - self.layout.epoch_ms();
                let id = self.layout.compose(time, worker, sequence);
                return Ok(Step::Ready(Block(id..id + count)));
            }
        }
    }

    /// Makes `count` ids, all or none, waiting at most [`Mint::wait_max`] on this thread.
    pub fn fill(&self, count: usize, ids: &mut Vec<u64>) -> Result<(), MintError> {
        let mut batch = BatchMint::new(self, count, ids);
        while let Some(wait) = batch.advance()? {
            pause(wait);
        }
        Ok(())
    }

    /// As [`Mint::fill`], for tasks: the wait does not block the runtime.
    ///
    /// Cancel safe: ids already made are dropped with the future and never used.
    pub async fn fill_async(&self, count: usize, ids: &mut Vec<u64>) -> Result<(), MintError> {
        let mut batch = BatchMint::new(self, count, ids);
        while let Some(wait) = batch.advance()? {
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }

    /// Returns how many ids [`Mint::ranges`] makes at most: those of about two seconds.
    pub fn ranges_max(&self) -> u64 {
        (self.range_share() * 1000).min(RANGES_IDS_MAX)
    }

    /// The ids of a millisecond that a caller of ranges takes at most; the others are for everybody else.
    fn range_share(&self) -> u64 {
        (self.layout.per_ms() / 2).max(1)
    }

    /// Makes `count` ids as ranges, all or none, and leaves half of each millisecond to other callers.
    ///
    /// Cancel safe as [`Mint::fill_async`].
    pub async fn ranges(&self, count: u64) -> Result<Vec<Block>, MintError> {
        let (mut blocks, mut left, mut waiting) = (Vec::<Block>::new(), count, None);
        while left > 0 {
            let pause = match self.step(left.min(self.range_share()))? {
                Step::Ready(block) => {
                    left -= block.count();
                    waiting = None;
                    match blocks.last_mut() {
                        Some(last) if last.0.end == block.0.start => last.0.end = block.0.end,
                        _ => blocks.push(block),
                    }
                    MILLISECOND
                }
                Step::Wait(wait) => {
                    let now = self.clock.boot();
                    let waited = now.since(*waiting.get_or_insert(now));
                    if waited + wait > self.wait_max + MILLISECOND {
                        let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                        return Err(MintError::Busy { waited_ms });
                    }
                    wait
                }
            };
            if left > 0 {
                tokio::time::sleep(pause).await;
            }
        }
        Ok(blocks)
    }

    /// Makes one id, waiting at most [`Mint::wait_max`] on this thread.
    pub fn one(&self) -> Result<u64, MintError> {
        if let Step::Ready(block) = self.step(1)? {
            return Ok(block.0.start);
        }
        let mut ids = Vec::with_capacity(1);
        self.fill(1, &mut ids)?;
        Ok(ids[0])
    }

    /// Returns the place (time and sequence) of the next id, or the millisecond to wait for.
    fn first_after(&self, last: u64, now_ms: u64) -> Result<Result<u64, u64>, MintError> {
        let Some(time) = now_ms.checked_sub(self.layout.epoch_ms()) else {
            return Err(MintError::BeforeEpoch);
        };
        if time > self.layout.time_max() {
            return Err(MintError::TimeEnded);
        }
        let bits = self.layout.sequence_bits();
        let last_time = last >> bits;
        if time > last_time {
            return Ok(Ok(time << bits));
        }
        let is_full = last & self.layout.sequence_max() == self.layout.sequence_max();
        if time == last_time && !is_full {
            return Ok(Ok(last + 1));
        }
        Ok(Err(self.layout.epoch_ms() + last_time + u64::from(is_full)))
    }

    fn wait(&self, now_nanos: u64, ready_ms: u64) -> Result<Step, MintError> {
        let nanos = ready_ms.saturating_mul(1_000_000).saturating_sub(now_nanos);
        let wait = Duration::from_nanos(nanos);
        if wait > self.wait_max {
            let by_ms = nanos.div_ceil(1_000_000);
            return Err(MintError::ClockBehind { by_ms });
        }
        Ok(Step::Wait(wait))
    }
}

impl std::fmt::Debug for Mint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mint")
            .field("worker", &self.worker())
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

/// A request for many ids under way.
struct BatchMint<'a> {
    mint: &'a Mint,
    ids: &'a mut Vec<u64>,
    /// How many ids were there before.
    kept: usize,
    full: usize,
    /// When the first wait began.
    started: Option<BootTime>,
    /// The longest wait, plus the time that this many ids take by themselves.
    allowed: Duration,
}

impl<'a> BatchMint<'a> {
    fn new(mint: &'a Mint, count: usize, ids: &'a mut Vec<u64>) -> BatchMint<'a> {
        let own_ms = (count as u64).div_ceil(mint.layout.per_ms());
        BatchMint {
            mint,
            kept: ids.len(),
            full: ids.len() + count,
            ids,
            started: None,
            allowed: mint.wait_max + Duration::from_millis(own_ms),
        }
    }

    /// Makes ids until the batch is complete (`None`) or a wait is needed.
    fn advance(&mut self) -> Result<Option<Duration>, MintError> {
        let result = self.try_advance();
        if result.is_err() {
            self.ids.truncate(self.kept);
        }
        result
    }

    fn try_advance(&mut self) -> Result<Option<Duration>, MintError> {
        while self.ids.len() < self.full {
            match self.mint.step((self.full - self.ids.len()) as u64)? {
                Step::Ready(block) => self.ids.extend(block.ids()),
                Step::Wait(wait) => {
                    let now = self.mint.clock.boot();
                    let waited = now.since(*self.started.get_or_insert(now));
                    if waited + wait <= self.allowed {
                        return Ok(Some(wait));
                    }
                    let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                    return Err(MintError::Busy { waited_ms });
                }
            }
        }
        Ok(None)
    }
}

/// Waits on this thread, without oversleeping into the millisecond waited for by much.
fn pause(wait: Duration) {
    match wait.checked_sub(SLEEP_LATE) {
        Some(sleep) if !sleep.is_zero() => std::thread::sleep(sleep),
        _ => std::thread::yield_now(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashSet, VecDeque};

    use parking_lot::Mutex;

    use super::*;
    use crate::id_clock::IdClock;
    use crate::permit::{Ceiling, FixedPermit};
    use nagaya_clock::BootClock;

    const START_MS: u64 = 1_794_700_800_000;

    /// A boot clock that moves by the next of the given steps at each reading.
    #[derive(Default)]
    struct SteppingClock {
        nanos: AtomicU64,
        steps: Mutex<VecDeque<Duration>>,
    }

    impl SteppingClock {
        fn advance(&self, by: Duration) {
            self.nanos.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
        }

        fn step_at_readings(&self, steps: &[Duration]) {
            self.steps.lock().extend(steps);
        }
    }

    impl BootClock for SteppingClock {
        fn now(&self) -> BootTime {
            let step = self.steps.lock().pop_front().unwrap_or_default();
            self.advance(step);
            BootTime::from_nanos(self.nanos.load(Ordering::Relaxed))
        }
    }

    /// A grant of worker 3 whose limits the test sets.
    struct TestPermit {
        floor_ms: u64,
        ceiling_ms: u64,
        until: BootTime,
        saves: bool,
    }

    impl Default for TestPermit {
        fn default() -> TestPermit {
            TestPermit {
                floor_ms: 0,
                ceiling_ms: u64::MAX,
                until: BootTime::from_nanos(u64::MAX),
                saves: true,
            }
        }
    }

    impl Permit for TestPermit {
        fn worker(&self) -> u64 {
            3
        }

        fn fence(&self) -> u64 {
            1
        }

        fn floor_ms(&self) -> u64 {
            self.floor_ms
        }

        fn check(&self, now: BootTime) -> Result<Ceiling, Stop> {
            if now > self.until {
                return Err(Stop::Late {
                    late: now.since(self.until),
                });
            }
            Ok(Ceiling {
                unix_ms: self.ceiling_ms,
            })
        }

        fn note_issued(&self, _last_ms: u64) -> Result<(), Stop> {
            if self.saves { Ok(()) } else { Err(Stop::NotSaved) }
        }
    }

    fn mint_with(layout: Layout, permit: TestPermit) -> (Mint, Arc<SteppingClock>) {
        let boot = Arc::new(SteppingClock::default());
        let clock = RunningClock::new(Arc::clone(&boot) as _, IdClock::at(START_MS, BootTime::ZERO));
        let mint = Mint::new(layout, clock);
        mint.set_permit(Some(Arc::new(permit)));
        (mint, boot)
    }

    /// Two ids per millisecond.
    fn narrow() -> Layout {
        Layout::new(41, 10, 1, crate::layout::DEFAULT_EPOCH_MS).unwrap()
    }

    fn ready(mint: &Mint, want: u64) -> Vec<u64> {
        match mint.step(want).unwrap() {
            Step::Ready(block) => block.ids().collect(),
            Step::Wait(wait) => panic!("told to wait {wait:?}"),
        }
    }

    #[test]
    fn an_id_carries_time_worker_and_sequence() {
        let (mint, boot) = mint_with(Layout::default(), TestPermit::default());
        let parts = |id| {
            let parts = mint.layout().decode(id).unwrap();
            (parts.unix_ms - START_MS, parts.worker, parts.sequence)
        };
        assert_eq!(mint.last_issued_ms(), None);
        assert_eq!(parts(mint.one().unwrap()), (0, 3, 0));
        assert_eq!(parts(mint.one().unwrap()), (0, 3, 1));
        boot.advance(Duration::from_millis(7));
        assert_eq!(parts(mint.one().unwrap()), (7, 3, 0));
        assert_eq!(mint.last_issued_ms(), Some(START_MS + 7));
        assert_eq!(mint.worker(), Some((3, 1)));
    }

    #[test]
    fn a_full_millisecond_waits_for_the_next() {
        let (mint, boot) = mint_with(narrow(), TestPermit::default());
        assert_eq!(ready(&mint, 10).len(), 2);
        boot.advance(Duration::from_micros(400));
        assert_eq!(mint.step(1), Ok(Step::Wait(Duration::from_micros(600))));
        boot.advance(Duration::from_micros(600));
        assert_eq!(ready(&mint, 1).len(), 1);
    }

    #[test]
    fn a_block_ends_with_its_millisecond() {
        let (mint, _) = mint_with(Layout::default(), TestPermit::default());
        assert_eq!(ready(&mint, 4000).len(), 4000);
        assert_eq!(ready(&mint, 4000).len(), 96);
        assert!(matches!(mint.step(1), Ok(Step::Wait(_))));
    }

    #[test]
    fn ids_start_above_the_floor_after_a_bounded_wait() {
        let near = TestPermit {
            floor_ms: START_MS + 250 - 1,
            ..TestPermit::default()
        };
        let (mint, boot) = mint_with(Layout::default(), near);
        assert_eq!(mint.step(1), Ok(Step::Wait(Duration::from_millis(250))));
        boot.advance(Duration::from_millis(250));
        assert_eq!(ready(&mint, 1).len(), 1);

        let eight_hours_ms = 8 * 3_600_000;
        let far = TestPermit {
            floor_ms: START_MS + eight_hours_ms - 1,
            ..TestPermit::default()
        };
        let (mint, _) = mint_with(Layout::default(), far);
        let error = mint.one().unwrap_err();
        assert_eq!(
            error,
            MintError::ClockBehind {
                by_ms: eight_hours_ms
            }
        );
        assert!(error.is_passing());
    }

    #[test]
    fn no_id_is_above_the_ceiling() {
        let permit = TestPermit {
            ceiling_ms: START_MS + 1,
            ..TestPermit::default()
        };
        let (mint, boot) = mint_with(Layout::default(), permit);
        boot.advance(Duration::from_millis(1));
        assert!(mint.one().is_ok());
        boot.advance(Duration::from_millis(1));
        assert_eq!(mint.one(), Err(MintError::PastCeiling));
    }

    #[test]
    fn a_freeze_between_clock_and_check_lets_nothing_out() {
        let permit = TestPermit {
            until: BootTime::from_nanos(5_000_000_000),
            ..TestPermit::default()
        };
        let (mint, boot) = mint_with(Layout::default(), permit);
        // The first reading gives the time, the second is the check's.
        boot.step_at_readings(&[Duration::ZERO, Duration::from_secs(3600)]);
        let late = Duration::from_secs(3595);
        assert_eq!(mint.one(), Err(MintError::Stopped(Stop::Late { late })));
    }

    #[test]
    fn an_id_whose_time_cannot_be_saved_is_not_given_out() {
        let permit = TestPermit {
            saves: false,
            ..TestPermit::default()
        };
        let (mint, _) = mint_with(Layout::default(), permit);
        assert_eq!(mint.one(), Err(MintError::Stopped(Stop::NotSaved)));
        assert_eq!(mint.last_issued_ms(), None);
    }

    #[test]
    fn ids_come_all_or_not_at_all() {
        let permit = TestPermit {
            ceiling_ms: START_MS,
            ..TestPermit::default()
        };
        let (mint, boot) = mint_with(narrow(), permit);
        // The wait for the second millisecond is cut short by the clock's own steps.
        boot.step_at_readings(&[Duration::from_micros(200); 20]);
        let mut ids = vec![1, 2, 3];
        assert_eq!(mint.fill(5, &mut ids), Err(MintError::PastCeiling));
        assert_eq!(ids, [1, 2, 3]);
    }

    #[test]
    fn waiting_ends_when_others_take_everything() {
        let (mint, boot) = mint_with(narrow(), TestPermit::default());
        ready(&mint, 2);
        // Readings: the time, the beginning of the wait, the time again, the end of patience.
        let still = Duration::ZERO;
        boot.step_at_readings(&[still, still, still, Duration::from_secs(1)]);
        let error = mint.fill(1, &mut Vec::new()).unwrap_err();
        assert_eq!(error, MintError::Busy { waited_ms: 1000 });
    }

    #[test]
    fn another_number_goes_on_above_the_last_time() {
        let (mint, _) = mint_with(narrow(), TestPermit::default());
        let first = ready(&mint, 1)[0];
        mint.set_permit(Some(Arc::new(FixedPermit::new(9))));
        let second = ready(&mint, 1)[0];
        let parts = mint.layout().decode(second).unwrap();
        assert_eq!((parts.worker, parts.sequence), (9, 1));
        assert!(second > first);
        mint.set_permit(None);
        assert_eq!(mint.one(), Err(MintError::NoNumber));
    }

    #[test]
    fn what_does_not_fit_the_layout_is_refused() {
        let at = |unix_ms| {
            let boot = Arc::new(SteppingClock::default());
            let clock = RunningClock::new(boot, IdClock::at(unix_ms, BootTime::ZERO));
            let mint = Mint::new(Layout::default(), clock);
            mint.set_permit(Some(Arc::new(FixedPermit::new(1023))));
            mint
        };
        let layout = Layout::default();
        assert_eq!(at(layout.epoch_ms() - 1).one(), Err(MintError::BeforeEpoch));
        assert!(at(layout.end_ms()).one().is_ok());
        assert_eq!(at(layout.end_ms() + 1).one(), Err(MintError::TimeEnded));
        let mint = at(START_MS);
        mint.set_permit(Some(Arc::new(FixedPermit::new(1024))));
        let error = mint.one().unwrap_err();
        assert!(matches!(
            error,
            MintError::WorkerTooLarge {
                worker: 1024,
                max: 1023
            }
        ));
        assert!(!error.is_passing());
    }

    #[test]
    fn threads_never_get_the_same_id() {
        for threads in [1, 4, 64] {
            let mint = Mint::new(Layout::default(), RunningClock::system());
            mint.set_permit(Some(Arc::new(FixedPermit::new(1))));
            let each = 32_000 / threads;
            let take = || {
                let mut ids = Vec::new();
                (0..each).for_each(|n| mint.fill(1 + n % 3, &mut ids).unwrap());
                assert!(ids.is_sorted_by(|a, b| a < b));
                ids
            };
            let all: Vec<u64> = std::thread::scope(|scope| {
                let handles: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
                handles
                    .into_iter()
                    .flat_map(|handle| handle.join().unwrap())
                    .collect()
            });
            assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        }
    }

    #[tokio::test]
    async fn tasks_wait_without_blocking_the_runtime() {
        let mint = Mint::new(narrow(), RunningClock::system());
        mint.set_permit(Some(Arc::new(FixedPermit::new(1))));
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let (a, b) = tokio::join!(mint.fill_async(9, &mut left), mint.fill_async(9, &mut right));
        assert_eq!((a, b), (Ok(()), Ok(())));
        let distinct: HashSet<u64> = left.into_iter().chain(right).collect();
        assert_eq!(distinct.len(), 18);
    }
}
