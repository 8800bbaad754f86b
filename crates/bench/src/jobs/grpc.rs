//! Ours over gRPC.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::bail;
use nagaya_jobs_api::proto;
use proto::complete_batch_response::item::Outcome as Ended;
use proto::enqueue_batch_response::item::Outcome as Registered;
use proto::jobs_client::JobsClient;
use tonic::transport::{Channel, Endpoint};

use super::caller::{Caller, QUEUE, Taken};
use super::nagaya_server::NagayaServer;

/// Connections, so that one of them is not the limit.
const CONNECTIONS: usize = 4;

#[derive(Clone)]
pub(super) struct Grpc {
    clients: Vec<JobsClient<Channel>>,
    turn: Arc<AtomicUsize>,
}

impl Grpc {
    pub(super) async fn connect(server: &NagayaServer) -> anyhow::Result<Grpc> {
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            let channel = Endpoint::from_shared(server.url())?
                .tcp_nodelay(true)
                .connect()
                .await?;
            clients.push(JobsClient::new(channel).max_decoding_message_size(usize::MAX));
        }
        Ok(Grpc {
            clients,
            turn: Arc::default(),
        })
    }

    fn client(&self) -> JobsClient<Channel> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.clients[turn % CONNECTIONS].clone()
    }
}

fn job(at_ns: u64) -> proto::EnqueueRequest {
    proto::EnqueueRequest {
        queue: QUEUE.to_owned(),
        payload: Some(proto::Body {
            data: at_ns.to_string().into(),
            content_type: String::new(),
        }),
        ..proto::EnqueueRequest::default()
    }
}

impl Caller for Grpc {
    async fn enqueue_many(&self, count: usize) -> anyhow::Result<()> {
        let request = proto::EnqueueBatchRequest {
            jobs: vec![job(0); count],
        };
        let answer = self.client().enqueue_batch(request).await?.into_inner();
        for item in answer.jobs {
            if !matches!(item.outcome, Some(Registered::Job(_))) {
                bail!("a job was refused: {:?}", item.outcome);
            }
        }
        Ok(())
    }

    async fn enqueue(&self, at_ns: u64) -> anyhow::Result<()> {
        self.client().enqueue(job(at_ns)).await?;
        Ok(())
    }

    async fn claim(&self, max: usize, wait: Duration) -> anyhow::Result<Vec<Taken>> {
        let request = proto::ClaimRequest {
            worker: "bench".to_owned(),
            queues: vec![QUEUE.to_owned()],
            max: u32::try_from(max)?,
            wait_ms: u64::try_from(wait.as_millis())?,
            ..proto::ClaimRequest::default()
        };
        let answer = self.client().claim(request).await?.into_inner();
        let taken = answer.jobs.into_iter().map(|job| {
            let payload = job.payload.unwrap_or_default();
            let text = std::str::from_utf8(&payload.data).unwrap_or_default();
            Taken {
                at_ns: text.parse().unwrap_or(0),
                token: job.token,
            }
        });
        Ok(taken.collect())
    }

    async fn complete(&self, jobs: Vec<Taken>) -> anyhow::Result<()> {
        let report = |job: Taken| proto::CompleteRequest {
            token: job.token,
            result: None,
        };
        let request = proto::CompleteBatchRequest {
            reports: jobs.into_iter().map(report).collect(),
        };
        let answer = self.client().complete_batch(request).await?.into_inner();
        for item in answer.reports {
            if !matches!(item.outcome, Some(Ended::Done(_))) {
                bail!("a completion was refused: {:?}", item.outcome);
            }
        }
        Ok(())
    }
}
