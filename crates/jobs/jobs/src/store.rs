//! What a job store promises, as one trait for each kind of use.
//!
//! A consumer names only what it may do: the tasks of maintenance take [`Maintenance`], the authentication of the
//! API takes [`Tenants`]. A store implements all of them, which makes it a [`JobStore`].
//!
//! Calls take batches, so that a server can join the calls of many clients into one commit; each item is judged
//! by itself. Items of one call are applied in their order.
//!
//! # On crash
//!
//! A change is durable before the call returns, or it did not happen, whole items either way: a job's change of
//! state, its event and its deliveries are one transaction. A call whose reply was lost may have happened.
//!
//! # On repeat
//!
//! Each call says what a repeat does. Reports ([`JobQueue::complete`], [`JobQueue::fail`]) are fenced by the
//! lease's nonce: a report with the nonce of another attempt changes nothing, is counted, and is shown on the job.
//!
//! # Time
//!
//! All times are the store's: servers that share a store share its clock. An expired lease still holds until
//! [`Maintenance::sweep_expired`] takes the job back, so that a stalled store does not cost finished work.
//!
//! # Cancel safety
//!
//! A future that is dropped may or may not have been carried out, as after a lost reply.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::delivery::{Delivery, DeliveryFilter, DeliveryId, DeliveryView, PutOff, TryReport};
use crate::error::{Error, LostWhy};
use crate::event::{EventFilter, EventPage, LogBounds, Subscription};
use crate::id::JobId;
use crate::job::NewJob;
use crate::name::{QueueName, TenantId};
use crate::queue::{Counted, QueueSettings, QueueView};
use crate::request::{
    CancelRequest, ClaimRequest, ClaimedJob, Completed, Completion, Edit, Enqueued, Extension, Failed,
    Failure, Finding, Fired, Firing, Listener, LogReport, NextTimes, ProgressReport, Release, Released,
    SweepResult,
};
use crate::schedule::{Schedule, ScheduleView};
use crate::shares::DeliveryClaim;
use crate::state::State;
use crate::tenant::{ApiToken, Tenant};
use crate::token::Lease;
use crate::view::{Explanation, JobFilter, JobSummary, JobView, LogLine, Page};
use crate::visibility::Visibility;

/// The future of a call.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, Error>>;
/// The future of a batch: one result for each item, in the same order. The outer error applies to all items.
pub type Answers<'a, T> = BoxFuture<'a, Result<Vec<Result<T, Error>>, Error>>;

/// Everything that a job store does.
pub trait JobStore:
    JobQueue
    + JobReader
    + QueueAdmin
    + Schedules
    + Maintenance
    + EventLog
    + DeliveryQueue
    + Tenants
    + StoreControl
{
}

impl<S> JobStore for S where
    S: JobQueue
        + JobReader
        + QueueAdmin
        + Schedules
        + Maintenance
        + EventLog
        + DeliveryQueue
        + Tenants
        + StoreControl
{
}

/// The clock that all servers of a store share.
pub trait StoreClock: Send + Sync + 'static {
    /// Returns the store's time, Unix milliseconds.
    fn now_ms(&self) -> Answer<'_, i64>;
}

/// Registers jobs, hands them to workers and takes their reports.
pub trait JobQueue: StoreClock {
    /// Registers jobs. A missing queue is created with the default settings, a missing tenant with weight 1.
    ///
    /// An item is refused when one of its dependencies is unknown or has ended other than by success. Jobs of
    /// other tenants are unknown.
    ///
    /// Repeat: a second job, unless the item carries an idempotency key within its window or a unique key of
    /// a job that has not ended; then the first one is found. Two items of one call with one key are first
    /// and repeat.
    fn enqueue(&self, jobs: Vec<NewJob>) -> Answers<'_, Enqueued>;

    /// Hands ready jobs to workers: highest priority first, then in order of readiness, tenants in fair
    /// shares by weight. One answer for each request; empty when there is nothing. Does not wait.
    ///
    /// A paused queue hands out nothing, a limited one what its rate allows.
    ///
    /// Crash: a job whose claim was committed but not answered runs until its lease ends, then counts as a
    /// failed attempt. Repeat: other jobs.
    fn claim(&self, requests: Vec<ClaimRequest>) -> Answer<'_, Vec<Vec<ClaimedJob>>>;

