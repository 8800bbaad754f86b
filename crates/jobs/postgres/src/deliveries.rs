//! Deliveries of events to webhooks.

use std::collections::HashMap;

use nagaya_jobs::clock::{span, span_ms};
use nagaya_jobs::delivery::{
    Delivery, DeliveryFilter, DeliveryId, DeliveryState, DeliveryTry, DeliveryView, PutOff, TryOutcome,
    TryReport,
};
use nagaya_jobs::error::Error;
use nagaya_jobs::event::EventKind;
use nagaya_jobs::id::JobId;
use nagaya_jobs::limits::PAGE_MAX;
use nagaya_jobs::record;
use nagaya_jobs::shares::{DeliveryClaim, TenantTarget};
use nagaya_jobs::view::Page;
use nagaya_postgres_client::{Param, Session};

use crate::error::damaged;
use crate::rows::{DeliveryRow, TargetRow, TryRow, unsigned, unsigned_32};
use crate::sql::{Queries, query};
use crate::store::Inner;

/// Targets looked at for one claim; the next one goes on behind them.
const TARGETS_MAX: usize = 1_000;
/// Before the first target.
pub(crate) const START: (i32, String) = (i32::MIN, String::new());

async fn targets_after(
    session: &Session,
    (tenant, target): &(i32, String),
    now_ms: i64,
    limit: usize,
) -> Result<Vec<TargetRow>, Error> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    session
        .all(
            query!(deliveries.targets),
            &[tenant, target, &now_ms, &limit],
            TargetRow::read,
        )
        .await
}

fn code(state: DeliveryState) -> i16 {
    match state {
        DeliveryState::Pending => 0,
        DeliveryState::Delivered => 1,
        DeliveryState::GaveUp => 2,
    }
}

/// A filter with ids in place of names.
struct FilterIds {
    id: Option<i64>,
    tenant: Option<i32>,
    queue: Option<i32>,
    job: Option<i64>,
    state: Option<i16>,
    since_ms: Option<i64>,
}

