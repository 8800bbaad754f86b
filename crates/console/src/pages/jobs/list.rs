//! All queues, and jobs by filter.

use axum::http::StatusCode;
use maud::{Markup, html};

use super::filter::Filter;
use super::model::{Depth, JobPage, Queue, Queues, Summary};
use super::{job_link, queue_link};
use crate::chart::{Bar, Unit, bars};
use crate::failure::Failure;
use crate::format;
use crate::history::History;
use crate::html::{Tone, action, badge, card, figure, figures, job_badge, link_button, time_text};
use crate::layout::{Nav, Page};
use crate::pages::Shown;
use crate::request::PageRequest;
use crate::table::Table;

/// Jobs on one page.
const PAGE: &str = "50";
/// Queues that are compared by how much waits in them.
const LONGEST: usize = 4;
/// How much of an error a listing shows, in characters.
const ERROR_MAX: usize = 90;

pub(super) async fn show(request: PageRequest) -> Shown {
    let filter = Filter::read(&request.info.query);
    let Queues { queues } = request.get("/v1/queues").await?;
    let series = [
        ("nagaya_jobs_finished_total", "finished"),
        ("nagaya_jobs_enqueued_total", "registered"),
    ];
    let history = History::read(&request, &series.map(|(key, _)| key)).await?;
    let jobs = jobs_card(&request, &filter, "/jobs", &queues).await?;
    let content = html! {
        div.pair {
            section.card { h2 { "All queues" } div.stack { (depth_figures(&sum(&queues), "/jobs")) (longest(&queues)) } }
            section.card { (history.chart("Jobs", Unit::PerSecond, &series).render()) }
        }
        (queues_card(&request, &queues))
        (jobs)
    };
    let page = Page {
        title: "Jobs".to_owned(),
        nav: Nav::Jobs,
        content,
    };
    Ok(page.render(&request))
}

fn sum(queues: &[Queue]) -> Depth {
    queues.iter().fold(Depth::default(), |sum, queue| Depth {
        scheduled: sum.scheduled + queue.depth.scheduled,
        ready: sum.ready + queue.depth.ready,
        blocked: sum.blocked + queue.depth.blocked,
        running: sum.running + queue.depth.running,
        succeeded: sum.succeeded + queue.depth.succeeded,
        failed: sum.failed + queue.depth.failed,
        cancelled: sum.cancelled + queue.depth.cancelled,
    })
}

/// The queues where most jobs wait.
fn longest(queues: &[Queue]) -> Markup {
    let waiting = |queue: &Queue| queue.depth.ready + queue.depth.blocked;
    let mut queues: Vec<&Queue> = queues.iter().filter(|queue| waiting(queue) > 0).collect();
    queues.sort_by_key(|queue| std::cmp::Reverse(waiting(queue)));
    let longest: Vec<Bar<'_>> = queues
        .iter()
        .take(LONGEST)
        .map(|queue| Bar {
            name: &queue.name,
            value: waiting(queue) as f64,
        })
        .collect();
    html! { @if !longest.is_empty() { (bars("Waiting", Unit::Number, &longest)) } }
}

/// What a queue, or all of them, holds; each number leads to its jobs in the listing of that page.
pub(super) fn depth_figures(depth: &Depth, path: &str) -> Markup {
    let cells = [
        ("Ready", "waiting", depth.ready),
        ("Blocked", "waiting", depth.blocked),
        ("Running", "running", depth.running),
        ("Scheduled", "scheduled", depth.scheduled),
        ("Succeeded", "succeeded", depth.succeeded),
        ("Failed", "failed", depth.failed),
    ];
    figures(html! {
        @for (name, state, count) in cells {
            (figure(name, html! { a href={ (path) "?state=" (state) } { (format::count(count)) } }))
        }
    })
}

fn queues_card(request: &PageRequest, queues: &[Queue]) -> Markup {
    let mut table = Table::new("Queues", "No queue yet: the first job makes one.")
        .words("Queue")
        .words("State")
        .numbers("Ready")
        .numbers("Blocked")
        .numbers("Running")
        .numbers("Scheduled")
        .numbers("Failed")
        .words("Waiting for")
        .words("Last claim");
    for queue in queues {
        let depth = &queue.depth;
        table.row(vec![
            queue_link(&queue.name),
            queue_badge(queue),
            html! { (format::count(depth.ready)) },
            html! { (format::count(depth.blocked)) },
            html! { (format::count(depth.running)) },
            html! { (format::count(depth.scheduled)) },
            html! { @if depth.failed > 0 { b.bad { (format::count(depth.failed)) } } @else { "0" } },
            waiting_for(queue),
            html! { @if let Some(at) = &queue.last_claim_at { (time_text(at)) } },
        ]);
    }
    let undelivered = html! { p.pager { (link_button("/jobs/deliveries", "Deliveries")) } };
    card(
        "Queues",
        html! { (table.render()) @if request.rights().read { (undelivered) } },
    )
}

