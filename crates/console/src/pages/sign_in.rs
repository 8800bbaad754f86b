//! Signing in with a token, and out.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use maud::html;

use super::Shown;
use crate::failure::Failure;
use crate::format;
use crate::html::form_word;
use crate::layout::{Nav, Page};
use crate::request::{PageRequest, Rights, redirect};
use crate::session::AGE_MAX;
use crate::session_guard::COOKIE;

pub(super) async fn form(request: PageRequest) -> Response {
    page(&request, None)
}

fn page(request: &PageRequest, complaint: Option<&str>) -> Response {
    let next = request.query("next").or(request.form("next")).unwrap_or("/");
    let content = html! {
        form.card.sign-in method="post" action="/sign-in" {
            (form_word(request))
            input type="hidden" name="next" value=(next);
            p {
                "This server asks for a token: that of " code { "http.token" } ", or one that was made with "
                code { "nagaya token create" } ". One with the scope " code { "read" } " alone sees everything and changes nothing."
            }
            label for="token" { "Token" }
            input #token type="password" name="token" required autocomplete="current-password" autofocus
                aria-invalid=[complaint.map(|_| "true")] aria-describedby=[complaint.map(|_| "complaint")];
            @if let Some(complaint) = complaint { p.complaint #complaint role="alert" { (complaint) } }
            div.buttons { button.primary type="submit" { "Sign in" } }
        }
    };
    let page = Page {
        title: "Sign in".to_owned(),
        nav: Nav::None,
        content,
    };
    page.render(request)
}

pub(super) async fn sign_in(request: PageRequest) -> Shown {
    let console = &request.console.0;
    let token = request.form("token").unwrap_or_default();
    let rights = match Rights::of_token(&request.console, token).await {
        Ok(rights) => rights,
        Err(failure) if is_refusal(&failure) => {
            if let Some(wait) = console.limiter.wait(request.info.address) {
                return Ok(too_often(&request, wait));
            }
            console.limiter.failed(request.info.address);
            tracing::warn!(address = %request.info.address, "a sign-in failed");
            let complaint = match failure.status {
                StatusCode::FORBIDDEN => "This token may not look: it lacks the scope read.",
                _ => "Nobody has this token.",
            };
            let mut response = page(&request, Some(complaint));
            *response.status_mut() = StatusCode::FORBIDDEN;
            return Ok(response);
        }
        Err(failure) => return Err(failure),
    };
    let id = console.sessions.open(token.to_owned(), rights);
    let mut response = redirect(request.form("next").unwrap_or("/"));
    set_cookie(&mut response, &request, &id.text(), AGE_MAX.as_secs());
    Ok(response)
}

fn too_often(request: &PageRequest, wait: Duration) -> Response {
    let seconds = wait.as_secs() + 1;
    let complaint = format!(
        "Too many tries. Wait {} and try again.",
        format::duration_seconds(seconds as f64)
    );
    let mut response = page(request, Some(&complaint));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// The token is worth nothing, or is no token at all.
fn is_refusal(failure: &Failure) -> bool {
    matches!(failure.status.as_u16(), 400 | 401 | 403)
}

pub(super) async fn sign_out(request: PageRequest) -> Response {
    if let Some(session) = &request.info.session {
        request.console.0.sessions.close(session);
    }
    let mut response = redirect("/sign-in");
    set_cookie(&mut response, &request, "", 0);
    response
}

fn set_cookie(response: &mut Response, request: &PageRequest, value: &str, seconds: u64) {
    let secure = if request.info.is_https { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestConsole, cookie_of};

    #[tokio::test]
    async fn signing_in_leads_to_pages_of_ours_only() {
        let console = TestConsole::with_token("secret");
        for (next, leads_to) in [
            ("%2Fjobs%3Fstate%3Dfailed", "/jobs?state=failed"),
            ("%2F%09%2Fevil.test", "/"),
            ("%2F%2Fevil.test", "/"),
            ("%2F%5Cevil.test", "/"),
            ("https%3A%2F%2Fevil.test", "/"),
        ] {
            let answer = console
                .post("/sign-in", None, &format!("token=secret&next={next}"))
                .await;
            assert_eq!((answer.status, answer.location()), (303, leads_to), "{next}");
        }
    }

    #[tokio::test]
    async fn a_house_with_a_token_sends_everybody_to_sign_in_first() {
        let console = TestConsole::with_token("secret");
        let answer = console.get("/jobs?state=failed").await;
        assert_eq!(answer.status, 303);
        assert_eq!(answer.location(), "/sign-in?next=%2Fjobs%3Fstate%3Dfailed");
        assert!(console.get("/sign-in").await.body.contains("type=\"password\""));
    }

    #[tokio::test]
    async fn the_right_token_opens_a_session_and_signing_out_ends_it() {
        let console = TestConsole::with_token("secret");
        let answer = console.post("/sign-in", None, "token=secret&next=%2Fjobs").await;
        assert_eq!((answer.status, answer.location()), (303, "/jobs"));
        let set = answer.header("set-cookie").to_owned();
        assert!(
            set.contains("HttpOnly") && set.contains("SameSite=Strict"),
            "{set}"
        );
        let cookie = cookie_of(&set);
        assert_eq!(console.get_as("/", &cookie).await.status, 200);
        assert_eq!(console.post("/sign-out", Some(&cookie), "").await.status, 303);
        assert_eq!(console.get_as("/", &cookie).await.status, 303);
    }

    #[tokio::test]
    async fn guessing_tokens_is_slowed_down() {
        let console = TestConsole::with_token("secret");
        for _ in 0..8 {
            assert_eq!(console.post("/sign-in", None, "token=wrong").await.status, 403);
        }
        let answer = console.post("/sign-in", None, "token=wrong").await;
        assert_eq!(answer.status, 429);
        assert!(!answer.header("retry-after").is_empty());
    }

    #[tokio::test]
    async fn bad_tries_do_not_lock_out_the_right_token() {
        let console = TestConsole::with_token("secret");
        for _ in 0..200 {
            console.post("/sign-in", None, "token=wrong").await;
        }
        assert_eq!(console.post("/sign-in", None, "token=secret").await.status, 303);
    }

    #[tokio::test]
    async fn a_form_without_its_word_is_refused_even_in_an_open_house() {
        let console = TestConsole::open();
        assert_eq!(console.post_raw("/sign-out", None, "").await.status, 403);
        assert_eq!(console.post("/sign-out", None, "").await.status, 303);
    }
}
