//! Reads a request, with problem documents for malformed ones.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use nagaya_jobs::{JobId, QueueName};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::api::Api;
use crate::auth::{Permission, Principal};
use crate::problem::{Problem, ProblemKind};

/// A request whose body has not been read yet.
pub(crate) struct Call {
    pub(crate) request: Request,
    path: RawPathParams,
}

impl FromRequest<Api> for Call {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Api) -> Result<Call, Problem> {
        let (mut parts, body) = request.into_parts();
        let path = RawPathParams::from_request_parts(&mut parts, state).await;
        let path = path.map_err(|_| Problem::bad_request("the path is not UTF-8"))?;
        Ok(Call {
            request: Request::from_parts(parts, body),
            path,
        })
    }
}

impl Call {
    pub(crate) fn headers(&self) -> &HeaderMap {
        self.request.headers()
    }

    /// Authenticates the request. Borrows only the headers, because a body cannot be shared between threads.
    pub(crate) fn principal(
        &self,
        api: &Api,
        permission: Permission,
    ) -> impl Future<Output = Result<Arc<Principal>, Problem>> + Send {
        api.auth.principal(self.headers(), permission)
    }

    /// Returns a path segment by its name in the route.
    pub(crate) fn part(&self, name: &str) -> &str {
        let found = self.path.iter().find(|(key, _)| *key == name);
        found.map_or("", |(_, value)| value)
    }

    pub(crate) fn id(&self) -> Result<JobId, Problem> {
        Ok(self.part("id").parse()?)
    }

    pub(crate) fn queue(&self) -> Result<QueueName, Problem> {
        Ok(QueueName::new(self.part("queue"))?)
    }

    /// Parses the query; unknown and repeated names are errors.
    pub(crate) fn query<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let query = Query::try_from_uri(self.request.uri());
        let Query(query) = query.map_err(|error| Problem::bad_request(error.body_text()))?;
        Ok(query)
    }

    /// Reads the body, which must be JSON.
    pub(crate) async fn json(self, api: &Api) -> Result<Bytes, Problem> {
        if !is_json(self.headers()) {
            return Err(Problem::new(
                ProblemKind::MediaType,
                "the body must be JSON, with the header `Content-Type: application/json`",
            ));
        }
        self.bytes(api).await
    }

    /// Reads the body of a call that needs none: empty, or JSON.
    pub(crate) async fn json_if_any(self, api: &Api) -> Result<Bytes, Problem> {
        let says_json = is_json(self.headers());
        let bytes = self.bytes(api).await?;
        if bytes.is_empty() || says_json {
            Ok(bytes)
        } else {
            Err(Problem::new(
                ProblemKind::MediaType,
                "the body must be JSON, or empty",
            ))
        }
    }

    async fn bytes(self, api: &Api) -> Result<Bytes, Problem> {
        read_body(
            self.request.into_body(),
            api.config.body_bytes_max,
            api.config.body_timeout,
        )
        .await
    }
}

async fn read_body(body: Body, bytes_max: usize, timeout: Duration) -> Result<Bytes, Problem> {
    let collected = tokio::time::timeout(timeout, Limited::new(body, bytes_max).collect()).await;
    match collected {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let detail = format!("the body is larger than {bytes_max} bytes");
            Err(Problem::new(ProblemKind::TooLarge, detail))
        }
        Ok(Err(_)) => Err(Problem::bad_request("the body broke off")),
        Err(_) => Err(Problem::new(
            ProblemKind::Timeout,
            "the body did not come in time",
        )),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let media_type = value.unwrap_or_default().split(|byte| *byte == b';').next();
    media_type
        .unwrap_or_default()
        .trim_ascii()
        .eq_ignore_ascii_case(b"application/json")
}

/// Parses a body.
pub(crate) fn parse<'a, T: Deserialize<'a>>(bytes: &'a Bytes) -> Result<T, Problem> {
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::bad_request(format!("the body does not fit: {error}")))
}

/// Parses a body that may be empty.
pub(crate) fn parse_if_any<'a, T: Deserialize<'a> + Default>(bytes: &'a Bytes) -> Result<T, Problem> {
    if bytes.is_empty() {
        Ok(T::default())
    } else {
        parse(bytes)
    }
}

/// Builds a JSON response.
pub(crate) fn answer(status: StatusCode, document: &impl Serialize) -> Response {
    let body = serde_json::to_vec(document).expect("documents have string keys");
    let media_type = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, media_type)], body).into_response()
}

pub(crate) fn ok(document: &impl Serialize) -> Response {
    answer(StatusCode::OK, document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_may_name_its_characters() {
        let check = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(value));
            is_json(&headers)
        };
        assert!(check("application/json") && check("Application/JSON; charset=utf-8"));
        assert!(!check("text/plain") && !check("application/jsonp") && !is_json(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn a_body_past_its_limit_is_refused() {
        let second = Duration::from_secs(1);
        assert_eq!(read_body(Body::from("12345"), 5, second).await.unwrap(), "12345");
        let problem = read_body(Body::from("123456"), 5, second).await.unwrap_err();
        assert_eq!(problem.kind, ProblemKind::TooLarge);
    }
}
