//! Queues: their settings and counts.

use std::sync::Arc;

use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::name::QueueName;
use nagaya_jobs::queue::{QueueSettings, QueueView};
use nagaya_jobs::record;
use rusqlite::{Connection, params};

use crate::rows::{QueueCountersRow, QueueRow};
use crate::sql::{all, first, query, run, scalar};
use crate::write_transaction::WriteTransaction;

/// Reads all queues, or the one with a name.
pub(crate) fn queues(connection: &Connection, name: Option<&QueueName>) -> Result<Vec<QueueView>, Error> {
    let mut views = Vec::new();
    for row in all(connection, query!(queues.all), [], QueueRow::read)? {
        if name.is_some_and(|name| name.as_str() != row.name) {
            continue;
        }
        let counters = first(
            connection,
            query!(queues.counters_of_queue),
            [row.num],
            QueueCountersRow::read,
        )?;
        let counts = counters.map(|row| row.counts()).unwrap_or_default();
        let oldest: Option<i64> = match counts.depth.ready {
            0 => None,
            _ => first(connection, query!(queues.oldest_ready), [row.num], scalar)?.flatten(),
        };
        views.push(QueueView {
            name: QueueName::new(&row.name)?,
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
