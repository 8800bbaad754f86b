//! One job, with everything that is known about it.

use axum::extract::Path;
use maud::{Markup, html};
use serde_json::Value;

use super::deliveries::deliveries_table;
use super::model::{Explanation, Job, Lease, Line, Lines, Progress};
use super::timeline::timeline;
use super::{job_link, queue_link};
use crate::form::encode;
use crate::format;
use crate::html::{Tone, action, card, facts, job_badge, meter, nothing, time_text};
use crate::layout::{Nav, Page};
use crate::pages::Shown;
use crate::request::PageRequest;

pub(super) async fn show(request: PageRequest, Path(id): Path<String>) -> Shown {
    let path = format!("/v1/jobs/{}", encode(&id));
    let job: Job = request.get(&path).await?;
    let lines = match job.log_lines {
        0 => Vec::new(),
        _ => request.get::<Lines>(&format!("{path}/log")).await?.lines,
    };
    let content = html! {
        (heading(&request, &job))
        @if let Some(why) = job.explanation.as_ref().filter(|_| job.lease.is_none() && !job.summary.has_ended()) {
            (explanation(why))
        }
        @if let Some(lease) = &job.lease { (under_way(lease, job.progress.as_ref())) }
        div.pair {
            (card("What happened", timeline(&job)))
            (card("About", about(&job)))
        }
        @if !lines.is_empty() { (log(&lines)) }
        div.pair {
            (body("Payload", job.bodies.payload.as_ref(), job.bodies.payload_base64.as_deref(), job.bodies.payload_content_type.as_deref()))
            (body("Result", job.bodies.result.as_ref(), job.bodies.result_base64.as_deref(), job.bodies.result_content_type.as_deref()))
        }
        @if !job.deliveries.is_empty() { (deliveries(&request, &job)) }
    };
    let page = Page {
        title: format!("Job {id}"),
        nav: Nav::Jobs,
        content,
    };
    Ok(page.render(&request))
}

fn heading(request: &PageRequest, job: &Job) -> Markup {
    let summary = &job.summary;
    let path = format!("/jobs/{}", encode(&summary.id));
    html! {
        div.heading {
            p.crumbs { a href="/jobs" { "Jobs" } " / " (queue_link(&summary.queue)) }
            (job_badge(&summary.state))
            @if let Some(kind) = &summary.kind { b { (kind) } }
            @for tag in &summary.tags { span.tag { (tag) } }
            @if request.rights().enqueue {
                div.buttons {
                    @if summary.has_ended() {
                        (action(&format!("{path}/retry"), "Retry", Tone::Plain))
                    } @else {
                        (action(&format!("{path}/cancel"), "Cancel", Tone::Bad))
                    }
                }
            }
        }
    }
}