pub(super) fn queue_badge(queue: &Queue) -> Markup {
    if queue.paused {
        badge(Tone::Warning, "paused")
    } else {
        badge(Tone::Good, "open")
    }
}

/// How long the job has been ready that waits for longest.
pub(super) fn waiting_for(queue: &Queue) -> Markup {
    let since = queue.oldest_ready_at.as_deref().and_then(format::parse_time);
    html! {
        @if let Some(since_ms) = since {
            (format::duration_ms(u64::try_from(format::now_ms() - since_ms).unwrap_or(0)))
        }
    }
}

/// The listing with its filter and what can be done to all that it shows.
pub(super) async fn jobs_card(
    request: &PageRequest,
    filter: &Filter,
    path: &str,
    queues: &[Queue],
) -> Result<Markup, Failure> {
    let cursor = request.query("cursor");
    let page: JobPage = match request.get(&filter.api_path(cursor, PAGE)).await {
        Ok(page) => page,
        // A token for some queues only must name one.
        Err(failure) if failure.status == StatusCode::FORBIDDEN => {
            let content = html! { div.stack { (filter.form(path, queues)) p.nothing { (failure.detail) } } };
            return Ok(card("Jobs", content));
        }
        Err(failure) => return Err(failure),
    };
    let older = page
        .next_cursor
        .as_deref()
        .map(|next| filter.path(path, Some(next)));
    Ok(card(
        "Jobs",
        html! {
            div.stack {
                (filter.form(path, queues))
                (jobs_table(&page.jobs))
                div.pager {
                    div.buttons { (bulk_buttons(request, filter)) }
                    div.buttons {
                        @if cursor.is_some() { (link_button(&filter.path(path, None), "Newest")) }
                        @if let Some(older) = older { (link_button(&older, "Older")) }
                    }
                }
            }
        },
    ))
}

fn bulk_buttons(request: &PageRequest, filter: &Filter) -> Markup {
    if !request.rights().enqueue || filter.is_empty() {
        return html! {};
    }
    let state = filter.state.as_deref();
    let has_ended = |state| matches!(state, "failed" | "cancelled" | "succeeded");
    html! {
        @if state.is_none_or(has_ended) {
            (action(&filter.path("/jobs/bulk/retry", None), "Retry all of these", Tone::Plain))
        }
        @if state.is_none_or(|state| !has_ended(state)) {
            (action(&filter.path("/jobs/bulk/cancel", None), "Cancel all of these", Tone::Bad))
        }
    }
}

fn jobs_table(jobs: &[Summary]) -> Markup {
    let mut table = Table::new("Jobs, newest first", "No job fits.")
        .words("Job")
        .words("Queue")
        .words("Kind")
        .words("State")
        .numbers("Attempts")
        .words("Registered")
        .words("Error");
    for job in jobs {
        table.row(vec![
            job_link(&job.id),
            queue_link(&job.queue),
            html! { (job.kind.as_deref().unwrap_or_default()) @for tag in &job.tags { " " span.tag { (tag) } } },
            job_badge(&job.state),
            html! { (job.attempts) " of " (job.max_retries + 1) },
            time_text(&job.created_at),
            html! { @if let Some(error) = &job.error { (shorten(error)) } },
        ]);
    }
    table.render()
}

fn shorten(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() > ERROR_MAX || line.len() < text.trim_end().len() {
        line.chars().take(ERROR_MAX).chain(['…']).collect()
    } else {
        line.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{TestConsole, queue_document, summary_document};

    #[tokio::test]
    async fn queues_and_jobs_are_shown_and_the_filter_reaches_the_api() {
        let console = TestConsole::open();
        console.answer("/v1/queues", json!({"queues": [queue_document("mail")]}));
        console.answer(
            "/v1/jobs",
            json!({"jobs": [summary_document("77", "failed")], "next_cursor": "next"}),
        );
        let page = console.get("/jobs?queue=mail&state=failed").await;
        assert_eq!(page.status, 200, "{}", page.body);
        for part in [
            "/jobs/queues/mail",
            "/jobs/77",
            "no route to host",
            "cursor=next",
            "Retry all of these",
        ] {
            assert!(page.body.contains(part), "{part} is missing in {}", page.body);
        }
        assert!(!page.body.contains("Cancel all"), "failed jobs have ended");
        assert!(
            console
                .reads()
                .contains(&"/v1/jobs?queue=mail&state=failed&limit=50".to_owned())
        );
    }

    #[test]
    fn errors_are_shortened_to_a_line() {
        assert_eq!(shorten("first\nsecond"), "first…");
        assert_eq!(shorten("short"), "short");
        assert_eq!(shorten(&"x".repeat(200)).chars().count(), ERROR_MAX + 1);
    }
}
