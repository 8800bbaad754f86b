//! The ordered log, and readers that it remembers.

use nagaya_jobs::error::Error;
use nagaya_jobs::event::{Event, EventData, EventFilter, EventKind, EventPage, LogBounds, Subscription};
use nagaya_jobs::id::JobId;
use nagaya_jobs::job::Body;
use nagaya_jobs::name::TenantId;
use nagaya_jobs::record;
use nagaya_jobs::request::SweepResult;
use nagaya_postgres_client::{Row, Session};

use crate::error::damaged;
use crate::sql::{Queries, begin, commit, query};
use crate::store::Inner;

/// Rows looked at for one page, when a filter leaves many out.
const LOOKED_AT_MAX: usize = 4_000;
/// The fact that tells up to where the log has been cut off.
const TRIMMED_METADATA: &str = "log-trimmed";

impl Inner {
    pub(crate) async fn events_after(
        &self,
        after: u64,
        filter: EventFilter,
        limit: usize,
    ) -> Result<EventPage, Error> {
        let session = self.cool().await?;
        // Read before the events: whatever is cut off in between is then told as a gap.
        let bounds = self.bounds_with(&session).await?;
        let from = i64::try_from(after).unwrap_or(i64::MAX);
        let limit = limit.max(1);
        let look = match filter == EventFilter::default() {
            true => limit,
            false => LOOKED_AT_MAX.max(limit),
        };
        let job = filter.job.map(JobId::get);
        let rows = session
            .rows(
                query!(events.after),
                &[&from, &i64::try_from(look).unwrap_or(i64::MAX), &job],
            )
            .await?;
        let mut page = EventPage {
            events: Vec::new(),
            next: after,
            bounds,
        };
        for row in &rows {
            let event = self.event(&session, row).await?;
            page.next = event.seq;
            if filter.accepts(&event) {
                page.events.push(event);
                if page.events.len() == limit {
                    break;
                }
            }
        }
        let is_whole = page.events.len() < limit && rows.len() < look;
        if is_whole {
            page.next = page.next.max(bounds.head).max(after);
        }
        // Events may have come since the bounds were read.
        page.bounds.head = page.bounds.head.max(page.next);
        Ok(page)
    }

    async fn event(&self, session: &Session, row: &Row) -> Result<Event, Error> {
        let kind = EventKind::coded(row.get(1)).ok_or_else(|| damaged("an event is of no known kind"))?;
        let data = match kind {
            EventKind::Succeeded => match row.get::<_, Option<Vec<u8>>>(10) {
                Some(bytes) => EventData::Result(Body {
                    content_type: row.get::<_, Option<&str>>(9).map(Into::into),
                    bytes: bytes.into(),
                }),
                None => EventData::None,
            },
            EventKind::Failed | EventKind::Cancelled => match row.get::<_, Option<String>>(8) {
                Some(error) => EventData::Error(error),
                None => EventData::None,
            },
            _ => record::read_event_data(kind, row.get(6))?,
        };
        Ok(Event {
            seq: u64::try_from(row.get::<_, i64>(0)).unwrap_or(0),
            kind,
            job: JobId::new(row.get(2)).ok_or_else(|| damaged("an event is of no job"))?,
            queue: self.names.queue_of(session, row.get(3)).await?.name.clone(),
            tenant: self.names.tenant_of(session, row.get(4)).await?.name.clone(),
            job_kind: row.get(7),
            attempt: u32::try_from(row.get::<_, i32>(5)).unwrap_or(0),
            at_ms: row.get(11),
            data,
        })
    }

    pub(crate) async fn bounds(&self) -> Result<LogBounds, Error> {
        let session = self.cool().await?;
        self.bounds_with(&session).await
    }