fn explanation(why: &Explanation) -> Markup {
    html! {
        section.card.remark {
            h2 { "Why it is not running" }
            p { (capital(&why.text)) @if let Some(at) = &why.at { ", " (time_text(at)) } "." }
            @if !why.jobs.is_empty() {
                p { "It waits for " @for id in &why.jobs { (job_link(id)) " " } }
            }
            @if let Some(ahead) = why.ahead.filter(|ahead| *ahead > 0) {
                p.quiet { (format::counted(ahead, "job")) " go first." }
            }
            @if let Some(at) = &why.last_claim_at { p.quiet { "A worker last took a job of the queue " (time_text(at)) "." } }
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn under_way(lease: &Lease, progress: Option<&Progress>) -> Markup {
    let rows = [
        ("Worker", html! { code { (lease.worker) } }),
        ("Since", time_text(&lease.started_at)),
        ("Lease ends", time_text(&lease.expires_at)),
    ];
    html! {
        section.card {
            h2 { "Under way" }
            div.stack {
                (facts(&rows))
                @if let Some(progress) = progress {
                    @if let Some(share) = progress.progress { (meter("Progress", share, &format::percent(share))) }
                    p {
                        @if let Some(message) = &progress.message { (message) " " }
                        span.quiet { "told " (time_text(&progress.at)) }
                    }
                    @if let Some(data) = &progress.data { pre { (pretty(data)) } }
                }
            }
        }
    }
}

fn about(job: &Job) -> Markup {
    let summary = &job.summary;
    let mut rows = vec![
        ("Queue", queue_link(&summary.queue)),
        ("Tenant", html! { (summary.tenant) }),
        ("Priority", html! { (summary.priority) }),
        (
            "Attempts",
            html! { (summary.attempts) " of " (summary.max_retries + 1) },
        ),
        ("Lease", html! { (format::duration_seconds(job.timeout_seconds)) }),
        ("Registered", time_text(&summary.created_at)),
    ];
    let mut add = |name, value: Option<Markup>| rows.extend(value.map(|value| (name, value)));
    let text = |text: &String| html! { code { (text) } };
    add("Ended", summary.ended_at.as_deref().map(time_text));
    add("Removed", job.removed_at.as_deref().map(time_text));
    add("Pause between attempts", backoff(&job.backoff));
    add("Idempotency key", job.idempotency_key.as_ref().map(text));
    add("Unique key", job.unique_key.as_ref().map(text));
    add(
        "Concurrency",
        job.concurrency
            .as_ref()
            .map(|one| html! { (one.limit) " at a time under " code { (one.key) } }),
    );
    let needs =
        (!job.depends_on.is_empty()).then(|| html! { @for id in &job.depends_on { (job_link(id)) " " } });
    add("Depends on", needs);
    add("Trace", job.traceparent.as_ref().map(text));
    facts(&rows)
}

/// The rule in words: its kind, then its lengths of time.
fn backoff(rule: &Value) -> Option<Markup> {
    let kind = rule["kind"].as_str()?;
    let lengths = rule.as_object()?.iter().filter_map(|(name, value)| {
        let name = name.strip_suffix("_seconds")?;
        Some(format!(", {name} {}", format::duration_seconds(value.as_f64()?)))
    });
    Some(html! { (kind) (lengths.collect::<String>()) })
}

fn log(lines: &[Line]) -> Markup {
    html! {
        section.card {
            h2 { "Log" }
            // Can be scrolled, so it can be reached by keyboard.
            div.log tabindex="0" role="region" aria-label="Log lines" {
                ol {
                    @for line in lines {
                        li {
                            time datetime=(line.at) title={ "attempt " (line.attempt) } { (clock_time(&line.at)) }
                            span { (line.text) }
                        }
                    }
                }
            }
        }
    }
}

/// The time of day; logs are read within a day mostly, and the rest is in the title.
fn clock_time(at: &str) -> &str {
    at.get(11..19).unwrap_or(at)
}

fn body(title: &str, json: Option<&Value>, base64: Option<&str>, content_type: Option<&str>) -> Markup {
    let text = match (json, base64) {
        (Some(value), _) => pretty(value),
        (None, Some(text)) => text.to_owned(),
        (None, None) => return card(title, nothing("Nothing.")),
    };
    card(
        title,
        html! {
            @if base64.is_some() { p.quiet { "In base64" @if let Some(kind) = content_type { ", " (kind) } } }
            pre tabindex="0" { (text) }
        },
    )
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

fn deliveries(request: &PageRequest, job: &Job) -> Markup {
    let replay = format!("/jobs/{}/replay", encode(&job.summary.id));
    card(
        "Deliveries",
        html! {
            (deliveries_table(&job.deliveries))
            @if request.rights().enqueue { p.pager { (action(&replay, "Send again", Tone::Plain)) } }
        },
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{TestConsole, summary_document};

    fn job(state: &str, more: Value) -> Value {
        let mut job = summary_document("77", state);
        let rest = json!({
            "payload": {"to": "<b>"}, "timeout_seconds": 60, "backoff": {"kind": "exponential", "base_seconds": 1},
            "depends_on": [], "pending_dependencies": [], "log_lines": 0, "late_reports_count": 0,
            "history": [{"number": 1, "worker": "w1", "started_at": "2026-11-15T09:00:01Z",
                "ended_at": "2026-11-15T09:00:03Z", "end": "failed", "error": "no route to host"}],
        });
        for (name, value) in rest.as_object().unwrap().iter().chain(more.as_object().unwrap()) {
            job[name] = value.clone();
        }
        job
    }

    #[tokio::test]
    async fn an_ended_job_shows_its_attempts_and_can_be_retried() {
        let console = TestConsole::open();
        console.answer("/v1/jobs/77", job("failed", json!({})));
        let page = console.get("/jobs/77").await;
        assert_eq!(page.status, 200, "{}", page.body);
        for part in [
            "Attempt 1 failed",
            "after 2 s",
            "no route to host",
            "/jobs/77/retry",
            "&lt;b&gt;",
        ] {
            assert!(page.body.contains(part), "{part} is missing in {}", page.body);
        }
        assert!(!page.body.contains("/jobs/77/cancel"));
    }

    #[tokio::test]
    async fn a_running_job_shows_lease_progress_log_and_refused_reports() {
        let console = TestConsole::open();
        let more = json!({
            "ended_at": null, "error": null, "log_lines": 1,
            "lease": {"worker": "w2", "started_at": "2026-11-15T09:02:00Z", "expires_at": "2026-11-15T09:03:00Z"},
            "progress": {"progress": 0.25, "message": "a quarter", "at": "2026-11-15T09:02:10Z"},
            "late_reports": [{"at": "2026-11-15T09:01:00Z", "attempt": 1, "what": "complete", "why": "the lease was over"}],
            "late_reports_count": 3,
            "explanation": {"reason": "running", "text": "worker w2 has it", "at": "2026-11-15T09:03:00Z"},
        });
        console.answer("/v1/jobs/77", job("running", more));
        let line = json!({"number": 1, "at": "2026-11-15T09:02:05Z", "attempt": 2, "text": "half way"});
        console.answer("/v1/jobs/77/log", json!({"lines": [line]}));
        let page = console.get("/jobs/77").await;
        assert_eq!(page.status, 200, "{}", page.body);
        let parts = [
            "25 %",
            "a quarter",
            "half way",
            "09:02:05",
            "Late report refused",
            "2 older late reports",
            "/jobs/77/cancel",
        ];
        for part in parts {
            assert!(page.body.contains(part), "{part} is missing in {}", page.body);
        }
    }

    #[tokio::test]
    async fn a_waiting_job_says_why_it_waits() {
        let console = TestConsole::open();
        let why = json!({"reason": "no_worker", "text": "no worker has ever asked for jobs of its queue", "ahead": 2});
        console.answer(
            "/v1/jobs/77",
            job("waiting", json!({"ended_at": null, "explanation": why})),
        );
        let page = console.get("/jobs/77").await;
        assert!(
            page.body.contains("No worker has ever asked") && page.body.contains("2 jobs"),
            "{}",
            page.body
        );
    }

    #[tokio::test]
    async fn a_job_that_is_not_there_is_told_in_a_page() {
        let page = TestConsole::open().get("/jobs/5").await;
        assert!(
            page.status == 404 && page.body.contains("Nothing here"),
            "{}",
            page.body
        );
    }
}
