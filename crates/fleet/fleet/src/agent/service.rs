//! The agent's loop. At most one call to Redis is in flight, and waiting for it never delays stopping a
//! worker.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use nagaya_redis_client::{Event, Subscriber, Topics};
use tokio::sync::{Semaphore, watch};
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

use super::care::{Begun, Care};
use super::runner::{BoxFuture, Ended, Identity, Runner};
use super::state_dir::StateFile;
use super::task::{self, Handle, Shared, WorkerStatus};
use super::{AgentError, AgentHandle, AgentOptions, ask};
use crate::name::WorkerId;
use crate::protocol::{AgentAction, AgentCore};
use crate::store::{Beat, Error, Joined, Reported, Running, Store};
use nagaya_clock::{BootTime, boot_now};

/// Upper bound for a sleep, so that the clock is read often enough to notice that the machine was suspended.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Pause after a failed call.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// How workers do, as a heartbeat says.
type Report = BTreeMap<WorkerId, Reported>;

/// The result of a call to Redis.
enum Answer {
    Joined(Result<(String, Joined), Error>),
    Beat(Report, Result<(String, Beat), Error>),
    Stopped(Running, Result<bool, Error>),
    Left(Result<Option<u64>, Error>),
    Overrun(Duration, Result<(), Error>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    No,
    /// Requested, but not yet recorded in the store.
    Wanted,
    Told,
    /// The store has no record of this instance any more, or never had one.
    Done,
}

pub(super) struct Service {
    store: Store,
    options: AgentOptions,
    core: AgentCore,
    state: Option<StateFile>,
    shared: Shared,
    tasks: JoinSet<Ended>,
    names: HashMap<Id, Begun>,
    handles: BTreeMap<WorkerId, Handle>,
    care: Care,
    /// What the store knows of how the workers do.
    reported: Report,
    questions: JoinSet<()>,
    next_beat: BootTime,
    leave: Leave,
    /// It leaves because what runs the workers is over, to join again for the next.
    pausing: bool,
    /// The life of what runs the workers, and the one that was joined for.
    readiness: Option<watch::Receiver<Option<u64>>>,
    joined_for: Option<u64>,
    name_taken: bool,
    /// Time that workers ran past their leases and that is not yet reported.
    overrun: Duration,
    /// The error that makes a join impossible for good.
    hopeless: Option<Error>,
}

impl Service {
    pub(super) fn new(
        store: Store,
        options: AgentOptions,
        runner: Arc<dyn Runner>,
        handle: AgentHandle,
    ) -> Result<Service, AgentError> {
        let token = crate::random_id();
        let state = match &options.state_dir {
            None => None,
            Some(folder) => Some(StateFile::take(folder, store.app(), &options.name, &token)?),
        };
        let shared = Shared {
            store: store.clone(),
            runner,
            limits: options.limits,
            slots: Arc::new(Semaphore::new(options.limits.starts_at_once.max(1))),
            statuses: handle.statuses,
        };
        Ok(Service {
            core: AgentCore::new(options.timing, token),
            care: Care::new(options.limits),
            reported: Report::new(),
            store,
            options,
            state,
            tasks: JoinSet::new(),
            names: HashMap::new(),
            handles: BTreeMap::new(),
            questions: JoinSet::new(),
            next_beat: BootTime::ZERO,
            leave: Leave::No,
            pausing: false,
            readiness: shared.runner.readiness(),
            joined_for: None,
            shared,
            name_taken: false,
            overrun: Duration::ZERO,
            hopeless: None,
        })
    }

