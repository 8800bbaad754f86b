//! The store as one caller may use it.
//!
//! Handlers reach jobs, queues, schedules, subscriptions and events only through [`Seen`], which needs the
//! caller: what belongs to another tenant, or to a queue that the token is not for, is not found. Nothing else
//! in this crate can name the store.

use std::sync::Arc;
use std::time::Duration;

use nagaya_jobs::delivery::{DeliveryFilter, DeliveryId, DeliveryView};
use nagaya_jobs::event::{EventFilter, Subscription};
use nagaya_jobs::limits::PAGE_MAX;
use nagaya_jobs::queue::{Counted, QueueSettings, QueueView};
use nagaya_jobs::request::Enqueued;
use nagaya_jobs::schedule::{Schedule, ScheduleView};
use nagaya_jobs::service::WaitFor;
use nagaya_jobs::store::{JobReader, JobStore};
use nagaya_jobs::view::{Explanation, JobFilter, JobSummary, JobView, LogLine, Page};
use nagaya_jobs::{Error, JobId, NewJob, QueueName, State, TenantId};

use super::{JobsHandlers, check_name};
use crate::auth::{Permission, Principal};
use crate::feed::Reader;
use crate::problem::Problem;

/// Ended jobs that a deletion of their queue removes in one step.
const DELETED_AT_ONCE: usize = 500;

/// What one caller sees and may change.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(super) handlers: &'a JobsHandlers,
    pub(super) principal: &'a Principal,
}

impl JobsHandlers {
    /// Returns the store as a caller sees it.
    pub(crate) fn seen_by<'a>(&'a self, principal: &'a Principal) -> Seen<'a> {
        Seen {
            handlers: self,
            principal,
        }
    }

    /// Returns the store itself, for what is of no single tenant or queue.
    pub(crate) fn administer(&self, principal: &Principal) -> Result<&Arc<dyn JobStore>, Problem> {
        principal.check(Permission::Admin)?;
        principal.check_all_queues()?;
        Ok(self.store())
    }
}

