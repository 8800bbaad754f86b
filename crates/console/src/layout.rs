//! The frame around every page.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use crate::assets;
use crate::html::{form_word, notice};
use crate::request::PageRequest;

/// Which part of the server a page is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nav {
    Overview,
    Room,
    Jobs,
    Fanout,
    Ids,
    Fleet,
    /// Pages that belong to no part.
    None,
}

/// Name and path of each part, in the order of the navigation. The path of ids is not `/ids`: katsubushi's
/// clients fetch ids there.
const PARTS: [(Nav, &str, &str); 6] = [
    (Nav::Overview, "Overview", "/"),
    (Nav::Room, "Room", "/room"),
    (Nav::Jobs, "Jobs", "/jobs"),
    (Nav::Fanout, "Fan-out", "/fanout"),
    (Nav::Ids, "Ids", "/ids/numbers"),
    (Nav::Fleet, "Fleet", "/fleet"),
];

impl Nav {
    /// Where a path belongs to.
    pub(crate) fn of_path(path: &str) -> Nav {
        let found = PARTS[1..].iter().find(|(.., prefix)| path.starts_with(prefix));
        found.map_or(Nav::None, |(nav, ..)| *nav)
    }
}

/// A page: what it is called, where it belongs, and what is in it.
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) nav: Nav,
    pub(crate) content: Markup,
}

impl Page {
    /// Writes the whole document.
    pub(crate) fn render(self, request: &PageRequest) -> Response {
        let document = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) " · nagaya" }
                    link rel="icon" type="image/svg+xml" href=(assets::icon_path());
                    link rel="stylesheet" href=(assets::style_path());
                    // Not deferred: it sets the colours that were chosen before anything is drawn.
                    script src=(assets::script_path()) {}
                }
                body {
                    a.skip href="#main" { "Skip to the content" }
                    (header_of(request, self.nav))
                    main #main tabindex="-1" {
                        (notice(request))
                        // Filled by the script when updates fail.
                        p.notice.bad #stale role="status" hidden {}
                        div #live {
                            h1 { (self.title) }
                            (self.content)
                        }
                    }
                    footer {
                        p { "nagaya " (request.console.0.config.version) }
                        // A browser sends no token along, so these open only where none is asked for.
                        @if !request.console.0.config.asks_token {
                            p { a href="/openapi.json" { "API" } " · " a href="/metrics" { "Metrics" } }
                        }
                    }
                }
            }
        };
        let media_type = HeaderValue::from_static("text/html; charset=utf-8");
        ([(header::CONTENT_TYPE, media_type)], document.into_string()).into_response()
    }
}

fn header_of(request: &PageRequest, current: Nav) -> Markup {
    let is_in = request.info.session.is_some() || !request.console.0.config.asks_token;
    html! {
        header.top {
            a.brand href="/" {
                img src=(assets::icon_path()) alt="" width="22" height="22";
                "nagaya"
            }
            @if is_in {
                nav aria-label="Parts of the server" {
                    ul {
                        @for (nav, name, path) in PARTS {
                            li { a href=(path) aria-current=[(nav == current).then_some("page")] { (name) } }
                        }
                    }
                }
            }
            div.tools {
                @if request.rights().is_read_only() { span.badge.plain { "read-only" } }
                // Shown by the script, which is what they need.
                button.tool #updates type="button" hidden aria-pressed="false" { "Pause updates" }
                button.tool #theme type="button" hidden { "Theme: system" }
                @if request.info.session.is_some() {
                    form method="post" action="/sign-out" {
                        (form_word(request))
                        button.tool type="submit" { "Sign out" }
                    }
                }
            }
        }
    }
}
