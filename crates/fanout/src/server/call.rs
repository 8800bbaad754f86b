//! Requests whose clients wait for the answers: `/call`, and any path with `Prefer: wait=`.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::{Either, Full};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::merged::{Whole, late, show};
use super::problem::Problem;
use super::told::{Source, Told};
use super::websocket::{self, Handshake};
use super::{JSON, Reply, events};
use crate::client::Held;
use crate::gather::{Arrived, Gathered, Verdict, value_of};
use crate::preferences::{Enough, Preferences};
use crate::service::{Fanout, Taken, shed_outcome};
use crate::stats::RejectReason;

/// The path whose requests are answered with the answers.
const CALL: &str = "/call";
/// More bytes than this are taken apart on a thread of their own.
const LARGE: usize = 64 * 1024;

const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// How a client wants the answers.
pub(super) struct Call {
    preferences: Preferences,
    form: Form,
}

enum Form {
    Json,
    Multipart,
    Events,
    Socket(Handshake),
}

/// Why a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Met,
    CannotBeMet,
    TimeIsUp,
}

impl Call {
    /// Returns how a request's client wants the answers; `None` if it wants an id at once.
    pub(super) fn of(fanout: &Fanout, head: &mut Parts) -> Result<Option<Call>, Problem> {
        let is_call = head.uri.path() == CALL;
        if !is_call && !head.headers.contains_key("prefer") {
            return Ok(None);
        }
        let bad = |detail: String| {
            fanout.counts().reject(RejectReason::Bad);
            Problem::new(StatusCode::BAD_REQUEST, detail)
        };
        let preferences = Preferences::read(&head.headers).map_err(bad)?;
        if !is_call && preferences.wait.is_none() {
            return Ok(None);
        }
        let endpoints = fanout.endpoints().iter().len();
        if let Enough::Answers(count) = preferences.enough
            && count > endpoints
            && endpoints > 0
        {
            let detail = format!("`Prefer` wants {count} answers, but there are {endpoints} endpoints");
            return Err(bad(detail));
        }
        let accepts = |kind: &str| {
            let mut accept = head.headers.get_all(ACCEPT).iter();
            accept.any(|value| value.to_str().is_ok_and(|value| value.contains(kind)))
        };
        let form = if accepts("text/event-stream") {
            Form::Events
        } else if accepts("multipart/mixed") {
            Form::Multipart
        } else {
            Form::Json
        };
        let form = match Handshake::of(head).filter(|_| is_call) {
            Some(handshake) => Form::Socket(handshake?),
            None => form,
        };
        Ok(Some(Call { preferences, form }))
    }

    /// Waits for the answers and replies with them.
    pub(super) async fn reply(
        self,
        fanout: &Arc<Fanout>,
        mut taken: Taken,
        at: Instant,
    ) -> Result<Reply, Problem> {
        let applied = self.preferences.wait;
        let Some(answers) = taken.answers.take() else {
            unreachable!("a request that is waited for has its answers");
        };
        let mut gathering = Gathering::new(fanout, &taken, answers, self.preferences, at);
        let mut reply = match self.form {
            Form::Events => events::stream(Source::Called(CallEvents::new(gathering))),
            Form::Socket(handshake) => {
                websocket::open(fanout, handshake, Source::Called(CallEvents::new(gathering)))
            }
            Form::Json | Form::Multipart => {
                let end = gathering.wait().await;
                let is_multipart = matches!(self.form, Form::Multipart);
                whole_reply(fanout, gathering, end, is_multipart).await?
            }
        };
        let applied = applied.map(|wait| format!("wait={}ms", wait.as_millis()));
        if let Some(value) = applied.and_then(|text| HeaderValue::try_from(text).ok()) {
            reply.headers_mut().insert(PREFERENCE_APPLIED, value);
        }
        Ok(reply)
    }
}

/// Answers that are being waited for.
struct Gathering {
    id: Arc<str>,
    names: Vec<Arc<str>>,
    answers: mpsc::Receiver<Arrived>,
    gathered: Gathered,
    at: Instant,
    until: Instant,
}

impl Gathering {
    fn new(
        fanout: &Fanout,
        taken: &Taken,
        answers: mpsc::Receiver<Arrived>,
        preferences: Preferences,
        at: Instant,
    ) -> Gathering {
        let names: Vec<Arc<str>> = taken
            .set
            .iter()
            .map(|endpoint| Arc::clone(&endpoint.name))
            .collect();
        let awaited = names.len() - taken.shed.len();
        let mut gathered = Gathered::new(awaited, preferences.enough, preferences.best);
        let shed = taken.shed.iter();
        let shed = shed.map(|(name, reason)| Arrived::without_body(name, shed_outcome(*reason)));
        gathered.answers.extend(shed);
        let longest = fanout.config.read_wait_max;
        Gathering {
            id: Arc::clone(&taken.id),
            names,
            answers,
            gathered,
            at,
            until: at + preferences.wait.unwrap_or(longest).min(longest),
        }
    }

    /// Waits until there is enough, or there cannot be, or the time is up.
    async fn wait(&mut self) -> End {
        loop {
            if let Some(end) = self.next().await {
                return end;
            }
        }
    }

