//! The watchdog's own process: a timer, a socket and its children.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use nagaya_clock::{BootTime, boot_now};
use nagaya_process::{Signals, end_with_parent, orphans};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid, waitpid};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};

use crate::family::{Processes, signal_family};
use crate::rules::{Step, Tether};
use crate::wire::{Cause, Group, Inbox, Order, Report, send};

/// How often a group that is being ended is looked at, besides each end of a child.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Signals for the supervisor that may reach the watchdog too, such as a service manager's for all processes.
const LEFT_TO_SUPERVISOR: [Signal; 6] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
];

/// Runs the watchdog, whose standard input is the socket to its supervisor, until that is gone and every group too.
///
/// It must have the process to itself, and be called on its first thread: the kernel ties the leaders to it.
pub fn watch() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let stream = StdStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        stream.set_nonblocking(true)?;
        let signals = Signals::listen(&LEFT_TO_SUPERVISOR)?;
        orphans::adopt()?;
        let watchdog = Watchdog {
            stream: Some(UnixStream::from_std(stream)?),
            inbox: Inbox::default(),
            groups: Vec::new(),
        };
        watchdog.run(signals).await
    })
}

struct Watchdog {
    /// `None` once the supervisor is gone.
    stream: Option<UnixStream>,
    inbox: Inbox,
    groups: Vec<Watched>,
}

struct Watched {
    group: Group,
    leader: Pid,
    tether: Tether,
    /// Of the leader, once it has ended.
    status: Option<i32>,
    /// The group was seen empty once. A process that was forking just then is seen the second time.
    was_empty: bool,
    is_reported: bool,
}

impl Watchdog {
    async fn run(mut self, mut signals: Signals) -> io::Result<()> {
        let timer = Timer::new()?;
        let mut child_ended = signal(SignalKind::child())?;
        loop {
            self.obey_what_is_there().await;
            let next = self.look().await;
            if self.stream.is_none() && self.groups.is_empty() {
                return Ok(());
            }
            timer.set(next)?;
            tokio::select! {
                _ = child_ended.recv() => (),
                _ = signals.next() => (),
                fired = timer.fired() => fired?,
                order = next_order(&mut self.inbox, self.stream.as_ref()) => match order {
                    Ok(Some(order)) => self.obey(order).await,
                    // One that cannot be understood is as good as gone.
                    Ok(None) | Err(_) => self.cut(),
                },
            }
        }
    }

    /// Obeys the orders that have come, before anything is done by the clock: one that was frozen for a while finds
    /// the renewals of that time here.
    async fn obey_what_is_there(&mut self) {
        loop {
            let order = tokio::select! {
                biased;
                order = next_order(&mut self.inbox, self.stream.as_ref()) => order,
                () = std::future::ready(()) => return,
            };
            match order {
                Ok(Some(order)) => self.obey(order).await,
                // One that cannot be understood is as good as gone.
                Ok(None) | Err(_) => self.cut(),
            }
        }
    }

    /// Does what is due for every group and returns when to look again.
    async fn look(&mut self) -> BootTime {
        let leaders: Vec<Pid> = self.groups.iter().map(|watched| watched.leader).collect();
        orphans::reap_except(&leaders);
        let is_cut = self.stream.is_none();
        let mut next = boot_now() + Duration::from_secs(3600);
        let mut reports = Vec::new();
        let processes = OnceCell::new();
        for watched in &mut self.groups {
            let (again, gone) = watched.look(&leaders, &processes);
            next = next.min(again);
            reports.extend(gone);
        }
        for report in reports {
            self.report(&report).await;
        }
        if is_cut {
            // Nobody is left to let go of them.
            let gone = |watched: &Watched| watched.is_reported;
            self.groups
                .iter()
                .filter(|watched| gone(watched))
                .for_each(Watched::reap);
            self.groups.retain(|watched| !gone(watched));
        }
        next
    }

    async fn obey(&mut self, order: Order) {
        let now = boot_now();
        match order {
            Order::Start {
                group,
                until_nanos,
                grace_nanos,
                stop_nanos,
                arguments,
                variables,
            } => {
                let tether = Tether::new(
                    BootTime::from_nanos(until_nanos),
                    Duration::from_nanos(grace_nanos),
                    Duration::from_nanos(stop_nanos),
                );
                let report = match self.start(&arguments, variables) {
                    Ok(leader) => {
                        self.groups.push(Watched {
                            group,
                            leader,
                            tether,
                            status: None,
                            was_empty: false,
                            is_reported: false,
                        });
                        let pid = leader.as_raw_pid();
                        Report::Started { group, pid }
                    }
                    Err(error) => Report::NotStarted {
                        group,
                        errno: error.raw_os_error().unwrap_or(0),
                    },
                };
                self.report(&report).await;
            }
            Order::Until { group, nanos } => self.each(group, |watched| {
                watched.tether.extend(BootTime::from_nanos(nanos));
            }),
            Order::Termed { group } => self.each(group, |watched| watched.tether.note_term()),
            Order::Stop { group } => self.each(group, |watched| watched.tether.stop(now)),
            Order::LetGo { group } => {
                self.each(group, |watched| watched.reap());
                self.groups.retain(|watched| watched.group != group);
            }
        }
    }

    fn each(&mut self, group: Group, mut act: impl FnMut(&mut Watched)) {
        for watched in self.groups.iter_mut().filter(|watched| watched.group == group) {
            act(watched);
        }
    }

