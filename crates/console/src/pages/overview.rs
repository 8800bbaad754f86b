//! The server at a glance: every service's health, its figures, and a chart.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::Shown;
use crate::chart::Unit;
use crate::failure::Failure;
use crate::format;
use crate::history::History;
use crate::html::{Tone, badge, figure, figures, meter, service_badge};
use crate::layout::{Nav, Page};
use crate::request::{PageRequest, redirect};

/// The answer of `/v1/house`.
#[derive(Debug, Deserialize)]
struct TestConsole {
    uptime_seconds: u64,
    state: String,
    services: BTreeMap<String, Option<Service>>,
}

#[derive(Debug, Deserialize)]
struct Service {
    state: String,
    detail: Option<String>,
    address: Option<String>,
    /// Its own figures, which differ from service to service.
    #[serde(flatten)]
    figures: BTreeMap<String, Value>,
}

/// The answer of `/readyz`, for servers that run only some of the services.
#[derive(Debug, Deserialize)]
struct Readyz {
    state: String,
    uptime_seconds: u64,
    components: Vec<Component>,
}

#[derive(Debug, Deserialize)]
struct Component {
    name: String,
    state: String,
    detail: Option<String>,
}

/// How a service is shown.
struct Card {
    key: &'static str,
    name: &'static str,
    /// Where its page is, if it has one.
    path: Option<&'static str>,
    /// What it is for, shown while it is off.
    about: &'static str,
    figures: &'static [(&'static str, &'static str, Unit)],
    chart: (&'static str, Unit, &'static [(&'static str, &'static str)]),
}

const CARDS: [Card; 6] = [
    Card {
        key: "room",
        name: "Room",
        path: Some("/room"),
        about: "Keys in memory, spoken to as Redis; what is not in use rests on disk.",
        figures: &[
            ("memory_bytes", "Memory", Unit::Bytes),
            ("keys", "Keys", Unit::Number),
            ("clients", "Clients", Unit::Number),
            ("hit_ratio", "Hits", Unit::Share),
        ],
        chart: (
            "Commands",
            Unit::PerSecond,
            &[
                ("nagaya_room_commands_total", "commands"),
                ("nagaya_tiers_commands_total", "commands"),
            ],
        ),
    },
    Card {
        key: "jobs",
        name: "Jobs",
        path: Some("/jobs"),
        about: "Queues of work that is done at least once, with retries and webhooks.",
        figures: &[
            ("waiting", "Waiting", Unit::Number),
            ("running", "Running", Unit::Number),
            ("scheduled", "Scheduled", Unit::Number),
            ("failed", "Failed", Unit::Number),
        ],
        chart: (
            "Jobs",
            Unit::PerSecond,
            &[
                ("nagaya_jobs_finished_total", "finished"),
                ("nagaya_jobs_enqueued_total", "registered"),
            ],
        ),
    },
    Card {
        key: "fanout",
        name: "Fan-out",
        path: Some("/fanout"),
        about: "One request sent on to many endpoints, and what they answered.",
        figures: &[
            ("endpoints", "Endpoints", Unit::Number),
            ("in_flight", "In flight", Unit::Number),
            ("answers_ok_per_second", "Good answers", Unit::PerSecond),
            ("sheds_per_second", "Shed", Unit::PerSecond),
        ],
        chart: (
            "Requests",
            Unit::PerSecond,
            &[("nagaya_fanout_requests_total", "requests")],
        ),
    },
    Card {
        key: "ids",
        name: "Ids",
        path: Some("/ids/numbers"),
        about: "Ids that sort by time, unique over all servers.",
        figures: &[
            ("number", "Number held", Unit::Number),
            ("held_seconds", "For", Unit::Seconds),
            ("numbers_held", "Numbers taken", Unit::Number),
            ("numbers_free", "Free", Unit::Number),
        ],
        chart: ("Ids made", Unit::PerSecond, &[("nagaya_ids_issued_total", "ids")]),
    },
    Card {
        key: "fleet",
        name: "Fleet",
        path: Some("/fleet"),
        about: "Workers placed on instances, spread and moved with care.",
        figures: &[
            ("instances", "Instances", Unit::Number),
            ("workers", "Workers", Unit::Number),
            ("placed", "Placed", Unit::Number),
            ("moves", "Moves", Unit::Number),
        ],
        chart: (
            "Workers",
            Unit::Number,
            &[
                ("nagaya_fleet_workers", "workers"),
                ("nagaya_fleet_unplaced", "not placed"),
            ],
        ),
    },
    Card {
        key: "http",
        name: "HTTP",
        path: None,
        about: "This listener: the API, the metrics and these pages.",
        figures: &[
            ("requests_per_second", "Requests", Unit::PerSecond),
            ("connections", "Connections", Unit::Number),
        ],
        chart: (
            "Requests",
            Unit::PerSecond,
            &[("nagaya_http_requests_total", "requests")],
        ),
    },
];

pub(super) async fn show(request: PageRequest) -> Shown {
    let console = match request.get_if_any::<TestConsole>("/v1/house").await {
        Ok(Some(console)) => console,
        Ok(None) => from_readiness(&request).await?,
        // Tenants see their jobs, not the server.
        Err(failure) if failure.status == StatusCode::FORBIDDEN => return Ok(redirect("/jobs")),
        Err(failure) => return Err(failure),
    };
    let names: Vec<&str> = CARDS
        .iter()
        .flat_map(|card| card.chart.2)
        .map(|(key, _)| *key)
        .collect();
    let history = History::read(&request, &names).await?;
    let content = html! {
        p.lead {
            (service_badge(&console.state)) " up for " (format::duration_seconds(console.uptime_seconds as f64))
        }
        div.services {
            @for card in &CARDS {
                (card.render(console.services.get(card.key).and_then(Option::as_ref), &history))
            }
        }
    };
    let page = Page {
        title: "Overview".to_owned(),
        nav: Nav::Overview,
        content,
    };
    Ok(page.render(&request))
}

