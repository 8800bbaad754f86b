//! What can be done with a tag.

use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde_json::Value;

use super::shown;
use super::tag::{api_path, encoded};
use super::wire::WholeTag;
use crate::failure::Failure;
use crate::format;
use crate::html::Question;
use crate::layout::{Nav, Page};
use crate::pages::Shown;
use crate::request::{PageRequest, redirect};

pub(super) async fn warm(request: PageRequest) -> Shown {
    change(&request, "warm").await
}

pub(super) async fn evict(request: PageRequest) -> Shown {
    change(&request, "evict").await
}

async fn change(request: &PageRequest, what: &str) -> Result<Response, Failure> {
    let answer = request
        .post(&format!("{}/{what}", api_path(request)), None)
        .await?;
    let keys = keys_of(&answer);
    Ok(redirect(&format!(
        "/room/tags/{}?done={what}&n={keys}",
        encoded(request)
    )))
}

fn keys_of(answer: &Value) -> u64 {
    answer["keys"].as_u64().unwrap_or_default()
}

pub(super) async fn ask_erase(request: PageRequest) -> Shown {
    question(&request, html! {}).await
}

pub(super) async fn erase(request: PageRequest) -> Shown {
    let whole: WholeTag = request.get(&api_path(&request)).await?;
    let typed = request.form("name").unwrap_or_default();
    if typed != shown(&whole.tag.tag).trim() {
        let complaint =
            html! { p.complaint role="alert" { "That is not the tag's name. Nothing was erased." } };
        let mut response = question(&request, complaint).await?;
        *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
        return Ok(response);
    }
    let answer = request.send(Method::DELETE, &api_path(&request), None).await?;
    Ok(redirect(&format!("/room?done=erase&n={}", keys_of(&answer))))
}

/// Asks for the tag's name before it is erased.
async fn question(request: &PageRequest, complaint: Markup) -> Result<Response, Failure> {
    let whole: WholeTag = request.get(&api_path(request)).await?;
    let name = shown(&whole.tag.tag);
    let back = format!("/room/tags/{}", encoded(request));
    let question = Question {
        action: &format!("{back}/erase"),
        text: html! {
            p {
                "This deletes " strong { (format::counted(whole.keys_total, "key")) } " of the tag "
                code { (name) } ", from memory and from disk. It cannot be undone."
            }
        },
        fields: html! {
            (complaint)
            label for="name" { "Type the tag's name to go on" }
            input #name type="text" name="name" required autocomplete="off" spellcheck="false" autocapitalize="off";
        },
        button: "Erase",
        is_dangerous: true,
        back: &back,
    };
    let page = Page {
        title: format!("Erase {name}?"),
        nav: Nav::Room,
        content: question.ask(request),
    };
    Ok(page.render(request))
}

