//! Ids: which node holds which number, and what an id contains.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use maud::{Markup, html};
use serde::Deserialize;

use super::Shown;
use super::charts::{Wanted, charts};
use super::service::Service;
use crate::chart::Unit;
use crate::failure::Failure;
use crate::form::encode;
use crate::format;
use crate::html::{Tone, badge, card, facts, figure, figures, time};
use crate::layout::{Nav, Page};
use crate::request::PageRequest;
use crate::table::Table;

/// Numbers that are drawn at most; of larger ranges there is the table alone.
const DRAWN_MAX: u64 = 1024;
/// Numbers in one row of the picture.
const COLUMNS: u64 = 64;
/// Width of a number in the picture, with the space to the next, in its own units.
const CELL: u64 = 12;

const CHARTS: [Wanted<'static>; 2] = [
    ("Ids made", Unit::PerSecond, &[("nagaya_ids_issued_total", "ids")]),
    (
        "Clock skew",
        Unit::Seconds,
        &[("nagaya_ids_clock_behind_seconds", "skew")],
    ),
];

/// The answer of `GET /v1/ids/numbers`.
#[derive(Debug, Deserialize)]
struct Numbers {
    min: u64,
    max: u64,
    held: Vec<Held>,
    free: u64,
}

#[derive(Debug, Deserialize)]
struct Held {
    number: u64,
    name: Option<String>,
    fence: Option<u64>,
    since_ms: Option<i64>,
    expires_ms: Option<i64>,
    remaining_seconds: Option<f64>,
    #[serde(default)]
    is_mine: bool,
}

/// The answer of `GET /v1/ids/decode/ID`.
#[derive(Debug, Deserialize)]
struct Decoded {
    at_ms: i64,
    worker: u64,
    sequence: u64,
}

pub(super) fn router() -> Router {
    Router::new().route("/ids/numbers", get(numbers))
}

async fn numbers(request: PageRequest) -> Shown {
    let numbers: Numbers = request.get("/v1/ids/numbers").await?;
    let service = Service::read(&request, "ids").await?;
    let content = html! {
        @if let Some(service) = &service {
            (service.head(html! {}))
            section.card aria-label="Figures" { (own(service, &numbers)) }
        }
        div.card.charts { (charts(&request, &CHARTS).await?) }
        (card("Decode an id", decode(&request).await?))
        (card("Numbers", html! { (picture(&numbers)) (table(&numbers)) }))
    };
    let page = Page {
        title: "Ids".to_owned(),
        nav: Nav::Ids,
        content,
    };
    Ok(page.render(&request))
}

fn own(service: &Service, numbers: &Numbers) -> Markup {
    let whole = |name: &str| {
        service
            .whole(name)
            .map_or("–".to_owned(), |number| number.to_string())
    };
    let shown = |name: &str, write: fn(f64) -> String| service.number(name).map_or("–".to_owned(), write);
    figures(html! {
        (figure("Number of this server", whole("number")))
        (figure("Held for", shown("held_seconds", format::duration_seconds)))
        (figure("Fence", html! { span.long { (whole("fence")) } }))
        (figure("Ids made", shown("minted_per_second", format::rate)))
        (figure("Clock skew", shown("clock_skew_ms", |ms| format!("{} ms", format::number(ms)))))
        (figure("Numbers held", format::count(numbers.held.len() as u64)))
        (figure("Numbers free", format::count(numbers.free)))
    })
}

async fn decode(request: &PageRequest) -> Result<Markup, Failure> {
    let id = request.query("id");
    let answer = match id {
        Some(id) => {
            let decoded: Result<Decoded, Failure> =
                request.get(&format!("/v1/ids/decode/{}", encode(id))).await;
            match decoded {
                Ok(decoded) => html! { div role="status" { (explain(id, &decoded)) } },
                Err(failure) if failure.status == StatusCode::UNAUTHORIZED => return Err(failure),
                Err(failure) => html! { p.complaint role="alert" { (failure.detail) "." } },
            }
        }
        None => html! {},
    };
    Ok(html! {
        form.find method="get" action="/ids/numbers" {
            label for="id" { "Id, decimal or hexadecimal after 0x" }
            input #id type="text" name="id" value=[id] required autocomplete="off" spellcheck="false" inputmode="text";
            button type="submit" { "Decode" }
        }
        (answer)
    })
}

fn explain(id: &str, decoded: &Decoded) -> Markup {
    facts(&[
        ("Id", html! { code { (id) } }),
        (
            "Made",
            html! { (format::timestamp(decoded.at_ms)) " " span.quiet { "(" (time(decoded.at_ms)) ")" } },
        ),
        ("By number", html! { (decoded.worker) }),
        (
            "Sequence",
            html! { (decoded.sequence) span.quiet { " within its millisecond" } },
        ),
    ])
}

/// The whole range, a square for each number; those that are held stand out.
fn picture(numbers: &Numbers) -> Markup {
    let count = numbers.max.saturating_sub(numbers.min).saturating_add(1);
    if numbers.max < numbers.min || count > DRAWN_MAX {
        return html! {};
    }
    let columns = count.min(COLUMNS);
    let (width, height) = (columns * CELL, count.div_ceil(columns) * CELL);
    let words = format!(
        "Numbers {} to {}: {} held, {} free",
        numbers.min,
        numbers.max,
        numbers.held.len(),
        numbers.free
    );
    let held = numbers
        .held
        .iter()
        .filter(|held| (numbers.min..=numbers.max).contains(&held.number));
    html! {
        svg.numbers viewBox={ "0 0 " (width) " " (height) } role="img" aria-label=(words) {
            (free(count, columns))
            @for held in held {
                @let title = format!("{}: {}", held.number, held.name.as_deref().unwrap_or("held"));
                (square(held.number - numbers.min, columns, if held.is_mine { "mine" } else { "held" }, &title))
            }
        }
        ul.keys.numbers {
            @for (class, word) in [("mine", "this server"), ("held", "somebody else"), ("free", "free")] {
                li { svg viewBox="0 0 12 12" aria-hidden="true" { (square(0, 1, class, word)) } (word) }
            }
        }
    }
}

