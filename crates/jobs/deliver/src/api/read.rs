//! Reads requests and writes responses, with problem documents for malformed ones.

use axum::extract::Query;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Api;
use super::auth::{Permission, Principal};
use super::problem::{Problem, Refused};

/// Authenticates the request and checks its permission.
pub(super) async fn principal(
    api: &Api,
    headers: &HeaderMap,
    permission: Permission,
) -> Result<Principal, Refused> {
    api.authorize
        .authorize(headers, permission)
        .await
        .map_err(Refused::Answer)
}

/// Parses the query; unknown and repeated names are errors.
pub(super) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    let query = Query::try_from_uri(uri);
    let Query(query) = query.map_err(|error| Problem::bad_request(error.body_text()))?;
    Ok(query)
}

/// Parses a body, which must be JSON.
pub(super) fn json<T: DeserializeOwned>(headers: &HeaderMap, body: &Bytes) -> Result<T, Problem> {
    let value = headers
        .get(header::CONTENT_TYPE)
        .map(HeaderValue::as_bytes)
        .unwrap_or_default();
    let media_type = value.split(|byte| *byte == b';').next().unwrap_or_default();
    if !media_type.trim_ascii().eq_ignore_ascii_case(b"application/json") {
        let detail = "the body must be JSON, with the header `Content-Type: application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    serde_json::from_slice(body)
        .map_err(|error| Problem::bad_request(format!("the body does not fit: {error}")))
}

pub(super) fn ok(document: &impl Serialize) -> Response {
    let body = serde_json::to_vec(document).expect("documents have string keys");
    let media_type = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, media_type)], body).into_response()
}
