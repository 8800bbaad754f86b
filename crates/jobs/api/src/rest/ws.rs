//! Events over a WebSocket.
//!
//! The client's first message is a hello with its cursor or the name of its subscription; then it receives
//! events. With a subscription, the client acknowledges events, which advances the cursor that the server
//! keeps, and at most a window of events is sent ahead of it. All messages are JSON with a `type`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{FromRequestParts, State};
use axum::response::Response;
use nagaya_http_kit::server::BodyControl;
use nagaya_jobs::JobId;
use nagaya_jobs::event::{EventFilter, EventKind, Subscription};
use serde::{Deserialize, Serialize};

use crate::api::Api;
use crate::auth::{Permission, Principal};
use crate::call::Call;
use crate::feed::{Batch, Reader};
use crate::problem::{Problem, ProblemDocument, ProblemKind};
use crate::wire::event::{EventLine, Gap};
use crate::wire::new_job::EventKind as KindName;
use crate::wire::scalar::{Id, Number, Position};

/// Events sent ahead of the last acknowledgement at most.
const WINDOW: usize = 1_000;
/// How long a client may take to send its hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest client message, in bytes.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum FromClient {
    Hello(Hello),
    /// Acknowledges every event up to this one.
    Ack {
        id: Position,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    /// The name of a subscription, whose cursor the server keeps; created if it does not exist.
    subscription: Option<String>,
    after: Option<Position>,
    queue: Option<String>,
    #[serde(default)]
    kinds: Vec<KindName>,
    job: Option<Id>,
    /// For browsers, which cannot set headers on a WebSocket.
    token: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum FromServer<'a> {
    Welcome { cursor: Position },
    Event { event: EventLine<'a> },
    Gap { gap: Gap },
    Problem { problem: ProblemDocument<'a> },
}

pub(super) async fn open(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    // The token may still come in the hello.
    let principal = match call.principal(&api, Permission::Read).await {
        Ok(principal) => Some(principal),
        Err(problem) if problem.kind == ProblemKind::Unauthorized && !has_token(&call) => None,
        Err(problem) => return Err(problem),
    };
    let (mut parts, _) = call.request.into_parts();
    let control = parts.extensions.get::<BodyControl>().cloned();
    if let Some(control) = &control {
        control.awaits_hello();
    }
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &api).await;
    let upgrade = upgrade.map_err(|error| Problem::bad_request(error.body_text()))?;
    let upgrade = upgrade
        .max_message_size(MESSAGE_BYTES_MAX)
        .max_frame_size(MESSAGE_BYTES_MAX);
    // Shutdown waits until the socket is closed.
    let tracked = api.streams.token();
    Ok(upgrade.on_upgrade(async move |socket| {
        serve(api, socket, principal, control).await;
        drop(tracked);
    }))
}

fn has_token(call: &Call) -> bool {
    call.headers().contains_key(axum::http::header::AUTHORIZATION)
}

async fn serve(
    api: Api,
    mut socket: WebSocket,
    principal: Option<Arc<Principal>>,
    control: Option<BodyControl>,
) {
    let begun = begin(&api, &mut socket, principal, control.as_ref());
    let opened = tokio::select! {
        opened = tokio::time::timeout(HELLO_TIMEOUT, begun) => opened,
        // Somebody else needs the connection's place.
        () = given_up(control.as_ref()) => return,
    };
    let problem = match opened {
        Ok(Ok(Some(session))) => return session.run(&api, socket).await,
        Ok(Ok(None)) => return,
        Ok(Err(problem)) => problem,
        Err(_) => Problem::new(ProblemKind::Timeout, "no hello came in time"),
    };
    let message = FromServer::Problem {
        problem: problem.document(),
    };
    if send(&api, &mut socket, &message).await.is_ok() {
        close(&api, &mut socket, close_code::POLICY, problem.kind.name()).await;
    }
}

/// Resolves when the server wants the connection back.
async fn given_up(control: Option<&BodyControl>) {
    match control {
        Some(control) => control.given_up().await,
        None => std::future::pending().await,
    }
}

/// The session that a hello has opened.
struct Session {
    reader: Reader,
    principal: Arc<Principal>,
    /// The session ends with this job.
    job: Option<JobId>,
    subscription: Option<Subscription>,
    /// Positions sent and not acknowledged.
    sent: std::collections::VecDeque<u64>,
    waiting: std::collections::VecDeque<std::sync::Arc<nagaya_jobs::event::Event>>,
}

/// Reads the hello. Returns `None` when the client disconnects.
async fn begin(
    api: &Api,
    socket: &mut WebSocket,
    principal: Option<Arc<Principal>>,
    control: Option<&BodyControl>,
) -> Result<Option<Session>, Problem> {
    let hello = loop {
        match socket.recv().await {
            Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
                Ok(FromClient::Hello(hello)) => break hello,
                Ok(FromClient::Ack { .. }) => {
                    return Err(Problem::bad_request("the first message must be a hello"));
                }
                Err(error) => return Err(Problem::bad_request(format!("the hello does not fit: {error}"))),
            },
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => (),
            Some(Ok(Message::Binary(_))) => return Err(Problem::bad_request("messages are text")),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(None),
        }
    };
    let principal = match (&hello.token, principal) {
        (Some(token), _) => api.auth.of_token(token).await?,
        (None, Some(principal)) => principal,
        (None, None) => return Err(Problem::new(ProblemKind::Unauthorized, "the hello needs a token")),
    };
    principal.check(Permission::Read)?;
    if let Some(control) = control {
        control.signed_in();
    }
    let seen = api.handlers.seen_by(&principal);
    let after = hello.after.map(|after| after.0);
    let mut filter = match hello.job {
        // The reader checks that the caller sees the job.
        Some(job) => EventFilter {
            job: Some(job.0),
            ..EventFilter::default()
        },
        None => seen.event_filter(None, hello.queue.as_deref())?,
    };
    filter.tenant = principal.seeing(None)?;
    filter.kinds = hello.kinds.into_iter().map(EventKind::from).collect();
    let (filter, after, named) = match hello.subscription {
        None => (filter, after, None),
        Some(name) => {
            let found = match seen.find_subscription(&name).await? {
                Some(found) => found,
                None => seen.subscribe(name, filter, after).await?,
            };
            (found.filter.clone(), Some(found.cursor), Some(found))
        }
    };
    let job = filter.job;
    let reader = seen.reader(filter, after).await?;
    let welcome = FromServer::Welcome {
        cursor: Number(reader.position()),
    };
    match send(api, socket, &welcome).await {
        Ok(()) => Ok(Some(Session {
            reader,
            principal,
            job,
            subscription: named,
            sent: Default::default(),
            waiting: Default::default(),
        })),
        Err(ClientDisconnected) => Ok(None),
    }
}

