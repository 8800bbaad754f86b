//! The task that gets a number and keeps it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nagaya_redis_client::{Backoff, Need, Options, Run};
use nagaya_threads::vital;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::id_clock::IdClock;
use crate::lease::state::{Held, LeaseAction, LeaseState, Renewal, Times};
use crate::lease::state_dir::{LockScope, StateDir, StateError};
use crate::lease::timing::Timing;
use crate::lease::window::Window;
use crate::pool::{Error, Extension, GetAnswer, GetCall, Grant, HolderId, Phase, Pool};
use nagaya_clock::{BootClock, BootTime, SystemClock};

/// The limit for giving a number back at the end.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);

/// Options of a holder.
#[derive(Clone)]
pub struct HolderOptions {
    /// The same name gets the same number back. Without one a name is drawn that no other has.
    pub name: Option<String>,
    /// Where the state of the name is kept, which lets it begin at once after a restart.
    pub state_dir: Option<PathBuf>,
    pub lock_scope: LockScope,
    /// Ends with [`End::Lost`] when a number that was in use is lost, instead of asking for another.
    pub once: bool,
    pub timing: Timing,
    /// Replicas that must confirm a grant or a renewal before it counts.
    pub min_replicas: u32,
    pub clock: Arc<dyn BootClock>,
    /// The clock that stamps the ids, for the ceiling. The id maker must use the same one.
    pub id_clock: IdClock,
}

impl Default for HolderOptions {
    fn default() -> HolderOptions {
        HolderOptions {
            name: None,
            state_dir: None,
            lock_scope: LockScope::Process,
            once: false,
            timing: Timing::default(),
            min_replicas: 0,
            clock: Arc::new(SystemClock),
            id_clock: IdClock::start(&SystemClock),
        }
    }
}

/// Limits for the pool's client that leave room for a failed try inside a window.
pub fn pool_options(timing: &Timing) -> Options {
    Options {
        connect_limit: timing.interval,
        reply_limit: timing.interval,
        client_name: "nagaya-ids".to_owned(),
    }
}

/// The state of a holder, for its users.
#[derive(Clone, Debug)]
pub enum Status {
    /// No number is held; the last failure says why.
    Seeking { trouble: Option<String> },
    /// The number is held, and its former holder may still be using it.
    Waiting {
        number: u64,
        fence: u64,
        opens_after: BootTime,
    },
    /// The number may be used as long as its window says so.
    Open(Arc<Window>),
    /// The holder has ended and will not try again.
    Ended(End),
}

/// Why a holder ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// On request; the number was given back, or none was held.
    Released,
    /// On request; the pool did not take the number back, so it stays reserved for a while.
    NotReleased(String),
    /// The number was lost while it was in use, and no other was asked for.
    Lost,
    /// Another process of the same name has the number now.
    NameTaken,
    /// The pool cannot be used, and waiting does not help.
    Failed(String),
}

/// A running holder. Dropping it ends it without giving the number back; use [`Holder::stop`].
#[derive(Debug)]
pub struct Holder {
    status: watch::Receiver<Status>,
    stop: CancellationToken,
    task: JoinHandle<End>,
}

impl Holder {
    /// Begins to hold a number of the pool. Fails if the name is in use on this machine. Must run
    /// inside a tokio runtime.
    pub fn start(pool: Pool, options: HolderOptions) -> Result<Holder, StateError> {
        let token = random_hex();
        let name = options.name.clone().unwrap_or_else(|| format!("unnamed-{token}"));
        let state_dir = match &options.state_dir {
            Some(folder) => Some(StateDir::open(
                folder,
                pool.namespace(),
                &name,
                options.lock_scope,
            )?),
            None => None,
        };
        let (sender, status) = watch::channel(Status::Seeking { trouble: None });
        let stop = CancellationToken::new();
        let interval = options.timing.interval;
        let backoff = Backoff::new(interval, interval);
        let task = Task {
            lease_state: LeaseState::new(&options.timing),
            id: HolderId {
                owner: String::new(),
                name,
                token,
            },
            options,
            pool,
            state_dir,
            held: None,
            window: None,
            may_hold_unknown: false,
            was_open: false,
            backoff,
            status: sender,
        };
        let task = tokio::spawn(vital("ids lease", task.run(stop.clone())));
        Ok(Holder { status, stop, task })
    }

    /// Returns a receiver of status changes.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Waits until a number may be used. Cancel safe.
    pub async fn window(&self) -> Result<Arc<Window>, End> {
        let mut status = self.status.clone();
        loop {
            match &*status.borrow_and_update() {
                Status::Open(window) => return Ok(window.clone()),
                Status::Ended(end) => return Err(end.clone()),
                Status::Seeking { .. } | Status::Waiting { .. } => (),
            }
            if status.changed().await.is_err() {
                return Err(End::Failed("the holder's task is gone".into()));
            }
        }
    }