    pub(super) async fn run(mut self, shutdown: CancellationToken) -> Result<(), AgentError> {
        tracing::info!(name = %self.options.name, bounds = %self.options.timing.bounds(), "agent starts");
        let topics = Topics {
            channels: vec![self.store.wakeup_channel(), self.store.ask_channel()],
            patterns: Vec::new(),
        };
        let mut subscriber = Subscriber::start(self.store.client().clone(), topics);
        let mut call: Option<(BootTime, BoxFuture<'static, Answer>)> = None;
        let mut leave_by: Option<BootTime> = None;
        loop {
            let now = boot_now();
            self.carry_out(now);
            self.follow_readiness();
            self.leave_without_store(now);
            if leave_by.is_some_and(|leave_by| now >= leave_by) {
                tracing::warn!("not all workers were handed over in time");
                self.leave = Leave::Done;
            }
            if self.is_over() {
                break;
            }
            if call.is_none() {
                call = self.next_call(now).map(|call| (now, call));
            }
            let wake = [
                self.core.next_at(),
                call.is_none().then_some(self.next_beat),
                leave_by,
            ];
            let wake = wake.into_iter().flatten().min().unwrap_or(now + POLL_INTERVAL);
            let pause = wake.since(now).clamp(Duration::from_millis(1), POLL_INTERVAL);
            tokio::select! {
                biased;
                () = shutdown.cancelled(), if leave_by.is_none() => {
                    leave_by = Some(now + self.options.leave_limit);
                    self.pausing = false;
                    if self.leave == Leave::No {
                        self.leave = if self.core.inc().is_some() { Leave::Wanted } else { Leave::Done };
                    }
                }
                Some(ended) = self.tasks.join_next_with_id() => self.task_ended(ended),
                answer = in_flight(&mut call) => {
                    if let Some((sent, _)) = call.take() {
                        self.take(sent, answer).await;
                    }
                }
                event = subscriber.next() => self.receive(event),
                Some(_) = self.questions.join_next() => (),
                () = tokio::time::sleep(pause) => (),
            }
        }
        self.end_all().await;
        match (self.hopeless, self.name_taken) {
            (Some(error), _) => Err(error.into()),
            (None, true) => Err(AgentError::NameTaken {
                name: self.options.name,
            }),
            (None, false) => Ok(()),
        }
    }

    fn is_over(&self) -> bool {
        let idle = self.core.is_empty() && self.tasks.is_empty();
        let has_left = self.leave == Leave::Done && !self.pausing;
        has_left || self.hopeless.is_some() || (self.name_taken && idle)
    }

    /// Leaves when the life is over that was joined for, and is ready to join for the next when nothing runs any more.
    fn follow_readiness(&mut self) {
        let Some(readiness) = &self.readiness else {
            return;
        };
        let is_over = self.core.inc().is_some() && *readiness.borrow() != self.joined_for;
        if is_over && self.leave == Leave::No {
            tracing::warn!("what runs the workers is over; handing them over");
            (self.leave, self.pausing) = (Leave::Wanted, true);
        }
        if !self.pausing || self.leave != Leave::Done {
            return;
        }
        for handle in self.handles.values() {
            handle.stop(boot_now());
        }
        if self.tasks.is_empty() {
            self.core.left();
            (self.leave, self.pausing) = (Leave::No, false);
        }
    }

    /// Ends the hand-over when nothing is left to hand over: the lease has ended without a sign of the store.
    fn leave_without_store(&mut self, now: BootTime) {
        let is_leaving = matches!(self.leave, Leave::Wanted | Leave::Told);
        let is_idle = self.core.is_empty() && self.tasks.is_empty();
        if is_leaving && is_idle && now >= self.core.lease_until() {
            tracing::warn!("the store does not answer; its managers will see that this instance is gone");
            self.leave = Leave::Done;
        }
    }

    /// Executes the actions that the core decided on.
    fn carry_out(&mut self, now: BootTime) {
        self.core.clear_quarantines(now);
        let leaving = self.leave != Leave::No;
        for action in self.core.take_actions(now) {
            match action {
                AgentAction::Start { worker, .. } if leaving || self.name_taken => {
                    self.core.not_started(&worker);
                }
                AgentAction::Start {
                    worker,
                    epoch,
                    config,
                } => self.start(worker, epoch, config),
                AgentAction::Update { worker, config } => {
                    if let Some(handle) = self.handles.get(&worker) {
                        handle.update(config);
                    }
                }
                AgentAction::Stop { worker, kill_at } => match self.handles.get(&worker) {
                    Some(handle) => handle.stop(kill_at),
                    None => drop(self.core.gone(&worker)),
                },
            }
        }
    }

    fn start(&mut self, worker: WorkerId, epoch: u64, config: String) {
        let identity = Identity {
            app: self.store.app().clone(),
            instance: self.options.name.clone(),
            worker: worker.clone(),
            epoch,
        };
        tracing::info!(%worker, epoch, "worker starts");
        let health = self.care.before_start(&worker, &config);
        task::show(&self.shared.statuses, &worker, epoch, health);
        let until = self.core.lease_until();
        let (handle, future) = task::prepare(self.shared.clone(), identity, config.clone(), until);
        let id = self.tasks.spawn(future).id();
        let begun = Begun {
            worker: worker.clone(),
            epoch,
            config,
            at: boot_now(),
        };
        self.names.insert(id, begun);
        self.handles.insert(worker, handle);
    }

    fn task_ended(&mut self, ended: Result<(Id, Ended), tokio::task::JoinError>) {
        let (id, ended) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                tracing::error!(%error, "task of a worker failed");
                (error.id(), Ended::Failed("its task failed".into()))
            }
        };
        let Some(begun) = self.names.remove(&id) else {
            return;
        };
        let (worker, now) = (begun.worker.clone(), boot_now());
        self.handles.remove(&worker);
        let until = match ended {
            Ended::Stopped | Ended::Restart => {
                self.statuses().remove(&worker);
                self.core.gone(&worker)
            }
            Ended::Failed(reason) => {
                tracing::warn!(%worker, reason, "worker failed");
                let (again_at, health) = self.care.failed(&begun, now, reason);
                task::show(&self.shared.statuses, &worker, begun.epoch, health);
                self.core.gone_until(&worker, again_at)
            }
        };
        let late = until.map(|until| now.since(until));
        if let Some(late) = late.filter(|late| !late.is_zero()) {
            tracing::error!(%worker, ?late, "worker ran past its lease; another copy may have run");
            self.overrun += late;
        }
        tracing::info!(%worker, "worker is gone");
    }

