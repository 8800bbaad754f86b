//! Why a job is not running.

use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::record::JobOptions;
use nagaya_jobs::view::{Explanation, LeaseView};

use crate::rows::{ExplainRow, SlotsRow, unsigned, unsigned_32};
use crate::sql::{Queries, query};
use crate::step::state_of;
use crate::store::Inner;

/// Most jobs ahead that are counted.
const AHEAD_MAX: i64 = 100_000;

impl Inner {
    pub(crate) async fn explain(&self, id: JobId) -> Result<Option<Explanation>, Error> {
        let session = self.cool().await?;
        self.last_claims.flush(&session).await?;
        let now_ms = self.time.now(&session).await?;
        let row = session
            .first(query!(jobs.explain), &[&id.get()], ExplainRow::read)
            .await?;
        let Some(row) = row else { return Ok(None) };
        if let Some(ended) = row.ended {
            return Ok(Some(Explanation::Ended(state_of(ended))));
        }
        if let (Some(worker), Some(started_at_ms), Some(until_ms)) =
            (row.worker, row.started_ms, row.lease_until_ms)
        {
            return Ok(Some(Explanation::Running(LeaseView {
                worker,
                started_at_ms,
                until_ms,
            })));
        }
        if let Some(at_ms) = row.run_at_ms {
            let attempt = row.attempt.map_or(0, unsigned_32);
            let explanation = if at_ms > now_ms {
                Explanation::Scheduled { at_ms, attempt }
            } else {
                Explanation::Due
            };
            return Ok(Some(explanation));
        }
        if !row.parents.is_empty() {
            let parents = row.parents.into_iter().filter_map(JobId::new).collect();
            return Ok(Some(Explanation::Dependencies(parents)));
        }
        if let Some(place) = row.place {
            let slots = session
                .one(query!(concurrency.explain), &[&place, &id.get()], SlotsRow::read)
                .await?;
            let options = JobOptions::read(row.options.as_deref())?;
            return Ok(Some(Explanation::KeyLimit {
                key: options.concurrency.map(|one| one.key).unwrap_or_default(),
                limit: unsigned_32(slots.most),
                taken: unsigned_32(slots.taken),
                ahead: unsigned(slots.ahead),
            }));
        }
        self.names.reload(&session).await?;
        let queue = self.names.queue_of(&session, row.queue).await?;
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
        let ahead = session
            .scalar(query!(ready.ahead), &[&id.get(), &AHEAD_MAX])
            .await?;
        Ok(Some(Explanation::Ready {
            ahead: unsigned(ahead),
            last_claim_at_ms: queue.last_claim_ms,
        }))
    }
}
