//! `Watch`: events as they occur.

use tonic::{Request, Response, Status};

use super::session::{ClientDisconnected, Outbox, start};
use super::{Answers, convert};
use crate::api::Api;
use crate::auth::Permission;
use crate::feed::{Batch, Reader};
use crate::problem::Problem;
use crate::proto::watch_response::Message;
use crate::proto::{Gap, WatchRequest, WatchResponse};
use crate::rest::seen;

pub(super) async fn open(
    api: Api,
    request: Request<WatchRequest>,
) -> Result<Response<Answers<WatchResponse>>, Status> {
    let (metadata, _, message) = request.into_parts();
    let principal = api
        .auth
        .principal(&metadata.into_headers(), Permission::Read)
        .await?;
    let filter = convert::filter(&principal, message.filter)?;
    if let Some(job) = filter.job {
        seen(&api, &principal, job).await?;
    }
    let reader = api.handlers.feed().reader(filter, message.after).await;
    let reader = reader.map_err(Problem::from)?;
    let session_api = api.clone();
    Ok(start(&api, |outbox| session(session_api, reader, outbox)))
}

async fn session(api: Api, mut reader: Reader, outbox: Outbox<WatchResponse>) {
    loop {
        let sent = tokio::select! {
            batch = reader.next() => match batch {
                Ok(batch) => send(&outbox, batch).await,
                Err(error) => return outbox.refuse(Problem::from(error)).await,
            },
            () = tokio::time::sleep(api.config.heartbeat) => {
                outbox.send(response(Message::Position(reader.position()))).await
            }
            () = api.closing.cancelled() => return outbox.refuse(Status::unavailable("the server stops")).await,
            () = outbox.closed() => return,
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn send(outbox: &Outbox<WatchResponse>, batch: Batch) -> Result<(), ClientDisconnected> {
    if let Some((after, up_to)) = batch.gap {
        outbox.send(response(Message::Gap(Gap { after, up_to }))).await?;
    }
    for event in batch.events {
        outbox
            .send(response(Message::Event(convert::event(&event))))
            .await?;
    }
    Ok(())
}

fn response(message: Message) -> WatchResponse {
    WatchResponse {
        message: Some(message),
    }
}
