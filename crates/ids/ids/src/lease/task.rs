//! The task that gets a number and keeps it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nagaya_clock::BootTime;
use nagaya_redis_client::{Backoff, Need, Run};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::lease::holder::{End, HolderOptions, LeaseStats, Status, Usage};
use crate::lease::state::{Held, LeaseAction, LeaseState, Opening, Renewal, Times};
use crate::lease::state_dir::{Saved, StateDir};
use crate::lease::user_clocks::UserClocks;
use crate::lease::window::Window;
use crate::pool::{Error, Extension, GetAnswer, GetCall, Grant, HolderId, Phase, Pool, Refusal, Released};

/// The limit for giving a number back at the end.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);
/// How often a trouble that goes on is logged again.
const REPEAT_TROUBLE: Duration = Duration::from_secs(30);
pub(super) struct Task {
    pool: Pool,
    options: HolderOptions,
    id: HolderId,
    lease_state: LeaseState<Run>,
    state_dir: Option<StateDir>,
    held: Option<Grant>,
    window: Option<Arc<Window>>,
    /// A call for a number ended without an answer, so the pool may have given us one.
    may_hold_unknown: bool,
    was_open: bool,
    clocks: UserClocks,
    /// The pool was not young, or is not any more, when it was last seen under our number.
    knows_bound: bool,
    /// Until when that knowledge outlives the pool: nobody can have waited for a younger one yet.
    knew_bound_until: BootTime,
    /// Spreads the retries of many holders that lost the same server over an interval.
    backoff: Backoff,
    /// What was logged last and when it may be logged again.
    logged: Option<(String, BootTime)>,
    status: watch::Sender<Status>,
    stats: Arc<LeaseStats>,
}

impl Task {
    pub(super) fn new(
        pool: Pool,
        options: HolderOptions,
        (name, token): (String, String),
        state_dir: Option<StateDir>,
        status: watch::Sender<Status>,
        stats: Arc<LeaseStats>,
    ) -> Task {
        let interval = options.timing.interval;
        Task {
            lease_state: LeaseState::new(&options.timing),
            id: HolderId {
                owner: String::new(),
                name,
                token,
            },
            clocks: UserClocks::new(&options),
            options,
            pool,
            state_dir,
            held: None,
            window: None,
            may_hold_unknown: false,
            was_open: false,
            knows_bound: false,
            knew_bound_until: BootTime::ZERO,
            backoff: Backoff::new(interval, interval),
            logged: None,
            status,
            stats,
        }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) -> End {
        let end = loop {
            if stop.is_cancelled() {
                break self.release().await;
            }
            match self.lease_state.next(self.options.clock.now()) {
                LeaseAction::GiveUp => break End::NameTaken,
                LeaseAction::WaitUntil(moment) => {
                    let wait = moment.since(self.options.clock.now());
                    tokio::select! {
                        () = tokio::time::sleep(wait) => (),
                        () = stop.cancelled() => (),
                    }
                }
                LeaseAction::Get if self.options.once && self.was_open => break End::Lost,
                LeaseAction::Get => {
                    if let Err(end) = self.get().await {
                        break end;
                    }
                }
                LeaseAction::Extend(phase) => self.extend(phase).await,
            }
        };
        self.end_window();
        self.tell(Status::Ended(end.clone()));
        end
    }

