//! What an operator can do with instances, workers and held stops.

use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::json;

use super::wire::{Fleet, Instance, InstanceState};
use crate::failure::Failure;
use crate::form::encode;
use crate::format;
use crate::html::{Question, Tone, action, form_word};
use crate::layout::{Nav, Page};
use crate::pages::Shown;
use crate::request::{PageRequest, redirect};

/// The button of an instance's card: drain it, or have it take workers again.
pub(super) fn instance_button(request: &PageRequest, instance: &Instance) -> Markup {
    if !request.rights().admin {
        return html! {};
    }
    let base = format!("/fleet/instances/{}", encode(&instance.name));
    html! {
        @match instance.state {
            InstanceState::Live => (action(&format!("{base}/drain"), "Drain…", Tone::Plain))
            InstanceState::Draining => {
                form method="post" action={ (base) "/undrain" } {
                    (form_word(request))
                    button type="submit" { "Take workers again" }
                }
            }
            InstanceState::Leaving | InstanceState::Dead => {}
        }
    }
}

pub(super) async fn ask_drain(Path(name): Path<String>, request: PageRequest) -> Shown {
    let fleet: Fleet = request.get("/v1/fleet").await?;
    if !fleet.instances.iter().any(|instance| instance.name == name) {
        return Err(Failure::not_found(format!("there is no instance {name}")));
    }
    let workers = fleet
        .workers
        .iter()
        .filter(|worker| worker.instance.as_ref() == Some(&name))
        .count() as u64;
    let question = Question {
        action: &format!("/fleet/instances/{}/drain", encode(&name)),
        text: html! {
            p {
                strong { (name) } " gives up " (format::counted(workers, "worker")) " and takes no others. "
                "Each is stopped there before it starts elsewhere."
            }
        },
        fields: html! {},
        button: "Drain",
        is_dangerous: true,
        back: "/fleet",
    };
    Ok(page(&request, format!("Drain {name}?"), &question))
}

pub(super) async fn drain(Path(name): Path<String>, request: PageRequest) -> Shown {
    request
        .post("/v1/fleet/drain", Some(json!({"instance": name})))
        .await?;
    Ok(redirect("/fleet?done=drain"))
}

pub(super) async fn undrain(Path(name): Path<String>, request: PageRequest) -> Shown {
    request
        .post("/v1/fleet/drain", Some(json!({"instance": name, "off": true})))
        .await?;
    Ok(redirect("/fleet?done=undrain"))
}

pub(super) async fn ask_move(Path(id): Path<String>, request: PageRequest) -> Shown {
    let fleet: Fleet = request.get("/v1/fleet").await?;
    let Some(worker) = fleet.workers.iter().find(|worker| worker.id == id) else {
        return Err(Failure::not_found(format!("there is no worker {id}")));
    };
    let question = Question {
        action: &format!("/fleet/workers/{}/move", encode(&id)),
        text: html! {
            p {
                strong { (id) } " is stopped"
                @if let Some(instance) = &worker.instance { " on " strong { (instance) } }
                " and then started on the other instance with the most room."
            }
        },
        fields: html! {},
        button: "Move",
        is_dangerous: false,
        back: "/fleet",
    };
    Ok(page(&request, format!("Move {id}?"), &question))
}

pub(super) async fn relocate(Path(id): Path<String>, request: PageRequest) -> Shown {
    request
        .post("/v1/fleet/relocate", Some(json!({"worker": id, "force": true})))
        .await?;
    Ok(redirect("/fleet?done=relocate"))
}

pub(super) async fn ask_confirm(request: PageRequest) -> Shown {
    let fleet: Fleet = request.get("/v1/fleet").await?;
    let Some(held) = &fleet.manager.held else {
        return Err(Failure::not_found("nothing is held back"));
    };
    let question = Question {
        action: "/fleet/confirm",
        text: html! {
            p {
                strong { (format::count(held.stops)) " of " (format::counted(held.of, "worker")) }
                " stop, because the list does not name them any more."
            }
        },
        // These very stops: if the list changes meanwhile, nothing is confirmed.
        fields: html! { input type="hidden" name="digest" value=(held.digest); },
        button: "Stop them",
        is_dangerous: true,
        back: "/fleet",
    };
    Ok(page(&request, "Confirm the stops?".to_owned(), &question))
}

pub(super) async fn confirm(request: PageRequest) -> Shown {
    let digest = request
        .form("digest")
        .ok_or_else(|| Failure::not_found("the form names no stops"))?;
    request
        .post("/v1/fleet/confirm", Some(json!({"digest": digest})))
        .await?;
    Ok(redirect("/fleet?done=confirm"))
}

fn page(request: &PageRequest, title: String, question: &Question<'_>) -> Response {
    let page = Page {
        title,
        nav: Nav::Fleet,
        content: question.ask(request),
    };
    page.render(request)
}
