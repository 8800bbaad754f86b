//! The log of events, and subscriptions.

use nagaya_jobs::error::Error;
use nagaya_jobs::event::{Event, EventData, EventFilter, EventKind, EventPage, LogBounds, Subscription};
use nagaya_jobs::limits::PAGE_MAX;
use nagaya_jobs::name::TenantId;
use nagaya_jobs::record;
use rusqlite::{Connection, params};

use crate::memory::bounds;
use crate::names::Names;
use crate::rows::{EventRow, SubscriptionRow, body};
use crate::sql::{all, first, query, run, scalar};
use crate::write_transaction::WriteTransaction;

/// Most rows read for one page.
const LOOKS_MAX: usize = 10_000;

pub(crate) fn after(
    connection: &Connection,
    after: u64,
    filter: &EventFilter,
    limit: usize,
) -> Result<EventPage, Error> {
    let (trimmed, head) = bounds(connection)?;
    let limit = limit.clamp(1, PAGE_MAX);
    // The events of a job come after the position of its registration.
    let from: Option<u64> = match filter.job {
        None => None,
        Some(id) => first(connection, query!(events.first_of_job), [id.get()], scalar)?,
    };
    let start = after.max(from.unwrap_or(0)).max(trimmed);
    let mut page = EventPage {
        events: Vec::new(),
        next: start,
        bounds: LogBounds { trimmed, head },
    };
    let names = Names::read(connection)?;
    let looks = if *filter == EventFilter::default() {
        limit
    } else {
        LOOKS_MAX
    };
    let values = params![start, looks];
    for row in all(connection, query!(events.after), values, EventRow::read)? {
        if page.events.len() == limit {
            break;
        }
        page.next = row.seq;
        let (mut event, data) = event(row, &names)?;
        if filter.accepts(&event) {
            if let Some(text) = data {
                event.data = record::read_event_data(event.kind, text.as_deref())?;
            }
            page.events.push(event);
        }
    }
    Ok(page)
}

/// Makes an event of its row. Also returns the text of data that is not parsed yet, because only events that
/// match the filter need it.
fn event(row: EventRow, names: &Names) -> Result<(Event, Option<Option<String>>), Error> {
    let (data, text) = match row.kind {
        EventKind::Succeeded => {
            let result = body(row.content_type, row.result);
            (result.map_or(EventData::None, EventData::Result), None)
        }
        EventKind::Failed | EventKind::Cancelled => {
            (row.error.map_or(EventData::None, EventData::Error), None)
        }
        _ => (EventData::None, Some(row.data)),
    };
    let event = Event {
        seq: row.seq,
        kind: row.kind,
        job: row.job,
        queue: names.queue(row.queue)?,
        tenant: names.tenant(row.tenant)?,
        job_kind: row.job_kind,
        attempt: row.attempt,
        at_ms: row.at_ms,
        data,
    };
    Ok((event, text))
}

pub(crate) fn log_bounds(connection: &Connection) -> Result<LogBounds, Error> {
    let (trimmed, head) = bounds(connection)?;
    Ok(LogBounds { trimmed, head })
}

fn subscription(row: SubscriptionRow) -> Result<Subscription, Error> {
    Ok(Subscription {
        tenant: TenantId::new(&row.tenant)?,
        name: row.name,
        filter: record::read_filter(&row.filter)?,
        cursor: row.cursor,
        created_at_ms: row.created_ms,
        advanced_at_ms: row.advanced_ms,
    })
}

fn find(tx: &WriteTransaction<'_>, tenant: i64, name: &str) -> Result<Subscription, Error> {
    let values = params![tenant, name];
    let row = first(
        tx.connection,
        query!(events.find_subscription),
        values,
        SubscriptionRow::read,
    )?;
    subscription(row.ok_or_else(|| Error::no_such("subscription", name))?)
}

pub(crate) fn subscribe(
    tx: &mut WriteTransaction<'_>,
    tenant: &TenantId,
    name: &str,
    filter: &EventFilter,
    cursor: u64,
) -> Result<Subscription, Error> {
    let tenant = tx.tenant_num(tenant)?;
    let values = params![tenant, name, record::write_filter(filter), cursor, tx.now_ms];
    run(tx.connection, query!(events.subscribe), values)?;
    find(tx, tenant, name)
}

pub(crate) fn put_subscription(
    tx: &mut WriteTransaction<'_>,
    tenant: &TenantId,
    name: &str,
    filter: &EventFilter,
    cursor: u64,
) -> Result<Subscription, Error> {
    let num = tx.tenant_num(tenant)?;
    subscribe(tx, tenant, name, filter, cursor)?;
    let values = params![num, name, record::write_filter(filter)];
    run(tx.connection, query!(events.set_filter), values)?;
    find(tx, num, name)
}

pub(crate) fn advance(
    tx: &mut WriteTransaction<'_>,
    tenant: &TenantId,
    name: &str,
    cursor: u64,
) -> Result<u64, Error> {
    let tenant = tx.tenant_num_or_none(tenant);
    let values = params![tenant, name, cursor, tx.now_ms];
    run(tx.connection, query!(events.advance), values)?;
    Ok(find(tx, tenant, name)?.cursor)
}

pub(crate) fn subscriptions(
    connection: &Connection,
    tenant: Option<&TenantId>,
) -> Result<Vec<Subscription>, Error> {
    let values = params![tenant.map(TenantId::as_str)];
    let rows = all(
        connection,
        query!(events.subscriptions),
        values,
        SubscriptionRow::read,
    )?;
    rows.into_iter().map(subscription).collect()
}

pub(crate) fn unsubscribe(
    tx: &mut WriteTransaction<'_>,
    tenant: &TenantId,
    name: &str,
) -> Result<bool, Error> {
    let tenant = tx.tenant_num_or_none(tenant);
    Ok(run(tx.connection, query!(events.unsubscribe), params![tenant, name])? > 0)
}
