//! What a place for jobs promises.
//!
//! Calls take batches, so that a server can join what many clients ask into one commit; each item is judged by
//! itself. Items of one call are applied in their order.
//!
//! # On crash
//!
//! A change is durable before the call returns, or it did not happen, whole items either way: a job's change of
//! state, its event and its deliveries are one transaction. A call whose reply was lost may have happened.
//!
//! # On repeat
//!
//! Each call says what a repeat does. Reports ([`JobStore::complete`], [`JobStore::fail`]) are fenced by the
//! lease's nonce: one that is not the running attempt's changes nothing, is counted, and is shown on the job.
//!
//! # Time
//!
//! All of it is the store's: servers that share a store share its clock. A lease that has run out still holds
//! until [`JobStore::sweep_expired`] takes the job back, so that a stalled store does not cost finished work.
//!
//! # Cancel safety
//!
//! A future that is dropped may or may not have been carried out, as after a lost reply.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::delivery::{Delivery, DeliveryFilter, DeliveryId, DeliveryView, PutOff, TryReport};
use crate::error::Error;
use crate::event::{EventFilter, EventPage, LogBounds, Subscription};
use crate::id::JobId;
use crate::job::NewJob;
use crate::name::{QueueName, TenantId};
use crate::queue::{QueueSettings, QueueView};
use crate::request::{
    CancelRequest, ClaimRequest, ClaimedJob, Completed, Completion, Enqueued, Extension, Failed, Failure,
    Finding, Firing, Listener, LogReport, NextTimes, ProgressReport, Round,
};
use crate::schedule::{Schedule, ScheduleView};
use crate::state::State;
use crate::tenant::{ApiToken, Tenant};
use crate::view::{Explanation, JobFilter, JobSummary, JobView, LogLine, Page};

/// What a call gives, some time.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, Error>>;
/// What a call gives for each item of its batch, in the same order. The outer error hit all of them.
pub type Answers<'a, T> = BoxFuture<'a, Result<Vec<Result<T, Error>>, Error>>;

