//! The fan-out: its endpoints, and what became of the last requests.

mod request;
mod wire;

use std::collections::BTreeMap;

use axum::Router;
use axum::routing::get;
use maud::{Markup, html};

use self::wire::{Breaker, Endpoint, Fanout, Latency, Request, Requests};
use super::Shown;
use super::charts::{Wanted, charts};
use super::service::Service;
use crate::chart::Unit;
use crate::form::encode;
use crate::format;
use crate::html::{Tone, badge, card, figure, figures, time};
use crate::layout::{Nav, Page};
use crate::request::PageRequest;
use crate::table::Table;

/// Requests in the list.
const LISTED: usize = 50;

const CHARTS: [Wanted<'static>; 3] = [
    (
        "Requests",
        Unit::PerSecond,
        &[("nagaya_fanout_requests_total", "requests")],
    ),
    (
        "Answers",
        Unit::PerSecond,
        &[("nagaya_fanout_outcomes_total", "answers")],
    ),
    (
        "Under way",
        Unit::Number,
        &[("nagaya_fanout_jobs_open", "endpoints being asked")],
    ),
];

pub(super) fn router() -> Router {
    Router::new()
        .route("/fanout", get(fanout))
        .route("/fanout/{id}", get(request::page))
}

async fn fanout(page_request: PageRequest) -> Shown {
    let fanout: Fanout = page_request.get("/v1/fanout").await?;
    let service = Service::read(&page_request, "fanout").await?;
    let path = format!("/v1/fanout/requests?limit={LISTED}");
    let requests: Requests = page_request.get(&path).await?;
    let content = html! {
        @if let Some(service) = &service { (service.head(html! {})) }
        section.card aria-label="Figures" { (numbers(&fanout, service.as_ref())) }
        div.card.charts { (charts(&page_request, &CHARTS).await?) }
        (card("Endpoints", endpoint_table(&fanout.endpoints)))
        (card("Last requests", request_table(&requests.requests)))
    };
    let page = Page {
        title: "Fan-out".to_owned(),
        nav: Nav::Fanout,
        content,
    };
    Ok(page.render(&page_request))
}

fn numbers(fanout: &Fanout, service: Option<&Service>) -> Markup {
    let rate = |name: &str| {
        service
            .and_then(|service| service.number(name))
            .map_or("–".to_owned(), format::rate)
    };
    figures(html! {
        (figure("Requests", rate("requests_per_second")))
        (figure("Good answers", rate("answers_ok_per_second")))
        (figure("Shed", rate("sheds_per_second")))
        (figure("Requests open", format::count(fanout.in_progress)))
        (figure("Workers busy", format::count(fanout.workers_busy)))
        (figure("In the queue", format::count(fanout.queue)))
    })
}

fn endpoint_table(endpoints: &[Endpoint]) -> Markup {
    let mut table = Table::new("Endpoints", "No endpoint is configured.")
        .words("Endpoint")
        .words("Breaker")
        .numbers("In flight")
        .numbers("p50")
        .numbers("p90")
        .numbers("p99")
        .words("Outcomes");
    for endpoint in endpoints {
        let latency = |pick: fn(Latency) -> f64| html! { (endpoint.latency_ms.map_or("–".to_owned(), |ms| milliseconds(pick(ms)))) };
        table.row(vec![
            html! { span.name { (endpoint.name) } br; span.quiet.url { (endpoint.url) } },
            breaker(endpoint.breaker),
            html! { (format::count(endpoint.in_flight)) },
            latency(|ms| ms.p50),
            latency(|ms| ms.p90),
            latency(|ms| ms.p99),
            outcomes(&endpoint.outcomes),
        ]);
    }
    table.render()
}

fn breaker(breaker: Breaker) -> Markup {
    match breaker {
        Breaker::Closed => badge(Tone::Good, "closed"),
        Breaker::Open => badge(Tone::Bad, "open"),
        Breaker::Probing => badge(Tone::Warning, "probing"),
    }
}

/// How an outcome is shown.
fn tone(state: &str) -> Tone {
    match state {
        "ok" => Tone::Good,
        "http_error" => Tone::Warning,
        "shed" => Tone::Plain,
        _ => Tone::Bad,
    }
}

/// The word for an outcome, as it is spoken.
fn word(state: &str) -> String {
    state.replace('_', " ")
}

