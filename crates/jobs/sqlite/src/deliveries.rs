//! Deliveries of events to webhooks.

use std::time::Duration;

use nagaya_jobs::clock::{span, span_ms};
use nagaya_jobs::delivery::{
    Delivery, DeliveryFilter, DeliveryId, DeliveryState, DeliveryTry, DeliveryView, PutOff, TryOutcome,
    TryReport, Webhook,
};
use nagaya_jobs::error::Error;
use nagaya_jobs::event::EventKind;
use nagaya_jobs::id::JobId;
use nagaya_jobs::limits::PAGE_MAX;
use nagaya_jobs::record;
use nagaya_jobs::view::Page;
use nagaya_sqlite_client::strange_value;
use rusqlite::{Connection, Row, params};

use crate::names::Names;
use crate::sql::{all, first, query, run};
use crate::write_transaction::{WriteTransaction, job_id};

/// Reads a delivery, all but its webhook, and the text of that.
fn raw(row: &Row<'_>, names: &Names) -> rusqlite::Result<(Delivery, String)> {
    let delivery = Delivery {
        id: DeliveryId(row.get(0)?),
        job: job_id(row, 1)?,
        queue: names.queue(row, 2)?,
        tenant: names.tenant(row, 3)?,
        seq: row.get(4)?,
        kind: EventKind::coded(row.get(5)?).ok_or_else(|| strange_value(5, "kind of event"))?,
        attempt: row.get(6)?,
        webhook: Webhook::to(""),
        state: match row.get::<_, i64>(8)? {
            1 => DeliveryState::Pending,
            2 => DeliveryState::Delivered,
            3 => DeliveryState::GaveUp,
            _ => return Err(strange_value(8, "state of a delivery")),
        },
        tries: row.get(9)?,
        created_at_ms: row.get(10)?,
        next_try_at_ms: row.get(11)?,
    };
    Ok((delivery, row.get(7)?))
}

fn whole((delivery, webhook): (Delivery, String)) -> Result<Delivery, Error> {
    Ok(Delivery {
        webhook: record::read_webhook(&webhook)?,
        ..delivery
    })
}

fn code(state: DeliveryState) -> i64 {
    match state {
        DeliveryState::Pending => 1,
        DeliveryState::Delivered => 2,
        DeliveryState::GaveUp => 3,
    }
}

pub(crate) fn claim(
    tx: &mut WriteTransaction<'_>,
    limit: usize,
    lease: Duration,
) -> Result<Vec<Delivery>, Error> {
    let names = Names::read(tx.connection)?;
    let values = params![tx.now_ms, limit];
    let due = all(tx.connection, query!(deliveries.due), values, |row| {
        raw(row, &names)
    })?;
    let again_ms = tx.now_ms + span_ms(lease);
    for (delivery, _) in &due {
        run(
            tx.connection,
            query!(deliveries.put_off),
            params![delivery.id.0, again_ms, delivery.tries],
        )?;
    }
    due.into_iter().map(whole).collect()
}

pub(crate) fn put_off(tx: &mut WriteTransaction<'_>, item: &PutOff) -> Result<(), Error> {
    let values = params![item.id.0, item.at_ms, item.tries];
    run(tx.connection, query!(deliveries.put_off), values)?;
    Ok(())
}

pub(crate) fn report(tx: &mut WriteTransaction<'_>, report: &TryReport) -> Result<bool, Error> {
    let attempt = &report.attempt;
    let tries: Option<u32> = first(
        tx.connection,
        query!(deliveries.count_tries),
        [report.id.0],
        |row| row.get(0),
    )?;
    if tries.is_none_or(|tries| tries + 1 != attempt.number) {
        return Ok(false);
    }
    let latency_ms = span_ms(attempt.latency);
    let values = params![
        report.id.0,
        attempt.number,
        attempt.at_ms,
        latency_ms,
        attempt.status,
        attempt.error,
        attempt.reply,
    ];
    run(tx.connection, query!(deliveries.insert_try), values)?;
    let (state, next_ms) = match report.outcome {
        TryOutcome::Delivered => (DeliveryState::Delivered, tx.now_ms),
        TryOutcome::GaveUp => (DeliveryState::GaveUp, tx.now_ms),
        TryOutcome::Again { at_ms } => (DeliveryState::Pending, at_ms),
    };
    let values = params![report.id.0, code(state), attempt.number, next_ms];
    run(tx.connection, query!(deliveries.report), values)?;
    Ok(true)
}

pub(crate) fn list(
    connection: &Connection,
    filter: &DeliveryFilter,
    before: Option<DeliveryId>,
    limit: usize,
) -> Result<Page<DeliveryView, DeliveryId>, Error> {
    let names = Names::read(connection)?;
    let limit = limit.clamp(1, PAGE_MAX);
    let values = params![
        before.map_or(i64::MAX, |id| id.0),
        filter.tenant.as_ref().map(|tenant| names.tenant_num(tenant)),
        filter.queue.as_ref().map(|queue| names.queue_num(queue)),
        filter.job.map(JobId::get),
        filter.state.map(code),
        filter.since_ms,
        limit,
        filter.id.map(|id| id.0),
    ];
    let rows = all(connection, query!(deliveries.list), values, |row| {
        raw(row, &names)
    })?;
    let items = views(connection, rows)?;
    let next = items.last().map(|view| view.delivery.id);
    Ok(Page {
        next: next.filter(|_| items.len() == limit),
        items,
    })
}

pub(crate) fn of_job(connection: &Connection, names: &Names, id: JobId) -> Result<Vec<DeliveryView>, Error> {
    let rows = all(connection, query!(deliveries.of_job), [id.get()], |row| {
        raw(row, names)
    })?;
    views(connection, rows)
}

fn views(connection: &Connection, rows: Vec<(Delivery, String)>) -> Result<Vec<DeliveryView>, Error> {
    let view = |row| {
        let delivery = whole(row)?;
        let tries = all(connection, query!(deliveries.tries), [delivery.id.0], |row| {
            Ok(DeliveryTry {
                number: row.get(0)?,
                at_ms: row.get(1)?,
                latency: span(row.get(2)?),
                status: row.get(3)?,
                error: row.get(4)?,
                reply: row.get(5)?,
            })
        })?;
        Ok(DeliveryView { delivery, tries })
    };
    rows.into_iter().map(view).collect()
}

pub(crate) fn replay(
    tx: &mut WriteTransaction<'_>,
    filter: &DeliveryFilter,
    limit: usize,
) -> Result<usize, Error> {
    let names = Names::read(tx.connection)?;
    let values = params![
        filter.tenant.as_ref().map(|tenant| names.tenant_num(tenant)),
        filter.queue.as_ref().map(|queue| names.queue_num(queue)),
        filter.job.map(JobId::get),
        filter.state.map(code),
        filter.since_ms,
        tx.now_ms,
        limit,
        filter.id.map(|id| id.0),
    ];
    Ok(run(tx.connection, query!(deliveries.replay), values)?)
}
