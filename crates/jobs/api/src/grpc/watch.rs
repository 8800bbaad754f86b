//! `Watch`: events as they occur.

use std::sync::Arc;

use nagaya_jobs::JobId;
use tonic::{Request, Response, Status};

use super::session::{ClientDisconnected, Outbox, start};
use super::{Answers, convert};
use crate::api::Api;
use crate::auth::{Permission, Principal};
use crate::feed::{Batch, Reader};
use crate::problem::Problem;
use crate::proto::watch_response::Message;
use crate::proto::{Gap, WatchRequest, WatchResponse};

pub(super) async fn open(
    api: Api,
    request: Request<WatchRequest>,
) -> Result<Response<Answers<WatchResponse>>, Status> {
    let (metadata, _, message) = request.into_parts();
    let permission = if message.lease.is_empty() {
        Permission::Read
    } else {
        Permission::Work
    };
    let principal = api.auth.principal(&metadata.into_headers(), permission).await?;
    let seen = api.handlers.seen_by(&principal);
    let filter = convert::filter(&principal, seen, message.filter)?;
    let job = filter.job;
    if !message.lease.is_empty() {
        let lease = api.handlers.lease(&message.lease, None).map_err(Problem::from)?;
        if job != Some(lease.id) {
            return Err(Status::invalid_argument(
                "the filter must name the job of the lease",
            ));
        }
    }
    let reader = seen.reader(filter, message.after).await?;
    let watch = Watch {
        api: api.clone(),
        principal,
        reader,
        job,
    };
    Ok(start(&api, |outbox| watch.run(outbox)))
}

/// An open call.
struct Watch {
    api: Api,
    principal: Arc<Principal>,
    reader: Reader,
    /// The stream ends with this job.
    job: Option<JobId>,
}

impl Watch {
    async fn run(mut self, outbox: Outbox<WatchResponse>) {
        let (api, principal) = (self.api.clone(), Arc::clone(&self.principal));
        let ended = tokio::select! {
            ended = self.session(&outbox) => ended,
            problem = api.auth.until_invalid(&principal) => Err(Status::from(problem)),
        };
        if let Err(status) = ended {
            outbox.refuse(status).await;
        }
    }

    async fn session(&mut self, outbox: &Outbox<WatchResponse>) -> Result<(), Status> {
        loop {
            if let Some(job) = self.job {
                // Looked at before the log is: what happens in between is found there.
                let seen = self.api.handlers.seen_by(&self.principal);
                let has_ended = seen.has_ended(job).await.map_err(Problem::from)?;
                let batch = self.reader.ready().await.map_err(Problem::from)?;
                let is_over = has_ended && batch.is_none();
                if is_over || send(outbox, batch.unwrap_or_default()).await.is_err() {
                    return Ok(());
                }
            }
            let sent = tokio::select! {
                batch = self.reader.next() => send(outbox, batch.map_err(Problem::from)?).await,
                () = tokio::time::sleep(self.api.config.heartbeat) => {
                    outbox.send(response(Message::Position(self.reader.position()))).await
                }
                () = self.api.closing.cancelled() => return Err(Status::unavailable("the server stops")),
                () = outbox.closed() => return Ok(()),
            };
            if sent.is_err() {
                return Ok(());
            }
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
