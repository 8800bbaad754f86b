//! The agent's loop. At most one call to Redis is in flight, and waiting for it never delays stopping a
//! worker.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use nagaya_redis_client::{Event, Subscriber, Topics};
use tokio::sync::Semaphore;
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

use super::runner::{BoxFuture, Identity, Runner};
use super::state_dir::StateFile;
use super::task::{self, Handle, Shared};
use super::{AgentError, AgentHandle, AgentOptions, ask};
use crate::name::WorkerId;
use crate::protocol::{AgentAction, AgentCore};
use crate::store::{Beat, Error, Joined, Running, Store};
use nagaya_clock::{BootTime, boot_now};

/// Upper bound for a sleep, so that the clock is read often enough to notice that the machine was suspended.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Pause after a failed call.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The result of a call to Redis.
enum Answer {
    Joined(Result<(String, Joined), Error>),
    Beat(Result<(String, Beat), Error>),
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
    tasks: JoinSet<()>,
    names: HashMap<Id, WorkerId>,
    handles: BTreeMap<WorkerId, Handle>,
    questions: JoinSet<()>,
    next_beat: BootTime,
    leave: Leave,
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
            store,
            options,
            state,
            shared,
            tasks: JoinSet::new(),
            names: HashMap::new(),
            handles: BTreeMap::new(),
            questions: JoinSet::new(),
            next_beat: BootTime::ZERO,
            leave: Leave::No,
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
                    self.leave = if self.core.inc().is_some() { Leave::Wanted } else { Leave::Done };
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
        self.leave == Leave::Done || self.hopeless.is_some() || (self.name_taken && idle)
    }

    /// Executes the actions that the core decided on.
    fn carry_out(&mut self, now: BootTime) {
        self.core.clear_quarantines(now);
        let leaving = self.leave != Leave::No;
        for action in self.core.take_actions(now) {
            match action {
                AgentAction::Start { worker, .. } if leaving || self.name_taken => {
                    let _ = self.core.gone(&worker);
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
        let (handle, future) = task::prepare(self.shared.clone(), identity, config);
        let id = self.tasks.spawn(future).id();
        self.names.insert(id, worker.clone());
        self.handles.insert(worker, handle);
    }

    fn task_ended(&mut self, ended: Result<(Id, ()), tokio::task::JoinError>) {
        let id = match ended {
            Ok((id, ())) => id,
            Err(error) => {
                tracing::error!(%error, "task of a worker failed");
                error.id()
            }
        };
        if let Some(worker) = self.names.remove(&id) {
            self.handles.remove(&worker);
            let late = self.core.gone(&worker).map(|until| boot_now().since(until));
            if let Some(late) = late.filter(|late| !late.is_zero()) {
                tracing::error!(%worker, ?late, "worker ran past its lease; another copy may have run");
                self.overrun += late;
            }
            self.shared
                .statuses
                .lock()
                .expect("nothing panics here")
                .remove(&worker);
            tracing::info!(%worker, "worker is gone");
        }
    }

    /// Returns the next call to Redis, if one is due.
    fn next_call(&mut self, now: BootTime) -> Option<BoxFuture<'static, Answer>> {
        let (store, name) = (self.store.clone(), self.options.name.clone());
        let timing = self.options.timing;
        let Some(inc) = self.core.inc() else {
            if !self.core.may_join() || now < self.next_beat || self.leave != Leave::No || self.name_taken {
                return None;
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
        let (run, version) = self.core.known();
        let (run, running, need) = (run.to_owned(), self.core.running(), self.options.need);
        let waited = self.core.has_waited(now);
        Some(Box::pin(async move {
            let beat = store.heartbeat(
                &name,
                inc,
                &run,
                version,
                &running,
                waited,
                timing.shown_for,
                need,
            );
            Answer::Beat(beat.await)
        }))
    }

    async fn take(&mut self, sent: BootTime, answer: Answer) {
        let received = boot_now();
        let failed = match answer {
            Answer::Joined(Ok((run, joined))) => {
                tracing::info!(name = %self.options.name, inc = joined.inc, %run, "joined");
                let state = self.state.as_ref();
                let proven = |token: &str| state.is_some_and(|state| state.proves_over(token));
                self.core.on_joined(sent, received, &run, joined, proven);
                self.store.announce().await;
                None
            }
            Answer::Beat(Ok((run, beat))) => {
                if let Err(refused) = self.core.on_beat(sent, received, &run, beat) {
                    tracing::warn!(name = %self.options.name, "this incarnation is over");
                    self.name_taken = refused.by.is_some();
                    if self.leave != Leave::No {
                        self.leave = Leave::Done;
                    }
                }
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
            | Answer::Beat(Err(error))
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
