//! Why a job is not running.

use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::record::JobOptions;
use nagaya_jobs::view::{Explanation, LeaseView};

use crate::sql::{Queries, query};
use crate::step::state_of;
use crate::store::Inner;

/// How far jobs ahead are counted.
const AHEAD_MAX: i64 = 100_000;

impl Inner {
    pub(crate) async fn explain(&self, id: JobId) -> Result<Option<Explanation>, Error> {
        let session = self.cool().await?;
        self.throughput.flush(&session, self.server).await?;
        let now_ms = self.time.now(&session).await?;
        let row = session.row_opt(query!(jobs.explain), &[&id.get()]).await?;
        let Some(row) = row else { return Ok(None) };
        if let Some(ended) = row.get::<_, Option<i16>>(0) {
            return Ok(Some(Explanation::Ended(state_of(ended))));
        }
        if let Some(worker) = row.get::<_, Option<String>>(1) {
            return Ok(Some(Explanation::Running(LeaseView {
                worker,
                started_at_ms: row.get(2),
                until_ms: row.get(3),
            })));
        }
        if let Some(at_ms) = row.get::<_, Option<i64>>(4) {
            let attempt = u32::try_from(row.get::<_, i32>(5)).unwrap_or(0);
            return Ok(Some(match at_ms > now_ms {
                true => Explanation::Scheduled { at_ms, attempt },
                false => Explanation::Due,
            }));
        }
        let parents: Vec<i64> = row.get(7);
        if !parents.is_empty() {
            let parents = parents.into_iter().filter_map(JobId::new).collect();
            return Ok(Some(Explanation::Dependencies(parents)));
        }
        if let Some(place) = row.get::<_, Option<i64>>(6) {
            let taken = session
                .row(query!(concurrency.explain), &[&place, &id.get()])
                .await?;
            let options = JobOptions::read(row.get(8))?;
            return Ok(Some(Explanation::KeyLimit {
                key: options.concurrency.map(|one| one.key).unwrap_or_default(),
                limit: u32::try_from(taken.get::<_, i32>(0)).unwrap_or(0),
                taken: u32::try_from(taken.get::<_, i32>(1)).unwrap_or(0),
                ahead: u64::try_from(taken.get::<_, i64>(2)).unwrap_or(0),
            }));
        }
        self.names.reload(&session).await?;
        let queue = self.names.queue_of(&session, row.get(9)).await?;
        if queue.paused {
            return Ok(Some(Explanation::Paused));
        }
        if let Some(rate) = queue.settings.rate {
            let allowed = rate.allow(queue.rate_horizon_us, now_ms, 1);
            if allowed.jobs == 0 {
                return Ok(Some(Explanation::RateLimited {
                    next_at_ms: allowed.next_at_ms,
                }));
            }
        }
        let ahead = session.row(query!(ready.ahead), &[&id.get(), &AHEAD_MAX]).await?;
        Ok(Some(Explanation::Ready {
            ahead: u64::try_from(ahead.get::<_, i64>(0)).unwrap_or(0),
            last_claim_at_ms: queue.last_claim_ms,
        }))
    }
}
