//! Listings, newest first. The requested states decide which table is scanned. The rest of the filter is
//! compared row by row, for a bounded number of rows per page.

use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::limits::PAGE_MAX;
use nagaya_jobs::state::State;
use nagaya_jobs::view::{JobFilter, JobSummary, Page};

use crate::rows::SummaryRow;
use crate::sql::{Queries, query};
use crate::store::Inner;

/// Most rows read for one page.
const LOOKED_AT_MAX: i64 = 2_000;

impl Inner {
    pub(crate) async fn list(
        &self,
        filter: JobFilter,
        before: Option<JobId>,
        limit: usize,
    ) -> Result<Page<JobSummary, JobId>, Error> {
        let limit = limit.clamp(1, PAGE_MAX);
        let session = self.cool().await?;
        let (mut queue, mut tenant) = (None, None);
        if let Some(name) = &filter.queue {
            let Some(found) = self.names.find_queue(&session, name).await? else {
                return Ok(nothing());
            };
            queue = Some(found.id);
        }
        if let Some(name) = &filter.tenant {
            let Some(found) = self.names.find_tenant(&session, name).await? else {
                return Ok(nothing());
            };
            tenant = Some(found.id);
        }
        let before = before.map_or(i64::MAX, JobId::get);
        let ids: Vec<i64> = session
            .scalars(walk(&filter.states), &[&before, &LOOKED_AT_MAX])
            .await?;
        let rows = session
            .all(
                query!(jobs.summaries),
                &[
                    &ids,
                    &queue,
                    &tenant,
                    &filter.kind,
                    &filter.since_ms,
                    &filter.before_ms,
                ],
                SummaryRow::read,
            )
            .await?;
        let mut items = Vec::new();
        for mut row in rows {
            let (summary, _) = self.summary(&session, row.take_summary()).await?;
            let fits = (filter.states.is_empty() || filter.states.contains(&summary.state))
                && filter.tag.as_ref().is_none_or(|tag| summary.tags.contains(tag));
            if !fits {
                continue;
            }
            items.push(summary);
            if items.len() == limit {
                // The next page begins where this one ends. It may turn out empty, which is a valid short page.
                let next = items.last().map(|last| last.id);
                return Ok(Page { items, next });
            }
        }
        let is_last = ids.len() < usize::try_from(LOOKED_AT_MAX).unwrap_or(usize::MAX);
        let next = if is_last {
            None
        } else {
            ids.last().copied().and_then(JobId::new)
        };
        Ok(Page { items, next })
    }
}

fn nothing() -> Page<JobSummary, JobId> {
    Page {
        items: Vec::new(),
        next: None,
    }
}

/// Chooses the table with the fewest rows that holds all jobs in these states.
fn walk(states: &[State]) -> &'static str {
    match states {
        [State::Running] => query!(jobs.list_running),
        [State::Scheduled] => query!(jobs.list_delayed),
        [] => query!(jobs.list_all),
        some if some
            .iter()
            .all(|state| matches!(state, State::Failed | State::Cancelled)) =>
        {
            query!(jobs.list_unsuccessful)
        }
        some if some.iter().all(|state| state.has_ended()) => query!(jobs.list_done),
        _ => query!(jobs.list_all),
    }
}
