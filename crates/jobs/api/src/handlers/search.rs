//! Listings filtered by text.
//!
//! The stores have no text index, so rows are read and compared here, a bounded number per page. A page may
//! then be short or empty and still have a cursor.

use nagaya_jobs::limits::PAGE_MAX;
use nagaya_jobs::store::JobReader;
use nagaya_jobs::view::{JobFilter, JobSummary, Page};
use nagaya_jobs::{Error, JobId};

/// Store pages read per search at most.
const PAGES_MAX: usize = 10;

/// Reads a page of the jobs that match a filter and a text.
pub(super) async fn page(
    store: &dyn JobReader,
    filter: JobFilter,
    words: Option<&str>,
    mut before: Option<JobId>,
    limit: usize,
) -> Result<Page<JobSummary, JobId>, Error> {
    let Some(words) = words.map(str::to_lowercase) else {
        return store.list(filter, before, limit).await;
    };
    let mut items = Vec::new();
    for _ in 0..PAGES_MAX {
        let looked = store.list(filter.clone(), before, PAGE_MAX).await?;
        for job in looked.items {
            if !is_meant(&job, &words) {
                continue;
            }
            if items.len() == limit {
                let next = items.last().map(|job: &JobSummary| job.id);
                return Ok(Page { items, next });
            }
            items.push(job);
        }
        before = looked.next;
        if before.is_none() {
            break;
        }
    }
    Ok(Page { items, next: before })
}

/// Returns whether the id starts with the text, or the kind, a tag or the error contains it, ignoring case.
fn is_meant(job: &JobSummary, words: &str) -> bool {
    let has = |text: &str| text.to_lowercase().contains(words);
    job.id.to_string().starts_with(words)
        || job.kind.as_deref().is_some_and(has)
        || job.tags.iter().any(|tag| has(tag))
        || job.error.as_deref().is_some_and(has)
}

#[cfg(test)]
mod tests {
    use nagaya_jobs::{QueueName, State, TenantId};

    use super::*;

    #[test]
    fn words_are_looked_for_in_id_kind_tags_and_error() {
        let job = JobSummary {
            id: JobId::new(4711).unwrap(),
            tenant: TenantId::default_tenant(),
            queue: QueueName::new("mail").unwrap(),
            kind: Some("SendMail".into()),
            tags: vec!["vip".into()],
            state: State::Failed,
            priority: 0,
            attempt: 1,
            max_retries: 0,
            created_at_ms: 0,
            run_at_ms: None,
            ended_at_ms: None,
            error: Some("no route to host".into()),
        };
        for words in ["47", "4711", "sendm", "vip", "route to"] {
            assert!(is_meant(&job, words), "{words}");
        }
        for words in ["711", "mailbox", "tenant"] {
            assert!(!is_meant(&job, words), "{words}");
        }
    }
}