impl Inner {
    pub(crate) async fn claim_deliveries(&self, claim: DeliveryClaim) -> Result<Vec<Delivery>, Error> {
        let session = self.cool().await?;
        let now_ms = self.time.now(&session).await?;
        let targets = self.due_targets(&session, now_ms).await?;
        let (mut tenants, mut names, mut jobs) = (Vec::new(), Vec::new(), Vec::new());
        for (target, share) in claim.allot(&targets) {
            if let Some(tenant) = self.names.find_tenant(&session, &target.tenant).await? {
                tenants.push(tenant.id);
                names.push(target.target.as_str());
                jobs.push(i64::try_from(share).unwrap_or(i64::MAX));
            }
        }
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let again_ms = now_ms + span_ms(claim.lease);
        let values: [Param<'_>; 5] = [&now_ms, &again_ms, &tenants, &names, &jobs];
        let rows = session
            .all(query!(deliveries.claim), &values, DeliveryRow::read)
            .await?;
        let mut due = Vec::with_capacity(rows.len());
        for row in rows {
            due.push(self.delivery(&session, row).await?);
        }
        Ok(due)
    }

    /// Returns targets with due deliveries, those first that were not looked at the last time.
    async fn due_targets(&self, session: &Session, now_ms: i64) -> Result<Vec<TenantTarget>, Error> {
        let from = self.delivery_cursor.lock().clone();
        let mut rows = targets_after(session, &from, now_ms, TARGETS_MAX).await?;
        let next = match rows.last() {
            Some(last) if rows.len() == TARGETS_MAX => (last.tenant, last.target.clone()),
            // The end is reached: from the beginning, up to where this began.
            _ => {
                let first = targets_after(session, &START, now_ms, TARGETS_MAX - rows.len()).await?;
                let is_new = |row: &TargetRow| (row.tenant, &row.target) <= (from.0, &from.1);
                let first: Vec<TargetRow> = first.into_iter().filter(is_new).collect();
                let last = first.last().map(|last| (last.tenant, last.target.clone()));
                rows.extend(first);
                if rows.len() == TARGETS_MAX {
                    last.unwrap_or(START)
                } else {
                    START
                }
            }
        };
        *self.delivery_cursor.lock() = next;
        let mut due = Vec::new();
        for row in rows.into_iter().filter(|row| row.is_due) {
            let tenant = self.names.tenant_of(session, row.tenant).await?.name.clone();
            due.push(TenantTarget {
                tenant,
                target: row.target,
            });
        }
        Ok(due)
    }

    pub(crate) async fn report_tries(&self, reports: Vec<TryReport>) -> Result<Vec<bool>, Error> {
        let session = self.cool().await?;
        let mut taken = Vec::with_capacity(reports.len());
        for report in reports {
            let (state, next_ms) = match report.outcome {
                TryOutcome::Delivered => (DeliveryState::Delivered, None),
                TryOutcome::Again { at_ms } => (DeliveryState::Pending, Some(at_ms)),
                TryOutcome::GaveUp => (DeliveryState::GaveUp, None),
            };
            let one = &report.attempt;
            let reported: Option<i64> = session
                .first_scalar(
                    query!(deliveries.report),
                    &[
                        &report.id.0,
                        &i32::try_from(one.number).unwrap_or(i32::MAX),
                        &code(state),
                        &next_ms,
                        &one.at_ms,
                        &span_ms(one.latency),
                        &one.status.map(i32::from),
                        &one.error.as_ref().map(|text| text.replace('\0', "\u{fffd}")),
                        &one.reply,
                    ],
                )
                .await?;
            taken.push(reported.is_some());
        }
        Ok(taken)
    }

    pub(crate) async fn put_off_deliveries(&self, items: Vec<PutOff>) -> Result<(), Error> {
        let session = self.cool().await?;
        let ids: Vec<i64> = items.iter().map(|item| item.id.0).collect();
        let tries = items
            .iter()
            .map(|item| i32::try_from(item.tries).unwrap_or(i32::MAX));
        let tries: Vec<i32> = tries.collect();
        let times: Vec<i64> = items.iter().map(|item| item.at_ms).collect();
        let query = query!(deliveries.put_off);
        session.run(query, &[&ids, &tries, &times]).await?;
        Ok(())
    }

    pub(crate) async fn list_deliveries(
        &self,
        filter: DeliveryFilter,
        before: Option<DeliveryId>,
        limit: usize,
    ) -> Result<Page<DeliveryView, DeliveryId>, Error> {
        let session = self.cool().await?;
        let empty = Page {
            items: Vec::new(),
            next: None,
        };
        let Some(filter) = self.numbers(&session, &filter).await? else {
            return Ok(empty);
        };
        let limit = limit.clamp(1, PAGE_MAX);
        let rows = session
            .all(
                query!(deliveries.list),
                &[
                    &filter.tenant,
                    &filter.queue,
                    &filter.job,
                    &filter.state,
                    &filter.since_ms,
                    &before.map_or(i64::MAX, |id| id.0),
                    &i64::try_from(limit).unwrap_or(i64::MAX),
                    &filter.id,
                ],
                DeliveryRow::read,
            )
            .await?;
        let items = self.with_tries(&session, rows).await?;
        let last = items.last().map(|view| view.delivery.id);
        let next = last.filter(|_| items.len() == limit);
        Ok(Page { items, next })
    }

    pub(crate) async fn replay(&self, filter: DeliveryFilter, limit: usize) -> Result<usize, Error> {
        let session = self.cool().await?;
        let now_ms = self.time.now(&session).await?;
        let Some(filter) = self.numbers(&session, &filter).await? else {
            return Ok(0);
        };
        let replayed = session
            .run(
                query!(deliveries.replay),
                &[
                    &filter.tenant,
                    &filter.queue,
                    &filter.job,
                    &filter.state,
                    &filter.since_ms,
                    &now_ms,
                    &i64::try_from(limit).unwrap_or(i64::MAX),
                    &filter.id,
                ],
            )
            .await?;
        Ok(usize::try_from(replayed).unwrap_or(usize::MAX))
    }

    pub(crate) async fn deliveries_of(
        &self,
        session: &Session,
        id: JobId,
    ) -> Result<Vec<DeliveryView>, Error> {
        let rows = session
            .all(query!(deliveries.of_job), &[&id.get()], DeliveryRow::read)
            .await?;
        self.with_tries(session, rows).await
    }

    /// Returns `None` when a name in the filter is unknown.
    async fn numbers(&self, session: &Session, filter: &DeliveryFilter) -> Result<Option<FilterIds>, Error> {
        let mut numbers = FilterIds {
            id: filter.id.map(|id| id.0),
            tenant: None,
            queue: None,
            job: filter.job.map(JobId::get),
            state: filter.state.map(code),
            since_ms: filter.since_ms,
        };
        if let Some(name) = &filter.queue {
            let Some(queue) = self.names.find_queue(session, name).await? else {
                return Ok(None);
            };
            numbers.queue = Some(queue.id);
        }
        if let Some(name) = &filter.tenant {
            let Some(tenant) = self.names.find_tenant(session, name).await? else {
                return Ok(None);
            };
            numbers.tenant = Some(tenant.id);
        }
        Ok(Some(numbers))
    }

    async fn with_tries(
        &self,
        session: &Session,
        rows: Vec<DeliveryRow>,
    ) -> Result<Vec<DeliveryView>, Error> {
        let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
        let mut tries: HashMap<i64, Vec<DeliveryTry>> = HashMap::new();
        let tried = if ids.is_empty() {
            Vec::new()
        } else {
            session
                .all(query!(deliveries.tries), &[&ids], TryRow::read)
                .await?
        };
        for row in tried {
            tries.entry(row.delivery).or_default().push(DeliveryTry {
                number: unsigned_32(row.number),
                at_ms: row.at_ms,
                latency: span(row.latency_ms),
                status: row.status.and_then(|status| u16::try_from(status).ok()),
                error: row.error,
                reply: row.reply,
            });
        }
        let mut views = Vec::with_capacity(rows.len());
        for row in rows {
            let delivery = self.delivery(session, row).await?;
            let tries = tries.remove(&delivery.id.0).unwrap_or_default();
            views.push(DeliveryView { delivery, tries });
        }
        Ok(views)
    }

    async fn delivery(&self, session: &Session, row: DeliveryRow) -> Result<Delivery, Error> {
        Ok(Delivery {
            id: DeliveryId(row.id),
            job: JobId::new(row.job).ok_or_else(|| damaged("a delivery is of no job"))?,
            queue: self.names.queue_of(session, row.queue).await?.name.clone(),
            tenant: self.names.tenant_of(session, row.tenant).await?.name.clone(),
            seq: unsigned(row.seq),
            kind: EventKind::coded(row.kind).ok_or_else(|| damaged("a delivery is of no known kind"))?,
            attempt: unsigned_32(row.attempt),
            webhook: record::read_webhook(&row.webhook)?,
            target: row.target,
            state: match row.state {
                0 => DeliveryState::Pending,
                1 => DeliveryState::Delivered,
                _ => DeliveryState::GaveUp,
            },
            tries: unsigned_32(row.tries),
            created_at_ms: row.created_ms,
            next_try_at_ms: row.next_try_ms,
        })
    }
}
