//! Queues: settings and depths.

use std::collections::HashMap;

use nagaya_jobs::error::Error;
use nagaya_jobs::name::QueueName;
use nagaya_jobs::queue::{Depth, QueueSettings, QueueView, Throughput};
use nagaya_jobs::record;
use nagaya_jobs::state::State;
use nagaya_postgres_client::Session;

use crate::rows::{DepthRow, EndedRow, ThroughputRow, unsigned};
use crate::sql::{Queries, query};
use crate::step::state_of;
use crate::store::Inner;

/// Most ready jobs of a queue that are counted; a longer queue shows this number.
const COUNTED_MAX: i64 = 1_000_000;

impl Inner {
    /// Returns one queue, or all of them by name.
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
    let rows = session
        .all(query!(queues.depths), &[&ids, &COUNTED_MAX], DepthRow::read)
        .await?;
    let mut depths = HashMap::new();
    for row in rows {
        let depth = Depth {
            scheduled: unsigned(row.scheduled),
            ready: unsigned(row.ready),
            blocked: unsigned(row.blocked),
            running: unsigned(row.running),
            ..Depth::default()
        };
        depths.insert(row.queue, (depth, row.oldest_ready_ms));
    }
    for row in session.all(query!(queues.ended), &[&ids], EndedRow::read).await? {
        let (depth, _) = depths.entry(row.queue).or_default();
        let jobs = unsigned(row.jobs);
        match state_of(row.state) {
            State::Succeeded => depth.succeeded = jobs,
            State::Failed => depth.failed = jobs,
            _ => depth.cancelled = jobs,
        }
    }
    Ok(depths)
}

async fn throughput(session: &Session, ids: &[i32]) -> Result<HashMap<i32, Throughput>, Error> {
    let rows = session
        .all(query!(queues.throughput), &[&ids], ThroughputRow::read)
        .await?;
    let read = |row: ThroughputRow| {
        let throughput = Throughput {
            enqueued: unsigned(row.enqueued),
            started: unsigned(row.started),
            succeeded: unsigned(row.succeeded),
            failed: unsigned(row.failed),
            cancelled: unsigned(row.cancelled),
            attempts_failed: unsigned(row.attempts_failed),
            leases_lost: unsigned(row.leases_lost),
            late_reports: unsigned(row.late_reports),
        };
        (row.queue, throughput)
    };
    Ok(rows.into_iter().map(read).collect())
}
