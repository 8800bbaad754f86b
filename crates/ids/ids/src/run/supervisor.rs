//! Starts the command when its number may be used, and ends it when not.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use nagaya_leash::{Cause, Event, Leash, Leashed, MARGIN, Start, has_living};
use nagaya_process::{Signal, Signals, orphans};

use super::arguments::replace;
use crate::lease::{
    End, Holder, HolderOptions, LockScope, StateError, Timing, TimingOptions, TooLong, Usage, Window,
};
use crate::permit::Permit;
use crate::pool::Pool;
use nagaya_clock::{BootClock, Clock};

/// The part of the window that is neither for renewals nor for the grace: the margins of watchdog and supervisor, and
/// time for late scheduling.
const WINDOW_SLACK: Duration = Duration::from_millis(500);
/// How often the command's processes are checked once the watchdog did not end them.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// How long KILLed processes may take to go before the number is left reserved instead.
const KILL_LIMIT: Duration = Duration::from_secs(5);
/// The exit code when the command was ended because its number was lost.
pub const LOST_CODE: u8 = 121;
/// The exit code when the settings and the pool disagree about the longest use.
pub const BOUND_CODE: u8 = 122;
/// The signals that are passed on to the command, but for the first.
const CAUGHT: [Signal; 7] = [
    // Not passed on: a child of this process has ended.
    Signal::CHILD,
    Signal::HUP,
    Signal::INT,
    Signal::TERM,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
];
const NUMBER_VARIABLE: &str = "NAGAYA_ID";
const FENCE_VARIABLE: &str = "NAGAYA_FENCE";
/// Unix milliseconds: ids of earlier holders carry no later time.
const FLOOR_VARIABLE: &str = "NAGAYA_FLOOR";

/// The command and its options.
#[derive(Clone)]
pub struct RunOptions {
    /// The program and its arguments; at least the program.
    pub command: Vec<OsString>,
    /// What is replaced by the number in every argument.
    pub placeholder: String,
    /// How long the command may take to end after TERM when its number is lost; part of the window.
    pub grace: Duration,
    /// How long processes that the command left behind may take to end after TERM while the number is held.
    pub stop_timeout: Duration,
    /// A command that calls [`nagaya_leash::watch`].
    pub watchdog: fn() -> io::Result<std::process::Command>,
    pub holder: HolderOptions,
}

