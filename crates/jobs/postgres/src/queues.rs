//! Queues: their settings, and what is in them.

use std::collections::HashMap;

use nagaya_jobs::error::Error;
use nagaya_jobs::name::QueueName;
use nagaya_jobs::queue::{Depth, QueueSettings, QueueView, Throughput};
use nagaya_jobs::record;
use nagaya_jobs::state::State;
use nagaya_postgres_client::{Row, Session};

use crate::sql::{Queries, query};
use crate::step::state_of;
use crate::store::Inner;

/// How far ready jobs of a queue are counted; a longer queue shows this many.
const COUNTED_MAX: i64 = 1_000_000;

impl Inner {
    /// Shows one queue, or all of them by name.
    pub(crate) async fn queue_views(&self, only: Option<QueueName>) -> Result<Vec<QueueView>, Error> {
        let session = self.cool().await?;
        self.throughput.flush(&session, self.server).await?;
        self.names.reload(&session).await?;
        let mut queues = match &only {
            Some(name) => self.names.known_queue(name).into_iter().collect(),
            None => self.names.queues(),
        };
        queues.sort_by(|one, other| one.name.cmp(&other.name));
        let ids: Vec<i32> = queues.iter().map(|queue| queue.id).collect();
        let depths = depths(&session, &ids).await?;
        let throughput = throughput(&session, &ids).await?;
        let mut views = Vec::with_capacity(queues.len());
        for queue in queues {
            let (depth, oldest) = depths.get(&queue.id).copied().unwrap_or_default();
            views.push(QueueView {
                name: queue.name.clone(),
                settings: queue.settings.clone(),
                paused: queue.paused,
                created_at_ms: queue.created_ms,
                depth,
                throughput: throughput.get(&queue.id).copied().unwrap_or_default(),
                oldest_ready_at_ms: oldest,
                last_claim_at_ms: queue.last_claim_ms,
            });
        }
        Ok(views)
    }

    pub(crate) async fn put_queue(&self, name: QueueName, settings: QueueSettings) -> Result<(), Error> {
        let session = self.cool().await?;
        let now_ms = self.time.now(&session).await?;
        self.names.queue_or_make(&session, &name, now_ms).await?;
        session
            .run(
                query!(queues.set_settings),
                &[&name.as_str(), &record::write_settings(&settings)],
            )
            .await?;
        self.names.reload(&session).await?;
        self.notify_ready(&[name]);
        Ok(())
    }

    pub(crate) async fn set_paused(&self, name: QueueName, paused: bool) -> Result<(), Error> {
        let session = self.cool().await?;
        let now_ms = self.time.now(&session).await?;
        self.names.queue_or_make(&session, &name, now_ms).await?;
        session
            .run(query!(queues.set_paused), &[&name.as_str(), &paused])
            .await?;
        self.names.reload(&session).await?;
        if !paused {
            self.notify_ready(&[name]);
        }
        Ok(())
    }
}

async fn depths(session: &Session, ids: &[i32]) -> Result<HashMap<i32, (Depth, Option<i64>)>, Error> {
    let count = |row: &Row, column: usize| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
    let rows = session.rows(query!(queues.depths), &[&ids, &COUNTED_MAX]).await?;
    let mut depths = HashMap::new();
    for row in &rows {
        let depth = Depth {
            scheduled: count(row, 1),
            ready: count(row, 2),
            blocked: count(row, 3),
            running: count(row, 4),
            ..Depth::default()
        };
        depths.insert(row.get(0), (depth, row.get(5)));
    }
    let ended = session.rows(query!(queues.ended), &[&ids]).await?;
    for row in &ended {
        let (depth, _) = depths.entry(row.get(0)).or_default();
        match state_of(row.get(1)) {
            State::Succeeded => depth.succeeded = count(row, 2),
            State::Failed => depth.failed = count(row, 2),
            _ => depth.cancelled = count(row, 2),
        }
    }
    Ok(depths)
}

async fn throughput(session: &Session, ids: &[i32]) -> Result<HashMap<i32, Throughput>, Error> {
    let rows = session.rows(query!(queues.throughput), &[&ids]).await?;
    let count = |row: &Row, column: usize| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
    let read = |row: &Row| {
        let throughput = Throughput {
            enqueued: count(row, 1),
            started: count(row, 2),
            succeeded: count(row, 3),
            failed: count(row, 4),
            cancelled: count(row, 5),
            attempts_failed: count(row, 6),
            leases_lost: count(row, 7),
            late_reports: count(row, 8),
        };
        (row.get(0), throughput)
    };
    Ok(rows.iter().map(read).collect())
}