    /// Ends jobs as succeeded.
    ///
    /// Repeat: `Repeated` for the same lease with the same result, [`Error::LeaseLost`] with another one.
    fn complete(&self, reports: Vec<Completion>) -> Answers<'_, Completed>;

    /// Ends attempts as failed, and the jobs that have no attempt left or failed permanently.
    ///
    /// Repeat: `Repeated` for the same lease with the same error.
    fn fail(&self, reports: Vec<Failure>) -> Answers<'_, Failed>;

    /// Makes jobs waiting or scheduled again as if their attempt had not begun: its number is used again, under
    /// another nonce, and no history of it is kept. The event is `Released`. The job goes behind
    /// those of its priority.
    ///
    /// Repeat: [`Error::LeaseLost`], because the lease is over.
    fn release(&self, releases: Vec<Release>) -> Answers<'_, Released>;

    /// Extends leases, counted from now; a lease never becomes shorter. Returns when each ends, Unix
    /// milliseconds. Repeat: counted from then.
    fn extend(&self, extensions: Vec<Extension>) -> Answers<'_, i64>;

    /// Stores the progress of attempts. Writes an event at most once per `PROGRESS_EVENT_GAP`.
    fn progress(&self, reports: Vec<ProgressReport>) -> Answers<'_, ()>;

    /// Appends log lines; keeps the newest `LOG_LINES_MAX`. Repeat: the lines are stored twice.
    fn log(&self, reports: Vec<LogReport>) -> Answers<'_, ()>;

    /// Ends jobs that have not ended. The token of a running one becomes invalid. Returns the state that each
    /// job was in. A job that has ended refuses the item with [`Error::WrongState`], except that cancelling a
    /// cancelled one is a repeat and returns `Cancelled`.
    fn cancel(&self, requests: Vec<CancelRequest>) -> Answers<'_, State>;

    /// Makes jobs that have ended ready again, with all their attempts. Jobs that depend on them and were
    /// cancelled for that reason wait for them again, and so on down the tree; except one whose other
    /// dependencies have not succeeded, or whose unique key is taken. A job that has not ended refuses with
    /// [`Error::WrongState`], which is also what a repeat gets.
    fn retry(&self, ids: Vec<JobId>) -> Answers<'_, ()>;

    /// Changes jobs that have not started. Others refuse with [`Error::WrongState`]. A job that was ready goes
    /// behind those of its priority. A queue that a job is moved to is created when it is missing; it refuses when it
    /// is full, or when another job holds the unique key there. Repeat: as the first time.
    fn edit(&self, edits: Vec<Edit>) -> Answers<'_, ()>;

    /// Removes jobs that have ended, with their deliveries, before their retention is over. Idempotency keys stay.
    /// A job that has not ended refuses with [`Error::WrongState`].
    fn remove(&self, ids: Vec<JobId>) -> Answers<'_, ()>;
}

