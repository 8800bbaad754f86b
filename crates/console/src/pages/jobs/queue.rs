//! One queue: what it holds, how fast it is, how it is set, and its jobs.

use axum::extract::Path;
use axum::http::Method;
use maud::{Markup, html};
use serde_json::Value;

use super::filter::Filter;
use super::list::{depth_figures, jobs_card, queue_badge, waiting_for};
use super::model::{Latency, Queue, Spread};
use crate::form::encode;
use crate::format;
use crate::html::{Question, Tone, action, card, facts, figure, figures, time_text};
use crate::layout::{Nav, Page};
use crate::pages::Shown;
use crate::request::{PageRequest, redirect};

pub(super) async fn show(request: PageRequest, Path(name): Path<String>) -> Shown {
    let api_path = format!("/v1/queues/{}", encode(&name));
    let path = page_path(&name);
    let queue: Queue = request.get(&api_path).await?;
    let latency = request
        .get_if_any::<Latency>(&format!("{api_path}/latency"))
        .await?;
    let filter = Filter {
        queue: Some(name.clone()),
        ..Filter::read(&request.info.query)
    };
    let jobs = jobs_card(&request, &filter, &path, &[]).await?;
    let content = html! {
        div.heading {
            p.crumbs { a href="/jobs" { "Jobs" } " / queues" }
            (queue_badge(&queue))
            div.buttons {
                @if request.rights().admin && queue.paused { (action(&format!("{path}/resume"), "Resume", Tone::Plain)) }
                @if request.rights().admin && !queue.paused { (action(&format!("{path}/pause"), "Pause", Tone::Plain)) }
            }
        }
        section.card { h2 { "Now" } (depth_figures(&queue.depth, &path)) }
        div.pair {
            (latency_card(&queue, latency.as_ref()))
            (card("Ever", passed_figures(&queue)))
        }
        (jobs)
        (card("Settings", settings(&queue.settings)))
    };
    let page = Page {
        title: format!("Queue {name}"),
        nav: Nav::Jobs,
        content,
    };
    Ok(page.render(&request))
}

fn page_path(name: &str) -> String {
    format!("/jobs/queues/{}", encode(name))
}

fn latency_card(queue: &Queue, latency: Option<&Latency>) -> Markup {
    let spread = |spread: &Spread| {
        html! {
            (format::duration_ms(spread.p50)) " · " (format::duration_ms(spread.p90)) " · " (format::duration_ms(spread.p99))
        }
    };
    let mut rows = Vec::new();
    if queue.oldest_ready_at.is_some() {
        rows.push(("Longest waiting now", waiting_for(queue)));
    }
    if let Some(at) = &queue.last_claim_at {
        rows.push(("Last claim", time_text(at)));
    }
    if let Some(wait) = latency.and_then(|latency| latency.wait_ms.as_ref()) {
        rows.push(("Wait for a worker", spread(wait)));
    }
    if let Some(run) = latency.and_then(|latency| latency.run_ms.as_ref()) {
        rows.push(("Work", spread(run)));
    }
    rows.push(("Made", time_text(&queue.created_at)));
    let jobs = latency.map_or(0, |latency| latency.jobs);
    card(
        "Latency",
        html! {
            (facts(&rows))
            @if jobs > 0 {
                p.quiet { "As long at most for 50, 90 and 99 of 100; from the newest " (format::counted(jobs, "ended job")) "." }
            }
        },
    )
}

fn passed_figures(queue: &Queue) -> Markup {
    let passed = &queue.passed;
    figures(html! {
        (figure("Registered", format::count(passed.enqueued)))
        (figure("Succeeded", format::count(passed.succeeded)))
        (figure("Failed", format::count(passed.failed)))
        (figure("Failed attempts", format::count(passed.attempts_failed)))
        (figure("Leases lost", format::count(passed.leases_lost)))
        (figure("Late reports", format::count(passed.late_reports)))
    })
}

/// Settings as the API names them: that is how they are changed.
fn settings(settings: &Value) -> Markup {
    let empty = serde_json::Map::new();
    let fields = settings.as_object().unwrap_or(&empty).iter();
    html! {
        dl.facts {
            @for (name, value) in fields {
                @if !value.is_null() {
                    dt { code { (name) } }
                    dd { code { (value) } }
                }
            }
        }
        p.quiet { "Changed with " code { "PUT /v1/queues/{queue}" } "." }
    }
}

pub(super) async fn ask_pause(request: PageRequest, Path(name): Path<String>) -> Shown {
    let text = html! { p { "Running jobs go on; no others start until the queue is resumed. Jobs can still be registered." } };
    ask(&request, &name, "pause", text, "Pause the queue")
}

pub(super) async fn ask_resume(request: PageRequest, Path(name): Path<String>) -> Shown {
    let text = html! { p { "Workers get jobs of this queue again, at once." } };
    ask(&request, &name, "resume", text, "Resume the queue")
}

fn ask(request: &PageRequest, name: &str, verb: &str, text: Markup, button: &str) -> Shown {
    request.require(request.rights().admin)?;
    let path = page_path(name);
    let question = Question {
        action: &format!("{path}/{verb}"),
        text,
        fields: html! {},
        button,
        is_dangerous: false,
        back: &path,
    };
    let page = Page {
        title: format!("{button} {name}?"),
        nav: Nav::Jobs,
        content: question.ask(request),
    };
    Ok(page.render(request))
}

pub(super) async fn pause(request: PageRequest, Path(name): Path<String>) -> Shown {
    set(&request, &name, "pause").await
}

pub(super) async fn resume(request: PageRequest, Path(name): Path<String>) -> Shown {
    set(&request, &name, "resume").await
}

async fn set(request: &PageRequest, name: &str, verb: &str) -> Shown {
    let path = format!("/v1/queues/{}/{verb}", encode(name));
    request.send(Method::POST, &path, None).await?;
    Ok(redirect(&format!("{}?done={verb}", page_path(name))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{TestConsole, queue_document};

    #[tokio::test]
    async fn a_queue_shows_its_latency_and_settings() {
        let console = TestConsole::open();
        console.answer("/v1/queues/mail", queue_document("mail"));
        console.answer("/v1/jobs", json!({"jobs": []}));
        let spread = json!({"p50": 20, "p90": 1500, "p99": 61_000});
        console.answer(
            "/v1/queues/mail/latency",
            json!({"jobs": 40, "wait_ms": spread, "run_ms": null}),
        );
        let page = console.get("/jobs/queues/mail").await;
        assert_eq!(page.status, 200, "{}", page.body);
        for part in [
            "20 ms · 1.5 s · 1 min 1 s",
            "40 ended jobs",
            "timeout_seconds",
            "Pause",
        ] {
            assert!(page.body.contains(part), "{part} is missing in {}", page.body);
        }
    }

    #[tokio::test]
    async fn pausing_is_asked_for_and_then_done() {
        let console = TestConsole::open();
        console.answer_to(Method::POST, "/v1/queues/mail/pause", 204, Value::Null);
        assert!(
            console
                .get("/jobs/queues/mail/pause")
                .await
                .body
                .contains("Running jobs go on")
        );
        assert!(console.changes().is_empty(), "asking changes nothing");
        let answer = console.post("/jobs/queues/mail/pause", None, "").await;
        assert_eq!(answer.location(), "/jobs/queues/mail?done=pause");
        assert_eq!(
            console.changes(),
            [(Method::POST, "/v1/queues/mail/pause".to_owned(), None)]
        );
    }
}
