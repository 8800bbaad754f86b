//! `Work`: claims, heartbeats and reports on one stream.
//!
//! The worker's credits say how many jobs it can take; each delivered job uses up one. Reports run
//! concurrently, so that those of one worker share a commit, and are answered by their tags. A job that is cancelled
//! while the worker has it is told at once.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::FuturesUnordered;
use nagaya_jobs::Error;
use nagaya_jobs::error::LostWhy;
use nagaya_jobs::limits::CLAIM_MAX;
use nagaya_jobs::request::{ClaimRequest, Release};
use nagaya_jobs::service::{Claimed, LeaseWatch};
use nagaya_jobs::token::Lease;
use tonic::{Request, Response, Status, Streaming};

use super::session::{ClientDisconnected, Outbox, start};
use super::{Answers, convert, leases, unary};
use crate::api::Api;
use crate::auth::{Permission, Principal};
use crate::problem::Problem;
use crate::proto::work_request::Message as Asked;
use crate::proto::work_response::answer::Outcome;
use crate::proto::work_response::{Answer, Message};
use crate::proto::{GoAway, WorkHello, WorkRequest, WorkResponse};

/// Reports of one worker in progress at most; further ones wait in its connection.
const REPORTS_MAX: usize = 1_024;
/// Most credits of one worker.
const CREDITS_MAX: u32 = 100_000;

pub(super) async fn open(
    api: Api,
    request: Request<Streaming<WorkRequest>>,
) -> Result<Response<Answers<WorkResponse>>, Status> {
    let (metadata, _, incoming) = request.into_parts();
    let principal = api
        .auth
        .principal(&metadata.into_headers(), Permission::Work)
        .await?;
    let session_api = api.clone();
    Ok(start(&api, |outbox| async move {
        if let Err(status) = session(&session_api, &principal, incoming, &outbox).await {
            outbox.refuse(status).await;
        }
    }))
}

async fn session(
    api: &Api,
    principal: &Principal,
    mut incoming: Streaming<WorkRequest>,
    outbox: &Outbox<WorkResponse>,
) -> Result<(), Status> {
    let hello = match incoming.message().await?.and_then(|message| message.message) {
        Some(Asked::Hello(hello)) => hello,
        Some(_) => return Err(Status::invalid_argument("the first message must be a hello")),
        None => return Ok(()),
    };
    let mut worker = Worker::new(api, principal, hello)?;
    let ended = tokio::select! {
        ended = worker.serve(&mut incoming, outbox) => ended,
        problem = api.auth.until_invalid(principal) => Err(problem.into()),
    };
    worker.leave().await;
    ended
}

struct Worker<'a> {
    api: &'a Api,
    request: ClaimRequest,
    credits: u32,
    /// The waiting claim, if any.
    claim: Option<BoxFuture<'a, Result<Vec<Claimed>, Error>>>,
    reports: FuturesUnordered<BoxFuture<'a, Report>>,
    /// The jobs that were given out and not reported on, as far as this stream knows.
    held: LeaseWatch,
}

/// The answer to a report, and the lease that it ended.
struct Report {
    answer: Answer,
    ended: Option<Lease>,
}