/// Reads jobs.
pub trait JobReader: StoreClock {
    /// Reads jobs; `None` for those that do not exist.
    fn read(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<JobView>>>;

    /// Reads only the states of jobs.
    fn states(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<State>>>;

    /// Lists jobs, newest first, those with an id below `before`. Reads a bounded number of rows for each
    /// page, so a page may be short.
    fn list(
        &self,
        filter: JobFilter,
        before: Option<JobId>,
        limit: usize,
    ) -> Answer<'_, Page<JobSummary, JobId>>;

    /// Reads log lines with numbers above `after`, in order.
    fn log_lines(&self, id: JobId, after: u64, limit: usize) -> Answer<'_, Vec<LogLine>>;

    /// Returns why each lease holds no longer; `None` for those that hold. Records nothing.
    fn lost(&self, leases: Vec<Lease>) -> Answer<'_, Vec<Option<LostWhy>>>;

    /// Explains why a job is not running; `None` when it does not exist.
    fn explain(&self, id: JobId) -> Answer<'_, Option<Explanation>>;
}

/// Reads and changes queues.
pub trait QueueAdmin: StoreClock {
    /// Lists queues by name: those that the reader sees, and for a tenant only those it has had jobs in. Counts
    /// are of the jobs that the reader sees.
    fn queues(&self, seen: Visibility, counted: Counted) -> Answer<'_, Vec<QueueView>>;

    /// Reads one queue, under the same rules.
    fn queue(&self, name: QueueName, seen: Visibility, counted: Counted) -> Answer<'_, Option<QueueView>>;

    /// Creates a queue or replaces its settings. Existing jobs keep the lease, the retries and the backoff
    /// that they took from the old ones.
    fn put_queue(&self, name: QueueName, settings: QueueSettings) -> Answer<'_, ()>;

    /// Deletes a queue: its settings, its counters, and its ended jobs, up to a number of them in one call; the
    /// result says whether there are more. Refused while it has jobs that have not ended. A queue that is used
    /// again is a new one.
    fn delete_queue(&self, name: QueueName, limit: usize) -> Answer<'_, SweepResult>;

    /// Pauses or resumes a queue; creates it when it does not exist. Running jobs go on. Idempotent.
    fn set_paused(&self, name: QueueName, paused: bool) -> Answer<'_, ()>;
}

/// Schedules and the jobs of their runs.
pub trait Schedules: StoreClock {
    /// Creates or replaces a schedule; its next run is the first one after now.
    fn put_schedule(&self, schedule: Schedule) -> Answer<'_, ScheduleView>;

    /// Lists schedules by tenant and name, of one tenant or of all.
    fn schedules(&self, tenant: Option<TenantId>) -> Answer<'_, Vec<ScheduleView>>;

    /// Removes a schedule and returns whether it existed. Jobs of its runs stay.
    fn delete_schedule(&self, tenant: TenantId, name: String) -> Answer<'_, bool>;

    /// Reads schedules whose next run is due, the most overdue first.
    fn due_schedules(&self, limit: usize) -> Answer<'_, Vec<ScheduleView>>;

    /// Advances schedules and registers the jobs of their runs, in one transaction each. A run that is refused is
    /// left out and recorded; the schedule is advanced all the same.
    fn fire(&self, firings: Vec<Firing>) -> Answers<'_, Fired>;
}

/// Periodic work on the store. Any server may run any of it at any time; two at once share the rows.
pub trait Maintenance: StoreClock {
    /// Takes back jobs whose lease has expired, oldest first.
    fn sweep_expired(&self, limit: usize) -> Answer<'_, SweepResult>;

    /// Makes scheduled jobs ready whose time has come, oldest first.
    fn move_due(&self, limit: usize) -> Answer<'_, SweepResult>;

    /// Applies endings to the jobs that depend on them: the last success makes a dependent ready, any other
    /// ending cancels it. A store may do part or all of this with the ending itself.
    fn resolve_dependents(&self, limit: usize) -> Answer<'_, SweepResult>;

    /// Removes jobs whose retention is over, and keys whose window is. A job with a pending delivery stays.
    fn purge(&self, limit: usize) -> Answer<'_, SweepResult>;

    /// Removes the oldest events, those written before `before_ms`.
    fn trim_events(&self, before_ms: i64, limit: usize) -> Answer<'_, SweepResult>;

    /// Returns when each kind of work is next due.
    fn next_times(&self) -> Answer<'_, NextTimes>;
}

/// The ordered log of events, and subscriptions with a stored cursor.
pub trait EventLog: StoreClock {
    /// Reads events after a position, in order. Reads a bounded number of rows: continue from the page's
    /// `next`. A reader that has read up to `n` never finds an event at or below `n` later.
    fn events_after(&self, after: u64, filter: EventFilter, limit: usize) -> Answer<'_, EventPage>;

    /// Returns the positions where the log begins and ends.
    fn log_bounds(&self) -> Answer<'_, LogBounds>;

    /// Creates a subscription, or finds the one of that name: its cursor and filter are not changed.
    fn subscribe(
        &self,
        tenant: TenantId,
        name: String,
        filter: EventFilter,
        cursor: u64,
    ) -> Answer<'_, Subscription>;

    /// Creates a subscription, or gives the one of that name another filter; its cursor stays.
    fn put_subscription(
        &self,
        tenant: TenantId,
        name: String,
        filter: EventFilter,
        cursor: u64,
    ) -> Answer<'_, Subscription>;

    /// Advances a cursor; a position at or before it changes nothing. Returns the cursor.
    fn advance(&self, tenant: TenantId, name: String, cursor: u64) -> Answer<'_, u64>;

    /// Lists subscriptions by name, of one tenant or of all.
    fn subscriptions(&self, tenant: Option<TenantId>) -> Answer<'_, Vec<Subscription>>;

    /// Removes a subscription and returns whether it existed.
    fn unsubscribe(&self, tenant: TenantId, name: String) -> Answer<'_, bool>;
}

/// Deliveries of events to webhooks.
pub trait DeliveryQueue: StoreClock {
    /// Hands out deliveries whose try is due: to each target of each tenant its share, the oldest first, and to
    /// those that got none before the others. Each is due again after the lease unless it is reported before.
    fn claim_deliveries(&self, claim: DeliveryClaim) -> Answer<'_, Vec<Delivery>>;

    /// Records tries and their outcomes. Returns for each whether it was recorded: false for a try whose
    /// number was reported before, or whose delivery is gone.
    fn report_tries(&self, reports: Vec<TryReport>) -> Answer<'_, Vec<bool>>;

    /// Returns deliveries that were handed out and not tried: each is due when its item says. Those that have
    /// been tried or have ended since are not changed.
    fn put_off_deliveries(&self, items: Vec<PutOff>) -> Answer<'_, ()>;

    /// Lists deliveries with their tries, newest first, those with an id below `before`.
    fn deliveries(
        &self,
        filter: DeliveryFilter,
        before: Option<DeliveryId>,
        limit: usize,
    ) -> Answer<'_, Page<DeliveryView, DeliveryId>>;

    /// Makes up to `limit` deliveries due at once, whatever state they are in. Returns how many.
    fn replay(&self, filter: DeliveryFilter, limit: usize) -> Answer<'_, usize>;
}

/// Tenants and their API tokens.
pub trait Tenants: StoreClock {
    /// Creates a tenant or changes its weight.
    fn put_tenant(&self, tenant: TenantId, weight: u32) -> Answer<'_, ()>;

    /// Lists all tenants by name.
    fn tenants(&self) -> Answer<'_, Vec<Tenant>>;

    /// Creates a token or replaces the tenant's one of that name. Creates the tenant when it does not exist.
    fn put_token(&self, token: ApiToken) -> Answer<'_, ()>;

    /// Finds a token by its hash, expired or not.
    fn token(&self, hash: [u8; 32]) -> Answer<'_, Option<ApiToken>>;

    /// Lists tokens by tenant and name, of one tenant or of all.
    fn tokens(&self, tenant: Option<TenantId>) -> Answer<'_, Vec<ApiToken>>;

    /// Removes a token and returns whether it existed.
    fn revoke_token(&self, tenant: TenantId, name: String) -> Answer<'_, bool>;
}

/// The store as a whole: its metadata, its listener, its consistency and its end.
pub trait StoreControl: StoreClock {
    /// Reads a metadata value.
    fn metadata(&self, name: String) -> Answer<'_, Option<Vec<u8>>>;

    /// Writes a metadata value.
    fn set_metadata(&self, name: String, value: Vec<u8>) -> Answer<'_, ()>;

    /// Returns a metadata value, set to `value` when there was none. All callers see the first value.
    fn metadata_or_insert(&self, name: String, value: Vec<u8>) -> Answer<'_, Vec<u8>>;

    /// Sets the listener for ready queues and new events. Replaces the previous one.
    fn set_listener(&self, listener: Arc<dyn Listener>);

    /// Checks the invariants: a job in no table or in two, a second ending, an attempt or a concurrency slot
    /// too many. Reads everything; for tests and the doctor.
    fn check(&self) -> Answer<'_, Vec<Finding>>;

    /// Stops accepting calls, finishes those in progress, and closes. Later calls fail as `Stopped`.
    fn close(&self) -> BoxFuture<'_, ()>;
}
