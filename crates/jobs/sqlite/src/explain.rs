//! Why a job is not running.

use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::record;
use nagaya_jobs::view::{Explanation, LeaseView};
use rusqlite::{Connection, params};

use crate::rows::{DelayedRow, HeldKeyRow, QueueRow, RunningRow, SlotsRow, StateRow, job_id};
use crate::sql::{all, first, query, scalar};

pub(crate) fn explain(connection: &Connection, id: JobId, now_ms: i64) -> Result<Option<Explanation>, Error> {
    let Some(state) = first(connection, query!(jobs.state), [id.get()], StateRow::read)? else {
        return Ok(None);
    };
    if let Some(ended) = state.ended {
        return Ok(Some(Explanation::Ended(ended)));
    }
    if let Some(run) = first(connection, query!(running.find), [id.get()], RunningRow::read)? {
        return Ok(Some(Explanation::Running(LeaseView {
            worker: run.worker,
            started_at_ms: run.started_ms,
            until_ms: run.lease_until_ms,
        })));
    }
    let delayed = first(
        connection,
        query!(waiting.find_delayed),
        [id.get()],
        DelayedRow::read,
    )?;
    if let Some(DelayedRow { run_at_ms, attempt }) = delayed {
        let explanation = if run_at_ms > now_ms {
            Explanation::Scheduled {
                at_ms: run_at_ms,
                attempt,
            }
        } else {
            Explanation::Due
        };
        return Ok(Some(explanation));
    }
    let parents = all(connection, query!(waiting.parents), [id.get()], job_id)?;
    if !parents.is_empty() {
        return Ok(Some(Explanation::Dependencies(parents)));
    }
    if let Some(held) = held(connection, id, state.queue)? {
        return Ok(Some(held));
    }
    ready(connection, id, &state, now_ms).map(Some)
}

fn held(connection: &Connection, id: JobId, queue: i64) -> Result<Option<Explanation>, Error> {
    let held = first(
        connection,
        query!(concurrency.find_held),
        [id.get()],
        HeldKeyRow::read,
    )?;
    let Some(HeldKeyRow { key, pos, .. }) = held else {
        return Ok(None);
    };
    let slots = first(
        connection,
        query!(concurrency.find),
        params![queue, key],
        SlotsRow::read,
    )?;
    let slots = slots.unwrap_or_default();
    let ahead = first(
        connection,
        query!(concurrency.ahead),
        params![queue, key, pos],
        scalar,
    )?;
    Ok(Some(Explanation::KeyLimit {
        key,
        limit: slots.places,
        taken: slots.taken,
        ahead: ahead.unwrap_or(0),
    }))
}

fn ready(connection: &Connection, id: JobId, state: &StateRow, now_ms: i64) -> Result<Explanation, Error> {
    let queues = all(connection, query!(queues.all), [], QueueRow::read)?;
    let Some(queue) = queues.into_iter().find(|queue| queue.num == state.queue) else {
        return Err(Error::Damaged {
            what: format!("job {id} has no queue"),
        });
    };
    if queue.paused {
        return Ok(Explanation::Paused);
    }
    if let Some(rate) = record::read_settings(&queue.settings)?.rate {
        let allowed = rate.allow(queue.rate_horizon_us, now_ms, 1);
        if allowed.jobs == 0 {
            return Ok(Explanation::RateLimited {
                next_at_ms: allowed.next_at_ms,
            });
        }
    }
    let pos: Option<i64> = first(connection, query!(ready.position), [id.get()], scalar)?;
    let values = params![
        state.queue,
        state.tenant,
        -i64::from(state.priority),
        pos.unwrap_or(id.get())
    ];
    let ahead = first(connection, query!(ready.ahead), values, scalar)?;
    Ok(Explanation::Ready {
        ahead: ahead.unwrap_or(0),
        last_claim_at_ms: queue.last_claim_ms,
    })
}