/// The client disconnected, or accepted nothing for too long.
#[derive(Debug)]
struct ClientDisconnected;

impl Session {
    async fn run(mut self, api: &Api, mut socket: WebSocket) {
        let principal = Arc::clone(&self.principal);
        let problem = tokio::select! {
            ended = self.serve(api, &mut socket) => match ended {
                Some(problem) => problem,
                None => return,
            },
            problem = api.auth.until_invalid(&principal) => problem,
        };
        let message = FromServer::Problem {
            problem: problem.document(),
        };
        if send(api, &mut socket, &message).await.is_ok() {
            close(api, &mut socket, close_code::POLICY, problem.kind.name()).await;
        }
    }

    /// Serves until the session ends. Returns the problem that the client has to be told.
    async fn serve(&mut self, api: &Api, socket: &mut WebSocket) -> Option<Problem> {
        loop {
            let has_room = self.subscription.is_none() || self.sent.len() < WINDOW;
            if has_room && let Some(event) = self.waiting.pop_front() {
                let message = FromServer::Event {
                    event: EventLine::from(&*event),
                };
                if send(api, socket, &message).await.is_err() {
                    return None;
                }
                if self.subscription.is_some() {
                    self.sent.push_back(event.seq);
                }
                continue;
            }
            if self.waiting.is_empty() {
                match self.is_over(api, socket).await {
                    Ok(false) => (),
                    Ok(true) => {
                        close(api, socket, close_code::NORMAL, "the job has ended").await;
                        return None;
                    }
                    Err(problem) => return Some(problem),
                }
                if !self.waiting.is_empty() {
                    continue;
                }
            }
            let step = tokio::select! {
                message = socket.recv() => self.heard(api, message).await,
                batch = self.reader.next(), if has_room => match batch {
                    Ok(batch) => self.read(api, socket, batch).await,
                    Err(error) => Err(Some(Problem::from(error))),
                },
                () = api.closing.cancelled() => {
                    close(api, socket, close_code::RESTART, "the server stops").await;
                    return None;
                }
                () = tokio::time::sleep(api.config.heartbeat) => {
                    let ping = socket.send(Message::Ping(Default::default()));
                    match tokio::time::timeout(api.config.stall_max, ping).await {
                        Ok(Ok(())) => Ok(()),
                        _ => Err(None),
                    }
                }
            };
            match step {
                Ok(()) => (),
                Err(problem) => return problem,
            }
        }
    }

