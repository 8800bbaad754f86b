//! One request to the console: its session, its permissions, and the API on its behalf.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::{Answer, Api, Request};
use crate::config::ConsoleConfig;
use crate::failure::Failure;
use crate::form::Fields;
use crate::limiter::Limiter;
use crate::pages;
use crate::session::{SessionId, Sessions};
use crate::session_guard;

/// The console over one API. Clones share it.
#[derive(Clone)]
pub struct Console(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) api: Box<dyn Api>,
    pub(crate) config: ConsoleConfig,
    pub(crate) sessions: Sessions,
    pub(crate) limiter: Limiter,
}

impl Console {
    pub fn new(api: impl Api, config: ConsoleConfig) -> Console {
        Console(Arc::new(Inner {
            api: Box::new(api),
            config,
            sessions: Sessions::new(),
            limiter: Limiter::default(),
        }))
    }

    /// Returns the routes of the pages, with their own session check and without a fallback.
    pub fn routes(&self) -> Router {
        pages::router().route_layer(axum::middleware::from_fn_with_state(
            self.clone(),
            session_guard::guard,
        ))
    }
}

/// The permissions of a user. The API enforces them; here they decide which buttons are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) tenant: Option<String>,
    pub(crate) read: bool,
    pub(crate) enqueue: bool,
    pub(crate) admin: bool,
}

/// The answer of `/v1/whoami`.
#[derive(Debug, Deserialize)]
struct WhoAmI {
    tenant: String,
    scopes: Vec<String>,
}

impl Rights {
    /// Returns all permissions, those of the server's own token.
    pub(crate) fn all() -> Rights {
        Rights {
            tenant: None,
            read: true,
            enqueue: true,
            admin: true,
        }
    }

    /// Asks the API what a token allows.
    pub(crate) async fn of_token(console: &Console, token: &str) -> Result<Rights, Failure> {
        let ask = |path: &str| {
            console.0.api.call(Request {
                method: Method::GET,
                path: path.to_owned(),
                body: None,
                token: Some(token.to_owned()),
            })
        };
        let answer = ask("/v1/whoami").await;
        // A server without jobs knows its own token only, which every guarded path asks for.
        if answer.status == StatusCode::NOT_FOUND {
            read::<Value>(&ask("/version").await)?;
            return Ok(Rights::all());
        }
        let who: WhoAmI = read(&answer)?;
        let has = |scope: &str| who.scopes.iter().any(|one| one == scope || one == "admin");
        Ok(Rights {
            read: has("read"),
            enqueue: has("enqueue"),
            admin: has("admin"),
            tenant: Some(who.tenant),
        })
    }

    pub(crate) fn is_read_only(&self) -> bool {
        !self.enqueue && !self.admin
    }
}

/// One request. [`session_guard::guard`] makes it; handlers take it as an argument.
#[derive(Clone)]
pub(crate) struct PageRequest {
    pub(crate) console: Console,
    pub(crate) info: Arc<RequestInfo>,
}

/// What is known about a request.
pub(crate) struct RequestInfo {
    pub(crate) rights: Rights,
    pub(crate) token: Option<String>,
    pub(crate) session: Option<SessionId>,
    /// The anti-forgery token of forms.
    pub(crate) form_word: String,
    /// Path and query as the browser sent them.
    pub(crate) path: String,
    pub(crate) query: Fields,
    /// The fields of a form; its anti-forgery token has been checked.
    pub(crate) form: Fields,
    pub(crate) address: IpAddr,
    pub(crate) is_https: bool,
}

impl PageRequest {
    pub(crate) fn rights(&self) -> &Rights {
        &self.info.rights
    }

    /// Refuses pages that the user has no permission for. The API refuses as well; this check comes before a
    /// form is filled in.
    pub(crate) fn require(&self, may: bool) -> Result<(), Failure> {
        if may {
            Ok(())
        } else {
            Err(Failure::new(
                StatusCode::FORBIDDEN,
                "this token may look, not change anything here",
            ))
        }
    }

    /// A value of the query; nothing when it is empty.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.info.query.get(name)
    }

    /// A value of the form; nothing when it is empty.
    pub(crate) fn form(&self, name: &str) -> Option<&str> {
        self.info.form.get(name)
    }

    /// Asks the API for a document.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        read(&self.call(Method::GET, path, None).await)
    }

    /// The same where a path may be missing because its service is off; nothing then.
    pub(crate) async fn get_if_any<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Failure> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(failure) if failure.status == StatusCode::NOT_FOUND => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Sends a change to the API; what it answers is `null` when it says nothing.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value, Failure> {
        let answer = self.call(method, path, body).await;
        if answer.status.is_success() && answer.body.is_empty() {
            Ok(Value::Null)
        } else {
            read(&answer)
        }
    }

    pub(crate) async fn post(&self, path: &str, body: Option<Value>) -> Result<Value, Failure> {
        self.send(Method::POST, path, body).await
    }

    /// Sends any request and returns the answer as it is.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        let request = Request {
            method,
            path: path.to_owned(),
            body,
            token: self.info.token.clone(),
        };
        self.console.0.api.call(request).await
    }
}

/// Reads a document, or the problem in its place.
fn read<T: DeserializeOwned>(answer: &Answer) -> Result<T, Failure> {
    if !answer.status.is_success() {
        return Err(Failure::of_answer(answer));
    }
    serde_json::from_slice(&answer.body).map_err(|error| {
        tracing::error!(%error, "the API's answer does not fit");
        Failure::new(StatusCode::BAD_GATEWAY, "the answer of the API could not be read")
    })
}

impl<S: Sync> FromRequestParts<S> for PageRequest {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<PageRequest, Failure> {
        let request = parts.extensions.get::<PageRequest>().cloned();
        request.ok_or_else(|| Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "the request was not admitted"))
    }
}

/// Leads the browser to another page of ours, which it asks for with GET. Whatever names another machine leads to
/// the overview.
pub(crate) fn redirect(to: &str) -> Response {
    let to = HeaderValue::try_from(local_path(to)).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response()
}

/// Returns a path if it stays on this server, else that of the overview.
///
/// Browsers drop tabs and line breaks from URLs and take `\\` for `/`: what begins with two slashes after that names
/// another machine.
pub(crate) fn local_path(path: &str) -> &str {
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_plain && path.starts_with('/') && !path.starts_with("//") {
        path
    } else {
        "/"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_on_this_server() {
        for ours in [
            "/",
            "/jobs?state=failed",
            "/room/tags/%09",
            "/sign-in?next=%2F%2Fevil.test",
        ] {
            assert_eq!(local_path(ours), ours);
        }
        for foreign in [
            "//evil.test",
            "/\\evil.test",
            "/\t/evil.test",
            "/\n/evil.test",
            "\t//evil.test",
            "https://evil.test",
            "jobs",
            "",
            "/ /evil.test",
            "/\u{2028}/evil.test",
        ] {
            assert_eq!(local_path(foreign), "/", "{foreign:?}");
        }
    }
}
