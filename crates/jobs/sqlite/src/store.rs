//! The calls of the store: which write and which read.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use nagaya_jobs::delivery::{Delivery, DeliveryFilter, DeliveryId, DeliveryView, PutOff, TryReport};
use nagaya_jobs::error::{Error, Fault, LostWhy};
use nagaya_jobs::event::{EventFilter, EventPage, LogBounds, Subscription};
use nagaya_jobs::id::JobId;
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
use rusqlite::Connection;

use crate::names::Names;
use crate::write_transaction::WriteTransaction;
use crate::{
    SqliteJobs, check, claim, deliveries, enqueue, events, explain, list, maintenance, operator, queues,
    read, report, schedules, tenants,
};

/// Dependents that are resolved in the transaction of an ending; maintenance does the rest.
const DEPENDENTS_AT_ONCE: usize = 256;

impl SqliteJobs {
    /// Runs work in a write transaction.
    fn write<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut WriteTransaction<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(self.inner.writer.run(1, work))
    }

    /// Writes items one after the other. A refused item has changed nothing; a failure of the store fails all
    /// of them.
    fn write_each<I: Send + 'static, T: Send + 'static>(
        &self,
        items: Vec<I>,
        mut work: impl FnMut(&mut WriteTransaction<'_>, &I) -> Result<T, Error> + Send + 'static,
    ) -> Answers<'_, T> {
        let count = items.len();
        let each = move |tx: &mut WriteTransaction<'_>| {
            let mut answers = Vec::with_capacity(items.len());
            for item in &items {
                match work(tx, item) {
                    Err(error) if error.fault() == Fault::Store => return Err(error),
                    answer => answers.push(answer),
                }
            }
            if tx.memory.dependencies > 0 {
                maintenance::resolve(tx, DEPENDENTS_AT_ONCE)?;
            }
            Ok(answers)
        };
        Box::pin(async move { self.inner.writer.run(count, each).await })
    }

    fn read_with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Error> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(self.inner.readers.run(work))
    }
}

impl JobQueue for SqliteJobs {
    fn enqueue(&self, jobs: Vec<NewJob>) -> Answers<'_, Enqueued> {
        self.write_each(jobs, enqueue::enqueue)
    }

    fn claim(&self, requests: Vec<ClaimRequest>) -> Answer<'_, Vec<Vec<ClaimedJob>>> {
        self.write(move |tx| requests.iter().map(|request| claim::claim(tx, request)).collect())
    }

    fn complete(&self, reports: Vec<Completion>) -> Answers<'_, Completed> {
        self.write_each(reports, report::complete)
    }

    fn fail(&self, reports: Vec<Failure>) -> Answers<'_, Failed> {
        self.write_each(reports, report::fail)
    }

    fn release(&self, releases: Vec<Release>) -> Answers<'_, Released> {
        self.write_each(releases, report::release)
    }

    fn extend(&self, extensions: Vec<Extension>) -> Answers<'_, i64> {
        self.write_each(extensions, report::extend)
    }

    fn progress(&self, reports: Vec<ProgressReport>) -> Answers<'_, ()> {
        self.write_each(reports, report::progress)
    }

    fn log(&self, reports: Vec<LogReport>) -> Answers<'_, ()> {
        self.write_each(reports, report::log)
    }

    fn cancel(&self, requests: Vec<CancelRequest>) -> Answers<'_, State> {
        self.write_each(requests, operator::cancel)
    }

    fn retry(&self, ids: Vec<JobId>) -> Answers<'_, ()> {
        self.write_each(ids, |tx, id| operator::retry(tx, *id))
    }

    fn edit(&self, edits: Vec<Edit>) -> Answers<'_, ()> {
        self.write_each(edits, operator::edit)
    }

    fn remove(&self, ids: Vec<JobId>) -> Answers<'_, ()> {
        self.write_each(ids, |tx, id| operator::remove(tx, *id))
    }
}

impl JobReader for SqliteJobs {
    fn read(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<JobView>>> {
        self.read_with(move |connection| {
            let names = Names::read(connection)?;
            ids.into_iter()
                .map(|id| read::view(connection, &names, id))
                .collect()
        })
    }

    fn states(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<State>>> {
        self.read_with(move |connection| ids.into_iter().map(|id| read::state_of(connection, id)).collect())
    }

    fn lost(&self, leases: Vec<Lease>) -> Answer<'_, Vec<Option<LostWhy>>> {
        self.read_with(move |connection| {
            leases
                .into_iter()
                .map(|lease| report::lost(connection, lease))
                .collect()
        })
    }

    fn list(
        &self,
        filter: JobFilter,
        before: Option<JobId>,
        limit: usize,
    ) -> Answer<'_, Page<JobSummary, JobId>> {
        self.read_with(move |connection| list::list(connection, &filter, before, limit))
    }

