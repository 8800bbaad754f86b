//! The fleet: which worker runs where, what moved, and what an operator can do about it.

mod history;
mod operate;
mod picture;
mod plan;
mod wire;

use axum::Router;
use axum::routing::{get, post};
use maud::{Markup, html};

use self::wire::{Events, Fleet, Look, Worker};
use super::Shown;
use super::charts::charts;
use crate::chart::Unit;
use crate::form::encode;
use crate::format;
use crate::html::{Tone, action, badge, card, figure, figures, link_button, time};
use crate::layout::{Nav, Page};
use crate::request::PageRequest;
use crate::table::Table;

/// Workers in the table at most; a filter finds the others.
const LISTED: usize = 30;
/// Events that the chart and the list are made of.
const EVENTS: usize = 500;

pub(super) fn router() -> Router {
    Router::new()
        .route("/fleet", get(fleet))
        .route("/fleet/plan", get(plan::show).post(plan::apply))
        .route(
            "/fleet/instances/{name}/drain",
            get(operate::ask_drain).post(operate::drain),
        )
        .route("/fleet/instances/{name}/undrain", post(operate::undrain))
        .route(
            "/fleet/workers/{id}/move",
            get(operate::ask_move).post(operate::relocate),
        )
        .route("/fleet/confirm", get(operate::ask_confirm).post(operate::confirm))
}

async fn fleet(request: PageRequest) -> Shown {
    let fleet: Fleet = request.get("/v1/fleet").await?;
    let events: Events = request.get(&format!("/v1/fleet/events?count={EVENTS}")).await?;
    let over_time = [
        (
            "Spread between instances",
            Unit::Number,
            &[("nagaya_fleet_spread", "spread")][..],
        ),
        (
            "Workers that fit nowhere",
            Unit::Number,
            &[("nagaya_fleet_unplaced", "workers")],
        ),
    ];
    let content = html! {
        (head(&fleet))
        (brake(&request, &fleet))
        section.card aria-label="Figures" { (numbers(&fleet)) }
        section.stack aria-labelledby="instances" {
            div.heading {
                h2 #instances { "Instances" }
                div.buttons { (link_button("/fleet/plan", "Plan a rebalance")) }
            }
            @if fleet.instances.is_empty() {
                p.nothing { "No instance has joined. Start one with " code { "nagaya fleet agent" } "." }
            }
            (picture::draw(&request, &fleet))
        }
        div.card.charts {
            (history::chart(&events.events, format::now_ms()))
            (charts(&request, &over_time).await?)
        }
        (card("Workers", workers(&request, &fleet)))
        (card("Last events", history::table(&events.events)))
    };
    let page = Page {
        title: "Fleet".to_owned(),
        nav: Nav::Fleet,
        content,
    };
    Ok(page.render(&request))
}

fn head(fleet: &Fleet) -> Markup {
    html! {
        p.lead {
            @if !fleet.app.is_empty() { span { "App " strong { (fleet.app) } } }
            span {
                @match fleet.manager.is_first_manager {
                    Some(true) => "This server began as its first manager."
                    Some(false) => "Another manager was there before this server."
                    None => "This server's manager has not looked at the fleet yet."
                }
            }
            @if !fleet.settled {
                (badge(Tone::Warning, "not settled"))
                span { "The store was restarted or failed over; nothing moves until all leases of before are over." }
            }
        }
    }
}

/// What the brake holds back, if anything.
fn brake(request: &PageRequest, fleet: &Fleet) -> Markup {
    let Some(held) = &fleet.manager.held else {
        return html! {};
    };
    html! {
        section.card.alarm aria-labelledby="held" {
            h2 #held { "Stops are held back" }
            p {
                "The list would stop " strong { (format::count(held.stops)) " of " (format::counted(held.of, "worker")) }
                ", more than the brake lets pass unseen. They go on until somebody confirms the stops, or the list is mended."
            }
            @if request.rights().admin { (action("/fleet/confirm", "Confirm the stops…", Tone::Bad)) }
        }
    }
}

fn numbers(fleet: &Fleet) -> Markup {
    let placed = fleet
        .workers
        .iter()
        .filter(|worker| worker.look() == Look::Placed)
        .count();
    html! {
        (figures(html! {
            (figure("Instances", format::count(fleet.instances.len() as u64)))
            (figure("Workers", format::count(fleet.workers.len() as u64)))
            (figure("Placed", format::count(placed as u64)))
            (figure("Fit nowhere", format::count(fleet.manager.unplaced)))
            (figure("Lists read", format::count(fleet.manager.syncs)))
            (figure("Lists unreadable", format::count(fleet.manager.sync_failures)))
        }))
        p.quiet { (sentence(&fleet.manager.bounds)) }
    }
}

