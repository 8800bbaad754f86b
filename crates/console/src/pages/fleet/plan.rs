//! What a rebalance would do, before it is done.

use maud::{Markup, html};
use serde_json::json;

use super::wire::Plan;
use crate::format;
use crate::html::{Question, card, link_button};
use crate::layout::{Nav, Page};
use crate::pages::Shown;
use crate::request::{PageRequest, redirect};
use crate::table::Table;

pub(super) async fn show(request: PageRequest) -> Shown {
    let plan: Plan = request.get("/v1/fleet/plan").await?;
    let content = html! {
        p.crumbs { a href="/fleet" { "Fleet" } " / plan" }
        p { (proof(&plan)) }
        (card("Steps", steps(&plan)))
        @if !plan.unplaced.is_empty() {
            (card("Fit nowhere", html! { p { (plan.unplaced.join(", ")) } }))
        }
        (ask(&request, &plan))
    };
    let page = Page {
        title: "Plan".to_owned(),
        nav: Nav::Fleet,
        content,
    };
    Ok(page.render(&request))
}

/// Why there is no better plan.
fn proof(plan: &Plan) -> Markup {
    let spread = plan.spread_before;
    html! {
        @if plan.moves == 0 {
            strong { "Nothing has to be moved." }
            " The spread between instances is " (spread)
            @if spread > 1 { ": workers are on their way already, or limits keep them where they are" }
            "."
        } @else {
            strong { (format::counted(plan.moves, "move")) }
            "; no plan that ends as even needs fewer than " (plan.lower_bound)
            ". The spread between instances goes from " (spread) " to " (plan.spread_after) "."
        }
    }
}

fn steps(plan: &Plan) -> Markup {
    let mut table = Table::new("Steps of the plan", "There is no step to take.")
        .words("Worker")
        .words("From")
        .words("To");
    for step in &plan.steps {
        table.row(vec![
            html! { (step.worker) },
            html! { (step.from.as_deref().unwrap_or("nowhere")) },
            html! { (step.to) },
        ]);
    }
    table.render()
}

fn ask(request: &PageRequest, plan: &Plan) -> Markup {
    if plan.moves == 0 || !request.rights().admin {
        return html! { p { (link_button("/fleet", "Back to the fleet")) } };
    }
    let question = Question {
        action: "/fleet/plan",
        text: html! {
            p {
                "Each worker that moves is stopped before it starts elsewhere. The plan is made anew when it is \
                 applied, from what the fleet is then."
            }
        },
        fields: html! {},
        button: "Move them now",
        is_dangerous: false,
        back: "/fleet",
    };
    question.ask(request)
}

pub(super) async fn apply(request: PageRequest) -> Shown {
    request
        .post("/v1/fleet/relocate", Some(json!({"all": true, "policy": "even"})))
        .await?;
    Ok(redirect("/fleet?done=relocate"))
}
