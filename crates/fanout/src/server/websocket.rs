//! The followers of a request over a WebSocket (RFC 6455): each message is one JSON text with its `type`.
//!
//! Clients have nothing to say: what they send is read, so that a close or a ping is noticed, and dropped. Pages of
//! other origins are refused before they come here, as for every request.

use std::pin::pin;
use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::Either;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::Reply;
use super::problem::Problem;
use super::told::{Source, Told};
use crate::service::Fanout;

/// Longest message of a client, in bytes.
const MESSAGE_BYTES_MAX: usize = 1024;
/// Messages of one client before its connection is closed.
const MESSAGES_MAX: usize = 1000;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// A request to go on as a WebSocket.
pub(super) struct Handshake {
    accept: HeaderValue,
    upgrade: OnUpgrade,
}

impl Handshake {
    /// Returns what a request asks for; `None` if it is no handshake.
    pub(super) fn of(head: &mut Parts) -> Option<Result<Handshake, Problem>> {
        if head.method != Method::GET || !has(&head.headers, &UPGRADE, "websocket") {
            return None;
        }
        Some(Handshake::read(head))
    }

    fn read(head: &mut Parts) -> Result<Handshake, Problem> {
        let bad = |detail: &str| Problem::new(StatusCode::BAD_REQUEST, detail);
        if !has(&head.headers, &SEC_WEBSOCKET_VERSION, "13") {
            let detail = "WebSockets of version 13 are spoken here";
            return Err(Problem::new(StatusCode::UPGRADE_REQUIRED, detail));
        }
        let key = head.headers.get(SEC_WEBSOCKET_KEY);
        let key = key.ok_or_else(|| bad("a WebSocket needs `Sec-WebSocket-Key`"))?;
        let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()));
        let accept = accept.map_err(|_| bad("`Sec-WebSocket-Key` cannot be used"))?;
        let upgrade = head.extensions.remove::<OnUpgrade>();
        let upgrade = upgrade.filter(|_| has(&head.headers, &CONNECTION, "upgrade"));
        let upgrade = upgrade.ok_or_else(|| bad("this connection cannot go on as a WebSocket"))?;
        Ok(Handshake { accept, upgrade })
    }
}

/// Returns whether a header lists a word.
fn has(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut words = values.flat_map(|value| value.split(','));
    words.any(|found| found.trim().eq_ignore_ascii_case(word))
}

/// Accepts a WebSocket and sends it all messages.
pub(super) fn open(fanout: &Arc<Fanout>, handshake: Handshake, source: Source) -> Reply {
    let mut reply = Response::new(Either::Left(Default::default()));
    *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = reply.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, handshake.accept);
    let (upgrade, service) = (handshake.upgrade, Arc::clone(fanout));
    fanout.sockets.spawn(async move {
        let talk = async {
            match upgrade.await {
                Ok(upgraded) => talk(upgraded, source).await,
                Err(error) => tracing::debug!(%error, "a client asked for a WebSocket and did not take it"),
            }
        };
        tokio::select! {
            () = talk => (),
            () = service.is_cut() => (),
        }
    });
    reply
}

async fn talk(upgraded: Upgraded, mut source: Source) {
    let limits = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    let mut socket = Socket::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(limits)).await;
    let mut heard = 0;
    while let Some(told) = next(&mut source, &mut socket, &mut heard).await {
        if socket.send(Message::text(message(&told))).await.is_err() {
            return;
        }
    }
    // A client that has gone cannot be told goodbye.
    if socket.close(None).await.is_ok() {
        while let Some(Ok(_)) = socket.next().await {
            heard += 1;
            if heard > MESSAGES_MAX {
                return;
            }
        }
    }
}

/// Returns the next message; `None` after the last, or when the client has gone or says too much.
async fn next(source: &mut Source, socket: &mut Socket, heard: &mut usize) -> Option<Told> {
    let mut next = pin!(source.next());
    loop {
        tokio::select! {
            told = &mut next => return told,
            message = socket.next() => match message {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {
                    *heard += 1;
                    if *heard > MESSAGES_MAX {
                        return None;
                    }
                }
            },
        }
    }
}

/// Puts the name of a message among its data.
fn message(told: &Told) -> String {
    let Told { name, data } = told;
    format!("{{\"type\":\"{name}\",{}", data.strip_prefix('{').unwrap_or(data))
}