    /// Takes the next answer in; returns why there is none. Cancel safe while nothing has come.
    async fn next(&mut self) -> Option<End> {
        match self.gathered.verdict() {
            Verdict::Met => return Some(End::Met),
            Verdict::CannotBeMet => return Some(End::CannotBeMet),
            Verdict::Wait => (),
        }
        let arrived = tokio::select! {
            biased;
            arrived = self.answers.recv() => arrived,
            () = sleep_until(self.until) => None,
        };
        let Some(arrived) = arrived else {
            return Some(End::TimeIsUp);
        };
        let pointer = self.gathered.wanted().map(|best| best.pointer.clone());
        let value = match (pointer, arrived.body.clone()) {
            (Some(pointer), Some(body)) => {
                let size = body.len();
                off_the_runtime(size, move || value_of(&body, &pointer))
                    .await
                    .flatten()
            }
            _ => None,
        };
        self.gathered.add(arrived, value);
        None
    }

    fn ms(&self) -> u64 {
        u64::try_from(self.at.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Runs work over so many bytes where it holds nobody up. `None` if it failed, which it does not.
async fn off_the_runtime<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    if bytes < LARGE {
        return Some(work());
    }
    tokio::task::spawn_blocking(work).await.ok()
}

/// Makes the reply with all that was chosen.
async fn whole_reply(
    fanout: &Fanout,
    gathering: Gathering,
    end: End,
    is_multipart: bool,
) -> Result<Reply, Problem> {
    let ms = gathering.ms();
    let Gathering {
        id,
        names,
        mut gathered,
        ..
    } = gathering;
    let status = match end {
        End::Met => StatusCode::OK,
        // All that is there is what was asked for.
        End::CannotBeMet | End::TimeIsUp if !gathered.has_rule() => StatusCode::OK,
        End::CannotBeMet => StatusCode::BAD_GATEWAY,
        End::TimeIsUp => StatusCode::GATEWAY_TIMEOUT,
    };
    gathered.choose();
    let size = gathered.answers.iter().filter_map(|answer| answer.body.as_ref());
    let size = size.map(Bytes::len).sum();
    let whole = Whole {
        id: Arc::clone(&id),
        names,
        gathered,
        is_met: end == End::Met,
        ms,
    };
    let room = fanout.config.reply_max.as_usize();
    let boundary = Uuid::new_v4().simple().to_string();
    let kind = if is_multipart {
        HeaderValue::try_from(format!("multipart/mixed; boundary={boundary}")).unwrap_or(JSON)
    } else {
        JSON
    };
    let rendered = off_the_runtime(size, move || {
        if is_multipart {
            whole.multipart(&boundary, room)
        } else {
            whole.json(room).into_bytes()
        }
    });
    let bytes = rendered.await.unwrap_or_default();
    let Some(held) = Held::take(&fanout.replies, bytes.len()) else {
        let detail = format!(
            "the memory that `fanout.replies_max` allows for replies is used up; read the answers back from \
             /requests/{id}"
        );
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).with("request_id", &*id));
    };
    let bytes = Bytes::from_owner(HeldBytes { bytes, _held: held });
    let mut reply = Response::new(Either::Left(Full::new(bytes)));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    reply
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(reply)
}

/// Bytes that are accounted for until they are sent.
struct HeldBytes {
    bytes: Vec<u8>,
    _held: Held,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The answers of a call as events: `request` first, `answer` for each, and one that says why there are no more.
pub(super) struct CallEvents {
    gathering: Gathering,
    has_begun: bool,
    has_ended: bool,
    /// Answers that were told.
    told: usize,
}

impl CallEvents {
    fn new(gathering: Gathering) -> CallEvents {
        CallEvents {
            gathering,
            has_begun: false,
            has_ended: false,
            told: 0,
        }
    }

    pub(super) async fn next(&mut self) -> Option<Told> {
        if !self.has_begun {
            self.has_begun = true;
            let names: Vec<&str> = self.gathering.names.iter().map(|name| &**name).collect();
            let data = json!({"request_id": &*self.gathering.id, "endpoints": names});
            return Some(Told::new("request", &data));
        }
        if self.has_ended {
            return None;
        }
        if self.told == self.gathering.gathered.answers.len()
            && let Some(end) = self.gathering.next().await
        {
            self.has_ended = true;
            return Some(self.end(end));
        }
        let answer = &mut self.gathering.gathered.answers[self.told];
        let shown = show(answer, usize::MAX);
        let name = serde_json::to_string(&*answer.name).expect("text is always JSON");
        answer.forget_body();
        self.told += 1;
        let (_, rest) = shown.split_at(1);
        Some(Told {
            name: "answer",
            data: format!("{{\"endpoint\":{name},{rest}"),
        })
    }

    fn end(&self, end: End) -> Told {
        let gathered = &self.gathering.gathered;
        let name = match end {
            _ if gathered.is_complete() && !gathered.has_rule() => "complete",
            End::Met => "met",
            End::CannotBeMet => "missed",
            End::TimeIsUp => "timeout",
        };
        let late = late(&self.gathering.names, gathered);
        let mut data = json!({"request_id": &*self.gathering.id, "ms": self.gathering.ms(), "late": late});
        if let Some(best) = gathered.best() {
            data["best"] = best.to_json();
        }
        Told::new(name, &data)
    }
}