/// Shares of outcomes as a bar, with the numbers in words.
fn outcomes(outcomes: &BTreeMap<String, u64>) -> Markup {
    let mut parts: Vec<(&str, u64)> = outcomes
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(state, count)| (state.as_str(), *count))
        .collect();
    parts.sort_by_key(|(state, count)| (*state != "ok", std::cmp::Reverse(*count)));
    let total: u64 = parts.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return html! { span.quiet { "none yet" } };
    }
    let mut from = 0.0;
    let spans: Vec<(Tone, f64, f64)> = parts
        .iter()
        .map(|(state, count)| {
            let width = *count as f64 * 100.0 / total as f64;
            from += width;
            (tone(state), from - width, width)
        })
        .collect();
    let words: Vec<String> = parts
        .iter()
        .map(|(state, count)| format!("{} {}", format::count(*count), word(state)))
        .collect();
    html! {
        div.meter.outcomes {
            svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true" {
                @for (tone, from, width) in spans {
                    rect class=(tone.class()) x=(format!("{from:.2}")) y="0" width=(format!("{width:.2}")) height="6" {}
                }
            }
            span { (words.join(" · ")) }
        }
    }
}

fn request_table(requests: &[Request]) -> Markup {
    let mut table = Table::new("Last requests", "No request has come since the server started.")
        .words("Request")
        .words("What")
        .words("When")
        .words("Answers");
    for request in requests {
        let page = format!("/fanout/{}", encode(&request.id));
        table.row(vec![
            html! { a.name href=(page) { (request.id) } },
            html! { code.url { (request.method) " " (request.url) } },
            time(request.at_ms),
            progress(request),
        ]);
    }
    table.render()
}

fn progress(request: &Request) -> Markup {
    let all_ok = request.ok == request.endpoints;
    let tone = match request.finished {
        false => Tone::Busy,
        true if all_ok => Tone::Good,
        true if request.ok == 0 => Tone::Bad,
        true => Tone::Warning,
    };
    let words = if request.finished {
        format!("{} of {} ok", request.ok, request.endpoints)
    } else {
        format!("{} of {} done", request.done, request.endpoints)
    };
    badge(tone, &words)
}

/// A time that an answer took: tenths below ten.
fn milliseconds(ms: f64) -> String {
    if ms < 10.0 {
        format!("{} ms", format::number((ms * 10.0).round() / 10.0))
    } else {
        format::duration_ms(ms.round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::TestConsole;

    #[tokio::test]
    async fn endpoints_show_latency_breaker_and_outcomes() {
        let console = TestConsole::open();
        console.answer(
            "/v1/fanout",
            json!({"in_progress": 1, "workers_busy": 2, "queue": 3, "endpoints": [
                {"name": "one", "url": "http://h/one", "in_flight": 2, "breaker": "open",
                    "outcomes": {"ok": 90, "timeout": 10, "shed": 0}, "latency_ms": {"p50": 1.25, "p90": 20.0, "p99": 1500.0}},
                {"name": "two", "url": "http://h/two", "in_flight": 0, "breaker": "closed",
                    "outcomes": {}, "latency_ms": null}]}),
        );
        console.answer(
            "/v1/fanout/requests",
            json!({"requests": [{"id": "0190-a", "method": "GET", "url": "/x?a=<b>", "at_ms": 1_700_000_000_000_i64,
                "endpoints": 2, "done": 2, "ok": 1, "finished": true}]}),
        );
        let page = console.get("/fanout").await;
        assert_eq!(page.status, 200);
        for part in [
            "90 ok · 10 timeout",
            "none yet",
            "1.3 ms",
            "1.5 s",
            "1 of 2 ok",
            "/fanout/0190-a",
            "&lt;b&gt;",
        ] {
            assert!(page.body.contains(part), "{part} is missing in {}", page.body);
        }
        assert!(
            page.body.contains(r#"x="90.00" y="0" width="10.00""#),
            "{}",
            page.body
        );
    }

    #[tokio::test]
    async fn a_house_without_endpoints_says_how_to_have_some() {
        let console = TestConsole::open();
        let problem = json!({"detail": "set `fanout.endpoints` to have a fan-out"});
        console.answer_to(axum::http::Method::GET, "/v1/fanout", 404, problem);
        let page = console.get("/fanout").await;
        assert!(
            page.status == 404 && page.body.contains("fanout.endpoints"),
            "{}",
            page.body
        );
    }
}