    async fn bounds_with(&self, session: &Session) -> Result<LogBounds, Error> {
        let row = session.row(query!(events.bounds), &[&TRIMMED_METADATA]).await?;
        let trimmed = match row.get::<_, Option<&[u8]>>(0) {
            None => 0,
            Some(bytes) => u64::from_be_bytes(bytes.try_into().map_err(|_| damaged("the log's beginning"))?),
        };
        let head = u64::try_from(row.get::<_, i64>(1)).unwrap_or(0);
        Ok(LogBounds {
            trimmed,
            head: head.max(trimmed),
        })
    }

    pub(crate) async fn trim_events(&self, before_ms: i64, limit: usize) -> Result<SweepResult, Error> {
        let mut session = self.cool().await?;
        let transaction = begin(&mut session).await?;
        let rows = transaction
            .rows(
                query!(events.oldest),
                &[&i64::try_from(limit).unwrap_or(i64::MAX)],
            )
            .await?;
        let old = rows
            .iter()
            .take_while(|row| row.get::<_, i64>(1) < before_ms)
            .count();
        let Some(last) = old.checked_sub(1).map(|at| rows[at].get::<_, i64>(0)) else {
            return Ok(SweepResult::default());
        };
        transaction.run(query!(events.cut), &[&last]).await?;
        let value = u64::try_from(last).unwrap_or(0).to_be_bytes();
        transaction
            .run(
                query!(events.set_trimmed),
                &[&TRIMMED_METADATA, &value.as_slice()],
            )
            .await?;
        commit(transaction).await?;
        Ok(SweepResult {
            rows: old,
            more: old >= limit,
        })
    }

    pub(crate) async fn subscribe(
        &self,
        tenant: TenantId,
        name: String,
        filter: EventFilter,
        cursor: u64,
    ) -> Result<Subscription, Error> {
        let session = self.cool().await?;
        let now_ms = self.time.now(&session).await?;
        let of = self.names.tenant_or_make(&session, &tenant, now_ms).await?;
        let cursor = i64::try_from(cursor).unwrap_or(i64::MAX);
        let row = session
            .row(
                query!(events.subscribe),
                &[&of.id, &name, &record::write_filter(&filter), &cursor, &now_ms],
            )
            .await?;
        self.subscription(&session, &row).await
    }

    pub(crate) async fn advance(&self, tenant: TenantId, name: String, cursor: u64) -> Result<u64, Error> {
        let session = self.cool().await?;
        let now_ms = self.time.now(&session).await?;
        let cursor = i64::try_from(cursor).unwrap_or(i64::MAX);
        let row = session
            .row_opt(
                query!(events.advance),
                &[&tenant.as_str(), &name, &cursor, &now_ms],
            )
            .await?;
        match row {
            Some(row) => Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0)),
            None => Err(Error::no_such("subscription", name)),
        }
    }

    pub(crate) async fn subscriptions(&self, tenant: Option<TenantId>) -> Result<Vec<Subscription>, Error> {
        let session = self.cool().await?;
        let rows = session
            .rows(
                query!(events.subscriptions),
                &[&tenant.as_ref().map(TenantId::as_str)],
            )
            .await?;
        let mut all = Vec::with_capacity(rows.len());
        for row in &rows {
            all.push(self.subscription(&session, row).await?);
        }
        Ok(all)
    }

    pub(crate) async fn unsubscribe(&self, tenant: TenantId, name: String) -> Result<bool, Error> {
        let session = self.cool().await?;
        let gone = session
            .run(query!(events.unsubscribe), &[&tenant.as_str(), &name])
            .await?;
        Ok(gone > 0)
    }

    async fn subscription(&self, session: &Session, row: &Row) -> Result<Subscription, Error> {
        Ok(Subscription {
            tenant: self.names.tenant_of(session, row.get(0)).await?.name.clone(),
            name: row.get(1),
            filter: record::read_filter(row.get(2))?,
            cursor: u64::try_from(row.get::<_, i64>(3)).unwrap_or(0),
            created_at_ms: row.get(4),
            advanced_at_ms: row.get(5),
        })
    }
}
