//! The store: its state, and which module implements which call.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use nagaya_jobs::delivery::{Delivery, DeliveryFilter, DeliveryId, DeliveryView, PutOff, TryReport};
use nagaya_jobs::error::{Error, LostWhy};
use nagaya_jobs::event::{EventFilter, EventPage, LogBounds, Subscription};
use nagaya_jobs::fair;
use nagaya_jobs::id::{IdMaker, JobId};
use nagaya_jobs::job::NewJob;
use nagaya_jobs::name::{QueueName, TenantId};
use nagaya_jobs::queue::{Counted, QueueSettings, QueueView};
use nagaya_jobs::request::{
    CancelRequest, ClaimRequest, ClaimedJob, Completed, Completion, Edit, Enqueued, Extension, Failed,
    Failure, Finding, Fired, Firing, Listener, LogReport, NextTimes, ProgressReport, Release, Released,
    SweepResult,
};
use nagaya_jobs::schedule::{Schedule, ScheduleView};
use nagaya_jobs::shares::DeliveryClaim;
use nagaya_jobs::state::State;
use nagaya_jobs::store::{
    Answer, Answers, DeliveryQueue, EventLog, JobQueue, JobReader, Maintenance, QueueAdmin, Schedules,
    StoreClock, StoreControl, Tenants,
};
use nagaya_jobs::tenant::{ApiToken, Tenant};
use nagaya_jobs::token::Lease;
use nagaya_jobs::view::{Explanation, JobFilter, JobSummary, JobView, LogLine, Page};
use nagaya_jobs::visibility::Visibility;
use nagaya_postgres_client::{Connection, Notifier, Pool};
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use crate::claim::{ReadyTenants, ScanHint};
use crate::clock::Time;
use crate::events::ExistingSubscription;
use crate::lease_clock::LeaseClock;
use crate::names::Names;
use crate::notifications::NotificationListener;
use crate::sql::connect;
use crate::throughput::LastClaims;

/// How long calls in progress may take when the store closes.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// A job store in a PostgreSQL database.
pub struct PgStore {
    pub(crate) inner: Arc<Inner>,
    pub(crate) _listener: NotificationListener,
}

pub(crate) struct Inner {
    /// Pool for registration, claims and reports: statements with one good plan.
    pub(crate) hot: Pool,
    /// Pool for readers and maintenance.
    pub(crate) cool: Pool,
    pub(crate) time: Time,
    pub(crate) names: Names,
    pub(crate) ids: Mutex<IdMaker>,
    /// The fair round of each queue.
    pub(crate) fair_rounds: Mutex<HashMap<i32, fair::FairRound<i32>>>,
    /// Where the next scan for ready jobs begins, by queue and tenant.
    pub(crate) hints: Mutex<HashMap<i32, BTreeMap<i32, ScanHint>>>,
    /// Until when a queue is not scanned from its front, because the last scan was slow.
    pub(crate) front_scan_delays: Mutex<HashMap<i32, Instant>>,
    /// When a queue was last scanned from its front.
    pub(crate) front_looks: Mutex<HashMap<i32, Instant>>,
    /// The tenants with ready jobs in each queue, as last seen.
    pub(crate) ready_tenants: Mutex<HashMap<i32, ReadyTenants>>,
    pub(crate) last_claims: LastClaims,
    pub(crate) lease_clock: LeaseClock,
    /// The target behind which the next claim of deliveries begins.
    pub(crate) delivery_cursor: Mutex<(i32, String)>,
    pub(crate) listener: RwLock<Option<Arc<dyn Listener>>>,
    pub(crate) notifier: Notifier,
    pub(crate) closed: AtomicBool,
}

impl Inner {
    pub(crate) async fn hot(&self) -> Result<Connection, Error> {
        self.refuse_when_closed()?;
        connect(&self.hot).await
    }

    pub(crate) async fn cool(&self) -> Result<Connection, Error> {
        self.refuse_when_closed()?;
        connect(&self.cool).await
    }

    fn refuse_when_closed(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::Stopped {
                why: "it was closed".into(),
            });
        }
        Ok(())
    }

    /// Draws an id above all that this server drew before. Also used as the position of a job that becomes
    /// ready.
    pub(crate) fn draw(&self, now_ms: i64) -> JobId {
        let mut ids = self.ids.lock();
        ids.next(now_ms)
    }

    pub(crate) fn listener(&self) -> Option<Arc<dyn Listener>> {
        self.listener.read().clone()
    }
}

