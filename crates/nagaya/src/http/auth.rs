//! The bearer token, when one is configured.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

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
    let detail = "this needs the header `Authorization: Bearer TOKEN` with the token of `http.token`";
    let mut response = Problem::new(StatusCode::UNAUTHORIZED, detail).into_response();
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
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
    fn the_scheme_may_be_written_in_any_case() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bearer  abc "), Some(&b"abc"[..]));
        assert_eq!(bearer(b"Basic abc"), None);
        assert_eq!(bearer(b"Bearer"), None);
    }
}
