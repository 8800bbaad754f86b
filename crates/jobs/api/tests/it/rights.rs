//! The matrix of rights: every route and every gRPC method, called by everybody there is.
//!
//! What each caller gets is data, `src/rights.txt`. The test fails for a route or method that is not in it, for an
//! answer that differs, and for an answer that shows what belongs to others.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, BufMut, Bytes};
use nagaya_jobs::service::Config;
use nagaya_jobs_api::proto;
use nagaya_jobs_api::{ApiConfig, AuthConfig, Permission, RIGHTS};
use prost::Message;
use serde_json::{Value, json};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::tokio_stream;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::client::Client;
use super::test_server::TestServer;

/// Parts of what the shop owns in the queue `mail`. Nobody else may read them.
const OWN: &str = "shop-own";
/// Part of where the jobs of that queue are pushed to. Only administrators may read it.
const SECRET: &str = "push-secret";

/// A server, and a token for each caller.
struct House {
    server: TestServer,
    admin: Client,
    tokens: BTreeMap<&'static str, Option<String>>,
}

impl House {
    async fn open() -> House {
        let auth = AuthConfig {
            server_token: Some("the house's".into()),
            open: false,
        };
        let server = TestServer::with(auth, ApiConfig::default(), Config::default()).await;
        let admin = server.client().with_token("the house's");
        let mut tokens = BTreeMap::from([("nobody", None), ("wrong", Some("guess".to_owned()))]);
        let all = &["enqueue", "work", "read"][..];
        for (name, tenant, scopes, queues) in [
            ("read", "shop", &["read"][..], &[][..]),
            ("enqueue", "shop", &["enqueue"], &[]),
            ("work", "shop", &["work"], &[]),
            ("admin", "shop", &["admin"], &[]),
            ("other", "bank", all, &[]),
            ("bound", "shop", all, &["post"]),
            ("revoked", "shop", &["admin"], &[]),
        ] {
            let form = json!({"tenant": tenant, "name": name, "scopes": scopes, "queues": queues});
            let made = admin.post("/v1/tokens", form).await.is(201);
            tokens.insert(name, Some(made["token"].as_str().unwrap().to_owned()));
        }
        let push = json!({"push": {"url": format!("http://127.0.0.1:9/{SECRET}"), "concurrency": 1}});
        admin.put("/v1/queues/mail", push).await.is(200);
        admin.delete("/v1/tokens/shop/revoked").await.is(204);
        House {
            server,
            admin,
            tokens,
        }
    }

    fn client(&self, caller: &str) -> Client {
        match &self.tokens[caller] {
            Some(token) => self.server.client().with_token(token),
            None => self.server.client(),
        }
    }

    /// Makes what a call may be about, anew for each, because some calls destroy it.
    async fn things(&self) -> Things {
        let job = || json!({"tenant": "shop", "queue": "mail", "kind": OWN, "payload": OWN});
        let ended = self.admin.enqueue(job()).await;
        self.admin
            .send("POST", &format!("/v1/jobs/{ended}/cancel"), None, &[])
            .await
            .is(200);
        let schedule = json!({"cron": "0 0 1 1 *", "job": job()});
        self.admin
            .put(&format!("/v1/schedules/{OWN}"), schedule)
            .await
            .is(200);
        let victim = json!({"tenant": "shop", "name": "victim", "scopes": ["read"]});
        self.admin.post("/v1/tokens", victim).await.is(201);
        // An administrator's subscription is of all tenants: the shop could not change it.
        let path = format!("/v1/subscriptions/{OWN}");
        self.client("admin").status("DELETE", &path, None, &[]).await;
        // Made by the shop itself: a subscription belongs to the tenant of its token.
        let own = self.client("enqueue");
        own.put(&path, json!({"queue": "mail"})).await.is(200);
        Things {
            waiting: self.admin.enqueue(job()).await,
            ended,
        }
    }
}

struct Things {
    waiting: String,
    ended: String,
}

impl Things {
    fn path(&self, method: &str, path: &str) -> String {
        let needs_end = path.ends_with("/retry") || (method, path) == ("DELETE", "/v1/jobs/{id}");
        let name = if path.starts_with("/v1/tokens") {
            "victim"
        } else {
            OWN
        };
        path.replace("{id}", if needs_end { &self.ended } else { &self.waiting })
            .replace("{queue}", "mail")
            .replace("{tenant}", "shop")
            .replace("{name}", name)
    }