    fn log_lines(&self, id: JobId, after: u64, limit: usize) -> Answer<'_, Vec<LogLine>> {
        self.read_with(move |connection| read::log_lines(connection, id, after, limit))
    }

    fn explain(&self, id: JobId) -> Answer<'_, Option<Explanation>> {
        let now_ms = self.inner.clock.unix_ms();
        self.read_with(move |connection| explain::explain(connection, id, now_ms))
    }
}

impl QueueAdmin for SqliteJobs {
    fn queues(&self, seen: Visibility, counted: Counted) -> Answer<'_, Vec<QueueView>> {
        self.read_with(move |connection| queues::queues(connection, None, &seen, counted))
    }

    fn queue(&self, name: QueueName, seen: Visibility, counted: Counted) -> Answer<'_, Option<QueueView>> {
        self.read_with(move |connection| Ok(queues::queues(connection, Some(&name), &seen, counted)?.pop()))
    }

    fn put_queue(&self, name: QueueName, settings: QueueSettings) -> Answer<'_, ()> {
        self.write(move |tx| queues::put(tx, &name, &settings))
    }

    fn delete_queue(&self, name: QueueName, limit: usize) -> Answer<'_, SweepResult> {
        self.write(move |tx| queues::delete(tx, &name, limit))
    }

    fn set_paused(&self, name: QueueName, paused: bool) -> Answer<'_, ()> {
        self.write(move |tx| queues::set_paused(tx, &name, paused))
    }
}

impl Schedules for SqliteJobs {
    fn put_schedule(&self, schedule: Schedule) -> Answer<'_, ScheduleView> {
        self.write(move |tx| schedules::put(tx, &schedule))
    }

    fn schedules(&self, tenant: Option<TenantId>) -> Answer<'_, Vec<ScheduleView>> {
        self.read_with(move |connection| schedules::list(connection, tenant.as_ref()))
    }

    fn delete_schedule(&self, tenant: TenantId, name: String) -> Answer<'_, bool> {
        self.write(move |tx| schedules::delete(tx, &tenant, &name))
    }

    fn due_schedules(&self, limit: usize) -> Answer<'_, Vec<ScheduleView>> {
        let now_ms = self.inner.clock.unix_ms();
        self.read_with(move |connection| schedules::due(connection, now_ms, limit))
    }

    fn fire(&self, firings: Vec<Firing>) -> Answers<'_, Fired> {
        self.write_each(firings, schedules::fire)
    }
}

impl Maintenance for SqliteJobs {
    fn sweep_expired(&self, limit: usize) -> Answer<'_, SweepResult> {
        self.write(move |tx| maintenance::sweep_expired(tx, limit))
    }

    fn move_due(&self, limit: usize) -> Answer<'_, SweepResult> {
        self.write(move |tx| maintenance::move_due(tx, limit))
    }

    fn resolve_dependents(&self, limit: usize) -> Answer<'_, SweepResult> {
        self.write(move |tx| maintenance::resolve(tx, limit))
    }

    fn purge(&self, limit: usize) -> Answer<'_, SweepResult> {
        self.write(move |tx| maintenance::purge(tx, limit))
    }

    fn trim_events(&self, before_ms: i64, limit: usize) -> Answer<'_, SweepResult> {
        self.write(move |tx| maintenance::trim_events(tx, before_ms, limit))
    }

    fn next_times(&self) -> Answer<'_, NextTimes> {
        self.read_with(maintenance::next_times)
    }
}

