//! Changes of all jobs that a filter means, a page at a time; a dry run counts them first.

use axum::extract::State;
use axum::response::Response;
use nagaya_jobs::limits::PAGE_MAX;
use nagaya_jobs::view::{JobFilter, JobSummary, Page};
use nagaya_jobs::{Error, JobId, State as JobState};

use super::jobs::check_reason;
use crate::api::Api;
use crate::auth::Permission;
use crate::call::{Call, ok, parse};
use crate::cursor;
use crate::handlers::{Seen, page_limit};
use crate::problem::Problem;
use crate::wire::change::{ManyChanged, ManyFilter};

/// Pages that a dry run counts in one call: 100,000 jobs.
const COUNTED_PAGES_MAX: usize = 100;

const OPEN: [JobState; 3] = [JobState::Scheduled, JobState::Waiting, JobState::Running];
const UNSTARTED: [JobState; 2] = [JobState::Scheduled, JobState::Waiting];
const UNSUCCESSFUL: [JobState; 2] = [JobState::Failed, JobState::Cancelled];
const ENDED: [JobState; 3] = [JobState::Succeeded, JobState::Failed, JobState::Cancelled];

pub(super) async fn retry(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let body = call.json(&api).await?;
    let form: ManyFilter = checked(parse(&body)?)?;
    let seen = api.handlers.seen_by(&principal);
    if form.dry_run {
        return counted(seen, form, &UNSUCCESSFUL).await;
    }
    let page = matching(seen, &form, &UNSUCCESSFUL).await?;
    let answers = seen.retry_listed(&page.items).await?;
    count(answers, page.next)
}

pub(super) async fn cancel(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let body = call.json(&api).await?;
    let form: ManyFilter = checked(parse(&body)?)?;
    let seen = api.handlers.seen_by(&principal);
    if form.dry_run {
        return counted(seen, form, &OPEN).await;
    }
    let page = matching(seen, &form, &OPEN).await?;
    let answers = seen.cancel_listed(&page.items, form.reason.as_deref()).await?;
    count(answers, page.next)
}

pub(super) async fn edit(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let body = call.json(&api).await?;
    let form: ManyFilter = parse(&body)?;
    check_reason(form.reason.as_deref())?;
    let Some(set) = &form.set else {
        return Err(Problem::bad_request("set must say what to change"));
    };
    let seen = api.handlers.seen_by(&principal);
    if let Some(any) = JobId::new(1) {
        // A change that could not be made is refused, whether a job matches or not.
        seen.check_edit(&set.of(any)?)?;
    }
    if form.dry_run {
        return counted(seen, form, &UNSTARTED).await;
    }
    let page = matching(seen, &form, &UNSTARTED).await?;
    let edits = page.items.iter().map(|job| set.of(job.id));
    let answers = seen.edit_listed(edits.collect::<Result<_, _>>()?).await?;
    count(answers, page.next)
}

pub(super) async fn delete(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Enqueue).await?;
    let body = call.json(&api).await?;
    let form: ManyFilter = checked(parse(&body)?)?;
    let seen = api.handlers.seen_by(&principal);
    if form.dry_run {
        return counted(seen, form, &ENDED).await;
    }
    let page = matching(seen, &form, &ENDED).await?;
    let answers = seen.remove_listed(&page.items).await?;
    count(answers, page.next)
}

/// Refuses what only a change may say.
fn checked(form: ManyFilter) -> Result<ManyFilter, Problem> {
    check_reason(form.reason.as_deref())?;
    match form.set {
        None => Ok(form),
        Some(_) => Err(Problem::bad_request("set is for POST /v1/jobs/edit")),
    }
}

/// Counts the jobs that a filter means, up to a bound; with a cursor there are more.
async fn counted(seen: Seen<'_>, mut form: ManyFilter, usual: &[JobState]) -> Result<Response, Problem> {
    let mut matched = 0;
    let mut next = None;
    for _ in 0..COUNTED_PAGES_MAX {
        let page = matching(seen, &form, usual).await?;
        matched += page.items.len();
        next = page.next;
        form.cursor = next.map(cursor::write);
        if next.is_none() {
            break;
        }
    }
    Ok(ok(&ManyChanged {
        changed: 0,
        matched: Some(matched),
        refused: 0,
        next_cursor: next.map(cursor::write),
    }))
}

/// Reads one page of the jobs that match a filter.
async fn matching(
    seen: Seen<'_>,
    form: &ManyFilter,
    usual: &[JobState],
) -> Result<Page<JobSummary, JobId>, Problem> {
    let says_something = form.queue.is_some()
        || form.states.is_some()
        || form.kind.is_some()
        || form.tag.is_some()
        || form.search.is_some()
        || form.since.is_some()
        || form.before.is_some();
    if !says_something {
        return Err(Problem::bad_request("the filter must say at least one thing"));
    }
    let filter = JobFilter {
        states: match &form.states {
            Some(states) => states.iter().map(|state| (*state).into()).collect(),
            None => usual.to_vec(),
        },
        kind: form.kind.clone(),
        tag: form.tag.clone(),
        since_ms: form.since.map(|time| time.0),
        before_ms: form.before.map(|time| time.0),
        ..seen.filter(form.tenant.as_deref(), form.queue.as_deref())?
    };
    let limit = page_limit(form.limit, PAGE_MAX)?;
    let before = form.cursor.as_deref().map(cursor::read).transpose()?;
    seen.list(filter, form.search.as_deref(), before, limit).await
}

/// Counts what became of the jobs of a page. Those that had changed by themselves meanwhile, or that their new queue does
/// not take, are refused.
fn count<T>(answers: Vec<Result<T, Error>>, next: Option<JobId>) -> Result<Response, Problem> {
    let (mut changed, mut refused) = (0, 0);
    for answer in answers {
        match answer {
            Ok(_) => changed += 1,
            Err(
                Error::WrongState { .. }
                | Error::NotFound { .. }
                | Error::QueueFull { .. }
                | Error::Invalid { .. }
                | Error::Busy,
            ) => refused += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ok(&ManyChanged {
        changed,
        matched: None,
        refused,
        next_cursor: next.map(cursor::write),
    }))
}