impl Seen<'_> {
    pub(super) fn store(&self) -> &Arc<dyn JobStore> {
        self.handlers.store()
    }

    /// Reads a job; one that the caller does not see does not exist.
    async fn job(&self, id: JobId) -> Result<JobView, Problem> {
        let job = self.store().read(vec![id]).await?.pop().flatten();
        let seen = self.principal.sees_all();
        let job = job.filter(|job| seen.sees(&job.summary.tenant, &job.summary.queue));
        Ok(job.ok_or_else(|| Error::no_such("job", id))?)
    }

    /// Checks that a job exists and that the caller sees it.
    pub(crate) async fn check_job(&self, id: JobId) -> Result<(), Problem> {
        self.job(id).await.map(drop)
    }

    /// Reads a job, and the explanation of its state.
    pub(crate) async fn read(&self, id: JobId) -> Result<(JobView, Option<Explanation>), Problem> {
        let job = self.job(id).await?;
        let explanation = if job.summary.state.has_ended() {
            Some(Explanation::Ended(job.summary.state))
        } else {
            self.store().explain(id).await?
        };
        Ok((job, explanation))
    }

    /// Waits until a job has ended or no longer exists, or until the wait is over.
    pub(crate) async fn wait_for_end(&self, id: JobId, wait: Duration) -> Result<(), Problem> {
        self.check_job(id).await?;
        self.wait_for_ends(&[id], WaitFor::All, wait).await
    }

    /// Returns whether a job has ended or is gone.
    pub(crate) async fn has_ended(&self, id: JobId) -> Result<bool, Error> {
        let state = self.store().states(vec![id]).await?.pop().flatten();
        Ok(state.is_none_or(State::has_ended))
    }

    pub(crate) async fn log_lines(
        &self,
        id: JobId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<LogLine>, Problem> {
        self.check_job(id).await?;
        Ok(self.store().log_lines(id, after, limit).await?)
    }

    /// Returns a filter for what the caller asks for, of what it sees. A token bound to queues must name one.
    pub(crate) fn filter(&self, tenant: Option<&str>, queue: Option<&str>) -> Result<JobFilter, Problem> {
        Ok(JobFilter {
            tenant: self.principal.seeing(tenant)?,
            queue: self.queue_asked(queue)?,
            ..JobFilter::default()
        })
    }

    /// Returns the queue that a caller asks for. A token bound to queues must name one of them.
    fn queue_asked(&self, name: Option<&str>) -> Result<Option<QueueName>, Problem> {
        let Some(name) = name else {
            self.principal.check_all_queues()?;
            return Ok(None);
        };
        let queue = QueueName::new(name)?;
        self.principal.check_queue(&queue)?;
        Ok(Some(queue))
    }

    /// Lists jobs by a filter that [`Seen::filter`] made, and by a text.
    pub(crate) async fn list(
        &self,
        filter: JobFilter,
        words: Option<&str>,
        before: Option<JobId>,
        limit: usize,
    ) -> Result<Page<JobSummary, JobId>, Problem> {
        self.check_filter(&filter)?;
        let store: &dyn JobReader = &**self.store();
        Ok(super::search::page(store, filter, words, before, limit).await?)
    }

    /// Refuses a filter that reaches further than the caller sees.
    fn check_filter(&self, filter: &JobFilter) -> Result<(), Problem> {
        let tenant = filter.tenant.as_ref().map(TenantId::as_str);
        self.principal.visibility(tenant)?;
        self.queue_asked(filter.queue.as_ref().map(QueueName::as_str))?;
        match self.principal.seeing(None)? {
            Some(own) if filter.tenant.as_ref() != Some(&own) => {
                Err(Problem::forbidden("the filter has no tenant"))
            }
            _ => Ok(()),
        }
    }

    /// Reads jobs that a listing showed.
    pub(crate) async fn read_listed(&self, listed: &[JobSummary]) -> Result<Vec<JobView>, Problem> {
        let ids: Vec<JobId> = listed.iter().map(|job| job.id).collect();
        self.read_seen(&ids).await
    }

    /// Reads those of some jobs that the caller sees.
    pub(super) async fn read_seen(&self, ids: &[JobId]) -> Result<Vec<JobView>, Problem> {
        let seen = self.principal.sees_all();
        let jobs = self.store().read(ids.to_vec()).await?.into_iter().flatten();
        Ok(jobs
            .filter(|job| seen.sees(&job.summary.tenant, &job.summary.queue))
            .collect())
    }

    /// Registers a job.
    pub(crate) async fn enqueue(&self, job: NewJob) -> Result<Enqueued, Problem> {
        self.check_new(&job).await?;
        Ok(super::one(self.handlers.jobs.enqueue(vec![job]).await?)?)
    }

    /// Registers jobs; rejects the whole batch if one exceeds the limits.
    pub(crate) async fn enqueue_many(
        &self,
        jobs: Vec<NewJob>,
    ) -> Result<Vec<Result<Enqueued, Error>>, Problem> {
        for job in &jobs {
            self.check_new(job).await?;
        }
        Ok(self.handlers.jobs.enqueue(jobs).await?)
    }

    /// Checks a registration: its limits, its tenant, its queue, and for a token bound to queues the jobs that it
    /// depends on. The store sees to their tenant.
    async fn check_new(&self, job: &NewJob) -> Result<(), Problem> {
        self.handlers.check(job)?;
        self.principal.acting_for(Some(job.tenant.as_str()))?;
        self.principal.check_queue(&job.queue)?;
        let seen = self.principal.sees_all();
        if !seen.is_bound_to_queues() || job.depends_on.is_empty() {
            return Ok(());
        }
        let parents = self.store().read(job.depends_on.clone()).await?;
        for (&id, parent) in job.depends_on.iter().zip(parents) {
            if parent.is_none_or(|parent| !seen.sees_queue(&parent.summary.queue)) {
                return Err(Error::DependencyUnknown { id }.into());
            }
        }
        Ok(())
    }

    pub(crate) async fn queues(&self) -> Result<Vec<QueueView>, Problem> {
        let queues = self
            .store()
            .queues(self.principal.sees_all(), Counted::All)
            .await?;
        Ok(queues.into_iter().map(|queue| self.shown(queue)).collect())
    }

    pub(crate) async fn queue(&self, name: QueueName) -> Result<QueueView, Problem> {
        self.principal.check_queue(&name)?;
        let seen = self.principal.sees_all();
        let queue = self.store().queue(name.clone(), seen, Counted::All).await?;
        Ok(self.shown(queue.ok_or_else(|| Error::no_such("queue", &name))?))
    }

    /// Leaves out what only those may know who may change it: where jobs and webhooks go may hold secrets.
    fn shown(&self, mut queue: QueueView) -> QueueView {
        if !self.principal.may_change_queues() {
            queue.settings.push = None;
            queue.settings.webhook = None;
            queue.settings.notify = Vec::new();
        }
        queue
    }

    pub(crate) async fn put_queue(
        &self,
        name: QueueName,
        settings: QueueSettings,
    ) -> Result<QueueView, Problem> {
        self.check_change(&name)?;
        settings.check()?;
        self.store().put_queue(name.clone(), settings).await?;
        self.queue(name).await
    }

    /// Changes some settings of a queue, which is made when it does not exist.
    pub(crate) async fn change_queue(
        &self,
        name: QueueName,
        change: impl FnOnce(&mut QueueSettings),
    ) -> Result<QueueView, Problem> {
        self.check_change(&name)?;
        let seen = self.principal.sees_all();
        let known = self.store().queue(name.clone(), seen, Counted::Nothing).await?;
        let mut settings = known.map(|queue| queue.settings).unwrap_or_default();
        change(&mut settings);
        self.put_queue(name, settings).await
    }

    /// Deletes a queue and its ended jobs.
    pub(crate) async fn delete_queue(&self, name: QueueName) -> Result<(), Problem> {
        self.check_change(&name)?;
        while self
            .store()
            .delete_queue(name.clone(), DELETED_AT_ONCE)
            .await?
            .more
        {}
        Ok(())
    }

    pub(crate) async fn set_paused(&self, name: QueueName, paused: bool) -> Result<(), Problem> {
        self.check_change(&name)?;
        Ok(self.store().set_paused(name, paused).await?)
    }

    /// Checks that the caller may change a queue.
    fn check_change(&self, name: &QueueName) -> Result<(), Problem> {
        self.principal.check(Permission::Admin)?;
        self.principal.check_queue(name)
    }

    pub(crate) async fn schedules(&self, tenant: Option<&str>) -> Result<Vec<ScheduleView>, Problem> {
        let seen = self.principal.visibility(tenant)?;
        let all = self.store().schedules(seen.tenant().cloned()).await?.into_iter();
        Ok(all
            .filter(|one| seen.sees(&one.schedule.tenant, &one.schedule.template.queue))
            .collect())
    }

    pub(crate) async fn schedule(&self, tenant: Option<&str>, name: &str) -> Result<ScheduleView, Problem> {
        let tenant = self.principal.acting_for(tenant)?;
        let all = self.schedules(Some(tenant.as_str())).await?;
        let found = all.into_iter().find(|one| one.schedule.name == name);
        Ok(found.ok_or_else(|| Error::no_such("schedule", name))?)
    }

    pub(crate) async fn put_schedule(&self, schedule: Schedule) -> Result<ScheduleView, Problem> {
        check_name(&schedule.name)?;
        self.check_new(&schedule.template).await?;
        self.principal.acting_for(Some(schedule.tenant.as_str()))?;
        if self.principal.sees_all().is_bound_to_queues() {
            self.check_replaces_own(&schedule).await?;
        }
        Ok(self.store().put_schedule(schedule).await?)
    }

    /// A token bound to queues does not replace a schedule of another queue.
    async fn check_replaces_own(&self, schedule: &Schedule) -> Result<(), Problem> {
        let all = self.store().schedules(Some(schedule.tenant.clone())).await?;
        match all.iter().find(|one| one.schedule.name == schedule.name) {
            Some(known) => self.principal.check_queue(&known.schedule.template.queue),
            None => Ok(()),
        }
    }

    pub(crate) async fn delete_schedule(&self, tenant: Option<&str>, name: &str) -> Result<(), Problem> {
        let found = self.schedule(tenant, name).await?;
        let deleted = self
            .store()
            .delete_schedule(found.schedule.tenant, name.to_owned());
        if deleted.await? {
            Ok(())
        } else {
            Err(Error::no_such("schedule", name).into())
        }
    }

    /// Registers a job of a schedule now; its next run stays.
    pub(crate) async fn run_schedule(&self, tenant: Option<&str>, name: &str) -> Result<Enqueued, Problem> {
        let found = self.schedule(tenant, name).await?.schedule;
        let job = NewJob {
            tenant: found.tenant,
            ..found.template
        };
        self.enqueue(job).await
    }

    /// Checks and completes a filter of deliveries. A token bound to queues must name one, or a job of one.
    async fn delivery_filter(
        &self,
        mut filter: DeliveryFilter,
        tenant: Option<&str>,
        queue: Option<&str>,
    ) -> Result<DeliveryFilter, Problem> {
        let queue = match (filter.job, queue) {
            (Some(job), None) if self.principal.sees_all().is_bound_to_queues() => {
                Some(self.job(job).await?.summary.queue.to_string())
            }
            (_, queue) => queue.map(str::to_owned),
        };
        filter.tenant = self.principal.seeing(tenant)?;
        filter.queue = self.queue_asked(queue.as_deref())?;
        Ok(filter)
    }

    pub(crate) async fn deliveries(
        &self,
        filter: DeliveryFilter,
        (tenant, queue): (Option<&str>, Option<&str>),
        before: Option<DeliveryId>,
        limit: usize,
    ) -> Result<Page<DeliveryView, DeliveryId>, Problem> {
        let filter = self.delivery_filter(filter, tenant, queue).await?;
        Ok(self.store().deliveries(filter, before, limit).await?)
    }

    pub(crate) async fn replay(
        &self,
        filter: DeliveryFilter,
        (tenant, queue): (Option<&str>, Option<&str>),
        limit: usize,
    ) -> Result<usize, Problem> {
        let filter = self.delivery_filter(filter, tenant, queue).await?;
        Ok(self.store().replay(filter, limit).await?)
    }

    /// Returns whether a subscription shows no more than the caller sees.
    fn sees_subscription(&self, one: &Subscription) -> bool {
        let seen = self.principal.sees_all();
        let tenant = match (&one.filter.tenant, seen.tenant()) {
            (_, None) => true,
            (Some(of), Some(own)) => of == own && one.tenant == *own,
            (None, Some(_)) => false,
        };
        let queue = match &one.filter.queue {
            Some(queue) => seen.sees_queue(queue),
            None => !seen.is_bound_to_queues(),
        };
        tenant && queue
    }

    pub(crate) async fn subscriptions(&self) -> Result<Vec<Subscription>, Problem> {
        let tenant = self.principal.seeing(None)?;
        let all = self.store().subscriptions(tenant).await?.into_iter();
        Ok(all.filter(|one| self.sees_subscription(one)).collect())
    }

    /// Finds a subscription of the caller's tenant; `None` when there is none that the caller sees.
    pub(crate) async fn find_subscription(&self, name: &str) -> Result<Option<Subscription>, Problem> {
        let tenant = self.principal.acting_for(None)?;
        let all = self.store().subscriptions(Some(tenant)).await?;
        let found = all.into_iter().find(|one| one.name == name);
        Ok(found.filter(|one| self.sees_subscription(one)))
    }

    pub(crate) async fn subscription(&self, name: &str) -> Result<Subscription, Problem> {
        let found = self.find_subscription(name).await?;
        Ok(found.ok_or_else(|| Error::no_such("subscription", name))?)
    }

    /// Returns a filter of events that the caller sees.
    pub(crate) fn event_filter(
        &self,
        tenant: Option<&str>,
        queue: Option<&str>,
    ) -> Result<EventFilter, Problem> {
        let filter = self.filter(tenant, queue)?;
        Ok(EventFilter {
            tenant: filter.tenant,
            queue: filter.queue,
            ..EventFilter::default()
        })
    }

    /// Creates a subscription, or returns the existing one with that name as it is. Changes need more than the
    /// right to read.
    pub(crate) async fn subscribe(
        &self,
        name: String,
        filter: EventFilter,
        after: Option<u64>,
    ) -> Result<Subscription, Problem> {
        let cursor = self.check_subscription(&name, after).await?;
        let tenant = self.principal.acting_for(None)?;
        Ok(self.store().subscribe(tenant, name, filter, cursor).await?)
    }

    /// Creates a subscription, or gives the existing one a new filter. Its cursor stays.
    pub(crate) async fn put_subscription(
        &self,
        name: String,
        filter: EventFilter,
        after: Option<u64>,
    ) -> Result<Subscription, Problem> {
        let cursor = self.check_subscription(&name, after).await?;
        let tenant = self.principal.acting_for(None)?;
        Ok(self
            .store()
            .put_subscription(tenant, name, filter, cursor)
            .await?)
    }

    /// Checks that the caller may create or change a subscription of that name. Returns where a new one begins.
    async fn check_subscription(&self, name: &str, after: Option<u64>) -> Result<u64, Problem> {
        self.principal.check(Permission::Enqueue)?;
        check_name(name)?;
        let tenant = self.principal.acting_for(None)?;
        let known = self.store().subscriptions(Some(tenant)).await?;
        if known
            .iter()
            .any(|one| one.name == name && !self.sees_subscription(one))
        {
            return Err(Problem::forbidden(
                "the token is not for the subscription of that name",
            ));
        }
        let head = self.store().log_bounds().await?.head;
        let cursor = after.unwrap_or(head);
        check_position(cursor, head)?;
        Ok(cursor)
    }

    /// Advances the cursor of a subscription.
    pub(crate) async fn advance(&self, name: &str, cursor: u64) -> Result<u64, Problem> {
        self.principal.check(Permission::Enqueue)?;
        let found = self.subscription(name).await?;
        check_position(cursor, self.store().log_bounds().await?.head)?;
        Ok(self.store().advance(found.tenant, found.name, cursor).await?)
    }

    /// Advances the cursor of a subscription that this caller has opened, by events that were sent to it.
    pub(crate) async fn keep(&self, opened: &Subscription, cursor: u64) -> Result<u64, Problem> {
        self.principal.check(Permission::Enqueue)?;
        let (tenant, name) = (opened.tenant.clone(), opened.name.clone());
        Ok(self.store().advance(tenant, name, cursor).await?)
    }

    pub(crate) async fn unsubscribe(&self, name: &str) -> Result<(), Problem> {
        self.principal.check(Permission::Enqueue)?;
        let found = self.subscription(name).await?;
        self.store().unsubscribe(found.tenant, found.name).await?;
        Ok(())
    }

    /// Opens a reader of events. It shows what the caller sees, whatever the filter says.
    pub(crate) async fn reader(&self, filter: EventFilter, after: Option<u64>) -> Result<Reader, Problem> {
        if let Some(job) = filter.job {
            self.check_job(job).await?;
        }
        let seen = self.principal.sees_all();
        Ok(self.handlers.feed.reader(seen, filter, after).await?)
    }
}

/// Rejects a cursor beyond the end of the log, which would skip events that no reader has seen.
fn check_position(cursor: u64, head: u64) -> Result<(), Problem> {
    if cursor <= head {
        Ok(())
    } else {
        Err(Problem::bad_request(format!(
            "cursor {cursor} is beyond the end of the log, which is {head}"
        )))
    }
}

/// Returns the size of a page, as asked for.
pub(crate) fn page_limit(asked: Option<usize>, default: usize) -> Result<usize, Problem> {
    match asked.unwrap_or(default) {
        limit @ 1..=PAGE_MAX => Ok(limit),
        _ => Err(Problem::bad_request("limit must lie between 1 and 1000")),
    }
}
