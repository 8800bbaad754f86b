//! The ways in which a result is reported.

use std::sync::Arc;

use anyhow::{Context, bail};
use clap::ValueEnum;
use futures_util::{SinkExt, StreamExt};
use nagaya_jobs_api::proto::jobs_client::JobsClient;
use nagaya_jobs_api::proto::watch_response::Message as Watched;
use nagaya_jobs_api::proto::{EventFilter, EventKind, WatchRequest};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tonic::transport::Endpoint;

use super::QUEUE;
use super::ledger::Ledger;
use crate::jobs::nagaya_server::NagayaServer;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Way {
    LongPoll,
    Sse,
    Websocket,
    Grpc,
    Webhook,
}

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::LongPoll => "long-poll",
            Way::Sse => "sse",
            Way::Websocket => "websocket",
            Way::Grpc => "grpc",
            Way::Webhook => "webhook",
        }
    }
}

/// The part of an event that is looked at.
#[derive(Deserialize)]
struct Told {
    result: usize,
}

#[derive(Deserialize)]
struct ToldInSocket {
    event: Option<Told>,
}

/// Asks for a stream of successes and returns it behind its head.
pub(super) async fn open_stream(server: &NagayaServer) -> anyhow::Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect(server.address()).await?;
    let request = format!("GET /v1/events?queue={QUEUE}&kind=succeeded HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    // Small, for there may be ten thousand.
    let mut stream = BufReader::with_capacity(1 << 10, stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    if !line.starts_with("HTTP/1.1 200") {
        bail!("no stream of events: {line}");
    }
    // The first words behind the head say that it is being served.
    while !line.starts_with("retry: ") {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            bail!("the stream of events ended at once");
        }
    }
    Ok(stream)
}

/// Records results as server-sent events report them.
pub(super) async fn read_stream(mut stream: BufReader<TcpStream>, ledger: Arc<Ledger>) -> anyhow::Result<()> {
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 0 {
        // An event is never split between chunks, so the lines of the transfer coding stand by themselves.
        if let Some(data) = line.strip_prefix("data: ") {
            ledger.arrive(serde_json::from_str::<Told>(data)?.result);
        }
        line.clear();
    }
    bail!("the stream of events ended")
}

/// Opens a WebSocket that reports successes.
pub(super) async fn socket(
    server: &NagayaServer,
    ledger: Arc<Ledger>,
) -> anyhow::Result<impl Future<Output = anyhow::Result<()>> + use<>> {
    let stream = TcpStream::connect(server.address()).await?;
    let url = format!("ws://{}/v1/ws", server.address());
    let (mut socket, _) = tokio_tungstenite::client_async(url, stream).await?;
    let hello = serde_json::json!({"type": "hello", "queue": QUEUE, "kinds": ["succeeded"]});
    socket.send(Message::text(hello.to_string())).await?;
    let welcome = socket.next().await.context("the socket was closed")??;
    if !welcome.to_text()?.contains("welcome") {
        bail!("no welcome: {welcome}");
    }
    Ok(async move {
        while let Some(message) = socket.next().await {
            if let Message::Text(text) = message?
                && let Some(told) = serde_json::from_str::<ToldInSocket>(&text)?.event
            {
                ledger.arrive(told.result);
            }
        }
        bail!("the socket was closed")
    })
}

/// Opens a gRPC stream of successes.
pub(super) async fn watch(
    server: &NagayaServer,
    ledger: Arc<Ledger>,
) -> anyhow::Result<impl Future<Output = anyhow::Result<()>> + use<>> {
    let channel = Endpoint::from_shared(server.url())?
        .tcp_nodelay(true)
        .connect()
        .await?;
    let request = WatchRequest {
        filter: Some(EventFilter {
            queue: QUEUE.to_owned(),
            kinds: vec![EventKind::Succeeded.into()],
            ..EventFilter::default()
        }),
        after: Some(0),
        ..WatchRequest::default()
    };
    let mut stream = JobsClient::new(channel).watch(request).await?.into_inner();
    Ok(async move {
        while let Some(told) = stream.message().await? {
            if let Some(Watched::Event(event)) = told.message
                && let Some(result) = event.result
            {
                ledger.arrive(serde_json::from_slice(&result.data)?);
            }
        }
        bail!("the gRPC stream ended")
    })
}
