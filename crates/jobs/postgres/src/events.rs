//! The log of events, and subscriptions.

use nagaya_jobs::error::Error;
use nagaya_jobs::event::{Event, EventData, EventFilter, EventKind, EventPage, LogBounds, Subscription};
use nagaya_jobs::id::JobId;
use nagaya_jobs::job::Body;
use nagaya_jobs::name::TenantId;
use nagaya_jobs::record;
use nagaya_jobs::request::SweepResult;
use nagaya_postgres_client::Session;

use crate::error::damaged;
use crate::rows::{BoundsRow, EventRow, EventTimeRow, SubscriptionRow, unsigned, unsigned_32};
use crate::sql::{Queries, begin, commit, query};
use crate::store::Inner;

/// Most rows read for one page when a filter leaves many out.
const LOOKED_AT_MAX: usize = 4_000;
/// The metadata key of the position up to which the log was trimmed.
const TRIMMED_METADATA: &str = "log-trimmed";

/// What happens to a subscription that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExistingSubscription {
    Stays,
    GetsFilter,
}

impl Inner {
    pub(crate) async fn events_after(
        &self,
        after: u64,
        filter: EventFilter,
        limit: usize,
    ) -> Result<EventPage, Error> {
        let session = self.cool().await?;
        // Read before the events: what is trimmed in between is then reported as a gap.
        let bounds = self.bounds_with(&session).await?;
        let from = i64::try_from(after).unwrap_or(i64::MAX);
        let limit = limit.max(1);
        let rows_max = if filter == EventFilter::default() {
            limit
        } else {
            LOOKED_AT_MAX.max(limit)
        };
        let job = filter.job.map(JobId::get);
        let rows_limit = i64::try_from(rows_max).unwrap_or(i64::MAX);
        let kinds: Vec<i16> = filter.kinds.iter().map(|kind| kind.code()).collect();
        let kinds = Some(kinds).filter(|kinds| !kinds.is_empty());
        let rows = session
            .all(
                query!(events.after),
                &[&from, &rows_limit, &job, &kinds],
                EventRow::read,
            )
            .await?;
        let is_last_page = rows.len() < rows_max;
        let mut page = EventPage {
            events: Vec::new(),
            next: after,
            bounds,
        };
        for row in rows {
            let event = self.event(&session, row).await?;
            page.next = event.seq;
            if filter.accepts(&event) {
                page.events.push(event);
                if page.events.len() == limit {
                    break;
                }
            }
        }
        let is_whole = page.events.len() < limit && is_last_page;
        if is_whole {
            page.next = page.next.max(bounds.head).max(after);
        }
        // The log may have grown since the bounds were read.
        page.bounds.head = page.bounds.head.max(page.next);
        Ok(page)
    }

    async fn event(&self, session: &Session, row: EventRow) -> Result<Event, Error> {
        let kind = EventKind::coded(row.kind).ok_or_else(|| damaged("an event is of no known kind"))?;
        let data = match kind {
            EventKind::Succeeded => match row.result {
                Some(bytes) => EventData::Result(Body {
                    content_type: row.content_type.map(Into::into),
                    bytes: bytes.into(),
                }),
                None => EventData::None,
            },
            EventKind::Failed | EventKind::Cancelled => match row.error {
                Some(error) => EventData::Error(error),
                None => EventData::None,
            },
            _ => record::read_event_data(kind, row.data.as_deref())?,
        };
        Ok(Event {
            seq: unsigned(row.seq),
            kind,
            job: JobId::new(row.job).ok_or_else(|| damaged("an event is of no job"))?,
            queue: self.names.queue_of(session, row.queue).await?.name.clone(),
            tenant: self.names.tenant_of(session, row.tenant).await?.name.clone(),
            job_kind: row.job_kind,
            attempt: unsigned_32(row.attempt),
            at_ms: row.at_ms,
            data,
        })
    }

    pub(crate) async fn bounds(&self) -> Result<LogBounds, Error> {
        let session = self.cool().await?;
        self.bounds_with(&session).await
    }

    async fn bounds_with(&self, session: &Session) -> Result<LogBounds, Error> {
        let row = session
            .one(query!(events.bounds), &[&TRIMMED_METADATA], BoundsRow::read)
            .await?;
        let trimmed = match row.trimmed.as_deref() {
            None => 0,
            Some(bytes) => u64::from_be_bytes(bytes.try_into().map_err(|_| damaged("the log's beginning"))?),
        };
        let head = unsigned(row.head);
        Ok(LogBounds {
            trimmed,
            head: head.max(trimmed),
        })
    }

    pub(crate) async fn trim_events(&self, before_ms: i64, limit: usize) -> Result<SweepResult, Error> {
        let mut session = self.cool().await?;
        let transaction = begin(&mut session).await?;
        let rows_max = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = transaction
            .all(query!(events.oldest), &[&rows_max], EventTimeRow::read)
            .await?;
        let old = rows.iter().take_while(|row| row.at_ms < before_ms).count();
        let Some(last) = old.checked_sub(1).map(|at| rows[at].seq) else {
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
        known: ExistingSubscription,
    ) -> Result<Subscription, Error> {
        let session = self.cool().await?;
        let now_ms = self.time.now(&session).await?;
        let of = self.names.tenant_or_make(&session, &tenant, now_ms).await?;
        let cursor = i64::try_from(cursor).unwrap_or(i64::MAX);
        let row = session
            .one(
                match known {
                    ExistingSubscription::Stays => query!(events.subscribe),
                    ExistingSubscription::GetsFilter => query!(events.put_subscription),
                },
                &[&of.id, &name, &record::write_filter(&filter), &cursor, &now_ms],
                SubscriptionRow::read,
            )
            .await?;
        self.subscription(&session, row).await
    }

    pub(crate) async fn advance(&self, tenant: TenantId, name: String, cursor: u64) -> Result<u64, Error> {
        let session = self.cool().await?;
        let now_ms = self.time.now(&session).await?;
        let cursor = i64::try_from(cursor).unwrap_or(i64::MAX);
        let advanced = session
            .first_scalar(
                query!(events.advance),
                &[&tenant.as_str(), &name, &cursor, &now_ms],
            )
            .await?;
        match advanced {
            Some(cursor) => Ok(unsigned(cursor)),
            None => Err(Error::no_such("subscription", name)),
        }
    }

    pub(crate) async fn subscriptions(&self, tenant: Option<TenantId>) -> Result<Vec<Subscription>, Error> {
        let session = self.cool().await?;
        let tenant = tenant.as_ref().map(TenantId::as_str);
        let rows = session
            .all(query!(events.subscriptions), &[&tenant], SubscriptionRow::read)
            .await?;
        let mut all = Vec::with_capacity(rows.len());
        for row in rows {
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

    async fn subscription(&self, session: &Session, row: SubscriptionRow) -> Result<Subscription, Error> {
        Ok(Subscription {
            tenant: self.names.tenant_of(session, row.tenant).await?.name.clone(),
            name: row.name,
            filter: record::read_filter(&row.filter)?,
            cursor: unsigned(row.cursor),
            created_at_ms: row.created_ms,
            advanced_at_ms: row.advanced_ms,
        })
    }
}
