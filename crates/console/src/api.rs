//! How the console reaches the API.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Limited};
use serde_json::Value;
use tower::ServiceExt;

/// Largest answer that a page is made of, in bytes.
const ANSWER_MAX: usize = 16 << 20;

/// A request to the API on behalf of a user.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub method: Method,
    /// Path and query, encoded.
    pub path: String,
    pub body: Option<Value>,
    /// The token of the signed-in user.
    pub token: Option<String>,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// Makes an answer for a call that the API could not answer.
    fn unusable(status: StatusCode, detail: &str) -> Answer {
        let body = serde_json::json!({"status": status.as_u16(), "detail": detail});
        Answer {
            status,
            headers: HeaderMap::new(),
            body: body.to_string().into(),
        }
    }
}

/// The API that answers requests.
pub trait Api: Send + Sync + 'static {
    fn call(&self, request: Request) -> BoxFuture<'_, Answer>;
}

/// The API of this process: its router, called without a socket.
pub struct InProcess(Router);

impl InProcess {
    /// Takes the router with every check that requests from outside pass.
    pub fn new(router: Router) -> InProcess {
        InProcess(router)
    }
}

impl Api for InProcess {
    fn call(&self, request: Request) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            let Some(request) = http_request(request) else {
                return Answer::unusable(StatusCode::BAD_REQUEST, "this cannot be asked of the API");
            };
            let response = match self.0.clone().oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            let (head, body) = response.into_parts();
            match Limited::new(body, ANSWER_MAX).collect().await {
                Ok(body) => Answer {
                    status: head.status,
                    headers: head.headers,
                    body: body.to_bytes(),
                },
                Err(error) => {
                    tracing::warn!(error, "the API's answer could not be read");
                    Answer::unusable(StatusCode::BAD_GATEWAY, "the answer is too large for a page")
                }
            }
        })
    }
}

fn http_request(request: Request) -> Option<axum::extract::Request> {
    let mut builder = axum::http::Request::builder()
        .method(request.method)
        .uri(request.path)
        .header(header::ACCEPT, "application/json");
    if let Some(token) = request.token {
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
        value.set_sensitive(true);
        builder = builder.header(header::AUTHORIZATION, value);
    }
    let body = match request.body {
        Some(value) => {
            builder = builder.header(header::CONTENT_TYPE, "application/json");
            Body::from(value.to_string())
        }
        None => Body::empty(),
    };
    builder.body(body).ok()
}

#[cfg(test)]
mod tests {
    use axum::routing::{get, post};

    use super::*;

    fn ask(method: Method, path: &str) -> Request {
        Request {
            method,
            path: path.to_owned(),
            body: None,
            token: None,
        }
    }

    #[tokio::test]
    async fn the_token_and_the_body_reach_the_router() {
        let router = Router::new().route(
            "/v1/echo",
            post(|headers: HeaderMap, body: Bytes| async move {
                let token = headers.get(header::AUTHORIZATION).unwrap().to_str().unwrap();
                format!("{token} {}", String::from_utf8_lossy(&body))
            }),
        );
        let answer = InProcess::new(router)
            .call(Request {
                body: Some(serde_json::json!({"a": 1})),
                token: Some("secret".into()),
                ..ask(Method::POST, "/v1/echo")
            })
            .await;
        assert_eq!(
            (answer.status.as_u16(), &answer.body[..]),
            (200, &b"Bearer secret {\"a\":1}"[..])
        );
    }

    #[tokio::test]
    async fn a_path_that_is_none_and_a_token_that_is_none_are_refused() {
        let api = InProcess::new(Router::new().route("/", get(|| async { "" })));
        assert_eq!(api.call(ask(Method::GET, "no path")).await.status, 400);
        let odd = Request {
            token: Some("line\nbreak".into()),
            ..ask(Method::GET, "/")
        };
        assert_eq!(api.call(odd).await.status, 400);
    }
}