async fn from_readiness(request: &PageRequest) -> Result<TestConsole, Failure> {
    let answer = request.call(axum::http::Method::GET, "/readyz", None).await;
    // Starting and draining servers answer 503, with the same document.
    let found = serde_json::from_slice::<Readyz>(&answer.body);
    let ready =
        found.map_err(|_| Failure::new(StatusCode::BAD_GATEWAY, "the server does not say how it is"))?;
    let services = ready.components.into_iter().map(|component| {
        let service = Service {
            state: component.state,
            detail: component.detail,
            address: None,
            figures: BTreeMap::new(),
        };
        (component.name, Some(service))
    });
    Ok(TestConsole {
        uptime_seconds: ready.uptime_seconds,
        state: ready.state,
        services: services.collect(),
    })
}

impl Card {
    fn render(&self, service: Option<&Service>, history: &History) -> Markup {
        let Some(service) = service else {
            return html! {
                section.card.service.off {
                    header { h2 { (self.name) } (service_badge("off")) }
                    p.quiet { (self.about) }
                }
            };
        };
        let (title, unit, series) = self.chart;
        html! {
            section.card.service {
                header {
                    h2 {
                        @match self.path {
                            Some(path) => a href=(path) { (self.name) },
                            None => (self.name),
                        }
                    }
                    (service_badge(&service.state))
                    @if let Some(address) = &service.address { code.address { (address) } }
                }
                @if let Some(detail) = service.detail.as_deref().filter(|detail| !detail.is_empty()) {
                    p.quiet { (detail) }
                }
                @if !service.figures.is_empty() {
                    (figures(html! {
                        @for (key, name, unit) in self.figures {
                            @if let Some(value) = service.figures.get(*key).and_then(Value::as_f64) {
                                (figure(name, unit.write(value)))
                            }
                        }
                    }))
                }
                (memory(service))
                @if let Some(remark) = remark(service) { p { (badge(Tone::Warning, &remark)) } }
                (history.chart(title, unit, series).render())
            }
        }
    }
}

/// How full the room is, when it has a bound.
fn memory(service: &Service) -> Markup {
    let number = |key: &str| service.figures.get(key).and_then(Value::as_f64);
    match (number("memory_bytes"), number("memory_limit_bytes")) {
        (Some(used), Some(limit)) if limit > 0.0 => {
            let words = format!("{} of {}", Unit::Bytes.write(used), Unit::Bytes.write(limit));
            meter("Memory", used / limit, &words)
        }
        _ => html! {},
    }
}

/// A warning about a service, if any.
fn remark(service: &Service) -> Option<String> {
    let figures = &service.figures;
    if figures.get("is_held").and_then(Value::as_bool) == Some(true) {
        return Some("the brake holds a change back".to_owned());
    }
    let paused = figures
        .get("paused")
        .and_then(Value::as_u64)
        .filter(|paused| *paused > 0)?;
    Some(format!("{} paused", format::counted(paused, "queue")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::TestConsole;

    #[tokio::test]
    async fn every_service_has_its_state_and_figures() {
        let console = TestConsole::open();
        console.answer(
            "/v1/house",
            json!({"version": "1", "uptime_seconds": 3700, "state": "ready", "url": null, "services": {
                "room": {"state": "ready", "detail": null, "address": "127.0.0.1:6379", "mode": "embedded",
                    "memory_bytes": 1_572_864, "memory_limit_bytes": 3_145_728, "keys": 12345, "clients": 2, "hit_ratio": null},
                "jobs": {"state": "failed", "detail": "no disk", "address": null, "waiting": 3, "paused": 2},
                "fleet": null}}),
        );
        console.answer(
            "/v1/house/history",
            json!({"step_seconds": 10, "to_ms": 0, "names": ["nagaya_room_commands_total"],
                "series": {"nagaya_room_commands_total": [1.0, null, 5.0]}}),
        );
        let page = console.get("/").await;
        assert_eq!(page.status, 200);
        for part in [
            "1.5 MiB",
            "up for 1 h 1 min",
            "127.0.0.1:6379",
            "no disk",
            "1.5 MiB of 3 MiB",
            "2 queues paused",
            "Commands. commands: 5/s now",
        ] {
            assert!(page.body.contains(part), "{part} is missing in {}", page.body);
        }
    }

    #[tokio::test]
    async fn a_server_that_is_only_a_part_shows_what_it_knows() {
        let console = TestConsole::open();
        console.answer_to(
            axum::http::Method::GET,
            "/readyz",
            503,
            json!({"state": "starting", "uptime_seconds": 1,
                "components": [{"name": "jobs", "state": "starting", "detail": "in SQLite"}]}),
        );
        let page = console.get("/").await;
        assert!(
            page.status == 200 && page.body.contains("in SQLite"),
            "{}",
            page.body
        );
    }

    #[tokio::test]
    async fn pages_carry_headers_that_keep_others_out() {
        let page = TestConsole::open().get("/").await;
        assert!(
            page.header("content-security-policy")
                .contains("default-src 'none'")
        );
        assert_eq!(page.header("cache-control"), "no-store");
        assert_eq!(page.header("x-frame-options"), "DENY");
        assert!(!page.body.contains("style=") && !page.body.contains("onclick"));
    }
}
