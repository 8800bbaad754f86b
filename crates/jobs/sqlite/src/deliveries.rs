//! Deliveries of events to webhooks.

use nagaya_jobs::clock::{span, span_ms};
use nagaya_jobs::delivery::{
    Delivery, DeliveryFilter, DeliveryId, DeliveryState, DeliveryTry, DeliveryView, PutOff, TryOutcome,
    TryReport,
};
use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::limits::PAGE_MAX;
use nagaya_jobs::record;
use nagaya_jobs::shares::{DeliveryClaim, TenantTarget};
use nagaya_jobs::view::Page;
use rusqlite::{Connection, params};

use crate::names::Names;
use crate::rows::{DeliveryRow, TargetRow, TryRow, delivery_state_code};
use crate::sql::{all, first, query, run, scalar};
use crate::write_transaction::WriteTransaction;

fn delivery(row: DeliveryRow, names: &Names) -> Result<Delivery, Error> {
    Ok(Delivery {
        id: row.id,
        job: row.job,
        queue: names.queue(row.queue)?,
        tenant: names.tenant(row.tenant)?,
        seq: row.seq,
        kind: row.kind,
        attempt: row.attempt,
        webhook: record::read_webhook(&row.webhook)?,
        target: row.target,
        state: row.state,
        tries: row.tries,
        created_at_ms: row.created_ms,
        next_try_at_ms: row.next_try_ms,
    })
}

/// Targets looked at for one claim; the next one goes on behind them.
const TARGETS_MAX: usize = 1_000;

pub(crate) fn claim(tx: &mut WriteTransaction<'_>, claim: &DeliveryClaim) -> Result<Vec<Delivery>, Error> {
    let names = Names::read(tx.connection)?;
    let targets = due_targets(tx, &names)?;
    let again_ms = tx.now_ms + span_ms(claim.lease);
    let mut claimed = Vec::new();
    for (target, jobs) in claim.allot(&targets) {
        let values = params![names.tenant_num(&target.tenant), target.target, tx.now_ms, jobs];
        for row in all(tx.connection, query!(deliveries.due), values, DeliveryRow::read)? {
            run(
                tx.connection,
                query!(deliveries.put_off),
                params![row.id.0, again_ms, row.tries],
            )?;
            claimed.push(delivery(row, &names)?);
        }
    }
    Ok(claimed)
}

/// Returns targets with due deliveries, those first that were not looked at the last time.
fn due_targets(tx: &mut WriteTransaction<'_>, names: &Names) -> Result<Vec<TenantTarget>, Error> {
    let from = tx.memory.delivery_cursor.clone();
    let mut rows = targets_after(tx, &from, TARGETS_MAX)?;
    tx.memory.delivery_cursor = match rows.last() {
        Some(last) if rows.len() == TARGETS_MAX => (last.tenant, last.target.clone()),
        // The end is reached: from the beginning, up to where this began.
        _ => {
            let first = targets_after(tx, &START, TARGETS_MAX - rows.len())?;
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
    let due = rows.into_iter().filter(|row| row.is_due);
    let target = |row: TargetRow| {
        Ok(TenantTarget {
            tenant: names.tenant(row.tenant)?,
            target: row.target,
        })
    };
    due.map(target).collect()
}

/// Before the first target.
const START: (i64, String) = (i64::MIN, String::new());

fn targets_after(
    tx: &WriteTransaction<'_>,
    (tenant, target): &(i64, String),
    limit: usize,
) -> Result<Vec<TargetRow>, Error> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let values = params![tenant, target, tx.now_ms, limit];
    all(tx.connection, query!(deliveries.targets), values, TargetRow::read)
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
        scalar,
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
    let values = params![report.id.0, delivery_state_code(state), attempt.number, next_ms];
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
        filter.state.map(delivery_state_code),
        filter.since_ms,
        limit,
        filter.id.map(|id| id.0),
    ];
    let rows = all(connection, query!(deliveries.list), values, DeliveryRow::read)?;
    let items = views(connection, &names, rows)?;
    let next = items.last().map(|view| view.delivery.id);
    Ok(Page {
        next: next.filter(|_| items.len() == limit),
        items,
    })
}

pub(crate) fn of_job(connection: &Connection, names: &Names, id: JobId) -> Result<Vec<DeliveryView>, Error> {
    let rows = all(
        connection,
        query!(deliveries.of_job),
        [id.get()],
        DeliveryRow::read,
    )?;
    views(connection, names, rows)
}

fn views(connection: &Connection, names: &Names, rows: Vec<DeliveryRow>) -> Result<Vec<DeliveryView>, Error> {
    let view = |row: DeliveryRow| {
        let tries = all(connection, query!(deliveries.tries), [row.id.0], TryRow::read)?;
        Ok(DeliveryView {
            delivery: delivery(row, names)?,
            tries: tries.into_iter().map(delivery_try).collect(),
        })
    };
    rows.into_iter().map(view).collect()
}

fn delivery_try(row: TryRow) -> DeliveryTry {
    DeliveryTry {
        number: row.number,
        at_ms: row.at_ms,
        latency: span(row.latency_ms),
        status: row.status,
        error: row.error,
        reply: row.reply,
    }
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
        filter.state.map(delivery_state_code),
        filter.since_ms,
        tx.now_ms,
        limit,
        filter.id.map(|id| id.0),
    ];
    run(tx.connection, query!(deliveries.replay), values)
}