    async fn get(&mut self) -> Result<(), End> {
        if self.id.owner.is_empty() {
            match self.pool.register().await {
                Ok(owner) => self.id.owner = owner,
                Err(error) => return self.failed_get(error),
            }
        }
        let proof = self.saved().map(|saved| saved.token.clone());
        let call = self.call(proof);
        let sent = self.options.clock.now();
        let answer = self.pool.get(&self.id, &call, self.need()).await;
        let received = self.options.clock.now();
        match answer {
            Ok(GetAnswer::Granted(grant)) => {
                self.may_hold_unknown = false;
                self.granted(grant, &call, Times { sent, received }).await
            }
            Ok(GetAnswer::NoneFree { next_in }) => {
                self.stats.none_free.fetch_add(1, Ordering::Relaxed);
                self.stats.free.store(0, Ordering::Relaxed);
                let wait = next_in.min(self.options.timing.interval);
                self.lease_state
                    .not_granted(received + wait.max(Duration::from_millis(10)));
                self.seek_on(
                    "all numbers are reserved",
                    format!("all numbers are reserved; the first comes free in {next_in:.1?}"),
                );
                Ok(())
            }
            Ok(GetAnswer::Late { number, ceil_ms }) => {
                self.stats.late.fetch_add(1, Ordering::Relaxed);
                self.lease_state
                    .not_granted(received + self.options.timing.interval);
                let ahead = Duration::from_millis(ceil_ms.saturating_sub(call.now_ms));
                self.seek_on(
                    "late",
                    format!(
                        "this machine's clock is behind: every free number was used with later times, number \
                         {number} the earliest, {ahead:.1?} ahead"
                    ),
                );
                Ok(())
            }
            Err(error) => {
                self.may_hold_unknown |= matches!(&error, Error::Redis(error) if error.may_have_run());
                self.failed_get(error)
            }
        }
    }

    /// Waits before the next try, unless the failure is permanent.
    fn failed_get(&mut self, error: Error) -> Result<(), End> {
        let trouble = error.chain();
        let never_held = self.held.is_none();
        if never_held && matches!(error, Error::Bound { .. }) {
            return Err(End::BoundDiffers(trouble));
        }
        if never_held && !error.is_retryable() {
            return Err(End::Failed(trouble));
        }
        tracing::warn!(error = trouble, "no number yet");
        let now = self.options.clock.now();
        self.lease_state.not_granted(now + self.backoff.next_wait());
        self.tell(Status::Seeking {
            trouble: Some(trouble),
        });
        Ok(())
    }

    /// Tells why there is no number, and logs it now and then for as long as it goes on.
    fn seek_on(&mut self, kind: &str, trouble: String) {
        let now = self.options.clock.now();
        let said = self
            .logged
            .as_ref()
            .is_some_and(|(logged, until)| logged == kind && now < *until);
        if !said {
            tracing::warn!(reason = trouble, "no number yet");
            self.logged = Some((kind.to_owned(), now + REPEAT_TROUBLE));
        }
        self.tell(Status::Seeking {
            trouble: Some(trouble),
        });
    }

    async fn granted(&mut self, grant: Grant, call: &GetCall, times: Times) -> Result<(), End> {
        let floor_ms = self.floor(&grant);
        if floor_ms > call.now_ms.saturating_add(millis(call.ahead)) {
            return self.give_back_late(grant, floor_ms, times).await;
        }
        let held = Held {
            number: grant.number,
            fence: grant.fence,
            at_once: grant.at_once,
            run: grant.run.clone(),
        };
        let opening = Opening {
            delay: self.delay(&grant, times.received),
            floor_passed: self.floor_passed(floor_ms, call.now_ms, times),
        };
        tracing::info!(
            number = grant.number,
            fence = grant.fence,
            at_once = grant.at_once,
            "number granted"
        );
        if grant.young.is_some() && !grant.at_once {
            tracing::info!(wait = ?opening.delay, "the pool is young: others may still use its numbers");
        }
        self.logged = None;
        self.knows_bound = grant.young.is_none();
        self.lease_state.granted(held, opening, times);
        let ceil_ms = call.ceil_ms.max(floor_ms);
        self.held = Some(Grant { floor_ms, ..grant });
        self.show(ceil_ms)
    }

    /// Gives a number back whose last time, by our own record, is further ahead of the clock than we wait. The
    /// pool learns that time and passes the number over.
    async fn give_back_late(&mut self, grant: Grant, floor_ms: u64, times: Times) -> Result<(), End> {
        self.stats.late.fetch_add(1, Ordering::Relaxed);
        let released = Released::UpTo { ms: floor_ms };
        if let Err(error) = self.pool.release(&self.id, &grant, released).await {
            tracing::warn!(
                number = grant.number,
                error = error.chain(),
                "late number not given back"
            );
        }
        self.lease_state
            .not_granted(times.received + self.options.timing.interval);
        let trouble = format!(
            "this machine's clock was set back: number {} was used with later times",
            grant.number
        );
        self.seek_on("late", trouble);
        Ok(())
    }

