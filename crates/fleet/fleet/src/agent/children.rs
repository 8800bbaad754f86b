//! Child processes that end at their deadline, whatever happens to the agent.
//!
//! A watchdog in a process of its own starts them, knows until when they may run, and ends them by itself
//! ([`nagaya_leash`]). One task here talks to it. It is started with the first child, so that it inherits the lock of
//! the state file, and again after it was killed: its children are ended then, because nobody would do it in time if
//! the agent froze next.
//!
//! A [`Child`] can be killed without the watchdog and without that task.

use std::collections::HashMap;
use std::io;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nagaya_clock::{BootTime, boot_now};
use nagaya_leash::{Cause, Event, Leash, Leashed, Start, has_living};
use nagaya_process::{Pid, Signal, orphans};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};

/// Orders that may wait for the task. A renewal that finds no room only ends the child early, and a stop is enforced
/// by the one that ordered it.
const ORDERS_MAX: usize = 4096;
/// A watchdog that has not started a child by then is out of order.
const SPAWN_LIMIT: Duration = Duration::from_secs(2);
/// How often processes that were killed are looked at.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// A command that calls [`nagaya_leash::watch`].
pub type WatchdogCommand = fn() -> io::Result<Command>;

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// By itself, or because it was told to.
    Ended(ExitStatus),
    /// The watchdog ended it at its deadline.
    Deadline,
    /// The watchdog was killed, and the child after it.
    WatchdogKilled,
}

/// Starts children. When the last clone is dropped, all of them are ended.
#[derive(Clone, Debug)]
pub(super) struct Children {
    orders: mpsc::Sender<Order>,
}

/// A child and its process group.
#[derive(Clone, Debug)]
pub(super) struct Child {
    orders: mpsc::Sender<Order>,
    tie: Arc<Tie>,
    over: watch::Receiver<Option<Over>>,
}

/// `None` once the group was let go of: its number may be a stranger's then.
#[derive(Debug)]
struct Tie(Mutex<Option<Leashed>>);

impl Tie {
    /// Runs a function on the group unless it was let go of; it cannot be meanwhile.
    fn with<T>(&self, act: impl FnOnce(Leashed) -> T) -> Option<T> {
        self.0.lock().expect("nothing panics here").map(act)
    }
}

enum Order {
    Start {
        start: Start,
        answer: oneshot::Sender<io::Result<Child>>,
    },
    Extend {
        tie: Arc<Tie>,
        until: BootTime,
    },
    Stop {
        tie: Arc<Tie>,
    },
}

impl Children {
    /// Must run inside a tokio runtime, in a process whose other children nobody waits for: orphans fall to it and are
    /// collected.
    pub(super) fn new(watchdog: WatchdogCommand) -> io::Result<Children> {
        orphans::adopt()?;
        let child_ended = signal(SignalKind::child())?;
        let (orders, taken) = mpsc::channel(ORDERS_MAX);
        let keeper = Keeper {
            watchdog,
            leash: None,
            kept: HashMap::new(),
            orders: orders.downgrade(),
        };
        tokio::spawn(keeper.run(taken, child_ended));
        Ok(Children { orders })
    }

    pub(super) async fn start(&self, start: Start) -> io::Result<Child> {
        let (answer, answered) = oneshot::channel();
        let ended = || io::Error::other("the task that starts processes has ended");
        let sent = self.orders.send(Order::Start { start, answer }).await;
        sent.map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }
}

impl Child {
    /// Lets it run until a later moment.
    pub(super) fn extend(&self, until: BootTime) {
        let tie = self.tie.clone();
        // Without room it ends early, unless the next renewal finds some.
        self.orders.try_send(Order::Extend { tie, until }).ok();
    }

    /// Has it ended: TERM, and KILL after its grace.
    pub(super) fn stop(&self) {
        let tie = self.tie.clone();
        self.orders.try_send(Order::Stop { tie }).ok();
    }

    /// Kills it without the watchdog.
    pub(super) fn kill(&self) {
        self.tie.with(Leashed::kill);
    }

    /// Returns whether a process of its group, or a descendant of one, lives.
    fn is_alive(&self) -> bool {
        self.tie
            .with(|leashed| has_living(leashed.leader(), &[], false))
            .unwrap_or(false)
    }

    /// Waits until nothing of it is left. Cancel safe.
    pub(super) async fn over(&mut self) -> Over {
        match self.over.wait_for(Option::is_some).await {
            Ok(over) => over.unwrap_or(Over::WatchdogKilled),
            // The task ends with its children only.
            Err(_) => Over::WatchdogKilled,
        }
    }

