//! A console for tests, over a fake API with prepared answers.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, StatusCode, header};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::api::{Answer, Api, Request};
use crate::config::ConsoleConfig;
use crate::request::Console;
use crate::session::SessionId;
use crate::session_guard::{COOKIE, FORM_WORD};

/// Status and body by method and path.
type Answers = HashMap<(Method, String), (u16, Value)>;

/// Answers by method and path without its query; remembers what it was asked.
#[derive(Clone, Default)]
struct FakeApi {
    answers: Arc<Mutex<Answers>>,
    asked: Arc<Mutex<Vec<Request>>>,
    token: Option<&'static str>,
}

impl Api for FakeApi {
    fn call(&self, request: Request) -> BoxFuture<'_, Answer> {
        let path = request.path.split('?').next().unwrap_or_default().to_owned();
        let key = (request.method.clone(), path);
        let known = self.token.is_none() || request.token.as_deref() == self.token;
        let (status, body) = match (known, self.answers.lock().get(&key)) {
            (false, _) => (401, json!({"detail": "nobody has this token"})),
            (true, Some(answer)) => answer.clone(),
            (true, None) => (404, json!({"detail": format!("there is nothing at {}", key.1)})),
        };
        self.asked.lock().push(request);
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let answer = Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: body.into(),
        };
        Box::pin(async { answer })
    }
}

/// The console and the API behind it.
pub(crate) struct TestConsole {
    api: FakeApi,
    console: Console,
    router: Router,
}

/// What a browser gets.
pub(crate) struct Got {
    pub(crate) status: u16,
    headers: HeaderMap,
    pub(crate) body: String,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn location(&self) -> &str {
        self.header("location")
    }
}

/// The pair that a browser sends back.
pub(crate) fn cookie_of(set_cookie: &str) -> String {
    set_cookie.split(';').next().unwrap().to_owned()
}

impl TestConsole {
    /// A console that requires no token.
    pub(crate) fn open() -> TestConsole {
        TestConsole::new(None)
    }

    pub(crate) fn with_token(token: &'static str) -> TestConsole {
        TestConsole::new(Some(token))
    }

    fn new(token: Option<&'static str>) -> TestConsole {
        let api = FakeApi {
            token,
            ..FakeApi::default()
        };
        let config = ConsoleConfig {
            asks_token: token.is_some(),
            is_https: false,
            version: "1.2.3",
        };
        let console = Console::new(api.clone(), config);
        let console = TestConsole {
            router: console.routes(),
            api,
            console,
        };
        console.answer("/version", json!({"name": "nagaya", "version": "1.2.3"}));
        console.answer(
            "/readyz",
            json!({"state": "ready", "uptime_seconds": 5, "components": []}),
        );
        console
    }

    /// What the API answers to a GET from now on.
    pub(crate) fn answer(&self, path: &str, body: Value) {
        self.answer_to(Method::GET, path, 200, body);
    }

    pub(crate) fn answer_to(&self, method: Method, path: &str, status: u16, body: Value) {
        self.api
            .answers
            .lock()
            .insert((method, path.to_owned()), (status, body));
    }

    /// What the API was asked, but for reading: method, path and body.
    pub(crate) fn changes(&self) -> Vec<(Method, String, Option<Value>)> {
        let asked = self.api.asked.lock();
        let changes = asked.iter().filter(|request| request.method != Method::GET);
        changes
            .map(|one| (one.method.clone(), one.path.clone(), one.body.clone()))
            .collect()
    }

    /// The paths that the API was asked for, queries included.
    pub(crate) fn reads(&self) -> Vec<String> {
        self.api
            .asked
            .lock()
            .iter()
            .map(|request| request.path.clone())
            .collect()
    }

    pub(crate) async fn get(&self, path: &str) -> Got {
        self.get_as(path, "").await
    }

    pub(crate) async fn get_as(&self, path: &str, cookie: &str) -> Got {
        self.send(Method::GET, path, cookie, String::new()).await
    }

    /// Sends a form as a page of ours would.
    pub(crate) async fn post(&self, path: &str, cookie: Option<&str>, fields: &str) -> Got {
        let id = cookie.and_then(|cookie| SessionId::parse(cookie.strip_prefix(&format!("{COOKIE}="))?));
        let word = self.console.0.sessions.form_word(id.as_ref());
        self.post_raw(path, cookie, &format!("{fields}&{FORM_WORD}={word}"))
            .await
    }

    /// Sends a form as it is.
    pub(crate) async fn post_raw(&self, path: &str, cookie: Option<&str>, fields: &str) -> Got {
        self.send(Method::POST, path, cookie.unwrap_or_default(), fields.to_owned())
            .await
    }

    async fn send(&self, method: Method, path: &str, cookie: &str, body: String) -> Got {
        let request = axum::http::Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "127.0.0.1:7400")
            .header(header::COOKIE, cookie)
            .body(Body::from(body))
            .unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        Got {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8(to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap(),
        }
    }
}

/// A queue as the API describes it.
pub(crate) fn queue_document(name: &str) -> Value {
    json!({
        "name": name, "paused": false, "created_at": "2026-11-15T09:00:00Z",
        "depth": {"scheduled": 1, "ready": 2, "blocked": 0, "running": 1, "succeeded": 40, "failed": 3, "cancelled": 0},
        "passed": {"enqueued": 47, "started": 44, "succeeded": 40, "failed": 3, "cancelled": 0,
            "attempts_failed": 9, "leases_lost": 1, "late_reports": 1},
        "oldest_ready_at": "2026-11-15T09:00:00Z", "last_claim_at": null,
        "settings": {"timeout_seconds": 60, "max_retries": 5, "rate": null},
    })
}

/// A line of a listing as the API writes it.
pub(crate) fn summary_document(id: &str, state: &str) -> Value {
    json!({
        "id": id, "queue": "mail", "tenant": "default", "kind": "send", "tags": ["vip"], "state": state,
        "priority": 0, "attempts": 2, "max_retries": 5, "created_at": "2026-11-15T09:00:00Z",
        "ended_at": "2026-11-15T09:01:00Z", "error": "no route to host",
    })
}
