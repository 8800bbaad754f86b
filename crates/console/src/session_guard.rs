//! Middleware in front of every page: finds the session, rejects cross-site requests, and sets response
//! headers.
//!
//! A request that changes something must come from a page of this console. Three checks ensure it: the
//! browser's own headers (`Sec-Fetch-Site`, or `Origin` where it sends none), a cookie that it does not send
//! along with requests of other sites, and a token in the form that other sites cannot read. All are checked
//! here, for every POST.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::Response;

use crate::assets;
use crate::failure::Failure;
use crate::form::{Fields, encode};
use crate::layout::{Nav, Page};
use crate::request::{Console, PageRequest, RequestInfo, Rights, redirect};
use crate::session::SessionId;

/// Largest form, in bytes.
const FORM_MAX: usize = 64 << 10;
/// The name of the session's cookie.
pub(crate) const COOKIE: &str = "nagaya_session";
/// The form field of the anti-forgery token.
pub(crate) const FORM_WORD: &str = "form_word";

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Passes a request on to its page, or answers it itself.
pub(crate) async fn guard(State(console): State<Console>, request: Request, next: Next) -> Response {
    if request.uri().path().starts_with("/assets/") {
        return with_headers(assets::serve(request.uri().path()));
    }
    let (info, request) = read_request(&console, request).await;
    let page_request = PageRequest {
        console: console.clone(),
        info: Arc::new(info),
    };
    with_headers(answer(&page_request, request, next).await)
}

/// Reads session, path, query and form of a request.
async fn read_request(console: &Console, request: Request) -> (RequestInfo, Request) {
    let (parts, body) = request.into_parts();
    let session = session_id(&parts.headers);
    let found = session.as_ref().and_then(|id| console.0.sessions.find(id));
    let session = session.filter(|_| found.is_some());
    let address = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    let mut info = RequestInfo {
        rights: found
            .as_ref()
            .map_or_else(Rights::all, |session| session.rights.clone()),
        token: found.map(|session| session.token),
        form_word: console.0.sessions.form_word(session.as_ref()),
        session,
        path: parts
            .uri
            .path_and_query()
            .map_or("/", |path| path.as_str())
            .to_owned(),
        query: Fields::parse(parts.uri.query().unwrap_or_default().as_bytes()),
        form: Fields::default(),
        address: address.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |info| info.0.ip()),
        is_https: console.0.config.is_https
            || parts
                .headers
                .get("x-forwarded-proto")
                .is_some_and(|scheme| scheme == "https"),
    };
    if parts.method == Method::POST {
        // A form that is too large or incomplete is empty, so its token is missing.
        info.form = Fields::parse(&to_bytes(body, FORM_MAX).await.unwrap_or_default());
    }
    (info, Request::from_parts(parts, Body::empty()))
}

async fn answer(page_request: &PageRequest, mut request: Request, next: Next) -> Response {
    if let Err(failure) = check(page_request, &request) {
        return error_page(page_request, &failure);
    }
    let path = request.uri().path();
    let is_open = path == "/sign-in" || !page_request.console.0.config.asks_token;
    if page_request.info.session.is_none() && !is_open {
        return redirect(&format!("/sign-in?next={}", encode(&page_request.info.path)));
    }
    request.extensions_mut().insert(page_request.clone());
    let mut response = next.run(request).await;
    match response.extensions_mut().remove::<Failure>() {
        None => response,
        Some(failure) if failure.status == StatusCode::UNAUTHORIZED => {
            // The token has been revoked.
            if let Some(session) = &page_request.info.session {
                page_request.console.0.sessions.close(session);
            }
            redirect(&format!("/sign-in?next={}", encode(&page_request.info.path)))
        }
        Some(failure) => error_page(page_request, &failure),
    }
}

fn error_page(page_request: &PageRequest, failure: &Failure) -> Response {
    let (title, content) = failure.page();
    let page = Page {
        title: title.to_owned(),
        nav: Nav::of_path(&page_request.info.path),
        content,
    };
    let mut response = page.render(page_request);
    *response.status_mut() = failure.status;
    response
}

/// Refuses requests that no page of this console sent.
fn check(page_request: &PageRequest, request: &Request) -> Result<(), Failure> {
    if request.method() != Method::POST {
        return Ok(());
    }
    let foreign = Failure::new(
        StatusCode::FORBIDDEN,
        "the form was not sent from a page of this console",
    );
    let host = host(request.headers(), request.uri());
    if is_foreign(request.headers(), host.as_deref()) {
        return Err(foreign);
    }
    let word = page_request.form(FORM_WORD).unwrap_or_default();
    if page_request
        .console
        .0
        .sessions
        .is_form_word(page_request.info.session.as_ref(), word)
    {
        Ok(())
    } else {
        Err(Failure::new(
            StatusCode::FORBIDDEN,
            "the form is from before a restart or from another session; open the page again and repeat it",
        ))
    }
}

fn is_foreign(headers: &HeaderMap, host: Option<&str>) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site != "same-origin" && site != "none";
    }
    match headers.get(header::ORIGIN) {
        None => false,
        Some(origin) => {
            let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            origin.map(|(_, authority)| authority) != host
        }
    }
}

/// Returns the host name that the browser used, with its port.
fn host(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let named = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    // HTTP/2 has it in the URI.
    named
        .or(uri.authority().map(|authority| authority.as_str()))
        .map(str::to_owned)
}

fn session_id(headers: &HeaderMap) -> Option<SessionId> {
    let cookies = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|line| line.to_str().ok());
    let mut pairs = cookies
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(name, _)| *name == COOKIE)?;
    SessionId::parse(value)
}

fn with_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("permissions-policy"),
            "camera=(), geolocation=(), microphone=()",
        ),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // Assets have set their own cache policy.
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn what_the_browser_says_about_the_sender_is_believed_first() {
        let foreign = |pairs: &[_]| is_foreign(&headers(pairs), Some("127.0.0.1:7400"));
        assert!(!foreign(&[]));
        assert!(!foreign(&[("sec-fetch-site", "same-origin")]));
        assert!(foreign(&[("sec-fetch-site", "same-site")]));
        assert!(foreign(&[("sec-fetch-site", "cross-site")]));
        assert!(!foreign(&[("origin", "http://127.0.0.1:7400")]));
        assert!(foreign(&[("origin", "http://127.0.0.1:7401")]));
        assert!(foreign(&[("origin", "null")]));
    }

    #[test]
    fn the_session_is_found_among_other_cookies() {
        let id = SessionId::parse("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").unwrap();
        let found = session_id(&headers(&[(
            "cookie",
            "a=b; nagaya_session=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA; c=d",
        )]));
        assert!(found.is_some_and(|found| found == id));
        assert!(session_id(&headers(&[("cookie", "nagaya_session=short")])).is_none());
    }
}