    /// Stops it and waits until nothing of it is left. The watchdog has until `late` to end it, then it is killed from
    /// here.
    pub(super) async fn end(mut self, late: BootTime) {
        self.stop();
        let patience = late.since(boot_now());
        if tokio::time::timeout(patience, self.over()).await.is_ok() {
            return;
        }
        tracing::error!("the watchdog did not end a worker in time");
        loop {
            self.kill();
            if !self.is_alive() {
                return;
            }
            if tokio::time::timeout(CHECK_INTERVAL, self.over()).await.is_ok() {
                return;
            }
        }
    }
}

/// The task's state.
struct Keeper {
    watchdog: WatchdogCommand,
    leash: Option<Leash>,
    /// By leader, whose number is not used again before it is let go of.
    kept: HashMap<Pid, Kept>,
    orders: mpsc::WeakSender<Order>,
}

struct Kept {
    tie: Arc<Tie>,
    over: watch::Sender<Option<Over>>,
}

impl Keeper {
    async fn run(mut self, mut orders: mpsc::Receiver<Order>, mut child_ended: tokio::signal::unix::Signal) {
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => self.obey(order).await,
                    None => break,
                },
                event = next_event(&mut self.leash) => match event {
                    Event::Gone { group, status, cause } => self.let_go(group, status, cause).await,
                    Event::Ended => self.end_all().await,
                },
                _ = child_ended.recv() => self.reap(),
            }
        }
        if let Some(leash) = self.leash {
            leash.end().await;
        }
    }

    async fn obey(&mut self, order: Order) {
        match order {
            Order::Start { start, answer } => {
                let child = self.start(start).await;
                // If nobody waits for it any more, it ends with the agent.
                let _ = answer.send(child);
            }
            Order::Extend { tie, until } => {
                if let (Some(leash), Some(leashed)) = (&mut self.leash, tie.with(|leashed| leashed)) {
                    note(leash.extend(leashed, until).await);
                }
            }
            Order::Stop { tie } => {
                if let (Some(leash), Some(leashed)) = (&mut self.leash, tie.with(|leashed| leashed)) {
                    note(leash.stop(leashed).await);
                }
            }
        }
    }

    async fn start(&mut self, start: Start) -> io::Result<Child> {
        let leash = match &mut self.leash {
            Some(leash) => leash,
            none => none.insert(Leash::start((self.watchdog)()?)?),
        };
        let leashed = match tokio::time::timeout(SPAWN_LIMIT, leash.spawn(start)).await {
            Ok(started) => started?,
            Err(_) => {
                leash.kill();
                self.end_all().await;
                return Err(io::Error::other("the watchdog did not answer, and is replaced"));
            }
        };
        let (over, watched) = watch::channel(None);
        let tie = Arc::new(Tie(Mutex::new(Some(leashed))));
        let kept = Kept {
            tie: tie.clone(),
            over,
        };
        self.kept.insert(leashed.leader(), kept);
        let orders = self.orders.upgrade();
        let orders = orders.ok_or_else(|| io::Error::other("the agent ends"))?;
        Ok(Child {
            orders,
            tie,
            over: watched,
        })
    }

    async fn let_go(&mut self, group: Leashed, status: ExitStatus, cause: Cause) {
        let Some(kept) = self.kept.remove(&group.leader()) else {
            return;
        };
        // From here on nobody signals the group.
        kept.tie.0.lock().expect("nothing panics here").take();
        if let Some(leash) = &mut self.leash {
            note(leash.let_go(group).await);
        }
        kept.over.send_replace(Some(match cause {
            Cause::Itself => Over::Ended(status),
            Cause::Deadline => Over::Deadline,
        }));
    }

    /// Ends what a killed watchdog has left behind: it is the agent's now, and so are the zombies of the leaders, which
    /// keep the groups' numbers from strangers.
    async fn end_all(&mut self) {
        tracing::error!(
            children = self.kept.len(),
            "the watchdog has ended; its children are ended and a new one is started"
        );
        let leaders: Vec<Pid> = self.kept.keys().copied().collect();
        loop {
            for kept in self.kept.values() {
                kept.tie.with(Leashed::kill);
            }
            orphans::signal_children(Signal::KILL);
            if !leaders.iter().any(|leader| has_living(*leader, &[], false)) {
                break;
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
        self.leash = None;
        for (_, kept) in self.kept.drain() {
            kept.tie.0.lock().expect("nothing panics here").take();
            kept.over.send_replace(Some(Over::WatchdogKilled));
        }
        self.reap();
    }

    /// Collects orphans, but for the watchdog and for leaders whose numbers are still needed.
    fn reap(&self) {
        let mut needed: Vec<Pid> = self.kept.keys().copied().collect();
        needed.extend(self.leash.as_ref().and_then(Leash::process));
        orphans::reap_except(&needed);
    }
}

async fn next_event(leash: &mut Option<Leash>) -> Event {
    match leash {
        Some(leash) => leash.event().await,
        None => std::future::pending().await,
    }
}

fn note(told: io::Result<()>) {
    if let Err(error) = told {
        tracing::warn!(%error, "the watchdog was not told");
    }
}