    /// Returns how long others may still use the number: the longest use of the pool, or, where holders of a
    /// forgotten pool may be about, of any pool.
    fn delay(&self, grant: &Grant, received: BootTime) -> Duration {
        let timing = &self.options.timing;
        let seen = Duration::from_millis(self.saved().map_or(0, |saved| saved.use_max_ms));
        let bound = timing.use_max.max(seen);
        let is_unknown = grant.young.is_some() && received >= self.knew_bound_until;
        let bound = if is_unknown {
            bound.max(timing.use_cap)
        } else {
            bound
        };
        timing.delay.max(timing.wait_out(bound))
    }

    /// Returns the time above which ids are new: the stored ceiling, or our own last time if that is known
    /// to be complete.
    fn floor(&self, grant: &Grant) -> u64 {
        let Some((dir, saved)) = self.state_dir.as_ref().zip(self.saved()) else {
            return grant.floor_ms;
        };
        if saved.number != grant.number {
            return grant.floor_ms;
        }
        let is_complete = grant.proved && dir.is_same_boot(saved);
        let was_command = saved.offset_ms > 0;
        match self.options.usage {
            Usage::Ids if is_complete && !was_command => saved.last_ms,
            // The command that had it read the same clock, which was not set back since.
            Usage::Command if is_complete && was_command && !self.clocks.was_set_back(saved) => grant
                .floor_ms
                .min(self.clocks.wall_ms().saturating_add(self.clocks.skew_ms())),
            Usage::Ids | Usage::Command => grant.floor_ms.max(saved.last_ms),
        }
    }

    /// Returns when our clock has passed a time.
    fn floor_passed(&self, floor_ms: u64, now_ms: u64, times: Times) -> BootTime {
        match floor_ms.checked_sub(now_ms) {
            None => times.received,
            Some(left_ms) => times.sent + Duration::from_millis(left_ms + 1),
        }
    }

    async fn extend(&mut self, phase: Phase) {
        let Some(held) = self.held.clone() else {
            unreachable!("only a granted number is renewed");
        };
        let call = self.call(None);
        self.note_wall();
        let sent = self.options.clock.now();
        let answer = self.pool.extend(&self.id, &held, phase, &call, self.need()).await;
        let received = self.options.clock.now();
        let mut ceil_ms = 0;
        let renewal = match answer {
            Ok(Extension::Extended {
                run_changed,
                ceil_ms: confirmed,
                run,
                free,
            }) => {
                self.stats.free.store(free, Ordering::Relaxed);
                ceil_ms = confirmed;
                if let Some(held) = &mut self.held {
                    held.run = run.clone();
                }
                Renewal::Confirmed { run_changed, run }
            }
            Ok(Extension::Refused(refusal)) => {
                tracing::warn!(number = held.number, ?refusal, "number lost");
                if refusal == Refusal::Missing && phase != Phase::Lapsed && self.knows_bound {
                    self.knew_bound_until = sent + self.options.timing.use_cap;
                }
                Renewal::Refused(refusal)
            }
            Err(error) => {
                self.stats.renewals_failed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(number = held.number, error = error.chain(), "renewal failed");
                Renewal::Unknown
            }
        };
        let retry_at = received + self.options.timing.interval / 4;
        self.lease_state
            .renewed(phase, renewal, Times { sent, received }, retry_at);
        if let Err(End::Failed(trouble)) = self.show(ceil_ms) {
            tracing::error!(trouble, "number cannot be used");
        }
        self.ripen().await;
    }

