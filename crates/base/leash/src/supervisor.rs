//! The supervisor's side: orders to the watchdog, and the duties that remain if that is out of order.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use nagaya_clock::BootTime;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::UnixStream;
use tokio::process::Child;

use crate::wire::{Cause, Group, Inbox, Order, Report, send};

/// How long a watchdog that has nothing left to do may take to end.
const END_LIMIT: Duration = Duration::from_secs(1);

/// How long an order may take to get into the socket, which has room for thousands.
const TELL_LIMIT: Duration = Duration::from_millis(20);

/// A command to start, and how long it may run at first.
pub struct Start {
    /// The program and its arguments; at least the program.
    pub command: Vec<OsString>,
    /// Variables on top of the supervisor's own.
    pub variables: Vec<(OsString, OsString)>,
    /// Standard input, output and error; not set, they are the supervisor's own.
    pub streams: Option<[OwnedFd; 3]>,
    pub until: BootTime,
    /// Between TERM and KILL when the right to run ends, inside of it.
    pub grace: Duration,
    /// Between the leader's own end and KILL for what it left behind.
    pub stop_timeout: Duration,
}

/// A group on the leash. Its leader's zombie is kept until [`Leash::let_go`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leashed {
    group: Group,
    leader: Pid,
}

impl Leashed {
    /// Returns the leader, whose number is the group's.
    pub fn leader(self) -> Pid {
        self.leader
    }

    /// Kills the group without the watchdog. Not after it was let go of.
    pub fn kill(self) {
        match kill_process_group(self.leader, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => (),
            Err(error) => tracing::warn!(%error, "process group not killed"),
        }
    }
}

/// What the watchdog tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing is left of the group but its leader's zombie.
    Gone {
        group: Leashed,
        status: ExitStatus,
        cause: Cause,
    },
    /// The watchdog has ended. Its leaders are killed by the kernel; what is left of the groups is now the
    /// supervisor's, if that adopts orphans.
    Ended,
}

/// A running watchdog. Dropping it has every group ended.
pub struct Leash {
    stream: UnixStream,
    inbox: Inbox,
    process: Child,
    next_group: Group,
    groups: HashMap<Group, Leashed>,
    /// Ends that were told while an answer to something else was awaited.
    told: VecDeque<Report>,
}

impl Leash {
    /// Starts the watchdog: `command` must call [`watch`](crate::watch). Must run inside a tokio runtime.
    ///
    /// Descriptors that are inherited, such as the one of a lock, the watchdog hands on to what it starts.
    pub fn start(command: Command) -> io::Result<Leash> {
        let (here, there) = StdStream::pair()?;
        here.set_nonblocking(true)?;
        let mut command = tokio::process::Command::from(command);
        let process = command
            .stdin(Stdio::from(OwnedFd::from(there)))
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Leash {
            stream: UnixStream::from_std(here)?,
            inbox: Inbox::default(),
            process,
            next_group: 1,
            groups: HashMap::new(),
            told: VecDeque::new(),
        })
    }

    /// Returns the watchdog's own process, which its supervisor must not reap.
    pub fn process(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.process.id()?).ok()?)
    }

    /// Has a command started as the leader of a new group.
    pub async fn spawn(&mut self, start: Start) -> io::Result<Leashed> {
        let group = self.next_group;
        self.next_group += 1;
        let order = Order::Start {
            group,
            until_nanos: start.until.as_nanos(),
            grace_nanos: nanos(start.grace),
            stop_nanos: nanos(start.stop_timeout),
            arguments: start.command.into_iter().map(OsString::into_vec).collect(),
            variables: start
                .variables
                .into_iter()
                .map(|(name, value)| (name.into_vec(), value.into_vec()))
                .collect(),
        };
        let (input, output, errors) = (io::stdin(), io::stdout(), io::stderr());
        let streams = match &start.streams {
            Some(streams) => streams.each_ref().map(AsFd::as_fd),
            None => [input.as_fd(), output.as_fd(), errors.as_fd()],
        };
        send(&mut self.stream, &order.to_frame()?, &streams).await?;
        loop {
            match self.inbox.report(&self.stream).await? {
                Some(Report::Started { group: of, pid }) if of == group => {
                    let leader = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
                    let leashed = Leashed { group, leader };
                    self.groups.insert(group, leashed);
                    return Ok(leashed);
                }
                Some(Report::NotStarted { group: of, errno }) if of == group => {
                    return Err(io::Error::from_raw_os_error(errno));
                }
                // Of another group, whose end is told later.
                Some(report) => self.told.push_back(report),
                None => return Err(io::Error::other("the watchdog has ended")),
            }
        }
    }

    /// Lets a group run on until a later moment.
    pub async fn extend(&mut self, leashed: Leashed, until: BootTime) -> io::Result<()> {
        let (group, nanos) = (leashed.group, until.as_nanos());
        self.tell(&Order::Until { group, nanos }).await
    }

    /// Sends a signal to a group that was not let go of. TERM is told to the watchdog, which does not repeat it.
    pub async fn signal(&mut self, leashed: Leashed, signal: Signal) -> io::Result<()> {
        if signal == Signal::TERM {
            self.tell(&Order::Termed { group: leashed.group }).await?;
        }
        match kill_process_group(leashed.leader, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Has a group ended: TERM, and KILL after its grace.
    pub async fn stop(&mut self, leashed: Leashed) -> io::Result<()> {
        self.tell(&Order::Stop { group: leashed.group }).await
    }

    /// Waits for what the watchdog has to tell. Cancel safe.
    pub async fn event(&mut self) -> Event {
        loop {
            let report = match self.told.pop_front() {
                Some(report) => Ok(Some(report)),
                None => self.inbox.report(&self.stream).await,
            };
            match report {
                Ok(Some(Report::Gone { group, status, cause })) => {
                    if let Some(group) = self.groups.get(&group) {
                        return Event::Gone {
                            group: *group,
                            status: ExitStatus::from_raw(status),
                            cause,
                        };
                    }
                }
                Ok(Some(_)) => (),
                Ok(None) | Err(_) => return Event::Ended,
            }
        }
    }

    /// Lets go of a group that is gone. It must not be signalled any more.
    pub async fn let_go(&mut self, leashed: Leashed) -> io::Result<()> {
        self.groups.remove(&leashed.group);
        self.tell(&Order::LetGo { group: leashed.group }).await
    }

    /// Kills a watchdog that is out of order. [`Leash::event`] tells [`Event::Ended`] next.
    pub fn kill(&mut self) {
        if let Err(error) = self.process.start_kill() {
            tracing::warn!(%error, "the watchdog could not be killed");
        }
    }

    /// Ends the watchdog, and with it whatever it still watches.
    pub async fn end(mut self) {
        drop(self.stream);
        if tokio::time::timeout(END_LIMIT, self.process.wait())
            .await
            .is_err()
        {
            tracing::warn!("the watchdog has not ended yet");
        }
    }

    /// Sends an order, unless a watchdog that does not read has let them pile up: its supervisor must not wait for it.
    async fn tell(&mut self, order: &Order) -> io::Result<()> {
        let frame = order.to_frame()?;
        let writing = async {
            loop {
                self.stream.writable().await?;
                match self.stream.try_write(&frame) {
                    Ok(written) if written == frame.len() => return Ok(()),
                    Ok(_) => return Err(io::Error::other("an order was cut")),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => (),
                    Err(error) => return Err(error),
                }
            }
        };
        tokio::time::timeout(TELL_LIMIT, writing)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