/// Passes the export on as a file.
pub(super) async fn export(request: PageRequest) -> Shown {
    let path = format!("{}/export", api_path(&request));
    let answer = request.call(Method::GET, &path, None).await;
    if answer.status == StatusCode::BAD_GATEWAY {
        let detail = "the tag is too large to be passed on by a page; `nagaya room export` takes any";
        return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
    }
    if !answer.status.is_success() {
        return Err(Failure::of_answer(&answer));
    }
    let mut response = answer.body.into_response();
    let disposition = HeaderValue::from_static("attachment; filename=\"tag.jsonl\"");
    let kept = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/jsonl"),
        ),
        (header::CONTENT_DISPOSITION, disposition),
    ];
    for (name, default) in kept {
        let value = answer.headers.get(&name).cloned().unwrap_or(default);
        response.headers_mut().insert(name, value);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use axum::http::Method;
    use serde_json::json;

    use crate::testing::{TestConsole, cookie_of};

    /// A server with the tag `user:7/x`, whose keys are in memory.
    fn console() -> TestConsole {
        with_tag(TestConsole::open())
    }

    fn with_tag(console: TestConsole) -> TestConsole {
        console.answer(
            "/v1/room/tags/user%3A7%2Fx",
            json!({"tag": "user:7/x", "keys": 2, "bytes": 300, "idle_seconds": 0.0, "place": "both", "dirty": true,
                "saved_ms": null, "keys_total": 2, "keys_listed": [
                    {"key": "{user:7/x}:a", "type": "string", "bytes": 100, "expires_ms": null},
                    {"key": "{user:7/x}:b", "type": "hash", "bytes": 200, "expires_ms": 4_000_000_000_000_i64}]}),
        );
        console
    }

    #[tokio::test]
    async fn a_tag_shows_where_it_lives_and_its_keys() {
        let page = console().get("/room/tags/user%3A7%2Fx").await;
        for part in [
            "<h1>user:7/x</h1>",
            "unsaved",
            "{user:7/x}:b",
            "hash",
            "/room/tags/user%3A7%2Fx/evict",
        ] {
            assert!(page.body.contains(part), "{part} is missing in {}", page.body);
        }
        assert!(!page.body.contains("/warm"), "it is warm already");
        assert_eq!(TestConsole::open().get("/room/tags/none").await.status, 404);
    }

    #[tokio::test]
    async fn who_may_only_read_gets_no_buttons() {
        let console = with_tag(TestConsole::with_token("reader"));
        console.answer(
            "/v1/whoami",
            json!({"tenant": "default", "scopes": ["read"], "is_house": false}),
        );
        let signed_in = console.post("/sign-in", None, "token=reader").await;
        let cookie = cookie_of(signed_in.header("set-cookie"));
        let page = console.get_as("/room/tags/user%3A7%2Fx", &cookie).await;
        assert!(
            page.body.contains("{user:7/x}:a") && page.body.contains("/export"),
            "{}",
            page.body
        );
        assert!(
            !page.body.contains("/evict") && !page.body.contains("/erase"),
            "{}",
            page.body
        );
    }

    #[tokio::test]
    async fn an_export_too_large_for_a_page_says_what_takes_it() {
        let console = console();
        let path = "/v1/room/tags/user%3A7%2Fx/export";
        console.answer_to(Method::GET, path, 502, json!({"detail": "too large"}));
        let page = console.get("/room/tags/user%3A7%2Fx/export").await;
        assert!(
            page.status == 413 && page.body.contains("nagaya room export"),
            "{}",
            page.body
        );
    }

    #[tokio::test]
    async fn evicting_tells_how_many_keys_left() {
        let console = console();
        let path = "/v1/room/tags/user%3A7%2Fx/evict";
        console.answer_to(Method::POST, path, 200, json!({"tag": "user:7/x", "keys": 2}));
        let page = console.post("/room/tags/user%3A7%2Fx/evict", None, "").await;
        assert_eq!(page.location(), "/room/tags/user%3A7%2Fx?done=evict&n=2");
        assert_eq!(console.changes(), [(Method::POST, path.to_owned(), None)]);
    }

    #[tokio::test]
    async fn erasing_needs_the_name_of_the_tag() {
        let console = console();
        let path = "/v1/room/tags/user%3A7%2Fx";
        console.answer_to(Method::DELETE, path, 200, json!({"tag": "user:7/x", "keys": 2}));
        let asked = console.get("/room/tags/user%3A7%2Fx/erase").await;
        assert!(
            asked.body.contains("2 keys") && asked.body.contains("cannot be undone"),
            "{}",
            asked.body
        );
        let refused = console
            .post("/room/tags/user%3A7%2Fx/erase", None, "name=user:7")
            .await;
        assert!(
            refused.status == 422 && refused.body.contains("Nothing was erased"),
            "{}",
            refused.body
        );
        assert_eq!(console.changes(), []);
        let done = console
            .post("/room/tags/user%3A7%2Fx/erase", None, "name=user%3A7%2Fx")
            .await;
        assert_eq!(done.location(), "/room?done=erase&n=2");
        assert_eq!(console.changes(), [(Method::DELETE, path.to_owned(), None)]);
    }

    #[tokio::test]
    async fn an_export_comes_as_a_file() {
        let console = console();
        console.answer(
            "/v1/room/tags/user%3A7%2Fx/export",
            json!({"key": "{user:7/x}:a"}),
        );
        let file = console.get("/room/tags/user%3A7%2Fx/export").await;
        assert!(file.header("content-disposition").starts_with("attachment"));
        assert_eq!(file.body, r#"{"key":"{user:7/x}:a"}"#);
    }
}
