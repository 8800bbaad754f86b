//! Signing in with a token, and out.

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
                "This house asks for a token: that of " code { "http.token" } ", or one that was made with "
                code { "POST /v1/tokens" } ". One with the scope " code { "read" } " alone sees everything and changes nothing."
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
    if let Some(wait) = console.limiter.wait(request.info.address) {
        let seconds = wait.as_secs() + 1;
        let complaint = format!(
            "Too many tries. Wait {} and try again.",
            format::duration_seconds(seconds as f64)
        );
        let mut response = page(&request, Some(&complaint));
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        return Ok(response);
    }
    let token = request.form("token").unwrap_or_default();
    let rights = match Rights::of_token(&request.console, token).await {
        Ok(rights) => rights,
        Err(failure) if is_refusal(&failure) => {
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
    let mut response = redirect(local_path(request.form("next")));
    set_cookie(&mut response, &request, &id.text(), AGE_MAX.as_secs());
    Ok(response)
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

/// Where to go after signing in: a page of ours, whatever the form says.
fn local_path(next: Option<&str>) -> &str {
    match next {
        // Two slashes, or a slash and a backslash, would name another machine.
        Some(path) if path.starts_with('/') && !path[1..].starts_with(['/', '\\']) => path,
        _ => "/",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestConsole, cookie_of};

    #[test]
    fn signing_in_leads_to_pages_of_ours_only() {
        assert_eq!(local_path(Some("/jobs?state=failed")), "/jobs?state=failed");
        for foreign in ["//evil.test", "/\\evil.test", "https://evil.test", "jobs", ""] {
            assert_eq!(local_path(Some(foreign)), "/", "{foreign}");
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
        let answer = console.post("/sign-in", None, "token=secret").await;
        assert_eq!(answer.status, 429);
        assert!(!answer.header("retry-after").is_empty());
    }

    #[tokio::test]
    async fn a_form_without_its_word_is_refused_even_in_an_open_house() {
        let console = TestConsole::open();
        assert_eq!(console.post_raw("/sign-out", None, "").await.status, 403);
        assert_eq!(console.post("/sign-out", None, "").await.status, 303);
    }
}
