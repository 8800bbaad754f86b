//! Queues: their settings and counts.

use std::sync::Arc;

use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::name::QueueName;
use nagaya_jobs::queue::{QueueSettings, QueueView};
use nagaya_jobs::record;
use rusqlite::{Connection, params};

use crate::memory::counts;
use crate::sql::{all, first, query, run};
use crate::write_transaction::WriteTransaction;

/// Reads all queues, or the one of a name.
pub(crate) fn queues(connection: &Connection, name: Option<&QueueName>) -> Result<Vec<QueueView>, Error> {
    let rows = all(connection, query!(queues.all), [], |row| {
        let texts: (String, String) = (row.get(1)?, row.get(2)?);
        Ok((
            row.get::<_, i64>(0)?,
            texts,
            row.get(3)?,
            row.get(4)?,
            row.get(6)?,
        ))
    })?;
    let mut views = Vec::new();
    for (num, (text, settings), paused, created_at_ms, last_claim_at_ms) in rows {
        if name.is_some_and(|name| name.as_str() != text) {
            continue;
        }
        let counts = first(connection, query!(queues.counters_of_queue), [num], |row| {
            counts(row, 0)
        })?;
        let counts = counts.unwrap_or_default();
        let oldest: Option<i64> = match counts.depth.ready {
            0 => None,
            _ => first(connection, query!(queues.oldest_ready), [num], |row| row.get(0))?.flatten(),
        };
        views.push(QueueView {
            name: QueueName::new(&text)?,
            settings: record::read_settings(&settings)?,
            paused,
            created_at_ms,
            depth: counts.depth,
            throughput: counts.throughput,
            oldest_ready_at_ms: oldest.and_then(JobId::new).map(JobId::made_at_ms),
            last_claim_at_ms,
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
    // A rate may have been lifted.
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
