//! Queues: their settings and counts.

use std::sync::Arc;

use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::name::QueueName;
use nagaya_jobs::queue::{Counted, QueueSettings, QueueView};
use nagaya_jobs::record;
use nagaya_jobs::request::SweepResult;
use nagaya_jobs::visibility::Visibility;
use rusqlite::{Connection, params};

use crate::maintenance;
use crate::memory::Counts;
use crate::names::Names;
use crate::rows::{PurgeableRow, QueueCountersRow, QueueRow};
use crate::sql::{all, first, query, run, scalar};
use crate::write_transaction::WriteTransaction;

/// Reads the queues that a reader sees, or the one with a name.
pub(crate) fn queues(
    connection: &Connection,
    name: Option<&QueueName>,
    seen: &Visibility,
    counted: Counted,
) -> Result<Vec<QueueView>, Error> {
    let tenant = match seen.tenant() {
        None => None,
        Some(tenant) => Some(Names::read(connection)?.tenant_num(tenant)),
    };
    let mut views = Vec::new();
    for row in all(connection, query!(queues.all), [], QueueRow::read)? {
        let queue = QueueName::new(&row.name)?;
        if row.gone || name.is_some_and(|name| *name != queue) || !seen.sees_queue(&queue) {
            continue;
        }
        if let Some(tenant) = tenant
            && first(connection, query!(queues.has_tenant), [row.num, tenant], scalar)? != Some(true)
        {
            continue;
        }
        let counts = match counted {
            Counted::Nothing => Counts::default(),
            Counted::Open | Counted::All => counts(connection, row.num, tenant)?,
        };
        let oldest: Option<i64> = match counts.depth.ready {
            0 => None,
            _ => {
                let (from, to) = (tenant.unwrap_or(i64::MIN), tenant.unwrap_or(i64::MAX));
                let values = [row.num, from, to];
                first(connection, query!(queues.oldest_ready), values, scalar)?.flatten()
            }
        };
        views.push(QueueView {
            name: queue,
            settings: record::read_settings(&row.settings)?,
            paused: row.paused,
            created_at_ms: row.created_ms,
            depth: counts.depth,
            throughput: counts.throughput,
            oldest_ready_at_ms: oldest.and_then(JobId::new).map(JobId::made_at_ms),
            last_claim_at_ms: row.last_claim_ms,
        });
    }
    Ok(views)
}

fn counts(connection: &Connection, queue: i64, tenant: Option<i64>) -> Result<Counts, Error> {
    let values = params![queue, tenant];
    let sql = query!(queues.counters_of_queue);
    let counters = first(connection, sql, values, QueueCountersRow::read)?;
    Ok(counters.map(|row| row.counts()).unwrap_or_default())
}

pub(crate) fn put(
    tx: &mut WriteTransaction<'_>,
    name: &QueueName,
    settings: &QueueSettings,
) -> Result<(), Error> {
    let num = tx.queue_num(name)?;
    let text = record::write_settings(settings);
    run(tx.connection, query!(queues.set_settings), params![num, text])?;
    if let Some(queue) = tx.memory.queues.get_mut(&num) {
        queue.settings = Arc::new(settings.clone());
    }
    // The new settings may have removed a rate limit.
    tx.memory.notifications.ready.insert(num);
    Ok(())
}

pub(crate) fn delete(
    tx: &mut WriteTransaction<'_>,
    name: &QueueName,
    limit: usize,
) -> Result<SweepResult, Error> {
    let num = tx.memory.queue_nums.get(name).copied();
    let queue = num.and_then(|num| tx.memory.queues.get(&num));
    let Some(num) = num.filter(|_| queue.is_some_and(|queue| !queue.is_gone)) else {
        return Err(Error::no_such("queue", name));
    };
    let tenants = tx
        .memory
        .counts
        .get(&num)
        .into_iter()
        .flat_map(|tenants| tenants.values());
    let (mut open, mut ended) = (0, 0);
    for depth in tenants.map(|counts| counts.depth) {
        open += depth.unstarted() + depth.running;
        ended += depth.succeeded + depth.failed + depth.cancelled;
    }
    if open > 0 {
        let queue = name.clone();
        return Err(Error::QueueNotEmpty { queue, jobs: open });
    }
    let mut rows = 0;
    if ended > 0 {
        let values = params![num, limit];
        let old = all(tx.connection, query!(done.of_queue), values, PurgeableRow::read)?;
        rows = old.len();
        for row in &old {
            maintenance::remove(tx, row)?;
        }
    }
    if (rows as u64) < ended {
        return Ok(SweepResult { rows, more: true });
    }
    let settings = QueueSettings::default();
    let text = record::write_settings(&settings);
    run(tx.connection, query!(queues.delete), params![num, text])?;
    run(tx.connection, query!(queues.delete_counters), [num])?;
    tx.memory.counts.remove(&num);
    tx.memory.dirty.retain(|(queue, _)| *queue != num);
    tx.memory.claimed.remove(&num);
    if let Some(queue) = tx.memory.queues.get_mut(&num) {
        (queue.is_gone, queue.paused, queue.settings) = (true, false, Arc::new(settings));
        (queue.rate_horizon_us, queue.last_claim_ms) = (0, None);
    }
    Ok(SweepResult { rows, more: false })
}

pub(crate) fn set_paused(tx: &mut WriteTransaction<'_>, name: &QueueName, paused: bool) -> Result<(), Error> {
    let num = tx.queue_num(name)?;
    run(tx.connection, query!(queues.set_paused), params![num, paused])?;
    if let Some(queue) = tx.memory.queues.get_mut(&num) {
        queue.paused = paused;
    }
    if !paused {
        tx.memory.notifications.ready.insert(num);
    }
    Ok(())
}
