//! A number that is got and kept, as its user sees it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use nagaya_redis_client::Options;
use nagaya_threads::vital;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::id_clock::IdClock;
use crate::lease::state_dir::{LockScope, StateDir, StateError};
use crate::lease::task::Task;
use crate::lease::timing::Timing;
use crate::lease::window::Window;
use crate::pool::Pool;
use crate::random::random_hex;
use nagaya_clock::{BootClock, BootTime, Clock, SystemClock};

/// Who stamps ids with the number, and so what is known of the times it used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Usage {
    /// The mint of this process, which notes every time before it leaves.
    #[default]
    Ids,
    /// Another process with a clock of its own: what it used is known from this machine's wall clock, and only
    /// within the allowed disagreement.
    Command,
}

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
    pub usage: Usage,
    /// The wall clock that commands see.
    pub wall: Arc<dyn Clock>,
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
            usage: Usage::Ids,
            wall: Arc::new(SystemClock),
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

/// Counts of a holder, for metrics.
#[derive(Debug, Default)]
pub struct LeaseStats {
    /// Renewals without a confirmation.
    pub renewals_failed: AtomicU64,
    /// Numbers that nobody has reserved, as of the last renewal or try.
    pub free: AtomicU64,
    /// Tries that found all numbers reserved.
    pub none_free: AtomicU64,
    /// Tries that found only numbers whose ceilings are too far ahead of the clock.
    pub late: AtomicU64,
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
    /// The pool's longest use time is not the one of the settings.
    BoundDiffers(String),
    /// The pool cannot be used, and waiting does not help.
    Failed(String),
}

/// A running holder. Dropping it ends it without giving the number back; use [`Holder::stop`].
#[derive(Debug)]
pub struct Holder {
    status: watch::Receiver<Status>,
    stats: Arc<LeaseStats>,
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
        let stats = Arc::<LeaseStats>::default();
        let task = Task::new(
            pool,
            options,
            (name, token),
            state_dir,
            sender,
            Arc::clone(&stats),
        );
        let task = tokio::spawn(vital("ids lease", task.run(stop.clone())));
        Ok(Holder {
            status,
            stats,
            stop,
            task,
        })
    }

    /// Returns the counts, which go on for as long as the holder does.
    pub fn stats(&self) -> Arc<LeaseStats> {
        Arc::clone(&self.stats)
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