/// Squares for all numbers, those of the last row apart because it may be short.
fn free(count: u64, columns: u64) -> Markup {
    let (rows, rest) = (count / columns * CELL, count % columns * CELL);
    let size = CELL - 2;
    html! {
        pattern #number width=(CELL) height=(CELL) patternUnits="userSpaceOnUse" {
            rect.free x="1" y="1" width=(size) height=(size) rx="2" {}
        }
        rect x="0" y="0" width=(columns * CELL) height=(rows) fill="url(#number)" {}
        rect x="0" y=(rows) width=(rest) height=(CELL) fill="url(#number)" {}
    }
}

fn square(at: u64, columns: u64, class: &str, title: &str) -> Markup {
    let (x, y) = (at % columns * CELL + 1, at / columns * CELL + 1);
    html! { rect class=(class) x=(x) y=(y) width=(CELL - 2) height=(CELL - 2) rx="2" { title { (title) } } }
}

fn table(numbers: &Numbers) -> Markup {
    let mut table = Table::new("Numbers that are held", "Nobody holds a number.")
        .words("Number")
        .words("Holder")
        .words("Since")
        .numbers("Reserved for")
        .numbers("Fence");
    let dash = || html! { "–" };
    for held in &numbers.held {
        table.row(vec![
            html! { (held.number) },
            html! {
                (held.name.as_deref().unwrap_or("without a name"))
                @if held.is_mine { " " (badge(Tone::Good, "this server")) }
            },
            held.since_ms.map_or_else(dash, time),
            html! { (remaining(held)) },
            html! { code { (held.fence.map_or("–".to_owned(), |fence| fence.to_string())) } },
        ]);
    }
    table.render()
}

fn remaining(held: &Held) -> String {
    let left_ms = held
        .expires_ms
        .map(|at_ms| (at_ms - format::now_ms()) as f64 / 1000.0);
    match held.remaining_seconds.or(left_ms) {
        Some(seconds) if seconds <= 0.0 => "over".to_owned(),
        Some(seconds) => format::duration_seconds(seconds.ceil()),
        None => "–".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Method;
    use serde_json::json;

    use crate::testing::TestConsole;

    fn console() -> TestConsole {
        let console = TestConsole::open();
        console.answer(
            "/v1/house",
            json!({"services": {"ids": {"state": "ready", "detail": null, "address": "127.0.0.1:11212", "number": 2,
                "fence": 1_763_209_000_000_000_u64, "held_seconds": 3700.0, "minted_per_second": 12.5,
                "clock_skew_ms": -0.25, "numbers_held": 2, "numbers_free": 1021}}}),
        );
        console.answer(
            "/v1/ids/numbers",
            json!({"min": 1, "max": 1023, "free": 1021, "held": [
                {"number": 1, "name": null, "fence": 7, "since_ms": null, "expires_ms": 0, "remaining_seconds": 0.0,
                    "is_mine": false},
                {"number": 2, "name": "server <a>", "fence": 9, "since_ms": 1_700_000_000_000_i64, "expires_ms": 0,
                    "remaining_seconds": 28.4, "is_mine": true}]}),
        );
        console
    }

    #[tokio::test]
    async fn numbers_show_who_holds_them_and_for_how_long() {
        let page = console().get("/ids/numbers").await;
        assert_eq!(page.status, 200);
        for part in [
            "Numbers 1 to 1023: 2 held, 1021 free",
            "server &lt;a&gt;",
            "29 s",
            "over",
            "1 h 1 min",
            "1763209000000000",
            "-0.25 ms",
        ] {
            assert!(page.body.contains(part), "{part} is missing in {}", page.body);
        }
        assert_eq!(
            page.body.matches(r#"class="mine""#).count(),
            2,
            "one in the picture, one in its key"
        );
    }

    #[tokio::test]
    async fn an_id_is_decoded_or_refused_in_place() {
        let console = console();
        let decoded =
            json!({"id": "42", "at_ms": 1_700_000_000_000_i64, "at": "", "worker": 5, "sequence": 17});
        console.answer("/v1/ids/decode/42", decoded);
        let page = console.get("/ids/numbers?id=+42").await;
        assert!(
            page.body.contains("2023-11-14T22:13:20Z") && page.body.contains(">17<"),
            "{}",
            page.body
        );
        console.answer_to(
            Method::GET,
            "/v1/ids/decode/x%2F",
            400,
            json!({"detail": "\"x/\" is not an id"}),
        );
        let page = console.get("/ids/numbers?id=x/").await;
        assert!(
            page.status == 200 && page.body.contains("is not an id."),
            "{}",
            page.body
        );
    }

    #[tokio::test]
    async fn a_range_too_large_to_draw_has_its_table_alone() {
        let console = console();
        console.answer(
            "/v1/ids/numbers",
            json!({"min": 0, "max": u64::MAX, "free": 1, "held": []}),
        );
        let page = console.get("/ids/numbers").await;
        assert!(page.body.contains("Nobody holds a number.") && !page.body.contains("svg class=\"numbers\""));
    }
}