impl EventLog for SqliteJobs {
    fn events_after(&self, after: u64, filter: EventFilter, limit: usize) -> Answer<'_, EventPage> {
        self.read_with(move |connection| events::after(connection, after, &filter, limit))
    }

    fn log_bounds(&self) -> Answer<'_, LogBounds> {
        self.read_with(events::log_bounds)
    }

    fn subscribe(
        &self,
        tenant: TenantId,
        name: String,
        filter: EventFilter,
        cursor: u64,
    ) -> Answer<'_, Subscription> {
        self.write(move |tx| events::subscribe(tx, &tenant, &name, &filter, cursor))
    }

    fn put_subscription(
        &self,
        tenant: TenantId,
        name: String,
        filter: EventFilter,
        cursor: u64,
    ) -> Answer<'_, Subscription> {
        self.write(move |tx| events::put_subscription(tx, &tenant, &name, &filter, cursor))
    }

    fn advance(&self, tenant: TenantId, name: String, cursor: u64) -> Answer<'_, u64> {
        self.write(move |tx| events::advance(tx, &tenant, &name, cursor))
    }

    fn subscriptions(&self, tenant: Option<TenantId>) -> Answer<'_, Vec<Subscription>> {
        self.read_with(move |connection| events::subscriptions(connection, tenant.as_ref()))
    }

    fn unsubscribe(&self, tenant: TenantId, name: String) -> Answer<'_, bool> {
        self.write(move |tx| events::unsubscribe(tx, &tenant, &name))
    }
}

impl DeliveryQueue for SqliteJobs {
    fn claim_deliveries(&self, claim: DeliveryClaim) -> Answer<'_, Vec<Delivery>> {
        self.write(move |tx| deliveries::claim(tx, &claim))
    }

    fn report_tries(&self, reports: Vec<TryReport>) -> Answer<'_, Vec<bool>> {
        self.write(move |tx| {
            reports
                .iter()
                .map(|report| deliveries::report(tx, report))
                .collect()
        })
    }

    fn put_off_deliveries(&self, items: Vec<PutOff>) -> Answer<'_, ()> {
        self.write(move |tx| items.iter().try_for_each(|item| deliveries::put_off(tx, item)))
    }

    fn deliveries(
        &self,
        filter: DeliveryFilter,
        before: Option<DeliveryId>,
        limit: usize,
    ) -> Answer<'_, Page<DeliveryView, DeliveryId>> {
        self.read_with(move |connection| deliveries::list(connection, &filter, before, limit))
    }

    fn replay(&self, filter: DeliveryFilter, limit: usize) -> Answer<'_, usize> {
        self.write(move |tx| deliveries::replay(tx, &filter, limit))
    }
}

impl Tenants for SqliteJobs {
    fn put_tenant(&self, tenant: TenantId, weight: u32) -> Answer<'_, ()> {
        self.write(move |tx| tenants::put(tx, &tenant, weight))
    }

    fn tenants(&self) -> Answer<'_, Vec<Tenant>> {
        self.read_with(tenants::list)
    }

    fn put_token(&self, token: ApiToken) -> Answer<'_, ()> {
        self.write(move |tx| tenants::put_token(tx, &token))
    }

    fn token(&self, hash: [u8; 32]) -> Answer<'_, Option<ApiToken>> {
        self.read_with(move |connection| tenants::token(connection, &hash))
    }

    fn tokens(&self, tenant: Option<TenantId>) -> Answer<'_, Vec<ApiToken>> {
        self.read_with(move |connection| tenants::tokens(connection, tenant.as_ref()))
    }

    fn revoke_token(&self, tenant: TenantId, name: String) -> Answer<'_, bool> {
        self.write(move |tx| tenants::revoke(tx, &tenant, &name))
    }
}

impl StoreClock for SqliteJobs {
    fn now_ms(&self) -> Answer<'_, i64> {
        let now_ms = self.inner.clock.unix_ms();
        Box::pin(async move { Ok(now_ms) })
    }
}

impl StoreControl for SqliteJobs {
    fn metadata(&self, name: String) -> Answer<'_, Option<Vec<u8>>> {
        self.read_with(move |connection| tenants::metadata(connection, &name))
    }

    fn set_metadata(&self, name: String, value: Vec<u8>) -> Answer<'_, ()> {
        self.write(move |tx| tenants::set_metadata(tx, &name, &value))
    }

    fn metadata_or_insert(&self, name: String, value: Vec<u8>) -> Answer<'_, Vec<u8>> {
        self.write(move |tx| tenants::metadata_or_insert(tx, &name, &value))
    }

    fn set_listener(&self, listener: Arc<dyn Listener>) {
        self.inner.writer.set_listener(listener);
    }

    fn check(&self) -> Answer<'_, Vec<Finding>> {
        self.read_with(check::check)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            // Fails only when the runtime is shutting down; then dropping the store closes it.
            tokio::task::spawn_blocking(move || inner.shut()).await.ok();
        })
    }
}
