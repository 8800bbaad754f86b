//! The room: how full it is, how well it serves, and which tags it holds.

mod actions;
mod series;
mod tag;
mod wire;

use axum::Router;
use axum::routing::{get, post};
use maud::{Markup, html};

use self::wire::{Place, Room, Tag, Tags};
use super::Shown;
use super::charts::charts;
use super::service::Service;
use crate::failure::Failure;
use crate::form::with_query;
use crate::format;
use crate::html::{Tone, badge, card, figure, figures, meter};
use crate::layout::{Nav, Page};
use crate::request::PageRequest;
use crate::table::Table;

/// Tags in each of the lists of the page.
const LISTED: &str = "10";
/// Tags on one page of a search.
const FOUND: &str = "50";

pub(super) fn router() -> Router {
    Router::new()
        .route("/room", get(room))
        .route("/room/tags/{tag}", get(tag::page))
        .route("/room/tags/{tag}/warm", post(actions::warm))
        .route("/room/tags/{tag}/evict", post(actions::evict))
        .route(
            "/room/tags/{tag}/erase",
            get(actions::ask_erase).post(actions::erase),
        )
        .route("/room/tags/{tag}/export", get(actions::export))
}

async fn room(request: PageRequest) -> Shown {
    let room: Room = request.get("/v1/room").await?;
    let service = Service::read(&request, "room").await?;
    let lists = match request.query("prefix") {
        Some(prefix) => found(&request, prefix).await?,
        None => hottest_and_biggest(&request).await?,
    };
    let content = html! {
        @if let Some(service) = &service { (head(service, &room)) }
        section.card aria-label="Figures" { (numbers(&room)) }
        div.card.charts { (charts(&request, series::of(&room.mode)).await?) }
        (search(request.query("prefix")))
        (lists)
    };
    let page = Page {
        title: "Room".to_owned(),
        nav: Nav::Room,
        content,
    };
    Ok(page.render(&request))
}

fn head(service: &Service, room: &Room) -> Markup {
    service.head(html! {
        span {
            @match room.mode.as_str() {
                "tiered" => "over a Redis, with a cold tier beside it",
                _ if room.persist => "in this process, with a cold tier on disk",
                _ => "in this process, in memory only",
            }
        }
    })
}

fn numbers(room: &Room) -> Markup {
    let used = room.memory_bytes.unwrap_or_default();
    let memory = match room.memory_limit_bytes.filter(|limit| *limit > 0) {
        Some(limit) => {
            let words = format!("{} of {}", format::bytes(used), format::bytes(limit));
            meter("Memory", used as f64 / limit as f64, &words)
        }
        None => html! { (format::bytes(used)) " " span.quiet { "no limit" } },
    };
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let rate = |rate: Option<f64>| or_dash(rate.map(format::rate));
    let count = |count: Option<u64>| or_dash(count.map(format::count));
    figures(html! {
        (figure("Memory", memory))
        (figure("Hit ratio", or_dash(room.hit_ratio.map(format::percent))))
        (figure("Loads", rate(room.loads_per_second)))
        (figure("Staleness", or_dash(room.staleness_seconds.map(format::duration_seconds))))
        (figure("Keys", count(room.keys)))
        (figure("Tags in memory", count(room.tags_hot)))
        (figure("Tags on disk", count(room.tags_cold)))
        (figure("Space on disk", or_dash(room.disk_bytes.map(format::bytes))))
        (figure("Clients", count(room.clients)))
        (figure("Commands", rate(room.commands_per_second)))
        (figure("Saved keys", rate(room.saved_per_second)))
        (figure("Evicted tags", rate(room.evictions_per_second)))
    })
}

fn search(prefix: Option<&str>) -> Markup {
    html! {
        form.card.find role="search" method="get" action="/room" {
            label for="prefix" { "Find tags that begin with" }
            input #prefix type="search" name="prefix" value=[prefix] autocomplete="off" spellcheck="false"
                placeholder="user:";
            button type="submit" { "Find" }
            @if prefix.is_some() { a.button href="/room" { "Show hottest and biggest" } }
        }
    }
}

async fn hottest_and_biggest(request: &PageRequest) -> Result<Markup, Failure> {
    let list = |by: &'static str| {
        let path = with_query("/v1/room/tags", [("by", Some(by)), ("limit", Some(LISTED))]);
        async move { request.get::<Tags>(&path).await }
    };
    let (hottest, biggest) = (list("hottest").await?, list("biggest").await?);
    Ok(html! {
        div.pair {
            (card("Hottest tags", tag_table("Hottest tags", "No tag is in memory.", &hottest.tags)))
            (card("Biggest tags", tag_table("Biggest tags", "There is no tag yet.", &biggest.tags)))
        }
    })
}