impl JobQueue for PgStore {
    fn enqueue(&self, jobs: Vec<NewJob>) -> Answers<'_, Enqueued> {
        Box::pin(self.inner.enqueue(jobs))
    }

    fn claim(&self, requests: Vec<ClaimRequest>) -> Answer<'_, Vec<Vec<ClaimedJob>>> {
        Box::pin(self.inner.claim(requests))
    }

    fn complete(&self, reports: Vec<Completion>) -> Answers<'_, Completed> {
        Box::pin(self.inner.complete(reports))
    }

    fn fail(&self, reports: Vec<Failure>) -> Answers<'_, Failed> {
        Box::pin(self.inner.fail(reports))
    }

    fn release(&self, releases: Vec<Release>) -> Answers<'_, Released> {
        Box::pin(self.inner.release(releases))
    }

    fn extend(&self, extensions: Vec<Extension>) -> Answers<'_, i64> {
        Box::pin(self.inner.extend(extensions))
    }

    fn progress(&self, reports: Vec<ProgressReport>) -> Answers<'_, ()> {
        Box::pin(self.inner.progress(reports))
    }

    fn log(&self, reports: Vec<LogReport>) -> Answers<'_, ()> {
        Box::pin(self.inner.log(reports))
    }

    fn cancel(&self, requests: Vec<CancelRequest>) -> Answers<'_, State> {
        Box::pin(self.inner.cancel(requests))
    }

    fn retry(&self, ids: Vec<JobId>) -> Answers<'_, ()> {
        Box::pin(self.inner.retry(ids))
    }

    fn edit(&self, edits: Vec<Edit>) -> Answers<'_, ()> {
        Box::pin(self.inner.edit(edits))
    }

    fn remove(&self, ids: Vec<JobId>) -> Answers<'_, ()> {
        Box::pin(self.inner.remove(ids))
    }
}

impl JobReader for PgStore {
    fn read(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<JobView>>> {
        Box::pin(self.inner.read(ids))
    }

    fn states(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<State>>> {
        Box::pin(self.inner.states(ids))
    }

    fn lost(&self, leases: Vec<Lease>) -> Answer<'_, Vec<Option<LostWhy>>> {
        Box::pin(self.inner.lost(leases))
    }

    fn list(
        &self,
        filter: JobFilter,
        before: Option<JobId>,
        limit: usize,
    ) -> Answer<'_, Page<JobSummary, JobId>> {
        Box::pin(self.inner.list(filter, before, limit))
    }

    fn log_lines(&self, id: JobId, after: u64, limit: usize) -> Answer<'_, Vec<LogLine>> {
        Box::pin(self.inner.log_lines(id, after, limit))
    }

    fn explain(&self, id: JobId) -> Answer<'_, Option<Explanation>> {
        Box::pin(self.inner.explain(id))
    }
}

impl QueueAdmin for PgStore {
    fn queues(&self, seen: Visibility, counted: Counted) -> Answer<'_, Vec<QueueView>> {
        Box::pin(self.inner.queue_views(None, seen, counted))
    }

    fn queue(&self, name: QueueName, seen: Visibility, counted: Counted) -> Answer<'_, Option<QueueView>> {
        Box::pin(async move { Ok(self.inner.queue_views(Some(name), seen, counted).await?.pop()) })
    }

    fn put_queue(&self, name: QueueName, settings: QueueSettings) -> Answer<'_, ()> {
        Box::pin(self.inner.put_queue(name, settings))
    }

    fn delete_queue(&self, name: QueueName, limit: usize) -> Answer<'_, SweepResult> {
        Box::pin(self.inner.delete_queue(name, limit))
    }

    fn set_paused(&self, name: QueueName, paused: bool) -> Answer<'_, ()> {
        Box::pin(self.inner.set_paused(name, paused))
    }
}

impl Schedules for PgStore {
    fn put_schedule(&self, schedule: Schedule) -> Answer<'_, ScheduleView> {
        Box::pin(self.inner.put_schedule(schedule))
    }

    fn schedules(&self, tenant: Option<TenantId>) -> Answer<'_, Vec<ScheduleView>> {
        Box::pin(self.inner.schedules(tenant))
    }

    fn delete_schedule(&self, tenant: TenantId, name: String) -> Answer<'_, bool> {
        Box::pin(self.inner.delete_schedule(tenant, name))
    }

    fn due_schedules(&self, limit: usize) -> Answer<'_, Vec<ScheduleView>> {
        Box::pin(self.inner.due_schedules(limit))
    }

    fn fire(&self, firings: Vec<Firing>) -> Answers<'_, Fired> {
        Box::pin(self.inner.fire(firings))
    }
}

impl Maintenance for PgStore {
    fn sweep_expired(&self, limit: usize) -> Answer<'_, SweepResult> {
        Box::pin(self.inner.sweep_expired(limit))
    }

    fn move_due(&self, limit: usize) -> Answer<'_, SweepResult> {
        Box::pin(self.inner.move_due(limit))
    }

    fn resolve_dependents(&self, limit: usize) -> Answer<'_, SweepResult> {
        Box::pin(self.inner.resolve_dependents(limit))
    }

    fn purge(&self, limit: usize) -> Answer<'_, SweepResult> {
        Box::pin(self.inner.purge(limit))
    }

    fn trim_events(&self, before_ms: i64, limit: usize) -> Answer<'_, SweepResult> {
        Box::pin(self.inner.trim_events(before_ms, limit))
    }

    fn next_times(&self) -> Answer<'_, NextTimes> {
        Box::pin(self.inner.next_times())
    }
}