/// A place where jobs rest.
pub trait JobStore: Send + Sync + 'static {
    // Registration and work.

    /// Registers jobs. A queue that does not exist is made with the default settings, a tenant with weight 1.
    ///
    /// A dependency that is unknown, or has ended other than by success, refuses the item.
    ///
    /// Repeat: a second job, unless the item carries an idempotency key within its window or a unique key of
    /// a job that has not ended; then the first one is found. Two items of one call with one key are first
    /// and repeat.
    fn enqueue(&self, jobs: Vec<NewJob>) -> Answers<'_, Enqueued>;

    /// Gives ready jobs to workers: highest priority first, then in order of readiness, tenants in fair
    /// shares by weight. One answer for each request; empty when there is nothing. Does not wait.
    ///
    /// Paused queues give nothing, limited ones what their rate allows.
    ///
    /// Crash: a job whose claim was committed but not answered runs until its lease ends, then counts as a
    /// failed attempt. Repeat: other jobs.
    fn claim(&self, requests: Vec<ClaimRequest>) -> Answer<'_, Vec<Vec<ClaimedJob>>>;

    /// Ends jobs as succeeded.
    ///
    /// Repeat: `Repeated` for the same lease with the same result, [`Error::LeaseLost`] with another one.
    fn complete(&self, reports: Vec<Completion>) -> Answers<'_, Completed>;

    /// Ends attempts as failed, and the jobs that have none left or failed for good.
    ///
    /// Repeat: `Repeated` for the same lease with the same error.
    fn fail(&self, reports: Vec<Failure>) -> Answers<'_, Failed>;

    /// Makes leases last longer, counted from now; never shorter than they are. Returns when each ends, Unix
    /// milliseconds. Repeat: counted from then.
    fn extend(&self, extensions: Vec<Extension>) -> Answers<'_, i64>;

    /// Notes how far workers have come. Becomes an event now and then (`PROGRESS_EVENT_GAP`).
    fn progress(&self, reports: Vec<ProgressReport>) -> Answers<'_, ()>;

    /// Adds log lines; keeps the newest `LOG_LINES_MAX`. Repeat: the lines are there twice.
    fn log(&self, reports: Vec<LogReport>) -> Answers<'_, ()>;

    // What people do with jobs.

    /// Ends jobs that have not ended. A running one's token is worth nothing from now on. Returns the state
    /// that each job was in. A job that has ended refuses the item with [`Error::WrongState`], except that
    /// cancelling a cancelled one is a repeat and returns `Cancelled`.
    fn cancel(&self, requests: Vec<CancelRequest>) -> Answers<'_, State>;

    /// Lets jobs that have ended run again, with all their attempts, now. Jobs that depend on it and were
    /// cancelled for its sake stay cancelled. A job that has not ended refuses with [`Error::WrongState`],
    /// which is also what a repeat gets.
    fn retry(&self, ids: Vec<JobId>) -> Answers<'_, ()>;

    /// Reads jobs; nothing for those that are not there.
    fn read(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<JobView>>>;

    /// Reads only the states of jobs.
    fn states(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<State>>>;

    /// Lists jobs, newest first, those with an id below `before`. Looks at a bounded number of rows for each
    /// page, so a page may be short.
    fn list(
        &self,
        filter: JobFilter,
        before: Option<JobId>,
        limit: usize,
    ) -> Answer<'_, Page<JobSummary, JobId>>;

    /// Reads log lines with numbers above `after`, in order.
    fn log_lines(&self, id: JobId, after: u64, limit: usize) -> Answer<'_, Vec<LogLine>>;

    /// Tells why a job is not running; nothing when it is not there.
    fn explain(&self, id: JobId) -> Answer<'_, Option<Explanation>>;

    // Queues.

    /// Lists all queues by name.
    fn queues(&self) -> Answer<'_, Vec<QueueView>>;

    fn queue(&self, name: QueueName) -> Answer<'_, Option<QueueView>>;

    /// Makes a queue or replaces its settings. Jobs that are there keep the lease, the retries and the backoff
    /// that they took from the old ones.
    fn put_queue(&self, name: QueueName, settings: QueueSettings) -> Answer<'_, ()>;

    /// Pauses or resumes a queue, making it when it does not exist. Running jobs go on; repeat is the same.
    fn set_paused(&self, name: QueueName, paused: bool) -> Answer<'_, ()>;

    // Schedules.

    /// Makes or replaces a schedule; its next run is the first one after now.
    fn put_schedule(&self, schedule: Schedule) -> Answer<'_, ScheduleView>;

    /// Lists schedules by tenant and name, of one tenant or of all.
    fn schedules(&self, tenant: Option<TenantId>) -> Answer<'_, Vec<ScheduleView>>;

    /// Removes a schedule; tells whether it was there. Jobs that it made stay.
    fn delete_schedule(&self, tenant: TenantId, name: String) -> Answer<'_, bool>;

    /// Reads schedules whose next run has come, the most overdue first.
    fn due_schedules(&self, limit: usize) -> Answer<'_, Vec<ScheduleView>>;

    /// Moves schedules on and registers the jobs of their runs, in one transaction each. Tells whether each
    /// was moved: false when another server had done it, or the schedule is gone.
    fn fire(&self, firings: Vec<Firing>) -> Answers<'_, bool>;

    // Upkeep. Any server may run any of these at any time; two at once share the rows.

    /// Takes back jobs whose lease has run out, oldest first.
    fn sweep_expired(&self, limit: usize) -> Answer<'_, Round>;

    /// Makes scheduled jobs ready whose time has come, oldest first.
    fn move_due(&self, limit: usize) -> Answer<'_, Round>;

    /// Carries endings to the jobs that depend on them: the last success makes them ready, any other ending
    /// cancels them. A store may do some of it, or all, with the ending itself.
    fn resolve_dependents(&self, limit: usize) -> Answer<'_, Round>;

    /// Removes jobs whose retention is over, and keys whose window is. A job with a pending delivery stays.
    fn purge(&self, limit: usize) -> Answer<'_, Round>;

    /// Cuts off the oldest events, those written before `before_ms`.
    fn trim_events(&self, before_ms: i64, limit: usize) -> Answer<'_, Round>;

    /// Tells when there will be something to do.
    fn next_times(&self) -> Answer<'_, NextTimes>;

    // The log of events.

    /// Reads events after a position, in order. Looks at a bounded number of rows: go on from the page's
    /// `next`. Whoever has read up to `n` never finds an event at or below `n` later.
    fn events_after(&self, after: u64, filter: EventFilter, limit: usize) -> Answer<'_, EventPage>;

    fn log_bounds(&self) -> Answer<'_, LogBounds>;

    /// Makes a subscription, or finds the one of that name: cursor and filter of one that is there stay.
    fn subscribe(
        &self,
        tenant: TenantId,
        name: String,
        filter: EventFilter,
        cursor: u64,
    ) -> Answer<'_, Subscription>;

    /// Moves a cursor ahead; a position at or behind it changes nothing. Returns where it is.
    fn advance(&self, tenant: TenantId, name: String, cursor: u64) -> Answer<'_, u64>;

    /// Lists subscriptions by name, of one tenant or of all.
    fn subscriptions(&self, tenant: Option<TenantId>) -> Answer<'_, Vec<Subscription>>;

    /// Removes a subscription; tells whether it was there.
    fn unsubscribe(&self, tenant: TenantId, name: String) -> Answer<'_, bool>;

    // Deliveries.

    /// Hands out deliveries whose try is due, oldest first. Each is due again after `lease` unless a report
    /// comes before.
    fn claim_deliveries(&self, limit: usize, lease: Duration) -> Answer<'_, Vec<Delivery>>;

    /// Notes tries, and what they led to. Tells whether each was taken: false for a try whose number was
    /// reported before, or whose delivery is gone.
    fn report_tries(&self, reports: Vec<TryReport>) -> Answer<'_, Vec<bool>>;

    /// Gives back deliveries that were handed out and not tried: each is due when its item says. Those that
    /// have been tried or have ended since are left alone.
    fn put_off_deliveries(&self, items: Vec<PutOff>) -> Answer<'_, ()>;

    /// Lists deliveries with their tries, newest first, those with an id below `before`.
    fn deliveries(
        &self,
        filter: DeliveryFilter,
        before: Option<DeliveryId>,
        limit: usize,
    ) -> Answer<'_, Page<DeliveryView, DeliveryId>>;

    /// Makes deliveries due at once, whatever state they are in. Returns how many there were; replays up to
    /// `limit`.
    fn replay(&self, filter: DeliveryFilter, limit: usize) -> Answer<'_, usize>;

    // Tenants and tokens.

    /// Makes a tenant or changes its weight.
    fn put_tenant(&self, tenant: TenantId, weight: u32) -> Answer<'_, ()>;

    fn tenants(&self) -> Answer<'_, Vec<Tenant>>;

    /// Makes a token or replaces the tenant's one of that name. Makes the tenant when it does not exist.
    fn put_token(&self, token: ApiToken) -> Answer<'_, ()>;

    /// Finds a token by its hash, also one that has expired.
    fn token(&self, hash: [u8; 32]) -> Answer<'_, Option<ApiToken>>;

    /// Lists tokens by tenant and name, of one tenant or of all.
    fn tokens(&self, tenant: Option<TenantId>) -> Answer<'_, Vec<ApiToken>>;

    /// Removes a token; tells whether it was there.
    fn revoke_token(&self, tenant: TenantId, name: String) -> Answer<'_, bool>;

    // Facts, and the store itself.

    fn fact(&self, name: String) -> Answer<'_, Option<Vec<u8>>>;

    fn set_fact(&self, name: String, value: Vec<u8>) -> Answer<'_, ()>;

    /// Returns a fact, set to `value` when there was none: whoever comes first, all see the same.
    fn fact_or(&self, name: String, value: Vec<u8>) -> Answer<'_, Vec<u8>>;

    /// Returns the store's time, Unix milliseconds.
    fn now_ms(&self) -> Answer<'_, i64>;

    /// Sets who is told of ready queues and new events. Replaces the one before.
    fn set_listener(&self, listener: Arc<dyn Listener>);

    /// Looks for broken promises: a job in no place or in two, a second ending, an attempt too many, a place
    /// under a concurrency key too many. Reads everything; for tests and doctors.
    fn check(&self) -> Answer<'_, Vec<Finding>>;

    /// Stops taking calls, finishes those that are under way, and closes. Later calls fail as `Stopped`.
    fn close(&self) -> BoxFuture<'_, ()>;
}