impl<'a> Worker<'a> {
    fn new(api: &'a Api, principal: &Principal, hello: WorkHello) -> Result<Worker<'a>, Problem> {
        Ok(Worker {
            api,
            request: ClaimRequest {
                worker: hello.worker,
                queues: unary::queues(principal, &hello.queues)?,
                tenant: principal.seeing(convert::said(hello.tenant).as_deref())?,
                max: 0,
                lease: convert::span(hello.timeout_ms),
            },
            credits: hello.credits.min(CREDITS_MAX),
            claim: None,
            reports: FuturesUnordered::new(),
            held: api.handlers.watch_leases(),
        })
    }

    /// Runs until the client has finished sending and all reports are answered.
    async fn serve(
        &mut self,
        incoming: &mut Streaming<WorkRequest>,
        outbox: &Outbox<WorkResponse>,
    ) -> Result<(), Status> {
        let closing = self.api.closing.clone();
        let (mut hears, mut told) = (true, false);
        while hears || !self.reports.is_empty() {
            self.claim_with_credits(hears);
            let sent = tokio::select! {
                message = incoming.message(), if hears && self.reports.len() < REPORTS_MAX => match message? {
                    Some(message) => {
                        self.hear(message)?;
                        Ok(())
                    }
                    None => {
                        hears = false;
                        Ok(())
                    }
                },
                Some(report) = self.reports.next(), if !self.reports.is_empty() => {
                    report.ended.into_iter().for_each(|lease| self.held.remove(lease));
                    outbox.send(response(Message::Answer(report.answer))).await
                }
                jobs = claimed(&mut self.claim) => {
                    self.claim = None;
                    let jobs = jobs.map_err(Problem::from)?;
                    self.give(jobs, outbox).await
                }
                lost = self.held.next(), if hears => {
                    // A store that does not answer is asked again after a while.
                    tell_lost(self.api, lost.unwrap_or_default(), outbox).await
                }
                () = closing.cancelled(), if !told => {
                    told = true;
                    outbox.send(response(Message::GoAway(GoAway {}))).await
                }
                () = outbox.closed() => Err(ClientDisconnected),
            };
            if sent.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Starts a claim if there are credits and none is waiting.
    fn claim_with_credits(&mut self, hears: bool) {
        if self.claim.is_some() || self.credits == 0 || !hears || self.api.closing.is_cancelled() {
            return;
        }
        let request = ClaimRequest {
            max: (self.credits as usize).min(CLAIM_MAX),
            ..self.request.clone()
        };
        self.claim = Some(self.api.handlers.claim(request, self.api.config.wait_max).boxed());
    }

    async fn give(
        &mut self,
        jobs: Vec<Claimed>,
        outbox: &Outbox<WorkResponse>,
    ) -> Result<(), ClientDisconnected> {
        let mut jobs = jobs.into_iter();
        while let Some(job) = jobs.next() {
            self.credits = self.credits.saturating_sub(1);
            let lease = job.job.lease;
            let message = Message::Job(convert::claimed(job));
            if outbox.send(response(message)).await.is_err() {
                let mut leases = vec![lease];
                leases.extend(jobs.map(|job| job.job.lease));
                give_back(self.api, leases).await;
                return Err(ClientDisconnected);
            }
            self.held.add(lease);
        }
        Ok(())
    }

    fn hear(&mut self, message: WorkRequest) -> Result<(), Status> {
        let (api, tag) = (self.api, message.tag);
        let answer = move |outcome: Result<Outcome, Problem>| Report {
            ended: None,
            answer: Answer {
                tag,
                outcome: Some(outcome.unwrap_or_else(|problem| Outcome::Problem(problem.into()))),
            },
        };
        // A refused report ends nothing: the lease may be lost, which is told.
        let ending = move |lease: Option<Lease>, outcome: Result<Outcome, Problem>| Report {
            ended: lease.filter(|_| outcome.is_ok()),
            ..answer(outcome)
        };
        let lease = |token: &str| api.handlers.lease(token, None).ok();
        let report = match message.message {
            Some(Asked::Credits(credits)) => {
                self.credits = self.credits.saturating_add(credits).min(CREDITS_MAX);
                return Ok(());
            }
            Some(Asked::Extend(message)) => unary::extended(api, message)
                .map(move |result| answer(result.map(Outcome::Extended)))
                .boxed(),
            Some(Asked::Progress(message)) => unary::progressed(api, message)
                .map(move |result| answer(result.map(Outcome::Noted)))
                .boxed(),
            Some(Asked::Log(message)) => unary::logged(api, message)
                .map(move |result| answer(result.map(Outcome::Logged)))
                .boxed(),
            Some(Asked::Complete(message)) => {
                let lease = lease(&message.token);
                unary::completed(api, message)
                    .map(move |result| ending(lease, result.map(Outcome::Completed)))
                    .boxed()
            }
            Some(Asked::Fail(message)) => {
                let lease = lease(&message.token);
                unary::failed(api, message)
                    .map(move |result| ending(lease, result.map(Outcome::Failed)))
                    .boxed()
            }
            Some(Asked::Release(message)) => {
                let lease = lease(&message.token);
                leases::released(api, message)
                    .map(move |result| ending(lease, result.map(Outcome::Released)))
                    .boxed()
            }
            Some(Asked::Hello(_)) => return Err(Status::invalid_argument("there was a hello already")),
            None => {
                return Err(Status::invalid_argument(
                    "a message says nothing that is known here",
                ));
            }
        };
        self.reports.push(report);
        Ok(())
    }

    /// Finishes the reports received before the client disconnected. The service returns the jobs of a
    /// dropped claim to the queue.
    async fn leave(mut self) {
        self.claim = None;
        while self.reports.next().await.is_some() {}
    }
}

/// Tells the worker of leases that it has lost.
async fn tell_lost(
    api: &Api,
    lost: Vec<(Lease, LostWhy)>,
    outbox: &Outbox<WorkResponse>,
) -> Result<(), ClientDisconnected> {
    for one in api.handlers.told(lost) {
        outbox.send(response(Message::Lost(one.into()))).await?;
    }
    Ok(())
}

async fn give_back(api: &Api, leases: Vec<Lease>) {
    if leases.is_empty() {
        return;
    }
    let releases = leases.into_iter().map(|lease| Release {
        lease,
        delay: Duration::ZERO,
    });
    if let Err(error) = api.handlers.release_many(releases.collect()).await {
        tracing::warn!(%error, "jobs could not be returned; they wait for the end of their leases");
    }
}

/// Waits for the jobs of the waiting claim; pending forever if there is none.
async fn claimed(
    claim: &mut Option<BoxFuture<'_, Result<Vec<Claimed>, Error>>>,
) -> Result<Vec<Claimed>, Error> {
    match claim {
        Some(claim) => claim.await,
        None => std::future::pending().await,
    }
}

fn response(message: Message) -> WorkResponse {
    WorkResponse {
        message: Some(message),
    }
}
