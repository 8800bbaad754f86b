//! Results on their way to webhooks, and sending them again.

use maud::{Markup, html};
use serde_json::json;

use super::job_link;
use super::model::{Deliveries, Delivery, Try};
use crate::form::with_query;
use crate::format;
use crate::html::{Question, Tone, action, badge, link_button, time_text};
use crate::layout::{Nav, Page};
use crate::pages::Shown;
use crate::request::{PageRequest, redirect};
use crate::table::Table;

const PATH: &str = "/jobs/deliveries";
/// Name in the API, and for people.
const STATES: [(&str, &str); 3] = [
    ("gave_up", "gave up"),
    ("pending", "pending"),
    ("delivered", "delivered"),
];

pub(super) async fn show(request: PageRequest) -> Shown {
    let state = request
        .query("state")
        .filter(|state| STATES.iter().any(|(name, _)| name == state));
    let cursor = request.query("cursor");
    let pairs = [("state", state), ("cursor", cursor), ("limit", Some("50"))];
    let page: Deliveries = request.get(&with_query("/v1/deliveries", pairs)).await?;
    let older = page.next_cursor.as_deref();
    let older = older.map(|next| with_query(PATH, [("state", state), ("cursor", Some(next))]));
    let content = html! {
        p.crumbs { a href="/jobs" { "Jobs" } " / deliveries" }
        section.card {
            h2.visually-hidden { "All deliveries" }
            div.stack {
                form.filters method="get" action=(PATH) {
                    div {
                        label for="state" { "State" }
                        select #state name="state" {
                            option value="" { "all" }
                            @for (name, words) in STATES { option value=(name) selected[state == Some(name)] { (words) } }
                        }
                    }
                    div.buttons { button.primary type="submit" { "Show" } }
                }
                (deliveries_table(&page.deliveries))
                div.pager {
                    div.buttons {
                        @if request.rights().enqueue {
                            (action("/jobs/deliveries/replay", "Send again all that gave up", Tone::Plain))
                        }
                    }
                    div.buttons {
                        @if cursor.is_some() { (link_button(&with_query(PATH, [("state", state)]), "Newest")) }
                        @if let Some(older) = older { (link_button(&older, "Older")) }
                    }
                }
            }
        }
    };
    let page = Page {
        title: "Deliveries".to_owned(),
        nav: Nav::Jobs,
        content,
    };
    Ok(page.render(&request))
}

/// Deliveries of one job or of many; the job's column is there only for many.
pub(super) fn deliveries_table(deliveries: &[Delivery]) -> Markup {
    let mut table = Table::new("Deliveries, newest first", "Nothing was to be delivered.").words("To");
    let with_jobs = deliveries.iter().any(|delivery| delivery.job.is_some());
    if with_jobs {
        table = table.words("Job");
    }
    let mut table = table.words("Event").words("State").words("Tries");
    for delivery in deliveries {
        let mut cells = vec![html! { code { (delivery.url) } }];
        if with_jobs {
            cells.push(html! { @if let Some(job) = &delivery.job { (job_link(job)) } });
        }
        cells.push(html! { (delivery.event.replace('_', " ")) });
        cells.push(html! {
            (state_badge(&delivery.state))
            @if let Some(at) = &delivery.next_try_at { " " span.quiet { "next try " (time_text(at)) } }
        });
        cells.push(tries(&delivery.tries));
        table.row(cells);
    }
    table.render()
}

fn state_badge(state: &str) -> Markup {
    match state {
        "delivered" => badge(Tone::Good, "delivered"),
        "gave_up" => badge(Tone::Bad, "gave up"),
        other => badge(Tone::Busy, other),
    }
}

fn tries(tries: &[Try]) -> Markup {
    let Some(last) = tries.last() else {
        return html! {};
    };
    let said = |one: &Try| match (one.status, &one.error) {
        (Some(status), _) => status.to_string(),
        (None, Some(error)) => error.clone(),
        (None, None) => "no answer".to_owned(),
    };
    html! {
        details {
            summary { (format::counted(tries.len() as u64, "try")) ", last " (said(last)) }
            ol {
                @for one in tries {
                    li {
                        (one.number) ". " (said(one)) " after " (format::duration_ms(one.latency_ms)) ", " (time_text(&one.at))
                        @if !one.reply.is_empty() { pre { (one.reply) } }
                    }
                }
            }
        }
    }
}

pub(super) async fn ask_replay(request: PageRequest) -> Shown {
    request.require(request.rights().enqueue)?;
    let question = Question {
        action: "/jobs/deliveries/replay",
        text: html! { p { "Every delivery that gave up is tried again, with all its tries." } },
        fields: html! {},
        button: "Send them again",
        is_dangerous: false,
        back: PATH,
    };
    let page = Page {
        title: "Send them again?".to_owned(),
        nav: Nav::Jobs,
        content: question.ask(&request),
    };
    Ok(page.render(&request))
}

pub(super) async fn replay(request: PageRequest) -> Shown {
    let body = json!({"state": "gave_up"});
    let answer = request.post("/v1/deliveries/replay", Some(body)).await?;
    let count = answer["replayed"].as_u64().unwrap_or(0);
    Ok(redirect(&format!("{PATH}?done=replay&n={count}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestConsole;

    #[tokio::test]
    async fn deliveries_show_their_tries_and_can_be_sent_again() {
        let console = TestConsole::open();
        let tries = json!([{"number": 1, "at": "2026-11-15T09:00:00Z", "latency_ms": 12, "status": 500, "reply": "<oops>"}]);
        console.answer(
            "/v1/deliveries",
            json!({"deliveries": [{"id": "1", "job": "77", "event": "succeeded", "url": "http://10.0.0.1/hook",
                "state": "gave_up", "tries": tries}]}),
        );
        let page = console.get("/jobs/deliveries?state=gave_up").await;
        for part in [
            "/jobs/77",
            "gave up",
            "1 try, last 500",
            "&lt;oops&gt;",
            "/jobs/deliveries/replay",
        ] {
            assert!(page.body.contains(part), "{part} is missing in {}", page.body);
        }
        assert!(
            console
                .reads()
                .contains(&"/v1/deliveries?state=gave_up&limit=50".to_owned())
        );
    }
}
