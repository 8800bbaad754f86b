//! Queues: settings and depths.

use std::collections::{BTreeMap, HashMap};

use nagaya_jobs::error::Error;
use nagaya_jobs::name::QueueName;
use nagaya_jobs::queue::{Counted, Depth, QueueSettings, QueueView, Throughput};
use nagaya_jobs::record;
use nagaya_jobs::request::SweepResult;
use nagaya_jobs::state::State;
use nagaya_jobs::visibility::Visibility;
use nagaya_postgres_client::Session;

use crate::rows::{DepthRow, EndedRow, ThroughputRow, unsigned};
use crate::sql::{Queries, begin, commit, query};
use crate::step::state_of;
use crate::store::Inner;

/// Most ready jobs of a queue that are counted; a longer queue shows this number.
const COUNTED_MAX: i64 = 1_000_000;

impl Inner {
    /// Returns one queue, or all that the reader sees, by name.
    pub(crate) async fn queue_views(
        &self,
        only: Option<QueueName>,
        seen: Visibility,
        counted: Counted,
    ) -> Result<Vec<QueueView>, Error> {
        let session = self.cool().await?;
        self.last_claims.flush(&session).await?;
        self.names.reload(&session).await?;
        let tenant = match seen.tenant() {
            None => None,
            Some(name) => match self.names.known_tenant(name) {
                None => return Ok(Vec::new()),
                Some(tenant) => Some(tenant.id),
            },
        };
        let mut queues = match &only {
            Some(name) => self.names.known_queue(name).into_iter().collect(),
            None => self.names.queues(),
        };
        queues.sort_by(|one, other| one.name.cmp(&other.name));
        queues.retain(|queue| !queue.is_gone && seen.sees_queue(&queue.name));
        if let Some(tenant) = tenant {
            let used: Vec<i32> = session.scalars(query!(queues.of_tenant), &[&tenant]).await?;
            queues.retain(|queue| used.contains(&queue.id));
        }
        let ids: Vec<i32> = queues.iter().map(|queue| queue.id).collect();
        let (depths, throughput) = match counted {
            Counted::Nothing => Default::default(),
            Counted::Open | Counted::All => (
                depths(&session, &ids, tenant, counted).await?,
                throughput(&session, &ids, tenant).await?,
            ),
        };
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
        self.notify_ready(&BTreeMap::from([(name, i16::MIN)]));
        Ok(())
    }

    pub(crate) async fn delete_queue(&self, name: QueueName, limit: usize) -> Result<SweepResult, Error> {
        let mut session = self.cool().await?;
        self.names.reload(&session).await?;
        let Some(queue) = self.names.known_queue(&name).filter(|queue| !queue.is_gone) else {
            return Err(Error::no_such("queue", &name));
        };
        let open: i64 = session
            .scalar(query!(queues.open_jobs), &[&queue.id, &COUNTED_MAX])
            .await?;
        if open > 0 {
            return Err(Error::QueueNotEmpty {
                queue: name,
                jobs: unsigned(open),
            });
        }
        let rows_max = i64::try_from(limit).unwrap_or(i64::MAX);
        let ended: Vec<i64> = session
            .scalars(query!(done.of_queue), &[&queue.id, &rows_max])
            .await?;
        if !ended.is_empty() {
            session.scalar::<i64>(query!(done.remove), &[&ended]).await?;
            return Ok(SweepResult {
                rows: ended.len(),
                more: true,
            });
        }
        let settings = record::write_settings(&QueueSettings::default());
        let transaction = begin(&mut session).await?;
        transaction
            .run(query!(queues.delete), &[&queue.id, &settings])
            .await?;
        commit(transaction).await?;
        self.names.reload(&session).await?;
        Ok(SweepResult::default())
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
            self.notify_ready(&BTreeMap::from([(name, i16::MIN)]));
        }
        Ok(())
    }
}

async fn depths(
    session: &Session,
    ids: &[i32],
    tenant: Option<i32>,
    counted: Counted,
) -> Result<HashMap<i32, (Depth, Option<i64>)>, Error> {
    let rows = session
        .all(
            query!(queues.depths),
            &[&ids, &COUNTED_MAX, &tenant],
            DepthRow::read,
        )
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
    if counted < Counted::All {
        return Ok(depths);
    }
    for row in session
        .all(query!(queues.ended), &[&ids, &tenant], EndedRow::read)
        .await?
    {
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

async fn throughput(
    session: &Session,
    ids: &[i32],
    tenant: Option<i32>,
) -> Result<HashMap<i32, Throughput>, Error> {
    let rows = session
        .all(query!(queues.throughput), &[&ids, &tenant], ThroughputRow::read)
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
