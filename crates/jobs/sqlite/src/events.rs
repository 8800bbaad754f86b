//! The log of events, and the readers that have a name.

use nagaya_jobs::error::Error;
use nagaya_jobs::event::{Event, EventData, EventFilter, EventKind, EventPage, LogBounds, Subscription};
use nagaya_jobs::limits::PAGE_MAX;
use nagaya_jobs::name::TenantId;
use nagaya_jobs::record;
use nagaya_sqlite_client::strange_value;
use rusqlite::{Connection, Row, params};

use crate::memory::bounds;
use crate::names::Names;
use crate::read::body;
use crate::sql::{all, first, query, run};
use crate::write_transaction::{WriteTransaction, job_id};

/// Most rows that a page looks at.
const LOOKS_MAX: usize = 10_000;

pub(crate) fn after(
    connection: &Connection,
    after: u64,
    filter: &EventFilter,
    limit: usize,
) -> Result<EventPage, Error> {
    let (trimmed, head) = bounds(connection)?;
    let limit = limit.clamp(1, PAGE_MAX);
    // A job's events come after the position at which it was registered.
    let from: Option<u64> = match filter.job {
        None => None,
        Some(id) => first(connection, query!(events.first_of_job), [id.get()], |row| {
            row.get(0)
        })?,
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
    let rows = all(connection, query!(events.after), params![start, looks], |row| {
        event(row, &names)
    })?;
    for (event, data) in rows {
        if page.events.len() == limit {
            break;
        }
        page.next = event.seq;
        if filter.accepts(&event) {
            let data = match data {
                Data::Read(data) => data,
                Data::Text(text) => record::read_event_data(event.kind, text.as_deref())?,
            };
            page.events.push(Event { data, ..event });
        }
    }
    Ok(page)
}

enum Data {
    Read(EventData),
    Text(Option<String>),
}

fn event(row: &Row<'_>, names: &Names) -> rusqlite::Result<(Event, Data)> {
    let kind = EventKind::coded(row.get(4)?).ok_or_else(|| strange_value(4, "kind of event"))?;
    let data = match kind {
        EventKind::Succeeded => Data::Read(body(row, 10, 11)?.map_or(EventData::None, EventData::Result)),
        EventKind::Failed | EventKind::Cancelled => {
            let error: Option<String> = row.get(9)?;
            Data::Read(error.map_or(EventData::None, EventData::Error))
        }
        _ => Data::Text(row.get(7)?),
    };
    let event = Event {
        seq: row.get(0)?,
        kind,
        job: job_id(row, 1)?,
        queue: names.queue(row, 2)?,
        tenant: names.tenant(row, 3)?,
        job_kind: row.get(8)?,
        attempt: row.get(5)?,
        at_ms: row.get(6)?,
        data: EventData::None,
    };
    Ok((event, data))
}

pub(crate) fn log_bounds(connection: &Connection) -> Result<LogBounds, Error> {
    let (trimmed, head) = bounds(connection)?;
    Ok(LogBounds { trimmed, head })
}

struct Raw {
    tenant: String,
    name: String,
    filter: String,
    cursor: u64,
    created_at_ms: i64,
    advanced_at_ms: i64,
}

impl Raw {
    fn read(row: &Row<'_>) -> rusqlite::Result<Raw> {
        Ok(Raw {
            tenant: row.get(0)?,
            name: row.get(1)?,
            filter: row.get(2)?,
            cursor: row.get(3)?,
            created_at_ms: row.get(4)?,
            advanced_at_ms: row.get(5)?,
        })
    }

    fn subscription(self) -> Result<Subscription, Error> {
        Ok(Subscription {
            tenant: TenantId::new(&self.tenant)?,
            name: self.name,
            filter: record::read_filter(&self.filter)?,
            cursor: self.cursor,
            created_at_ms: self.created_at_ms,
            advanced_at_ms: self.advanced_at_ms,
        })
    }
}

fn find(tx: &WriteTransaction<'_>, tenant: i64, name: &str) -> Result<Subscription, Error> {
    let raw = first(
        tx.connection,
        query!(events.find_subscription),
        params![tenant, name],
        Raw::read,
    )?;
    raw.ok_or_else(|| Error::no_such("subscription", name))?
        .subscription()
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
    let rows = all(connection, query!(events.subscriptions), values, Raw::read)?;
    rows.into_iter().map(Raw::subscription).collect()
}

pub(crate) fn unsubscribe(
    tx: &mut WriteTransaction<'_>,
    tenant: &TenantId,
    name: &str,
) -> Result<bool, Error> {
    let tenant = tx.tenant_num_or_none(tenant);
    Ok(run(tx.connection, query!(events.unsubscribe), params![tenant, name])? > 0)
}
