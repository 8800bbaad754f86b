//! Listings of jobs, newest first.
//!
//! The rarest of the requested states decides which table is scanned, so that the few failed ones among
//! millions are found at once. Each page reads a bounded number of rows.

use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::limits::PAGE_MAX;
use nagaya_jobs::state::State;
use nagaya_jobs::view::{JobFilter, JobSummary, Page};
use rusqlite::{Connection, params};

use crate::names::Names;
use crate::read::summary;
use crate::rows::job_id;
use crate::sql::{all, query};

/// Most rows read for one page.
const LOOKS_MAX: usize = 5_000;

pub(crate) fn list(
    connection: &Connection,
    filter: &JobFilter,
    before: Option<JobId>,
    limit: usize,
) -> Result<Page<JobSummary, JobId>, Error> {
    let names = Names::read(connection)?;
    let limit = limit.clamp(1, PAGE_MAX);
    let before = before.map_or(i64::MAX, JobId::get);
    let ids = all(
        connection,
        source(&filter.states),
        params![before, LOOKS_MAX],
        job_id,
    )?;
    let full = ids.len() == LOOKS_MAX;
    let mut items = Vec::new();
    let mut last = None;
    for id in ids {
        if filter.since_ms.is_some_and(|since_ms| id.made_at_ms() < since_ms) {
            // An id is never older than its registration, so no older job can match.
            return Ok(Page { items, next: None });
        }
        if items.len() == limit {
            return Ok(Page { items, next: last });
        }
        last = Some(id);
        if let Some((summary, _)) = summary(connection, &names, id)?
            && matches(filter, &summary)
        {
            items.push(summary);
        }
    }
    Ok(Page {
        items,
        next: last.filter(|_| full),
    })
}

fn source(states: &[State]) -> &'static str {
    let only = |allowed: &[State]| !states.is_empty() && states.iter().all(|state| allowed.contains(state));
    if only(&[State::Running]) {
        query!(jobs.list_running)
    } else if only(&[State::Scheduled]) {
        query!(jobs.list_delayed)
    } else if only(&[State::Failed, State::Cancelled]) {
        query!(jobs.list_unsuccessful)
    } else if only(&[State::Succeeded, State::Failed, State::Cancelled]) {
        query!(jobs.list_done)
    } else {
        query!(jobs.list_all)
    }
}

fn matches(filter: &JobFilter, job: &JobSummary) -> bool {
    (filter.states.is_empty() || filter.states.contains(&job.state))
        && filter.tenant.as_ref().is_none_or(|tenant| *tenant == job.tenant)
        && filter.queue.as_ref().is_none_or(|queue| *queue == job.queue)
        && filter
            .kind
            .as_ref()
            .is_none_or(|kind| job.kind.as_ref() == Some(kind))
        && filter.tag.as_ref().is_none_or(|tag| job.tags.contains(tag))
        && filter
            .since_ms
            .is_none_or(|since_ms| job.created_at_ms >= since_ms)
        && filter
            .before_ms
            .is_none_or(|before_ms| job.created_at_ms < before_ms)
}
