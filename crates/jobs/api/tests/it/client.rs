//! A client for any server: REST, events, gRPC. Shared with the tests of the binary.

use std::net::SocketAddr;
use std::time::Duration;

use axum::http::{Request, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use nagaya_jobs_api::proto::jobs_client::JobsClient;
use serde_json::Value;
use tonic::transport::{Channel, Endpoint};

/// Where a server is reached; a proxy may have one port per protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoints {
    pub(crate) rest: SocketAddr,
    pub(crate) grpc: SocketAddr,
}

impl Endpoints {
    pub(crate) fn client(&self) -> Client {
        Client {
            address: self.rest,
            http: HttpClient::builder(TokioExecutor::new()).build_http(),
            token: None,
        }
    }

    pub(crate) async fn grpc(&self) -> JobsClient<Channel> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.grpc)).unwrap();
        JobsClient::new(endpoint.connect().await.unwrap())
    }
}

/// The REST client.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    http: HttpClient<HttpConnector, Full<Bytes>>,
    token: Option<String>,
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: axum::http::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }

    /// Returns the last segment of a problem's type.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16) -> &str {
        assert_eq!(self.status, status, "{}", self.body);
        let media_type = self.headers["content-type"].to_str().unwrap();
        assert_eq!(media_type, "application/problem+json");
        assert_eq!(self.body["status"], status);
        self.body["type"].as_str().unwrap().rsplit('/').next().unwrap()
    }
}

impl Client {
    pub(crate) fn with_token(mut self, token: &str) -> Client {
        self.token = Some(token.into());
        self
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None, &[]).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, Some(body.to_string()), &[]).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.send("PUT", path, Some(body.to_string()), &[]).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, None, &[]).await
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<String>,
        headers: &[(&str, &str)],
    ) -> Answer {
        let answer = self.try_send(method, path, body, headers).await;
        answer.unwrap_or_else(|why| panic!("{method} {path}: {why}"))
    }

    /// As [`Client::send`], for servers that may be down.
    pub(crate) async fn try_send(
        &self,
        method: &str,
        path: &str,
        body: Option<String>,
        headers: &[(&str, &str)],
    ) -> Result<Answer, String> {
        let response = self.open(method, path, body, headers).await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let collected = response.into_body().collect().await;
        let bytes = collected.map_err(|error| error.to_string())?.to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::String(text));
        Ok(Answer {
            status,
            headers,
            body,
        })
    }

    async fn open(
        &self,
        method: &str,
        path: &str,
        body: Option<String>,
        headers: &[(&str, &str)],
    ) -> Result<axum::http::Response<hyper::body::Incoming>, String> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address));
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if body.is_some() && !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(body.unwrap_or_default())).unwrap();
        let sent = tokio::time::timeout(Duration::from_secs(60), self.http.request(request));
        let sent = sent.await.map_err(|_| "no answer in time".to_owned())?;
        sent.map_err(|error| format!("{error:?}"))
    }

    /// Returns the status of a response and its text; that of a stream is not read.
    pub(crate) async fn status(
        &self,
        method: &str,
        path: &str,
        body: Option<String>,
        headers: &[(&str, &str)],
    ) -> (u16, String) {
        let response = self.open(method, path, body, headers).await.unwrap();
        let status = response.status().as_u16();
        let media_type = response.headers().get("content-type");
        if status == 101 || media_type.is_some_and(|one| one == "text/event-stream") {
            return (status, String::new());
        }
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Registers a job and returns its id.
    pub(crate) async fn enqueue(&self, job: Value) -> String {
        let body = self.post("/v1/jobs", job).await.is(201);
        body["id"].as_str().unwrap().to_owned()
    }

    /// Claims one job.
    pub(crate) async fn claim(&self, queue: &str) -> Value {
        let claim = serde_json::json!({"worker": "w", "wait_seconds": 10});
        let body = self
            .post(&format!("/v1/queues/{queue}/claim"), claim)
            .await
            .is(200);
        body["jobs"][0].clone()
    }

    /// Claims one job and completes it.
    pub(crate) async fn work(&self, queue: &str, result: Value) -> String {
        let job = self.claim(queue).await;
        let id = job["id"].as_str().unwrap().to_owned();
        let report = serde_json::json!({"token": job["token"], "result": result});
        self.post(&format!("/v1/jobs/{id}/complete"), report)
            .await
            .is(200);
        id
    }

    pub(crate) async fn events(&self, path: &str, last_event_id: Option<&str>) -> EventStream {
        self.try_events(path, last_event_id).await.unwrap()
    }

    /// As [`Client::events`], for servers that may be down.
    pub(crate) async fn try_events(
        &self,
        path: &str,
        last_event_id: Option<&str>,
    ) -> Result<EventStream, String> {
        let headers: Vec<_> = last_event_id
            .map(|id| ("last-event-id", id))
            .into_iter()
            .collect();
        let response = self.open("GET", path, None, &headers).await?;
        if response.status() != StatusCode::OK {
            return Err(response.status().to_string());
        }
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Ok(EventStream {
            body: response.into_body(),
            text: String::new(),
        })
    }
}

/// Reads server-sent events.
pub(crate) struct EventStream {
    body: hyper::body::Incoming,
    text: String,
}

/// One event as a browser sees it.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) id: String,
    pub(crate) event: String,
    pub(crate) data: Value,
}

impl EventStream {
    /// Returns the next event; `None` when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Sent> {
        loop {
            if let Some(at) = self.text.find("\n\n") {
                let block: String = self.text.drain(..at + 2).collect();
                if let Some(sent) = parse(&block) {
                    return Some(sent);
                }
                continue;
            }
            self.read().await?;
        }
    }

    /// Reads until a text has arrived. Returns everything received, comments included.
    pub(crate) async fn raw_until(&mut self, text: &str) -> String {
        while !self.text.contains(text) || !self.text.ends_with("\n\n") {
            self.read().await.expect("the stream goes on");
        }
        std::mem::take(&mut self.text)
    }

    async fn read(&mut self) -> Option<()> {
        let frame = tokio::time::timeout(Duration::from_secs(30), self.body.frame()).await;
        let frame = frame.expect("an event in time")?.ok()?;
        let bytes = frame.into_data().unwrap_or_default();
        self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        Some(())
    }
}

fn parse(block: &str) -> Option<Sent> {
    let field = |name: &str| {
        let values: Vec<&str> = block.lines().filter_map(|line| line.strip_prefix(name)).collect();
        (!values.is_empty()).then(|| values.join("\n"))
    };
    Some(Sent {
        id: field("id: ").unwrap_or_default(),
        event: field("event: ")?,
        data: serde_json::from_str(&field("data: ")?).unwrap(),
    })
}