/// The text with a capital and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), letters.as_str()),
        None => String::new(),
    }
}

fn workers(request: &PageRequest, fleet: &Fleet) -> Markup {
    let wanted = request.query("worker");
    let fits = |worker: &&Worker| wanted.is_none_or(|text| worker.id.contains(text));
    let found: Vec<&Worker> = fleet.workers.iter().filter(fits).collect();
    let may_move = request.rights().admin;
    let mut table = Table::new("Workers", "No such worker.")
        .words("Worker")
        .words("State")
        .words("Instance")
        .words("Why there")
        .words("Since")
        .numbers("Epoch");
    if may_move {
        table = table.words("Action");
    }
    for worker in found.iter().take(LISTED) {
        let mut cells = vec![
            html! { (worker.id) },
            look_badge(worker.look()),
            html! { (worker.instance.as_deref().unwrap_or("–")) },
            html! { (worker.why) },
            time(worker.since_ms),
            html! { (worker.epoch) },
        ];
        if may_move {
            let href = format!("/fleet/workers/{}/move", encode(&worker.id));
            let can_move = worker.look() == Look::Placed && fleet.instances.len() > 1;
            cells.push(html! { @if can_move { (action(&href, "Move…", Tone::Plain)) } });
        }
        table.row(cells);
    }
    html! {
        form.find role="search" method="get" action="/fleet" {
            label for="worker" { "Workers whose name contains" }
            input #worker type="search" name="worker" value=[wanted] autocomplete="off" spellcheck="false";
            button type="submit" { "Find" }
        }
        (table.render())
        @if found.len() > LISTED {
            p.quiet { "The first " (LISTED) " of " (format::count(found.len() as u64)) "; find the others by name." }
        }
    }
}

fn look_badge(look: Look) -> Markup {
    let tone = match look {
        Look::Placed => Tone::Good,
        Look::Stopping => Tone::Busy,
        Look::Removed => Tone::Plain,
        Look::Waiting => Tone::Warning,
    };
    badge(tone, look.word())
}

#[cfg(test)]
mod tests {
    use axum::http::Method;
    use serde_json::{Value, json};

    use crate::testing::{TestConsole, cookie_of};

    fn worker(id: &str, state: &str, instance: Option<&str>) -> Value {
        json!({"id": id, "state": state, "removing": false, "instance": instance, "epoch": 4, "why": "install",
            "since_ms": 1_700_000_000_000_i64})
    }

    fn instance(name: &str, state: &str) -> Value {
        json!({"name": name, "state": state, "workers": 1, "weight": 1, "capacity": 8, "zone": "west",
            "labels": ["gpu"], "incarnation": 3, "since_ms": 1_700_000_000_000_i64})
    }

    /// Two instances, of which one is drained, and stops that the brake holds.
    fn console() -> TestConsole {
        with_fleet(TestConsole::open())
    }

    fn with_fleet(console: TestConsole) -> TestConsole {
        console.answer(
            "/v1/fleet",
            json!({"app": "cams", "settled": true, "unreadable": [],
                "instances": [instance("one", "live"), instance("two/b", "draining")],
                "workers": [worker("cam-1", "assigned", Some("one")), worker("cam-2", "revoking", Some("two/b")),
                    worker("cam-3", "pending", None)],
                "manager": {"is_first_manager": true, "unplaced": 1, "syncs": 5, "sync_failures": 0,
                    "held": {"digest": "abc", "stops": 2, "of": 3}, "bounds": "dark at most 6.5 s"}}),
        );
        console.answer(
            "/v1/fleet/events",
            json!({"events": [{"id": "1700000000000-0", "what": "joined", "worker": null, "instance": "one",
                "epoch": 1, "why": "new"}]}),
        );
        console
    }

    #[tokio::test]
    async fn the_picture_has_a_cell_for_each_worker_and_says_so_in_words() {
        let page = console().get("/fleet").await;
        assert_eq!(page.status, 200);
        for part in [
            "Workers: 1 placed",
            "Workers: 1 stopping, to move",
            "1 worker without a place",
            "1 worker of 8",
            "zone west",
            "/fleet/instances/one/drain",
            "/fleet/instances/two%2Fb/undrain",
            "/fleet/workers/cam-1/move",
            "2 of 3 workers",
            "Dark at most 6.5 s.",
        ] {
            assert!(page.body.contains(part), "{part} is missing in {}", page.body);
        }
        assert!(
            !page.body.contains("/fleet/workers/cam-2/move"),
            "it is on its way already"
        );
    }