    /// Brings window and status in line with the lease state.
    fn show(&mut self, ceil_ms: u64) -> Result<(), End> {
        let Some(held) = self.lease_state.held().cloned() else {
            self.end_window();
            self.tell(Status::Seeking { trouble: None });
            return Ok(());
        };
        if let Some(opens_after) = self.lease_state.opens_after() {
            self.end_window();
            let (number, fence) = (held.number, held.fence);
            self.tell(Status::Waiting {
                number,
                fence,
                opens_after,
            });
            return Ok(());
        }
        let Some((_, until)) = self.lease_state.window() else {
            return Ok(());
        };
        if let Some(window) = &self.window {
            window.extend(until, ceil_ms);
            return Ok(());
        }
        if until <= self.options.clock.now() {
            // The answer came too late for a window; the next renewal decides.
            return Ok(());
        }
        let floor_ms = self.held.as_ref().map_or(0, |grant| grant.floor_ms);
        let use_max = self.options.timing.use_max;
        let local = match &self.state_dir {
            Some(dir) => Some(dir.begin(&self.id.token, (held.number, held.fence), floor_ms, use_max)),
            None => None,
        };
        let local = local
            .transpose()
            .map_err(|error| End::Failed(error.to_string()))?;
        let window = Window::new(held.number, held.fence, floor_ms, until, ceil_ms, local);
        let window = Arc::new(window);
        self.window = Some(window.clone());
        self.was_open = true;
        self.clocks.high_ms = 0;
        self.note_wall();
        self.tell(Status::Open(window));
        Ok(())
    }

    /// Ends the youth of the pool once this holder has waited it out: its window is open.
    async fn ripen(&mut self) {
        let born = match (&self.window, &mut self.held) {
            (Some(_), Some(held)) => held.young.take(),
            _ => None,
        };
        let Some(born) = born else { return };
        self.knows_bound = true;
        if let Err(error) = self.pool.ripen(&born).await {
            tracing::warn!(
                error = error.chain(),
                "the pool stays young; the next holder waits too"
            );
        }
    }

    /// Ends the window, if there is one; the last time it issued becomes the grant's floor.
    fn end_window(&mut self) {
        self.note_wall();
        if let Some(window) = self.window.take() {
            let last_ms = window.end();
            if let Some(held) = &mut self.held {
                held.floor_ms = held.floor_ms.max(last_ms);
            }
        }
    }

    async fn release(&mut self) -> End {
        let was_used = self.window.is_some();
        self.end_window();
        let holds = self.lease_state.held().is_some();
        if !holds && !self.may_hold_unknown {
            return End::Released;
        }
        let giving_back = async {
            match self.held.as_ref().filter(|_| holds) {
                Some(held) => {
                    let released = self.released(held.floor_ms, was_used);
                    self.pool.release(&self.id, held, released).await.map(drop)
                }
                None => self.pool.abandon(&self.id).await,
            }
        };
        match tokio::time::timeout(RELEASE_LIMIT, giving_back).await {
            // A refusal means that another holder has it already.
            Ok(Ok(())) => End::Released,
            Ok(Err(error)) => End::NotReleased(error.chain()),
            Err(_) => End::NotReleased(format!("no answer within {RELEASE_LIMIT:?}")),
        }
    }

    /// What is known of the times used with a number that is given back.
    fn released(&self, last_ms: u64, was_used: bool) -> Released {
        match self.options.usage {
            Usage::Ids => Released::Last { ms: last_ms },
            Usage::Command if was_used => Released::UpTo {
                ms: last_ms.saturating_add(self.clocks.skew_ms()),
            },
            Usage::Command => Released::UpTo { ms: last_ms },
        }
    }

    /// Samples the wall clock, which a command that has the number may have used.
    fn note_wall(&mut self) {
        let (Usage::Command, Some(window)) = (self.options.usage, &self.window) else {
            return;
        };
        let wall_ms = self.clocks.wall_ms();
        self.clocks.high_ms = self.clocks.high_ms.max(wall_ms);
        window.note_wall(self.clocks.high_ms, self.clocks.offset_ms(wall_ms));
    }

    fn saved(&self) -> Option<&Saved> {
        self.state_dir.as_ref().and_then(StateDir::previous)
    }

    fn call(&self, proof: Option<String>) -> GetCall {
        let timing = &self.options.timing;
        let (now_ms, high_ms) = self.clocks.read_ms();
        GetCall {
            ceil_ms: high_ms.saturating_add(millis(timing.ceiling_ahead())),
            reserve: timing.reserve,
            proof,
            now_ms,
            ahead: timing.wait_out(timing.use_max),
            use_max: timing.use_max,
        }
    }

    fn need(&self) -> Need {
        Need {
            replicas: self.options.min_replicas,
            limit: self.options.timing.interval,
        }
    }

    fn tell(&self, status: Status) {
        self.status.send_replace(status);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