    fn start(&mut self, arguments: &[Vec<u8>], variables: Vec<(Vec<u8>, Vec<u8>)>) -> io::Result<Pid> {
        let [input, output, errors] = self
            .inbox
            .descriptors()
            .ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut words = arguments.iter().map(|word| OsString::from_vec(word.clone()));
        let program = words.next().ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
        let variables = variables
            .into_iter()
            .map(|(name, value)| (OsString::from_vec(name), OsString::from_vec(value)));
        let mut command = Command::new(program);
        command
            .args(words)
            .envs(variables)
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(output))
            .stderr(Stdio::from(errors))
            .process_group(0);
        end_with_parent(&mut command, Signal::KILL);
        let child = command.spawn()?;
        let pid = Pid::from_child(&child);
        Ok(pid)
    }

    /// The supervisor is gone: every group is to end.
    fn cut(&mut self) {
        self.stream = None;
        let now = boot_now();
        for watched in &mut self.groups {
            watched.tether.stop(now);
        }
    }

    async fn report(&mut self, report: &Report) {
        let Some(stream) = &mut self.stream else { return };
        let sent = match report.to_frame() {
            Ok(frame) => send(stream, &frame, &[]).await,
            Err(error) => Err(error),
        };
        if sent.is_err() {
            self.cut();
        }
    }
}

impl Watched {
    /// Does what is due; returns when to look again, and the report of its end.
    fn look(&mut self, leaders: &[Pid], processes: &OnceCell<Processes>) -> (BootTime, Option<Report>) {
        let now = boot_now();
        if self.is_reported {
            return (now + Duration::from_secs(3600), None);
        }
        if self.status.is_none()
            && let Some(status) = ended_status(self.leader)
        {
            self.status = Some(status);
            self.tether.leader_ended(now);
        }
        let takes_strays = leaders.len() == 1;
        let has_living = || {
            let processes = processes.get_or_init(Processes::read);
            processes.has_living(self.leader, leaders, takes_strays)
        };
        let is_alive = self.status.is_none() || has_living();
        let soon = now + LOOK_INTERVAL;
        match self.tether.step(now, is_alive) {
            Step::Gone if !self.was_empty => {
                self.was_empty = true;
                (now, None)
            }
            Step::Gone => {
                self.is_reported = true;
                let cause = if self.tether.is_past_deadline() {
                    Cause::Deadline
                } else {
                    Cause::Itself
                };
                let report = Report::Gone {
                    group: self.group,
                    status: self.status.unwrap_or(0),
                    cause,
                };
                (now + Duration::from_secs(3600), Some(report))
            }
            Step::Term => {
                signal_family(
                    self.leader,
                    leaders,
                    takes_strays && self.status.is_some(),
                    Signal::TERM,
                );
                (now, None)
            }
            Step::Kill => {
                self.was_empty = false;
                signal_family(self.leader, leaders, takes_strays, Signal::KILL);
                (soon, None)
            }
            Step::Wait(moment) if self.status.is_some() => (moment.min(soon), None),
            Step::Wait(moment) => (moment, None),
        }
    }

    fn reap(&self) {
        waitpid(Some(self.leader), rustix::process::WaitOptions::NOHANG).ok();
    }
}

/// Returns the status of a child that has ended, as wait(2) has it, and leaves its zombie.
fn ended_status(child: Pid) -> Option<i32> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(child), options).ok()??;
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Some((code & 0xff) << 8),
        (None, Some(signal)) => Some(signal & 0x7f),
        (None, None) => None,
    }
}

async fn next_order(inbox: &mut Inbox, stream: Option<&UnixStream>) -> io::Result<Option<Order>> {
    match stream {
        Some(stream) => inbox.order(stream).await,
        None => std::future::pending().await,
    }
}

/// An alarm on the boot clock, which goes off after a suspend as soon as it is due.
struct Timer {
    descriptor: AsyncFd<std::os::fd::OwnedFd>,
}

impl Timer {
    #[allow(
        unsafe_code,
        reason = "the runtime has no safe way to wait for a descriptor of the caller's"
    )]
    fn new() -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = timerfd_create(TimerfdClockId::Boottime, flags)?;
        // SAFETY: the descriptor is owned by what it is registered with, and is the same until that is dropped.
        let descriptor = unsafe { AsyncFd::register(descriptor) }?;
        Ok(Timer { descriptor })
    }

    fn set(&self, at: BootTime) -> io::Result<()> {
        // A time of zero would switch it off.
        let nanos = at.as_nanos().max(1);
        let value = Timespec {
            tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (nanos % 1_000_000_000).try_into().unwrap_or(0),
        };
        let spec = Itimerspec {
            it_interval: Timespec::default(),
            it_value: value,
        };
        timerfd_settime(self.descriptor.get_ref(), TimerfdTimerFlags::ABSTIME, &spec)?;
        Ok(())
    }

    /// Waits for the alarm. Cancel safe.
    async fn fired(&self) -> io::Result<()> {
        loop {
            let mut ready = self.descriptor.readable().await?;
            let mut count = [0_u8; 8];
            let read = ready.try_io(|descriptor| Ok(rustix::io::read(descriptor.get_ref(), &mut count)?));
            if let Ok(read) = read {
                return read.map(drop);
            }
        }
    }
}