    #[tokio::test]
    async fn who_may_only_read_sees_the_fleet_without_buttons() {
        let console = with_fleet(TestConsole::with_token("reader"));
        console.answer(
            "/v1/whoami",
            json!({"tenant": "default", "scopes": ["read"], "is_house": false}),
        );
        let signed_in = console.post("/sign-in", None, "token=reader").await;
        let cookie = cookie_of(signed_in.header("set-cookie"));
        let page = console.get_as("/fleet", &cookie).await;
        assert!(page.body.contains("cam-1"), "{}", page.body);
        for button in ["/drain", "/undrain", "/move", "/fleet/confirm"] {
            assert!(!page.body.contains(button), "{button} in {}", page.body);
        }
    }

    #[tokio::test]
    async fn workers_are_found_by_a_part_of_their_name() {
        let page = console().get("/fleet?worker=-3").await;
        let table = page.body.split("<caption>Workers</caption>").nth(1).unwrap();
        assert!(table.contains("cam-3") && !table.contains("cam-1"), "{table}");
    }

    #[tokio::test]
    async fn draining_is_asked_for_and_then_done() {
        let console = console();
        let asked = console.get("/fleet/instances/two%2Fb/drain").await;
        assert!(asked.body.contains("gives up 1 worker"), "{}", asked.body);
        assert_eq!(console.get("/fleet/instances/nobody/drain").await.status, 404);
        console.answer_to(Method::POST, "/v1/fleet/drain", 200, json!({"workers": 1}));
        let done = console.post("/fleet/instances/two%2Fb/drain", None, "").await;
        assert_eq!(done.location(), "/fleet?done=drain");
        console.post("/fleet/instances/two%2Fb/undrain", None, "").await;
        let bodies: Vec<Value> = console
            .changes()
            .into_iter()
            .filter_map(|(.., body)| body)
            .collect();
        assert_eq!(
            bodies,
            [
                json!({"instance": "two/b"}),
                json!({"instance": "two/b", "off": true})
            ]
        );
    }

    #[tokio::test]
    async fn a_plan_is_shown_before_it_is_applied() {
        let console = console();
        let step = json!({"worker": "cam-1", "from": "one", "to": "two"});
        let plan = json!({"steps": [step], "unplaced": [], "moves": 1, "lower_bound": 1, "spread_before": 2, "spread_after": 0});
        console.answer("/v1/fleet/plan", plan);
        let page = console.get("/fleet/plan").await;
        assert!(
            page.body.contains("1 move") && page.body.contains("Move them now"),
            "{}",
            page.body
        );
        console.answer_to(Method::POST, "/v1/fleet/relocate", 200, json!({"moves": 1}));
        assert_eq!(
            console.post("/fleet/plan", None, "").await.location(),
            "/fleet?done=relocate"
        );
        assert_eq!(
            console.changes()[0].2,
            Some(json!({"all": true, "policy": "even"}))
        );
    }

    #[tokio::test]
    async fn a_plan_without_moves_offers_none() {
        let console = console();
        let plan = json!({"steps": [], "unplaced": ["cam-9"], "moves": 0, "lower_bound": 0, "spread_before": 0, "spread_after": 0});
        console.answer("/v1/fleet/plan", plan);
        let page = console.get("/fleet/plan").await;
        assert!(
            page.body.contains("cam-9") && !page.body.contains("Move them now"),
            "{}",
            page.body
        );
    }

    #[tokio::test]
    async fn exactly_the_stops_that_were_shown_are_confirmed() {
        let console = console();
        let page = console.get("/fleet/confirm").await;
        assert!(
            page.body.contains(r#"name="digest" value="abc""#),
            "{}",
            page.body
        );
        console.answer_to(Method::POST, "/v1/fleet/confirm", 200, json!({"confirmed": 2}));
        assert_eq!(
            console
                .post("/fleet/confirm", None, "digest=abc")
                .await
                .location(),
            "/fleet?done=confirm"
        );
        assert_eq!(console.changes()[0].2, Some(json!({"digest": "abc"})));
    }

    #[tokio::test]
    async fn moving_a_worker_names_it_and_where_it_is() {
        let console = console();
        let page = console.get("/fleet/workers/cam-1/move").await;
        assert!(page.body.contains("Move cam-1?"), "{}", page.body);
        console.answer_to(
            Method::POST,
            "/v1/fleet/relocate",
            200,
            json!({"worker": "cam-1", "to": "two/b"}),
        );
        console.post("/fleet/workers/cam-1/move", None, "").await;
        assert_eq!(
            console.changes()[0].2,
            Some(json!({"worker": "cam-1", "force": true}))
        );
    }
}
