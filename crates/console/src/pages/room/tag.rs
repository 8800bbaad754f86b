//! One tag: where it lives, and what is in it.

use maud::{Markup, html};

use super::wire::{Place, WholeTag};
use super::{idle, place, shown};
use crate::format;
use crate::html::{Tone, action, card, facts, form_word, time};
use crate::layout::{Nav, Page};
use crate::pages::Shown;
use crate::request::PageRequest;
use crate::table::Table;

/// The requested tag, still encoded: tags are bytes, and need not be text.
pub(super) fn encoded(request: &PageRequest) -> &str {
    let path = request.info.path.split('?').next().unwrap_or_default();
    path.split('/').nth(3).unwrap_or_default()
}

/// Returns the API path of the requested tag.
pub(super) fn api_path(request: &PageRequest) -> String {
    format!("/v1/room/tags/{}", encoded(request))
}

pub(super) async fn page(request: PageRequest) -> Shown {
    let whole: WholeTag = request.get(&api_path(&request)).await?;
    let content = html! {
        p.crumbs { a href="/room" { "Room" } " / tag" }
        (about(&whole))
        (buttons(&request, &whole))
        (keys(&whole))
    };
    let page = Page {
        title: shown(&whole.tag.tag).to_owned(),
        nav: Nav::Room,
        content,
    };
    Ok(page.render(&request))
}

fn about(whole: &WholeTag) -> Markup {
    let tag = &whole.tag;
    let words = match tag.place {
        Place::Memory => "in memory; the disk does not have it yet",
        Place::Disk => "on disk alone; the next request for it loads all of it",
        Place::Both if tag.dirty => "in memory, with changes that the disk does not have yet",
        Place::Both => "in memory, and saved on disk",
    };
    let mut rows = vec![
        ("Lives", html! { (place(tag)) " " span.quiet { (words) } }),
        ("Keys", html! { (format::count(whole.keys_total)) }),
    ];
    rows.extend(tag.bytes.map(|bytes| ("Size", html! { (format::bytes(bytes)) })));
    rows.push(("Last used", html! { (idle(tag.idle_seconds)) }));
    rows.push(("Saved", whole.saved_ms.map_or_else(|| html! { "never" }, time)));
    html! { section.card { (facts(&rows)) } }
}

fn buttons(request: &PageRequest, whole: &WholeTag) -> Markup {
    let base = format!("/room/tags/{}", encoded(request));
    let is_hot = whole.tag.place != Place::Disk;
    html! {
        div.buttons {
            @if request.rights().admin {
                @if is_hot {
                    (post_button(request, &format!("{base}/evict"), "Evict to disk"))
                } @else {
                    (post_button(request, &format!("{base}/warm"), "Warm"))
                }
            }
            a.button href={ (base) "/export" } download { "Export" }
            @if request.rights().admin { (action(&format!("{base}/erase"), "Erase…", Tone::Bad)) }
        }
    }
}

/// A button that does something that needs no question.
fn post_button(request: &PageRequest, to: &str, text: &str) -> Markup {
    html! { form method="post" action=(to) { (form_word(request)) button type="submit" { (text) } } }
}

fn keys(whole: &WholeTag) -> Markup {
    let mut table = Table::new("Keys of the tag", "The tag has no keys.")
        .words("Key")
        .words("Type")
        .numbers("Size")
        .numbers("Expires");
    for key in &whole.keys_listed {
        table.row(vec![
            html! { code { (key.key) } },
            html! { (key.kind) },
            html! { (key.bytes.map(format::bytes).unwrap_or_default()) },
            key.expires_ms.map_or_else(|| html! { "never" }, time),
        ]);
    }
    let listed = whole.keys_listed.len() as u64;
    card(
        "Keys",
        html! {
            (table.render())
            @if whole.keys_total > listed {
                p.quiet { "The first " (format::count(listed)) " of " (format::count(whole.keys_total)) "." }
            }
        },
    )
}