/// Why the command did not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("no command to run was given")]
    NoCommand,
    #[error(transparent)]
    State(#[from] StateError),
    #[error("no number to run with: {0:?}")]
    NoNumber(End),
    #[error("{program:?} could not be started: {source}")]
    Start {
        program: OsString,
        #[source]
        source: io::Error,
    },
    #[error("the supervisor could not be set up: {0}")]
    SetUp(#[source] io::Error),
    #[error("the watchdog has ended, so the command was ended too")]
    NoWatchdog,
}

impl RunError {
    /// Returns the exit code, as in shells: 127 for a program that is not there, 126 for one that
    /// cannot be run, 2 for wrong usage; [`BOUND_CODE`]; 1 for the rest.
    pub fn exit_code(&self) -> u8 {
        match self {
            RunError::NoCommand => 2,
            RunError::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            RunError::Start { .. } => 126,
            RunError::NoNumber(End::BoundDiffers(_)) => BOUND_CODE,
            RunError::State(_) | RunError::NoNumber(_) | RunError::SetUp(_) | RunError::NoWatchdog => 1,
        }
    }
}

/// Derives durations that leave a command its grace period inside the window and still allow two failed
/// renewals. A grace or an interval that the pool's longest use time has no room for is refused.
pub fn run_timing(options: TimingOptions, grace: Duration) -> Result<(Timing, Vec<String>), TooLong> {
    let base = Timing::default();
    let interval = options.interval.unwrap_or(base.interval);
    let use_max = options.use_max.unwrap_or(base.use_max);
    let use_for = options.use_for.unwrap_or(interval * 3 + grace + WINDOW_SLACK);
    if use_for > use_max {
        let room = use_max.saturating_sub(WINDOW_SLACK);
        return Err(TooLong {
            use_for,
            use_max,
            remedy: format!(
                "with an interval of {interval:?} the largest grace is {:?}, with a grace of {grace:?} the largest \
                 interval is {:?}",
                room.saturating_sub(interval * 3),
                room.saturating_sub(grace) / 3
            ),
        });
    }
    let use_for = Some(use_for);
    Timing::from_options(TimingOptions { use_for, ..options }, base)
}

/// Runs the command with a number and returns its exit code, 128 + n if signal n ended it, [`LOST_CODE`] if it was
/// ended for the loss of its number.
///
/// It must have the process to itself: it takes over signals, adopts orphans and reaps them.
/// The number is given back on every way out.
pub async fn run(pool: Pool, options: RunOptions) -> Result<u8, RunError> {
    if options.command.is_empty() {
        return Err(RunError::NoCommand);
    }
    let mut signals = Signals::listen(&CAUGHT).map_err(RunError::SetUp)?;
    orphans::adopt().map_err(RunError::SetUp)?;
    let holder_options = HolderOptions {
        once: true,
        lock_scope: LockScope::ProcessAndChildren,
        usage: Usage::Command,
        ..options.holder.clone()
    };
    let holder = Holder::start(pool, holder_options)?;
    let window = tokio::select! {
        biased;
        signal = next_ending(&mut signals) => {
            report(holder.stop().await);
            return Ok(signal_code(signal.as_raw()));
        }
        window = usable_window(&holder, &*options.holder.wall) => window.map_err(RunError::NoNumber)?,
    };
    let started = match (options.watchdog)().and_then(Leash::start) {
        Ok(mut leash) => match leash.spawn(start(&options, &window)).await {
            Ok(group) => Ok((leash, group)),
            Err(source) => {
                let program = options.command[0].clone();
                Err(RunError::Start { program, source })
            }
        },
        Err(error) => Err(RunError::SetUp(error)),
    };
    let (leash, group) = match started {
        Ok(started) => started,
        Err(error) => {
            report(holder.stop().await);
            return Err(error);
        }
    };
    let supervisor = Supervisor {
        clock: options.holder.clock.clone(),
        leash,
        group,
        window,
    };
    match supervisor.watch(&mut signals, &holder).await {
        Ok(ended) => {
            report(holder.stop().await);
            Ok(ended.exit_code())
        }
        Err(WatchdogEnded { is_empty: true }) => {
            report(holder.stop().await);
            Err(RunError::NoWatchdog)
        }
        Err(WatchdogEnded { is_empty: false }) => {
            tracing::error!("processes of the command could not be ended; the number stays reserved");
            Err(RunError::NoWatchdog)
        }
    }
}

fn start(options: &RunOptions, window: &Window) -> Start {
    let variable = |name: &str, value: u64| (name.into(), value.to_string().into());
    Start {
        command: replace(&options.command, &options.placeholder, window.worker()),
        variables: vec![
            variable(NUMBER_VARIABLE, window.worker()),
            variable(FENCE_VARIABLE, window.fence()),
            variable(FLOOR_VARIABLE, window.floor_ms()),
        ],
        streams: None,
        until: window.until(),
        grace: options.grace,
        stop_timeout: options.stop_timeout,
    }
}

/// Waits for a number, and for the wall clock, which may have been set back since, to pass its floor.
async fn usable_window(holder: &Holder, wall: &dyn Clock) -> Result<Arc<Window>, End> {
    loop {
        let window = holder.window().await?;
        let floor_ms = i64::try_from(window.floor_ms()).unwrap_or(i64::MAX);
        if wall.unix_ms() > floor_ms && !window.is_ended() {
            return Ok(window);
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// Waits for a signal that asks the process to end.
async fn next_ending(signals: &mut Signals) -> Signal {
    loop {
        let signal = signals.next().await;
        match signal {
            Signal::CHILD => orphans::reap_except(&[]),
            Signal::USR1 | Signal::USR2 => (),
            signal => return signal,
        }
    }
}

/// The command is gone.
struct Ended {
    status: ExitStatus,
    is_lost: bool,
}

impl Ended {
    fn exit_code(&self) -> u8 {
        if self.is_lost {
            LOST_CODE
        } else {
            exit_code(self.status)
        }
    }
}

/// The watchdog ended before the command; whether the command's processes are gone.
struct WatchdogEnded {
    is_empty: bool,
}

struct Supervisor {
    leash: Leash,
    group: Leashed,
    window: Arc<Window>,
    clock: Arc<dyn BootClock>,
}

impl Supervisor {
    /// Passes signals and renewals on until nothing of the command is left.
    async fn watch(mut self, signals: &mut Signals, holder: &Holder) -> Result<Ended, WatchdogEnded> {
        let mut status = holder.status();
        let mut is_lost = false;
        let mut told = self.window.until();
        loop {
            let (now, until) = (self.clock.now(), self.window.until());
            if until > told {
                told = until;
                note(self.leash.extend(self.group, until).await);
            }
            if self.window.is_ended() && !is_lost {
                is_lost = true;
                tracing::warn!(number = self.window.worker(), "number lost: ending the command");
                note(self.leash.stop(self.group).await);
            }
            // The watchdog kills earlier; this is for one that is out of order.
            let kill_at = until - MARGIN;
            let is_overdue = now >= kill_at;
            if is_overdue {
                is_lost = true;
                self.group.kill();
                if !has_living(self.group.leader(), &[], false) {
                    let status = ExitStatus::from_raw(Signal::KILL.as_raw());
                    return Ok(self.finish(Ended { status, is_lost }).await);
                }
            }
            let wait = if is_overdue {
                CHECK_INTERVAL
            } else {
                kill_at.since(now)
            };
            tokio::select! {
                event = self.leash.event() => match event {
                    Event::Gone { status, cause, .. } => {
                        is_lost |= cause == Cause::Deadline;
                        return Ok(self.finish(Ended { status, is_lost }).await);
                    }
                    Event::Ended => return Err(self.end_descendants().await),
                },
                signal = signals.next() => match signal {
                    Signal::CHILD => orphans::reap_except(self.leash.process().as_slice()),
                    signal => note(self.leash.signal(self.group, signal).await),
                },
                () = self.window.moved() => (),
                () = tokio::time::sleep(wait) => (),
                Ok(()) = status.changed() => (),
            }
        }
    }

    /// Lets go of the group and waits for the watchdog, which holds the lock of the name.
    async fn finish(mut self, ended: Ended) -> Ended {
        note(self.leash.let_go(self.group).await);
        self.leash.end().await;
        ended
    }

    /// Ends what a watchdog that was killed has left behind: it is ours now.
    async fn end_descendants(self) -> WatchdogEnded {
        tracing::error!("the watchdog has ended: ending the command");
        let begun = self.clock.now();
        loop {
            self.group.kill();
            orphans::signal_children(Signal::KILL);
            if orphans::all_ended() {
                return WatchdogEnded { is_empty: true };
            }
            if self.clock.now() >= begun + KILL_LIMIT {
                return WatchdogEnded { is_empty: false };
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
}

/// The watchdog's end is told by its event; an order that did not reach it matters to nobody else.
fn note(sent: io::Result<()>) {
    if let Err(error) = sent {
        tracing::debug!(%error, "order not sent to the watchdog");
    }
}

fn report(end: End) {
    match end {
        End::Released => (),
        End::NotReleased(reason) => {
            tracing::warn!(reason, "number not given back; it stays reserved for a while")
        }
        End::Lost | End::NameTaken => tracing::warn!(?end, "number was lost"),
        End::BoundDiffers(reason) | End::Failed(reason) => tracing::error!(reason, "lease failed"),
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code & 0xff).unwrap_or(1),
        (None, Some(signal)) => signal_code(signal),
        (None, None) => 1,
    }
}

fn signal_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commands_window_has_room_for_its_grace_and_three_renewals() {
        let (timing, changes) = run_timing(TimingOptions::default(), Duration::from_secs(1)).unwrap();
        assert_eq!(timing.use_for, Duration::from_millis(4500));
        assert!(changes.is_empty(), "{changes:?}");
        assert!(timing.delay >= timing.delay_min());
    }

    #[test]
    fn a_grace_that_others_would_not_wait_for_is_refused() {
        let refused = run_timing(TimingOptions::default(), Duration::from_secs(10)).unwrap_err();
        assert!(refused.to_string().contains("largest grace is 1.5s"), "{refused}");
        let raised = TimingOptions {
            use_max: Some(Duration::from_secs(20)),
            ..TimingOptions::default()
        };
        let (timing, _) = run_timing(raised, Duration::from_secs(10)).unwrap();
        assert!(timing.delay >= timing.wait_out(Duration::from_secs(20)));
    }

    #[test]
    fn exit_codes_are_the_shells() {
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
        let missing = RunError::Start {
            program: "x".into(),
            source: io::ErrorKind::NotFound.into(),
        };
        assert_eq!(missing.exit_code(), 127);
        assert_eq!(RunError::NoCommand.exit_code(), 2);
        let differs = End::BoundDiffers(String::new());
        assert_eq!(RunError::NoNumber(differs).exit_code(), BOUND_CODE);
        let lost = Ended {
            status: ExitStatus::from_raw(0),
            is_lost: true,
        };
        assert_eq!(lost.exit_code(), LOST_CODE);
    }
}
