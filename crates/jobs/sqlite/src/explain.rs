//! Why a job is not running.

use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::record;
use nagaya_jobs::view::{Explanation, LeaseView};
use rusqlite::{Connection, params};

use crate::error::store_error;
use crate::read::ended_state;
use crate::sql::{all, first, query};
use crate::write_transaction::{RunningRow, job_id};

struct Place {
    queue: i64,
    tenant: i64,
    rank: i64,
    ended: Option<i64>,
}

pub(crate) fn explain(connection: &Connection, id: JobId, now_ms: i64) -> Result<Option<Explanation>, Error> {
    let place = first(connection, query!(jobs.state), [id.get()], |row| {
        Ok(Place {
            queue: row.get(0)?,
            tenant: row.get(1)?,
            rank: -row.get::<_, i64>(2)?,
            ended: row.get(4)?,
        })
    })?;
    let Some(place) = place else {
        return Ok(None);
    };
    if let Some(code) = place.ended {
        return Ok(Some(Explanation::Ended(
            ended_state(4, code).map_err(store_error)?,
        )));
    }
    if let Some(run) = first(connection, query!(running.find), [id.get()], RunningRow::read)? {
        return Ok(Some(Explanation::Running(LeaseView {
            worker: run.worker,
            started_at_ms: run.started_ms,
            until_ms: run.lease_until_ms,
        })));
    }
    let delayed = first(connection, query!(waiting.find_delayed), [id.get()], |row| {
        Ok((row.get::<_, i64>(0)?, row.get(1)?))
    })?;
    if let Some((at_ms, attempt)) = delayed {
        return Ok(Some(match at_ms > now_ms {
            true => Explanation::Scheduled { at_ms, attempt },
            false => Explanation::Due,
        }));
    }
    let parents = all(connection, query!(waiting.parents), [id.get()], |row| {
        job_id(row, 0)
    })?;
    if !parents.is_empty() {
        return Ok(Some(Explanation::Dependencies(parents)));
    }
    if let Some(held) = held(connection, id, place.queue)? {
        return Ok(Some(held));
    }
    ready(connection, id, &place, now_ms).map(Some)
}

fn held(connection: &Connection, id: JobId, queue: i64) -> Result<Option<Explanation>, Error> {
    let row = first(connection, query!(concurrency.find_held), [id.get()], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
    })?;
    let Some((key, pos)) = row else {
        return Ok(None);
    };
    let places = first(connection, query!(concurrency.find), params![queue, key], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    let (limit, taken) = places.unwrap_or_default();
    let ahead = first(
        connection,
        query!(concurrency.ahead),
        params![queue, key, pos],
        |row| row.get(0),
    )?;
    Ok(Some(Explanation::KeyLimit {
        key,
        limit,
        taken,
        ahead: ahead.unwrap_or(0),
    }))
}

fn ready(connection: &Connection, id: JobId, place: &Place, now_ms: i64) -> Result<Explanation, Error> {
    let queues = all(connection, query!(queues.all), [], |row| {
        Ok((
            row.get::<_, i64>(0)?,
            row.get::<_, String>(2)?,
            row.get(3)?,
            row.get(5)?,
            row.get(6)?,
        ))
    })?;
    let queue = queues.into_iter().find(|(num, ..)| *num == place.queue);
    let Some((_, settings, paused, horizon_us, last_claim_at_ms)) = queue else {
        return Err(Error::Damaged {
            what: format!("job {id} has no queue"),
        });
    };
    if paused {
        return Ok(Explanation::Paused);
    }
    if let Some(rate) = record::read_settings(&settings)?.rate {
        let allowed = rate.allow(horizon_us, now_ms, 1);
        if allowed.jobs == 0 {
            return Ok(Explanation::RateLimited {
                next_at_ms: allowed.next_at_ms,
            });
        }
    }
    let pos: Option<i64> = first(connection, query!(ready.position), [id.get()], |row| row.get(0))?;
    let values = params![place.queue, place.tenant, place.rank, pos.unwrap_or(id.get())];
    let ahead = first(connection, query!(ready.ahead), values, |row| row.get(0))?;
    Ok(Explanation::Ready {
        ahead: ahead.unwrap_or(0),
        last_claim_at_ms,
    })
}
