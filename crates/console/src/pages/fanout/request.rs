//! One request: every endpoint's answer, and when it came.

use axum::extract::Path;
use maud::{Markup, html};
use serde_json::Value;

use super::wire::{Answers, Outcome};
use super::{milliseconds, tone, word};
use crate::form::encode;
use crate::format;
use crate::html::{Tone, badge, card, facts};
use crate::layout::{Nav, Page};
use crate::pages::Shown;
use crate::request::PageRequest;
use crate::table::Table;

/// Letters of a body on the page at most.
const BODY_SHOWN: usize = 20_000;

pub(super) async fn page(Path(id): Path<String>, request: PageRequest) -> Shown {
    let answers: Answers = request
        .get(&format!("/v1/fanout/requests/{}", encode(&id)))
        .await?;
    let content = html! {
        p.crumbs { a href="/fanout" { "Fan-out" } " / request" }
        section.card { (facts(&about(&answers))) }
        (card("Answers", table(&answers)))
        @for name in &answers.endpoints {
            @if let Some(outcome) = answers.results.get(name) { (body(name, outcome)) }
        }
    };
    let page = Page {
        title: answers.request_id.clone(),
        nav: Nav::Fanout,
        content,
    };
    Ok(page.render(&request))
}

fn about(answers: &Answers) -> Vec<(&'static str, Markup)> {
    let state = if answers.complete {
        badge(Tone::Good, "complete")
    } else {
        badge(Tone::Busy, "under way")
    };
    let took = answers.ms.map(|ms| ("Took", html! { (milliseconds(ms)) }));
    [
        Some(("State", state)),
        Some(("Asked", html! { code.url { (answers.method) " " (answers.url) } })),
        took,
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn table(answers: &Answers) -> Markup {
    let mut table = Table::new("Answers", "No endpoint was asked.")
        .words("Endpoint")
        .words("Outcome")
        .numbers("Status")
        .numbers("Size")
        .words("Came after")
        .words("Detail");
    let longest = answers
        .results
        .values()
        .filter_map(|outcome| outcome.ms)
        .fold(1.0, f64::max);
    for name in &answers.endpoints {
        let Some(outcome) = answers.results.get(name) else {
            let state = if answers.pending.contains(name) {
                badge(Tone::Busy, "pending")
            } else {
                badge(Tone::Plain, "unknown")
            };
            let dash = || html! { "–" };
            table.row(vec![html! { (name) }, state, dash(), dash(), dash(), html! {}]);
            continue;
        };
        let state = outcome.state.as_deref().unwrap_or("stored");
        table.row(vec![
            html! { (name) },
            badge(tone(state), &word(state)),
            html! { (outcome.status.map_or("–".to_owned(), |status| status.to_string())) },
            html! { (outcome.bytes.map_or("–".to_owned(), format::bytes)) },
            outcome.ms.map_or_else(|| html! { "–" }, |ms| bar(ms, longest)),
            html! { (outcome.detail.as_deref().unwrap_or_default()) },
        ]);
    }
    table.render()
}

/// A time as a bar beside the longest of them.
fn bar(ms: f64, longest: f64) -> Markup {
    html! {
        div.meter {
            svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true" {
                rect.track x="0" y="0" width="100" height="6" {}
                rect.busy x="0" y="0" width=(format!("{:.1}", (ms / longest * 100.0).max(1.0))) height="6" {}
            }
            span { (milliseconds(ms)) }
        }
    }
}

fn body(name: &str, outcome: &Outcome) -> Markup {
    let (text, note) = match (&outcome.body, &outcome.body_base64) {
        (Some(text), _) => (readable(text), None),
        (None, Some(text)) => (
            text.clone(),
            Some("It is not text; these are its bytes in base64."),
        ),
        (None, None) => return html! {},
    };
    let shown: String = text.chars().take(BODY_SHOWN).collect();
    let is_cut = shown.len() < text.len();
    html! {
        details.card open[outcome.state.as_deref() != Some("ok")] {
            summary { h2 { "Answer of " (name) } }
            @if let Some(note) = note { p.quiet { (note) } }
            pre tabindex="0" { code { (shown) } }
            @if is_cut { p.quiet { "The first " (format::count(BODY_SHOWN as u64)) " letters." } }
        }
    }
}

/// JSON is indented; any other text stays as it is.
fn readable(text: &str) -> String {
    let document = serde_json::from_str::<Value>(text)
        .ok()
        .filter(|value| value.is_object() || value.is_array());
    let indented = document.and_then(|value| serde_json::to_string_pretty(&value).ok());
    indented.unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::TestConsole;

    #[tokio::test]
    async fn every_endpoint_has_its_outcome_and_its_answer() {
        let console = TestConsole::open();
        console.answer(
            "/v1/fanout/requests/0190-a",
            json!({"request_id": "0190-a", "method": "GET", "url": "/x", "complete": false, "ms": null,
                "endpoints": ["a", "b", "c", "d"], "pending": ["d"], "results": {
                    "a": {"state": "ok", "status": 200, "bytes": 9, "ms": 4, "body": "{\"n\":[1]}"},
                    "b": {"state": "refused", "ms": 1, "detail": "nobody listens"},
                    "c": {"state": "http_error", "status": 500, "bytes": 2, "ms": 9, "body_base64": "/w=="}}}),
        );
        let page = console.get("/fanout/0190-a").await;
        for part in [
            "under way",
            "nobody listens",
            "pending",
            "http error",
            "&quot;n&quot;: [",
            "/w==",
            "Answer of c",
        ] {
            assert!(page.body.contains(part), "{part} is missing in {}", page.body);
        }
        assert!(!page.body.contains("Answer of b"));
        assert_eq!(console.get("/fanout/none").await.status, 404);
    }

    #[test]
    fn only_json_is_indented() {
        assert_eq!(readable("{\"a\":1}"), "{\n  \"a\": 1\n}");
        assert_eq!(readable("12 "), "12 ");
        assert_eq!(readable("<p>"), "<p>");
    }
}