async fn found(request: &PageRequest, prefix: &str) -> Result<Markup, Failure> {
    let cursor = request.query("cursor");
    let pairs = [
        ("prefix", Some(prefix)),
        ("limit", Some(FOUND)),
        ("cursor", cursor),
    ];
    let found: Tags = request.get(&with_query("/v1/room/tags", pairs)).await?;
    let next = found.cursor.as_deref();
    let next = next.map(|cursor| with_query("/room", [("prefix", Some(prefix)), ("cursor", Some(cursor))]));
    let title = format!("Tags that begin with “{prefix}”");
    Ok(card(
        &title,
        html! {
            (tag_table(&title, "No tag begins so.", &found.tags))
            @if let Some(next) = next { p.pager { a.button href=(next) rel="next" { "More" } } }
        },
    ))
}

fn tag_table(caption: &str, empty: &str, tags: &[Tag]) -> Markup {
    let mut table = Table::new(caption, empty)
        .words("Tag")
        .words("Where")
        .numbers("Keys")
        .numbers("Size")
        .numbers("Last used");
    for tag in tags {
        table.row(vec![
            html! { a.name href=(tag.page()) { (shown(&tag.tag)) } },
            place(tag),
            html! { (tag.keys.map(format::count).unwrap_or_default()) },
            html! { (tag.bytes.map(format::bytes).unwrap_or_default()) },
            html! { (idle(tag.idle_seconds)) },
        ]);
    }
    table.render()
}

/// Where a tag is, and whether its newest state is in memory only.
fn place(tag: &Tag) -> Markup {
    html! {
        @match tag.place {
            Place::Memory => { (badge(Tone::Busy, "memory")) }
            Place::Disk => { (badge(Tone::Plain, "disk")) }
            Place::Both => { (badge(Tone::Good, "memory + disk")) }
        }
        @if tag.dirty { " " (badge(Tone::Warning, "unsaved")) }
    }
}

fn idle(seconds: Option<f64>) -> String {
    match seconds {
        None => "–".to_owned(),
        Some(seconds) if seconds < 1.0 => "now".to_owned(),
        Some(seconds) => format!("{} ago", format::duration_seconds(seconds.floor())),
    }
}

/// The name of a tag, where there is one to see.
fn shown(tag: &str) -> &str {
    if tag.is_empty() { "(empty)" } else { tag }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::TestConsole;

    fn tag(name: &str, place: &str) -> serde_json::Value {
        json!({"tag": name, "keys": 3, "bytes": 2048, "idle_seconds": 90.0, "place": place, "dirty": false})
    }

    fn console() -> TestConsole {
        let console = TestConsole::open();
        console.answer(
            "/v1/room",
            json!({"mode": "embedded", "memory_bytes": 64 << 20, "memory_limit_bytes": 256 << 20, "keys": 12, "tags_hot": 4, "tags_cold": 9,
                "clients": 1, "commands_per_second": 2.5, "hit_ratio": 0.984, "loads_per_second": 0.5,
                "staleness_seconds": 1.2, "evictions_per_second": 0.0, "saved_per_second": 3.0,
                "disk_bytes": 4096, "persist": true}),
        );
        let service = json!({"state": "ready", "detail": null, "address": "127.0.0.1:6380"});
        console.answer("/v1/house", json!({"services": {"room": service, "jobs": null}}));
        console.answer(
            "/v1/room/tags",
            json!({"tags": [tag("user:7", "both"), tag("a/b <c>", "disk")], "cursor": "next one"}),
        );
        console
    }

    #[tokio::test]
    async fn the_room_shows_its_figures_and_its_tags() {
        let page = console().get("/room").await;
        assert_eq!(page.status, 200);
        for part in [
            "64 MiB of 256 MiB",
            "98.4 %",
            "with a cold tier on disk",
            "/room/tags/user%3A7",
            "/room/tags/a%2Fb%20%3Cc%3E",
            "a/b &lt;c&gt;",
            "1 min 30 s ago",
        ] {
            assert!(page.body.contains(part), "{part} is missing in {}", page.body);
        }
    }

    #[tokio::test]
    async fn a_search_asks_for_the_beginning_and_leads_on() {
        let console = console();
        let page = console.get("/room?prefix=user%3A&cursor=c%261").await;
        assert!(
            console
                .reads()
                .contains(&"/v1/room/tags?prefix=user%3A&limit=50&cursor=c%261".to_owned())
        );
        assert!(
            page.body.contains("/room?prefix=user%3A&amp;cursor=next%20one"),
            "{}",
            page.body
        );
        assert!(!page.body.contains("Hottest tags"));
    }

    #[tokio::test]
    async fn a_house_in_memory_alone_has_no_disk_to_tell_of() {
        let console = console();
        let room = json!({"mode": "embedded", "memory_bytes": 1024, "keys": null, "persist": false,
            "memory_limit_bytes": null, "tags_cold": null, "hit_ratio": null, "staleness_seconds": null});
        console.answer("/v1/room", room);
        console.answer("/v1/room/tags", json!({"tags": [], "cursor": null}));
        let page = console.get("/room").await;
        for part in ["in memory only", "no limit", "There is no tag yet."] {
            assert!(page.body.contains(part), "{part} is missing in {}", page.body);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_linked_as_they_are() {
        let tag: Tag =
            serde_json::from_value(json!({"tag": "\u{fffd}x", "tag_base64": "/3g=", "place": "disk"}))
                .unwrap();
        assert_eq!(tag.page(), "/room/tags/%FFx");
    }
}