    /// Ends the use of the number and gives it back. Its users must have stopped before.
    pub async fn stop(mut self) -> End {
        self.stop.cancel();
        match (&mut self.task).await {
            Ok(end) => end,
            Err(error) => End::NotReleased(error.to_string()),
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.task.abort();
        if let Status::Open(window) = &*self.status.borrow() {
            window.end();
        }
    }
}

struct Task {
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
    /// Spreads the retries of many holders that lost the same server over an interval.
    backoff: Backoff,
    status: watch::Sender<Status>,
}

impl Task {
    async fn run(mut self, stop: CancellationToken) -> End {
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
        let proof = self.state_dir.as_ref().and_then(StateDir::previous);
        let call = self.call(proof.map(|saved| saved.token.clone()));
        let sent = self.options.clock.now();
        let answer = self.pool.get(&self.id, &call, self.need()).await;
        let received = self.options.clock.now();
        match answer {
            Ok(GetAnswer::Granted(grant)) => {
                self.may_hold_unknown = false;
                self.granted(grant, call.ceil_ms, Times { sent, received })
            }
            Ok(GetAnswer::NoneFree { next_in }) => {
                let wait = next_in.min(self.options.timing.interval);
                self.lease_state
                    .not_granted(received + wait.max(Duration::from_millis(10)));
                let trouble = format!("all numbers are reserved; the first comes free in {next_in:.1?}");
                self.tell(Status::Seeking {
                    trouble: Some(trouble),
                });
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

    fn granted(&mut self, grant: Grant, ceil_ms: u64, times: Times) -> Result<(), End> {
        let held = Held {
            number: grant.number,
            fence: grant.fence,
            at_once: grant.at_once,
            run: grant.run.clone(),
        };
        let grant = Grant {
            floor_ms: self.floor(&grant),
            ..grant
        };
        tracing::info!(
            number = grant.number,
            fence = grant.fence,
            at_once = grant.at_once,
            "number granted"
        );
        self.lease_state.granted(held, times);
        let ceil_ms = ceil_ms.max(grant.floor_ms);
        self.held = Some(grant);
        self.show(ceil_ms)
    }

    /// Returns the time above which ids are new: the stored ceiling, or our own last time if that is known
    /// to be complete.
    fn floor(&self, grant: &Grant) -> u64 {
        let Some((dir, saved)) = self
            .state_dir
            .as_ref()
            .and_then(|dir| Some((dir, dir.previous()?)))
        else {
            return grant.floor_ms;
        };
        if grant.proved && saved.number == grant.number && dir.is_same_boot(saved) {
            saved.last_ms
        } else if saved.number == grant.number {
            grant.floor_ms.max(saved.last_ms)
        } else {
            grant.floor_ms
        }
    }

    async fn extend(&mut self, phase: Phase) {
        let Some(held) = self.held.clone() else {
            unreachable!("only a granted number is renewed");
        };
        let call = self.call(None);
        let sent = self.options.clock.now();
        let answer = self.pool.extend(&self.id, &held, phase, &call, self.need()).await;
        let received = self.options.clock.now();
        let mut ceil_ms = 0;
        let renewal = match answer {
            Ok(Extension::Extended {
                run_changed,
                ceil_ms: confirmed,
                run,
            }) => {
                ceil_ms = confirmed;
                if let Some(held) = &mut self.held {
                    held.run = run.clone();
                }
                Renewal::Confirmed { run_changed, run }
            }
            Ok(Extension::Refused(refusal)) => {
                tracing::warn!(number = held.number, ?refusal, "number lost");
                Renewal::Refused(refusal)
            }
            Err(error) => {
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
        let local = match &self.state_dir {
            Some(dir) => Some(dir.begin(&self.id.token, held.number, held.fence, floor_ms)),
            None => None,
        };
        let local = local
            .transpose()
            .map_err(|error| End::Failed(error.to_string()))?;
        let window = Window::new(held.number, held.fence, floor_ms, until, ceil_ms, local);
        let window = Arc::new(window);
        self.window = Some(window.clone());
        self.was_open = true;
        self.tell(Status::Open(window));
        Ok(())
    }

    /// Ends the window, if there is one; the last time it issued becomes the grant's floor.
    fn end_window(&mut self) {
        if let Some(window) = self.window.take() {
            let last_ms = window.end();
            if let Some(held) = &mut self.held {
                held.floor_ms = held.floor_ms.max(last_ms);
            }
        }
    }

    async fn release(&mut self) -> End {
        self.end_window();
        let holds = self.lease_state.held().is_some();
        if !holds && !self.may_hold_unknown {
            return End::Released;
        }
        let giving_back = async {
            match self.held.as_ref().filter(|_| holds) {
                Some(held) => self.pool.release(&self.id, held, held.floor_ms).await.map(drop),
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

    fn call(&self, proof: Option<String>) -> GetCall {
        let now_ms = self.options.id_clock.unix_ms(self.options.clock.now());
        let ahead = self.options.timing.ceiling_ahead().as_millis();
        GetCall {
            ceil_ms: now_ms.saturating_add(u64::try_from(ahead).unwrap_or(u64::MAX)),
            reserve: self.options.timing.reserve,
            proof,
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

fn random_hex() -> String {
    let mut bytes = [0_u8; 16];
    // The kernel's generator does not fail once the system is up, and fills 16 bytes in one go.
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert_eq!(
        filled.ok(),
        Some(bytes.len()),
        "the system gives no random numbers"
    );
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
