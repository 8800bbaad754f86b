//! Registering jobs.

use nagaya_jobs::clock::span_ms;
use nagaya_jobs::error::Error;
use nagaya_jobs::event::{EventData, EventKind};
use nagaya_jobs::id::JobId;
use nagaya_jobs::job::NewJob;
use nagaya_jobs::record::JobOptions;
use nagaya_jobs::request::{Enqueued, FoundBy};
use nagaya_jobs::state::{State, Tries};
use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};

use crate::books::{Books, Card, job_id};
use crate::read::state_of;
use crate::sql::{first, query, run};

pub(crate) fn enqueue(books: &mut Books<'_>, job: &NewJob) -> Result<Enqueued, Error> {
    let queue = books.queue_num(&job.queue)?;
    let tenant = books.tenant_num(&job.tenant)?;
    if let Some(found) = find(books, queue, tenant, job)? {
        return Ok(found);
    }
    let settings = books.settings(queue);
    if let Some(depth_max) = settings.depth_max
        && books.memory.unstarted(queue) >= depth_max
    {
        return Err(Error::QueueFull {
            queue: job.queue.clone(),
            depth_max,
        });
    }
    let parents = pending_parents(books, &job.depends_on)?;

    let options = JobOptions::of(job, &settings);
    let text = options.write();
    let id = books.fresh_id();
    let run_at_ms = job.run_at_ms.filter(|at_ms| *at_ms > books.now_ms);
    let card = Card {
        id,
        queue,
        tenant,
        priority: job.priority,
        max_retries: job.max_retries.unwrap_or(settings.max_retries),
        run_at_ms,
        plain: text.is_none(),
        options,
    };
    let values = params![
        id.get(),
        queue,
        tenant,
        job.kind,
        job.priority,
        books.now_ms,
        run_at_ms,
        span_ms(job.timeout.unwrap_or(settings.lease)),
        card.max_retries,
        books.memory.head,
        text,
        job.payload.content_type,
        &job.payload.bytes[..],
    ];
    run(books.connection, query!("jobs/insert"), values)?;
    remember_keys(books, job, &card, span_ms(settings.idempotency_window))?;
    let counts = books.memory.counts(queue, tenant);
    counts.passed.enqueued += 1;
    books.event(EventKind::Enqueued, &card, 0, &EventData::None)?;
    let state = place(books, &card, &parents)?;
    Ok(Enqueued {
        id,
        state,
        found_by: None,
    })
}

/// Finds an earlier registration under one of the job's keys.
fn find(books: &Books<'_>, queue: i64, tenant: i64, job: &NewJob) -> Result<Option<Enqueued>, Error> {
    let look = |sql: &str, key: Vec<Value>, found_by| -> Result<Option<Enqueued>, Error> {
        let Some(id) = first(books.connection, sql, params_from_iter(key), |row| job_id(row, 0))? else {
            return Ok(None);
        };
        // A job that was removed since leaves its key free.
        let state = state_of(books.connection, id)?;
        Ok(state.map(|state| Enqueued {
            id,
            state,
            found_by: Some(found_by),
        }))
    };
    if let Some(idempotency) = &job.idempotency {
        let key = vec![
            queue.into(),
            tenant.into(),
            idempotency.key.clone().into(),
            books.now_ms.into(),
        ];
        let found = look(query!("idempotency/find"), key, FoundBy::IdempotencyKey)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    match &job.unique_key {
        None => Ok(None),
        Some(key) => {
            let key = vec![queue.into(), tenant.into(), key.clone().into()];
            look(query!("uniques/find"), key, FoundBy::UniqueKey)
        }
    }
}

/// Returns those of the jobs that have not ended. Refuses unknown ones and those that ended badly.
fn pending_parents(books: &Books<'_>, ids: &[JobId]) -> Result<Vec<JobId>, Error> {
    let mut parents = Vec::new();
    for &id in ids {
        match state_of(books.connection, id)? {
            None => return Err(Error::DependencyUnknown { id }),
            Some(state @ (State::Failed | State::Cancelled)) => {
                return Err(Error::DependencyFailed { id, state });
            }
            Some(State::Succeeded) => (),
            Some(_) => parents.push(id),
        }
    }
    parents.sort();
    parents.dedup();
    Ok(parents)
}

fn remember_keys(books: &Books<'_>, job: &NewJob, card: &Card, window_ms: i64) -> Result<(), Error> {
    if let Some(idempotency) = &job.idempotency {
        let expires_ms = books.now_ms + idempotency.window.map_or(window_ms, span_ms);
        let values = params![
            card.queue,
            card.tenant,
            idempotency.key,
            card.id.get(),
            expires_ms
        ];
        run(books.connection, query!("idempotency/put"), values)?;
    }
    if let Some(key) = &job.unique_key {
        let values = params![card.queue, card.tenant, key, card.id.get()];
        run(books.connection, query!("uniques/insert"), values)?;
    }
    Ok(())
}

/// Puts a new job where it waits.
fn place(books: &mut Books<'_>, card: &Card, parents: &[JobId]) -> Result<State, Error> {
    if let Some(concurrency) = &card.options.concurrency {
        books.set_places(card.queue, &concurrency.key, concurrency.limit)?;
    }
    if !parents.is_empty() {
        run(
            books.connection,
            query!("blocked/insert"),
            params![card.id.get(), parents.len()],
        )?;
        for parent in parents {
            run(
                books.connection,
                query!("dependencies/insert"),
                params![parent.get(), card.id.get()],
            )?;
        }
        books.memory.dependencies += i64::try_from(parents.len()).unwrap_or(0);
        books.memory.counts(card.queue, card.tenant).depth.blocked += 1;
        return Ok(State::Waiting);
    }
    let tries = Tries::fresh(card.max_retries);
    match card.run_at_ms {
        Some(run_at_ms) => {
            books.delay(card, run_at_ms, tries)?;
            Ok(State::Scheduled)
        }
        None => {
            books.admit(card, card.id.get(), tries)?;
            Ok(State::Waiting)
        }
    }
}