    fn statuses(&self) -> std::sync::MutexGuard<'_, BTreeMap<WorkerId, WorkerStatus>> {
        self.shared.statuses.lock().expect("nothing panics here")
    }

    /// Passes the lease on to the workers, and forgets those that are not this agent's any more.
    fn renew(&mut self) {
        for (worker, until) in self.core.deadlines() {
            if let Some(handle) = self.handles.get(worker) {
                handle.renew(until);
            }
        }
        let (core, handles) = (&self.core, &self.handles);
        let is_own = |worker: &WorkerId| handles.contains_key(worker) || core.is_listed(worker);
        self.care.keep(is_own);
        self.statuses().retain(|worker, _| is_own(worker));
        self.reported.retain(|worker, _| is_own(worker));
    }

    /// Returns the next call to Redis, if one is due.
    fn next_call(&mut self, now: BootTime) -> Option<BoxFuture<'static, Answer>> {
        let (store, name) = (self.store.clone(), self.options.name.clone());
        let timing = self.options.timing;
        let Some(inc) = self.core.inc() else {
            if !self.core.may_join() || now < self.next_beat || self.leave != Leave::No || self.name_taken {
                return None;
            }
            if let Some(readiness) = &self.readiness {
                self.joined_for = *readiness.borrow();
                self.joined_for?;
            }
            self.next_beat = now + self.options.timing.heartbeat;
            let (token, capabilities) = (self.core.token().to_owned(), self.options.capabilities.clone());
            return Some(Box::pin(async move {
                Answer::Joined(store.join(&name, &token, &capabilities, &timing).await)
            }));
        };
        if self.leave == Leave::Wanted {
            return Some(Box::pin(
                async move { Answer::Left(store.leave(&name, inc).await) },
            ));
        }
        if self.core.take_hurry(now) {
            self.next_beat = now;
        }
        let due = self.core.due_acknowledgements(now);
        // A due heartbeat goes first, because it keeps all workers alive.
        if !due.is_empty() && now < self.next_beat {
            return Some(Box::pin(async move {
                let answer = store.stopped(&name, inc, &due).await;
                if answer.is_ok() {
                    store.announce().await;
                }
                Answer::Stopped(due, answer)
            }));
        }
        if now < self.next_beat {
            let overrun = std::mem::take(&mut self.overrun);
            return (!overrun.is_zero()).then(|| -> BoxFuture<'static, Answer> {
                Box::pin(async move { Answer::Overrun(overrun, store.add_overrun(overrun).await) })
            });
        }
        self.next_beat = now + self.options.timing.heartbeat;
        let mut pulse = self.core.pulse(inc, now);
        pulse.health = self.unreported();
        let need = self.options.need;
        Some(Box::pin(async move {
            let beat = store.heartbeat(&name, &pulse, timing.shown_for, need).await;
            Answer::Beat(pulse.health, beat)
        }))
    }

    /// Returns what the store has not been told yet of how the workers do.
    fn unreported(&self) -> Report {
        let statuses = self.statuses();
        let now = statuses
            .iter()
            .map(|(worker, status)| (worker.clone(), status.to_report()));
        now.filter(|(worker, report)| self.reported.get(worker) != Some(report))
            .collect()
    }

    async fn take(&mut self, sent: BootTime, answer: Answer) {
        let received = boot_now();
        let failed = match answer {
            Answer::Joined(Ok((run, joined))) => {
                tracing::info!(name = %self.options.name, inc = joined.inc, %run, "joined");
                let ends_with_agent = self.shared.runner.ends_with_agent();
                let state = self.state.as_ref().filter(|_| ends_with_agent);
                let proven = |token: &str| state.is_some_and(|state| state.proves_over(token));
                self.core.on_joined(sent, received, &run, joined, proven);
                self.reported.clear();
                self.store.announce().await;
                None
            }
            Answer::Beat(report, Ok((run, beat))) => {
                if run == self.core.known().0 {
                    self.reported.extend(report);
                } else {
                    // What another run of the store knows is not sure.
                    self.reported.clear();
                }
                if let Err(refused) = self.core.on_beat(sent, received, &run, beat) {
                    tracing::warn!(name = %self.options.name, "this incarnation is over");
                    self.name_taken = refused.by.is_some();
                    if self.leave != Leave::No {
                        self.leave = Leave::Done;
                    }
                }
                self.renew();
                None
            }
            Answer::Stopped(stopped, Ok(left)) => {
                self.core.acknowledged(&stopped);
                if left {
                    self.leave = Leave::Done;
                }
                self.next_beat = received;
                None
            }
            Answer::Left(Ok(workers)) => {
                self.leave = match workers {
                    Some(0) | None => Leave::Done,
                    Some(_) => Leave::Told,
                };
                self.next_beat = received;
                None
            }
            Answer::Joined(Err(error @ Error::OtherTiming { .. })) => {
                self.hopeless = Some(error);
                None
            }
            Answer::Overrun(_, Ok(())) => None,
            Answer::Overrun(overrun, Err(error)) => {
                self.overrun += overrun;
                Some(error)
            }
            Answer::Joined(Err(error))
            | Answer::Beat(_, Err(error))
            | Answer::Stopped(_, Err(error))
            | Answer::Left(Err(error)) => Some(error),
        };
        if let Some(error) = failed {
            tracing::warn!(error = error.chain(), "call to redis failed");
            self.next_beat = self.next_beat.min(received + RETRY_PAUSE);
            if self.leave == Leave::Wanted {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }

    fn receive(&mut self, event: Event) {
        match event {
            Event::Message { channel, payload } if channel == self.store.ask_channel() => {
                ask::begin(
                    &self.store,
                    &self.options.name,
                    &self.handles,
                    &payload,
                    &mut self.questions,
                );
            }
            // Every message only means "read the fleet again", and so does a gap in the subscription.
            Event::Message { .. } | Event::Gap | Event::Ready => {
                if self.core.inc().is_some() {
                    self.next_beat = BootTime::ZERO;
                }
            }
        }
    }

    /// Ends the remaining workers before the lease does.
    async fn end_all(&mut self) {
        let timing = self.options.timing;
        let now = boot_now();
        let kill_at = (now + timing.grace).min(self.core.lease_until() - timing.margin);
        for handle in self.handles.values() {
            handle.stop(kill_at);
        }
        while let Some(ended) = self.tasks.join_next_with_id().await {
            self.task_ended(ended);
        }
        self.questions.shutdown().await;
        self.store.announce().await;
    }
}

/// Waits for the call in flight; pending forever if there is none.
async fn in_flight(call: &mut Option<(BootTime, BoxFuture<'static, Answer>)>) -> Answer {
    match call {
        Some((_, future)) => future.await,
        None => std::future::pending().await,
    }
}