impl EventLog for PgStore {
    fn events_after(&self, after: u64, filter: EventFilter, limit: usize) -> Answer<'_, EventPage> {
        Box::pin(self.inner.events_after(after, filter, limit))
    }

    fn log_bounds(&self) -> Answer<'_, LogBounds> {
        Box::pin(self.inner.bounds())
    }

    fn subscribe(
        &self,
        tenant: TenantId,
        name: String,
        filter: EventFilter,
        cursor: u64,
    ) -> Answer<'_, Subscription> {
        Box::pin(
            self.inner
                .subscribe(tenant, name, filter, cursor, ExistingSubscription::Stays),
        )
    }

    fn put_subscription(
        &self,
        tenant: TenantId,
        name: String,
        filter: EventFilter,
        cursor: u64,
    ) -> Answer<'_, Subscription> {
        Box::pin(
            self.inner
                .subscribe(tenant, name, filter, cursor, ExistingSubscription::GetsFilter),
        )
    }

    fn advance(&self, tenant: TenantId, name: String, cursor: u64) -> Answer<'_, u64> {
        Box::pin(self.inner.advance(tenant, name, cursor))
    }

    fn subscriptions(&self, tenant: Option<TenantId>) -> Answer<'_, Vec<Subscription>> {
        Box::pin(self.inner.subscriptions(tenant))
    }

    fn unsubscribe(&self, tenant: TenantId, name: String) -> Answer<'_, bool> {
        Box::pin(self.inner.unsubscribe(tenant, name))
    }
}

impl DeliveryQueue for PgStore {
    fn claim_deliveries(&self, claim: DeliveryClaim) -> Answer<'_, Vec<Delivery>> {
        Box::pin(self.inner.claim_deliveries(claim))
    }

    fn report_tries(&self, reports: Vec<TryReport>) -> Answer<'_, Vec<bool>> {
        Box::pin(self.inner.report_tries(reports))
    }

    fn put_off_deliveries(&self, items: Vec<PutOff>) -> Answer<'_, ()> {
        Box::pin(self.inner.put_off_deliveries(items))
    }

    fn deliveries(
        &self,
        filter: DeliveryFilter,
        before: Option<DeliveryId>,
        limit: usize,
    ) -> Answer<'_, Page<DeliveryView, DeliveryId>> {
        Box::pin(self.inner.list_deliveries(filter, before, limit))
    }

    fn replay(&self, filter: DeliveryFilter, limit: usize) -> Answer<'_, usize> {
        Box::pin(self.inner.replay(filter, limit))
    }
}

impl Tenants for PgStore {
    fn put_tenant(&self, tenant: TenantId, weight: u32) -> Answer<'_, ()> {
        Box::pin(self.inner.put_tenant(tenant, weight))
    }

    fn tenants(&self) -> Answer<'_, Vec<Tenant>> {
        Box::pin(self.inner.list_tenants())
    }

    fn put_token(&self, token: ApiToken) -> Answer<'_, ()> {
        Box::pin(self.inner.put_token(token))
    }

    fn token(&self, hash: [u8; 32]) -> Answer<'_, Option<ApiToken>> {
        Box::pin(self.inner.token(hash))
    }

    fn tokens(&self, tenant: Option<TenantId>) -> Answer<'_, Vec<ApiToken>> {
        Box::pin(self.inner.tokens(tenant))
    }

    fn revoke_token(&self, tenant: TenantId, name: String) -> Answer<'_, bool> {
        Box::pin(self.inner.revoke_token(tenant, name))
    }
}

impl StoreClock for PgStore {
    fn now_ms(&self) -> Answer<'_, i64> {
        Box::pin(async move {
            let session = self.inner.cool().await?;
            self.inner.time.now(&session).await
        })
    }
}

impl StoreControl for PgStore {
    fn metadata(&self, name: String) -> Answer<'_, Option<Vec<u8>>> {
        Box::pin(self.inner.metadata(name))
    }

    fn set_metadata(&self, name: String, value: Vec<u8>) -> Answer<'_, ()> {
        Box::pin(self.inner.set_metadata(name, value))
    }

    fn metadata_or_insert(&self, name: String, value: Vec<u8>) -> Answer<'_, Vec<u8>> {
        Box::pin(self.inner.metadata_or_insert(name, value))
    }

    fn set_listener(&self, listener: Arc<dyn Listener>) {
        *self.inner.listener.write() = Some(listener);
    }

    fn check(&self) -> Answer<'_, Vec<Finding>> {
        Box::pin(self.inner.check())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.inner.closed.swap(true, Ordering::Relaxed) {
                return;
            }
            if let Ok(session) = self.inner.cool.get().await
                && let Err(error) = self.inner.last_claims.flush(&session).await
            {
                tracing::debug!(%error, "the times of the last claims were lost");
            }
            self.inner.hot.close(CLOSE_LIMIT).await;
            self.inner.cool.close(CLOSE_LIMIT).await;
        })
    }
}