    fn body(&self, method: &str, path: &str) -> Option<Value> {
        // Nobody gave out this token, so a caller who may report is told that the lease is lost.
        let report = json!({"token": "x"});
        let job = json!({"queue": "mail", "payload": 1});
        Some(match (method, path) {
            ("POST", "/v1/jobs") => job,
            ("POST", "/v1/jobs/batch") => json!({"jobs": [job]}),
            ("POST", "/v1/jobs/edit") => {
                json!({"queue": "mail", "kind": "none", "set": {"priority": 1}})
            }
            ("POST", "/v1/jobs/retry" | "/v1/jobs/cancel" | "/v1/jobs/delete") => {
                json!({"queue": "mail", "kind": "none"})
            }
            ("POST", "/v1/queues/{queue}/claim") => json!({"worker": "w"}),
            ("POST", "/v1/claim") => json!({"worker": "w", "queues": ["mail"]}),
            ("POST", "/v1/jobs/batch/complete") => json!({"jobs": [report]}),
            ("POST", "/v1/jobs/batch/fail") => json!({"jobs": [{"token": "x", "error": "e"}]}),
            ("POST", "/v1/jobs/{id}/log") => json!({"token": "x", "lines": ["l"]}),
            ("POST", "/v1/jobs/{id}/fail") => json!({"token": "x", "error": "e"}),
            ("POST", "/v1/jobs/wait") => json!({"ids": [self.waiting], "results": true}),
            ("POST", "/v1/jobs/batch/extend" | "/v1/jobs/batch/release") => json!({"jobs": [report]}),
            ("POST", "/v1/jobs/{id}/release") => report,
            ("POST", "/v1/jobs/{id}/extend" | "/v1/jobs/{id}/progress" | "/v1/jobs/{id}/complete") => report,
            ("PATCH", "/v1/jobs/{id}") => json!({"priority": 1}),
            ("PUT", "/v1/queues/{queue}") => {
                json!({"push": {"url": format!("http://127.0.0.1:9/{SECRET}"), "concurrency": 1}})
            }
            ("PATCH", "/v1/queues/{queue}") => json!({"max_retries": 5}),
            ("PUT", "/v1/schedules/{name}") => json!({"cron": "0 0 1 1 *", "job": job}),
            ("PUT", "/v1/subscriptions/{name}") => json!({"queue": "mail"}),
            ("POST", "/v1/subscriptions/{name}/ack") => json!({"cursor": "0"}),
            ("POST", "/v1/tokens") => json!({"tenant": "shop", "name": "made", "scopes": ["read"]}),
            ("PUT", "/v1/tenants/{tenant}") => json!({"weight": 1}),
            ("POST", "/v1/deliveries/replay") => json!({"queue": "mail"}),
            ("POST", "/v1/notify/test") => json!({"route": "none"}),
            _ => return None,
        })
    }

    /// Returns the query of routes that must be told which queue.
    fn query(method: &str, path: &str) -> &'static str {
        match (method, path) {
            ("GET", "/v1/jobs" | "/v1/events" | "/v1/deliveries") => "?queue=mail",
            ("DELETE" | "GET", "/v1/schedules/{name}") | ("POST", "/v1/schedules/{name}/run") => "",
            _ => "",
        }
    }
}

