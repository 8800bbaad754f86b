//! The secrets that receivers verify signatures with, and tests of notification routes.

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use serde::Deserialize;
use serde_json::json;

use super::Api;
use super::auth::Permission;
use super::problem::{Problem, Refused};
use super::read::{json as read_json, ok, principal, query};
use crate::notify::TestError;
use crate::webhook::{Secret, Secrets};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretQuery {
    tenant: Option<String>,
}

pub(super) async fn show(State(api): State<Api>, uri: Uri, headers: HeaderMap) -> Result<Response, Refused> {
    let principal = principal(&api, &headers, Permission::Enqueue).await?;
    // They sign the webhooks of all queues.
    principal.check_all_queues()?;
    let query: SecretQuery = query(&uri)?;
    let tenant = principal.acting_for(query.tenant.as_deref())?;
    Ok(answer(&Secrets::of(&*api.store, &tenant).await?))
}

pub(super) async fn rotate(
    State(api): State<Api>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let principal = principal(&api, &headers, Permission::Admin).await?;
    // They sign the webhooks of all queues.
    principal.check_all_queues()?;
    let query: SecretQuery = query(&uri)?;
    let tenant = principal.acting_for(query.tenant.as_deref())?;
    Ok(answer(&Secrets::rotate(&*api.store, &tenant).await?))
}

/// Newest first.
fn answer(secrets: &Secrets) -> Response {
    let secrets: Vec<String> = secrets.all().iter().map(Secret::reveal).collect();
    let mut response = ok(&json!({ "secrets": secrets }));
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Test {
    route: String,
}

pub(super) async fn test_route(
    State(api): State<Api>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refused> {
    principal(&api, &headers, Permission::Admin)
        .await?
        .check_all_queues()?;
    let Test { route } = read_json(&headers, &body)?;
    match api.notifier.test_route(&route).await {
        Ok(()) => Ok(ok(&json!({ "sent": true }))),
        Err(error @ TestError::NoRoute { .. }) => {
            Err(Problem::new(StatusCode::NOT_FOUND, error.to_string()).into())
        }
        Err(error @ TestError::NotSent { .. }) => {
            Err(Problem::new(StatusCode::BAD_GATEWAY, error.to_string()).into())
        }
    }
}
