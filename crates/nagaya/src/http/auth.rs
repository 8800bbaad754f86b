//! The bearer token, when one is configured.
//!
//! The house's own token may everything. Tokens of tenants are the jobs' affair, so their routes are asked what
//! one allows: `admin` is everything here, too, and `read` of the default tenant is looking at the house.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use subtle::ConstantTimeEq;
use tower::ServiceExt;

use super::problem::Problem;
use super::routes::HttpState;

/// Paths that need no token: probes seldom have one, and webhooks have a check of their own.
const OPEN_PATHS: [&str; 3] = ["/healthz", "/readyz", nagaya_fleet_api::WEBHOOK_PATH];

/// Lets a request pass if it may, else answers 401.
pub(super) async fn require_token(
    State(state): State<Arc<HttpState>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(token) = &state.config.token else {
        return next.run(request).await;
    };
    let sent = request
        .headers()
        .get(header::AUTHORIZATION)
        .map(HeaderValue::as_bytes)
        .and_then(bearer);
    let known = sent.is_some_and(|sent| sent.ct_eq(token.reveal().as_bytes()).into());
    if known || OPEN_PATHS.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let authorization = request.headers().get(header::AUTHORIZATION).cloned();
    if let Some(tenant) = tenant_of(&state, authorization).await {
        return match tenant.may(request.method()) {
            true => next.run(request).await,
            false => {
                let detail =
                    "this needs a token with the scope admin; to look, read of the default tenant is enough";
                Problem::new(StatusCode::FORBIDDEN, detail).into_response()
            }
        };
    }
    let detail = "this needs the header `Authorization: Bearer TOKEN` with the token of `http.token`";
    let mut response = Problem::new(StatusCode::UNAUTHORIZED, detail).into_response();
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// The part of `/v1/whoami` that decides.
#[derive(Debug, Deserialize)]
struct Tenant {
    tenant: String,
    scopes: Vec<String>,
    queues: Vec<String>,
}

impl Tenant {
    fn may(&self, method: &Method) -> bool {
        let has = |scope: &str| self.scopes.iter().any(|one| one == scope);
        let looks = matches!(*method, Method::GET | Method::HEAD);
        let is_of_the_house = self.tenant == "default" && self.queues.is_empty();
        has("admin") || (looks && is_of_the_house && has("read"))
    }
}

/// Largest answer of `/v1/whoami`: a token may be bound to many queues.
const WHO_BYTES_MAX: usize = 1 << 20;

/// Asks the jobs' routes whose a token is; nothing when it is nobody's or there are no jobs.
async fn tenant_of(state: &HttpState, authorization: Option<HeaderValue>) -> Option<Tenant> {
    let question = Request::get("/v1/whoami")
        .header(header::AUTHORIZATION, authorization?)
        .body(axum::body::Body::empty())
        .ok()?;
    let answer = state.self_guarded.clone().oneshot(question).await.ok()?;
    if answer.status() != StatusCode::OK {
        return None;
    }
    let body = Limited::new(answer.into_body(), WHO_BYTES_MAX)
        .collect()
        .await
        .ok()?;
    serde_json::from_slice(&body.to_bytes()).ok()
}

fn bearer(header: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = header.split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_looks_at_the_house_only_from_inside_and_changes_it_only_as_administrator() {
        let may = |tenant: &str, scope: &str, queues: &[&str], method| {
            let tenant = Tenant {
                tenant: tenant.to_owned(),
                scopes: vec![scope.to_owned()],
                queues: queues.iter().map(|queue| (*queue).to_owned()).collect(),
            };
            tenant.may(&method)
        };
        assert!(may("default", "read", &[], Method::GET));
        assert!(may("shop", "admin", &[], Method::POST));
        assert!(!may("default", "read", &[], Method::POST));
        assert!(!may("default", "work", &[], Method::GET));
        assert!(!may("default", "read", &["mail"], Method::GET));
        assert!(!may("shop", "read", &[], Method::GET));
    }

    #[test]
    fn the_scheme_may_be_written_in_any_case() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bearer  abc "), Some(&b"abc"[..]));
        assert_eq!(bearer(b"Basic abc"), None);
        assert_eq!(bearer(b"Bearer"), None);
    }
}