const UPGRADE: [(&str, &str); 4] = [
    ("connection", "upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

/// Calls a route. An administrator acts for its own tenant, which is the shop.
async fn call_route(house: &House, caller: &str, method: &str, path: &str) -> (u16, String) {
    let things = house.things().await;
    let url = things.path(method, path) + Things::query(method, path);
    let body = things.body(method, path).map(|body| body.to_string());
    let headers = if path == "/v1/ws" { &UPGRADE[..] } else { &[] };
    house.client(caller).status(method, &url, body, headers).await
}

/// Passes bytes through, so that one call does for all methods.
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = RawCodec;
    type Decoder = RawCodec;

    fn encoder(&mut self) -> RawCodec {
        RawCodec
    }

    fn decoder(&mut self) -> RawCodec {
        RawCodec
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// Returns the message of a gRPC method; `None` for one that is not known here.
fn message(method: &str, things: &Things) -> Option<Vec<u8>> {
    let (id, ended): (i64, i64) = (things.waiting.parse().unwrap(), things.ended.parse().unwrap());
    let (queue, token, name) = (|| "mail".to_owned(), || "x".to_owned(), || OWN.to_owned());
    let job = || proto::EnqueueRequest {
        queue: queue(),
        ..Default::default()
    };
    let filter = || proto::JobFilter {
        queue: queue(),
        kind: "none".into(),
        ..Default::default()
    };
    let events = || proto::EventFilter {
        queue: queue(),
        ..Default::default()
    };
    Some(match method {
        "Enqueue" => job().encode_to_vec(),
        "EnqueueBatch" => proto::EnqueueBatchRequest { jobs: vec![job()] }.encode_to_vec(),
        "Claim" => proto::ClaimRequest {
            worker: "w".into(),
            queues: vec![queue()],
            ..Default::default()
        }
        .encode_to_vec(),
        "Extend" => proto::ExtendRequest {
            token: token(),
            ..Default::default()
        }
        .encode_to_vec(),
        "Progress" => proto::ProgressRequest {
            token: token(),
            ..Default::default()
        }
        .encode_to_vec(),
        "Log" => proto::LogRequest {
            token: token(),
            lines: vec!["l".into()],
        }
        .encode_to_vec(),
        "Complete" => proto::CompleteRequest {
            token: token(),
            ..Default::default()
        }
        .encode_to_vec(),
        "Fail" => proto::FailRequest {
            token: token(),
            ..Default::default()
        }
        .encode_to_vec(),
        "CompleteBatch" | "FailBatch" | "ExtendBatch" | "ReleaseBatch" | "ListQueues" | "GetVersion" => {
            Vec::new()
        }
        "Release" => proto::ReleaseRequest {
            token: token(),
            ..Default::default()
        }
        .encode_to_vec(),
        "Wait" => proto::WaitRequest {
            ids: vec![id],
            results: true,
            ..Default::default()
        }
        .encode_to_vec(),
        "Get" => proto::GetRequest {
            id,
            ..Default::default()
        }
        .encode_to_vec(),
        "List" => proto::ListRequest {
            queue: queue(),
            ..Default::default()
        }
        .encode_to_vec(),
        "Cancel" => proto::CancelRequest {
            id,
            ..Default::default()
        }
        .encode_to_vec(),
        "Retry" => proto::RetryRequest { id: ended }.encode_to_vec(),
        "Delete" => proto::DeleteRequest { id: ended }.encode_to_vec(),
        "Edit" => proto::EditRequest {
            id,
            priority: Some(1),
            ..Default::default()
        }
        .encode_to_vec(),
        "CancelMany" => proto::CancelManyRequest {
            filter: Some(filter()),
            ..Default::default()
        }
        .encode_to_vec(),
        "RetryMany" => proto::RetryManyRequest {
            filter: Some(filter()),
            ..Default::default()
        }
        .encode_to_vec(),
        "GetQueue" => proto::GetQueueRequest { queue: queue() }.encode_to_vec(),
        "PutQueue" => proto::PutQueueRequest {
            queue: queue(),
            settings: Some(proto::QueueSettings {
                push: Some(proto::Push {
                    url: format!("http://127.0.0.1:9/{SECRET}"),
                    concurrency: 1,
                    ..Default::default()
                }),
                ..Default::default()
            }),
        }
        .encode_to_vec(),
        "DeleteQueue" => proto::DeleteQueueRequest {
            queue: "unused".into(),
        }
        .encode_to_vec(),
        "PauseQueue" => proto::PauseQueueRequest {
            queue: queue(),
            paused: false,
        }
        .encode_to_vec(),
        "ListSchedules" => Vec::new(),
        "PutSchedule" => proto::PutScheduleRequest {
            name: name(),
            cron: "0 0 1 1 *".into(),
            job: Some(job()),
            ..Default::default()
        }
        .encode_to_vec(),
        "DeleteSchedule" => proto::DeleteScheduleRequest {
            name: name(),
            ..Default::default()
        }
        .encode_to_vec(),
        "RunSchedule" => proto::RunScheduleRequest {
            name: name(),
            ..Default::default()
        }
        .encode_to_vec(),
        "ListDeliveries" => proto::ListDeliveriesRequest {
            queue: queue(),
            ..Default::default()
        }
        .encode_to_vec(),
        "ReplayDeliveries" => proto::ReplayDeliveriesRequest {
            queue: queue(),
            ..Default::default()
        }
        .encode_to_vec(),
        "Work" => proto::WorkRequest {
            message: Some(proto::work_request::Message::Hello(proto::WorkHello {
                worker: "w".into(),
                queues: vec![queue()],
                ..Default::default()
            })),
            ..Default::default()
        }
        .encode_to_vec(),
        "Watch" => proto::WatchRequest {
            filter: Some(events()),
            after: Some(u64::MAX),
            ..Default::default()
        }
        .encode_to_vec(),
        "Subscribe" => proto::SubscribeRequest {
            message: Some(proto::subscribe_request::Message::Hello(proto::SubscribeHello {
                name: name(),
                filter: Some(events()),
                ..Default::default()
            })),
        }
        .encode_to_vec(),
        _ => return None,
    })
}

/// Calls a gRPC method with one message, and returns the status as HTTP has it, and the first answer.
async fn call_method(house: &House, channel: &Channel, caller: &str, method: &str) -> (u16, String) {
    let things = house.things().await;
    let message = message(method, &things).unwrap_or_else(|| panic!("no message for {method}"));
    let mut request = Request::new(tokio_stream::once(Bytes::from(message)));
    if let Some(token) = &house.tokens[caller] {
        let value = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", value);
    }
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let path = format!("/nagaya.jobs.v1.Jobs/{method}").parse().unwrap();
    let answer = async {
        let mut answers = client.streaming(request, path, RawCodec).await?.into_inner();
        answers.message().await
    };
    match answer.await {
        Ok(bytes) => (
            200,
            String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned(),
        ),
        Err(status) => {
            let code = match status.code() {
                Code::Unauthenticated => 401,
                Code::PermissionDenied => 403,
                Code::NotFound => 404,
                Code::FailedPrecondition => 409,
                other => panic!("{method} as {caller}: {other:?} {}", status.message()),
            };
            (code, String::new())
        }
    }
}

/// The routes of the OpenAPI document and the methods of the service.
async fn everything(house: &House) -> BTreeSet<(String, String)> {
    let document = house.admin.get("/openapi.json").await.is(200);
    let mut all = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| *key != "parameters")
        {
            all.insert((method.to_uppercase(), path.clone()));
        }
    }
    let service = include_str!("../../../../../proto/nagaya/jobs/v1/jobs.proto");
    for line in service.lines() {
        if let Some(rest) = line.trim().strip_prefix("rpc ") {
            let name = rest.split('(').next().unwrap();
            all.insert(("GRPC".to_owned(), name.to_owned()));
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_gets_what_the_matrix_says_and_nothing_of_others() {
    let house = House::open().await;
    let channel = Channel::from_shared(format!("http://{}", house.server.address)).unwrap();
    let channel = channel.connect().await.unwrap();
    let mut lines = RIGHTS
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let callers: Vec<&str> = lines.next().unwrap().split_whitespace().skip(2).collect();
    assert_eq!(callers.len(), house.tokens.len());
    let mut missing = everything(&house).await;
    let (mut wrong, mut tally) = (Vec::new(), BTreeMap::<u16, usize>::new());
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (method, path, expected) = (words[0], words[1], &words[2..]);
        assert!(
            missing.remove(&(method.to_owned(), path.to_owned())),
            "there is no {method} {path}, or it is listed twice"
        );
        let mut seen = Vec::new();
        for caller in &callers {
            let (status, text) = match method {
                "GRPC" => call_method(&house, &channel, caller, path).await,
                _ => call_route(&house, caller, method, path).await,
            };
            if matches!(*caller, "other" | "bound") && text.contains(OWN) && !named_by_caller(method, path) {
                wrong.push(format!("{method} {path} shows the shop's to {caller}: {text}"));
            }
            if *caller != "admin" && text.contains(SECRET) {
                wrong.push(format!("{method} {path} shows a secret to {caller}: {text}"));
            }
            *tally.entry(status).or_default() += 1;
            seen.push(status.to_string());
        }
        if seen != expected {
            wrong.push(format!(
                "{method} {path} {} instead of {}",
                seen.join(" "),
                expected.join(" ")
            ));
        }
    }
    println!("answers by status: {tally:?}");
    assert!(missing.is_empty(), "not in the matrix: {missing:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Calls that repeat a name which the caller gave to a thing of its own, or an error that names what was asked for.
fn named_by_caller(method: &str, path: &str) -> bool {
    path.contains("{name}") || (method == "GRPC" && path.contains("Sche")) || path == "Subscribe"
}

/// The documents and the listener read a route's scope from the table, and its handler asks for one by itself.
#[test]
fn the_scope_that_a_route_is_listed_with_is_the_one_that_the_matrix_shows() {
    let lines = RIGHTS
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let answers: BTreeMap<_, _> = lines
        .filter(|words| words.len() == 11)
        .map(|words| ((words[0], words[1]), words))
        .collect();
    let columns = [("read", 4), ("enqueue", 5), ("work", 6), ("admin", 7)];
    for (method, path, permission) in nagaya_jobs_api::rights() {
        let words = &answers[&(method, path)];
        for (scope, column) in columns {
            let expected = match permission {
                Permission::Any => true,
                Permission::Enqueue => scope == "enqueue" || scope == "admin",
                Permission::Work => scope == "work" || scope == "admin",
                Permission::Read | Permission::Metrics => scope == "read" || scope == "admin",
                Permission::Admin => scope == "admin",
            };
            let is_let_in = words[column] != "403";
            assert_eq!(
                is_let_in, expected,
                "{method} {path} with {permission:?}, as {scope}"
            );
        }
    }
}
