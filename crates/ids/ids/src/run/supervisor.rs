//! Starts the command when its number may be used, and ends it when not.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use nagaya_process::{Group, Signal, Signals, orphans};
use tokio::process::{Child, Command};

use super::arguments::replace;
use crate::lease::{End, Holder, HolderOptions, LockScope, StateError, Timing, TimingOptions, Window};
use crate::permit::Permit;
use crate::pool::Pool;
use nagaya_clock::{BootClock, BootTime};

/// The time between the last KILL and the end of the window: for the kernel to end the processes, and
/// for late scheduling.
const MARGIN: Duration = Duration::from_millis(250);
/// How often the command's processes are checked, whose end the kernel does not announce.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// How long KILLed processes may take to go before the number is left reserved instead.
const KILL_LIMIT: Duration = Duration::from_secs(5);
/// The signals that are passed on to the command.
const FORWARDED: [Signal; 6] = [
    Signal::HUP,
    Signal::INT,
    Signal::TERM,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
];
const NUMBER_VARIABLE: &str = "NAGAYA_ID";
const FENCE_VARIABLE: &str = "NAGAYA_FENCE";

/// The command and its options.
#[derive(Clone)]
pub struct RunOptions {
    /// The program and its arguments; at least the program.
    pub command: Vec<OsString>,
    /// What is replaced by the number in every argument.
    pub placeholder: String,
    /// How long the command may take to end after TERM.
    pub grace: Duration,
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
}

impl RunError {
    /// Returns the exit code, as in shells: 127 for a program that is not there, 126 for one that
    /// cannot be run, 2 for wrong usage, 1 for the rest.
    pub fn exit_code(&self) -> u8 {
        match self {
            RunError::NoCommand => 2,
            RunError::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            RunError::Start { .. } => 126,
            RunError::State(_) | RunError::NoNumber(_) | RunError::SetUp(_) => 1,
        }
    }
}

/// Derives durations that leave a command its grace period inside the window and still allow two failed
/// renewals.
pub fn run_timing(options: TimingOptions, grace: Duration) -> (Timing, Vec<String>) {
    let base = Timing::default();
    let interval = options.interval.unwrap_or(base.interval);
    let use_for = options.use_for.or(Some(interval * 3 + grace + MARGIN));
    Timing::from_options(TimingOptions { use_for, ..options }, base)
}

/// Runs the command with a number and returns its exit code, 128 + n if signal n ended it.
///
/// It must have the process to itself: it takes over signals and adopts orphans.
/// The number is given back on every way out.
pub async fn run(pool: Pool, options: RunOptions) -> Result<u8, RunError> {
    if options.command.is_empty() {
        return Err(RunError::NoCommand);
    }
    let mut signals = Signals::listen(&FORWARDED).map_err(RunError::SetUp)?;
    orphans::adopt().map_err(RunError::SetUp)?;
    let holder_options = HolderOptions {
        once: true,
        lock_scope: LockScope::ProcessAndChildren,
        ..options.holder.clone()
    };
    let holder = Holder::start(pool, holder_options)?;
    let window = tokio::select! {
        biased;
        signal = next_ending(&mut signals) => {
            report(holder.stop().await);
            return Ok(signal_code(signal.as_raw()));
        }
        window = holder.window() => window.map_err(RunError::NoNumber)?,
    };
    let child = match start(&options, &window) {
        Ok(child) => child,
        Err(source) => {
            report(holder.stop().await);
            let program = options.command[0].clone();
            return Err(RunError::Start { program, source });
        }
    };
    let supervisor = Supervisor {
        group: Group::of(&child),
        clock: options.holder.clock.clone(),
        grace: options.grace,
        window,
    };
    let status = supervisor.watch(child, &mut signals, &holder).await;
    if supervisor.end_descendants().await {
        report(holder.stop().await);
    } else {
        tracing::error!("processes of the command could not be ended; the number stays reserved");
    }
    Ok(exit_code(status.map_err(RunError::SetUp)?))
}