    /// Returns whether the job that this client follows has ended and all its events are sent.
    async fn is_over(&mut self, api: &Api, socket: &mut WebSocket) -> Result<bool, Problem> {
        let Some(job) = self.job.filter(|_| self.subscription.is_none()) else {
            return Ok(false);
        };
        let has_ended = api.handlers.seen_by(&self.principal).has_ended(job).await?;
        match self.reader.ready().await? {
            Some(batch) => {
                // A client that disconnected is noticed at the next step.
                let _ = self.read(api, socket, batch).await;
                Ok(false)
            }
            None => Ok(has_ended),
        }
    }

    async fn read(&mut self, api: &Api, socket: &mut WebSocket, batch: Batch) -> Result<(), Option<Problem>> {
        if let Some((after, up_to)) = batch.gap {
            let message = FromServer::Gap {
                gap: Gap::new(after, up_to),
            };
            send(api, socket, &message)
                .await
                .map_err(|ClientDisconnected| None)?;
        }
        self.waiting.extend(batch.events);
        Ok(())
    }

    /// Handles a client message. `Err(None)` means that the client disconnected.
    async fn heard(
        &mut self,
        api: &Api,
        message: Option<Result<Message, axum::Error>>,
    ) -> Result<(), Option<Problem>> {
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(()),
            Some(Ok(Message::Binary(_))) => return Err(Some(Problem::bad_request("messages are text"))),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(None),
        };
        let id = match serde_json::from_str(&text) {
            Ok(FromClient::Ack { id }) => id.0,
            Ok(FromClient::Hello(_)) => return Err(Some(Problem::bad_request("there was a hello already"))),
            Err(error) => {
                let detail = format!("the message does not fit: {error}");
                return Err(Some(Problem::bad_request(detail)));
            }
        };
        let Some(subscription) = &self.subscription else {
            return Ok(());
        };
        // Only sent events can be acknowledged.
        let known = self.sent.partition_point(|seq| *seq <= id);
        let Some(last) = self.sent.drain(..known).next_back() else {
            return Ok(());
        };
        let seen = api.handlers.seen_by(&self.principal);
        let moved = seen.keep(subscription, last).await;
        moved.map(drop).map_err(Some)
    }
}

async fn send(api: &Api, socket: &mut WebSocket, message: &FromServer<'_>) -> Result<(), ClientDisconnected> {
    let text = serde_json::to_string(message).expect("messages have string keys");
    let sending = socket.send(Message::Text(text.into()));
    match tokio::time::timeout(api.config.stall_max, sending).await {
        Ok(Ok(())) => Ok(()),
        _ => Err(ClientDisconnected),
    }
}

async fn close(api: &Api, socket: &mut WebSocket, code: u16, reason: &'static str) {
    let frame = CloseFrame {
        code,
        reason: reason.into(),
    };
    // A client that does not read is disconnected all the same.
    let _ = tokio::time::timeout(api.config.stall_max, socket.send(Message::Close(Some(frame)))).await;
}