fn start(options: &RunOptions, window: &Window) -> io::Result<Child> {
    let arguments = replace(&options.command, &options.placeholder, window.worker());
    Command::new(&arguments[0])
        .args(&arguments[1..])
        .env(NUMBER_VARIABLE, window.worker().to_string())
        .env(FENCE_VARIABLE, window.fence().to_string())
        .process_group(0)
        .spawn()
}

/// Waits for a signal that asks the process to end.
async fn next_ending(signals: &mut Signals) -> Signal {
    loop {
        let signal = signals.next().await;
        if signal != Signal::USR1 && signal != Signal::USR2 {
            return signal;
        }
    }
}

struct Supervisor {
    group: Option<Group>,
    window: Arc<Window>,
    clock: Arc<dyn BootClock>,
    grace: Duration,
}

impl Supervisor {
    /// Passes signals on and watches the window until the command itself has ended.
    async fn watch(
        &self,
        mut child: Child,
        signals: &mut Signals,
        holder: &Holder,
    ) -> io::Result<ExitStatus> {
        let mut status = holder.status();
        let mut term_sent: Option<BootTime> = None;
        let mut killed = false;
        loop {
            let now = self.clock.now();
            if term_sent.is_none() && (self.window.is_ended() || now >= self.term_at()) {
                tracing::warn!(
                    number = self.window.worker(),
                    "number lost or not renewed: ending the command"
                );
                self.signal_group(Signal::TERM);
                term_sent = Some(now);
            }
            let deadline = match term_sent {
                None => self.term_at(),
                Some(sent) => (sent + self.grace).min(self.kill_at()),
            };
            if term_sent.is_some() && now >= deadline && !killed {
                self.signal_group(Signal::KILL);
                killed = true;
            }
            tokio::select! {
                ended = child.wait() => return ended,
                signal = signals.next() => self.signal_group(signal),
                // Renewals move the deadline without a change of status, so it is looked up again.
                () = tokio::time::sleep(deadline.since(now).max(CHECK_INTERVAL)), if !killed => (),
                Ok(()) = status.changed() => (),
            }
        }
    }

    /// Ends the processes that the command left behind; false if some are still there.
    async fn end_descendants(&self) -> bool {
        let Some(group) = self.group else {
            return true;
        };
        let begun = self.clock.now();
        let kill_at = (begun + self.grace).min(self.kill_at().max(begun));
        let mut sent = None;
        loop {
            if orphans::all_ended() {
                return true;
            }
            let now = self.clock.now();
            if now >= kill_at + KILL_LIMIT {
                return false;
            }
            let signal = if now >= kill_at {
                Signal::KILL
            } else {
                Signal::TERM
            };
            // TERM once; KILL repeatedly, for processes that the last one has orphaned.
            if sent != Some(signal) || signal == Signal::KILL {
                // The group, and the descendants that left it and were orphaned.
                group.signal(signal);
                orphans::signal_children(signal);
                sent = Some(signal);
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(group) = self.group {
            group.signal(signal);
        }
    }

    fn term_at(&self) -> BootTime {
        self.kill_at() - self.grace
    }

    fn kill_at(&self) -> BootTime {
        self.window.until() - MARGIN
    }
}

fn report(end: End) {
    match end {
        End::Released => (),
        End::NotReleased(reason) => {
            tracing::warn!(reason, "number not given back; it stays reserved for a while")
        }
        End::Lost | End::NameTaken => tracing::warn!(?end, "number was lost"),
        End::Failed(reason) => tracing::error!(reason, "lease failed"),
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
        let (timing, changes) = run_timing(TimingOptions::default(), Duration::from_secs(1));
        assert_eq!(timing.use_for, Duration::from_millis(4250));
        assert!(changes.is_empty(), "{changes:?}");
        assert!(timing.delay >= timing.delay_min());
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
    }
}
