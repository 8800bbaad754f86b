//! Registers jobs and ends them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use nagaya_client::{Claim, Client, Completion, NewJob, RetryPolicy};
use nagaya_clock::{Clock, SystemClock};
use serde_json::value::RawValue;
use tokio::task::JoinSet;

use super::QUEUE;
use super::ledger::Ledger;
use crate::jobs::nagaya_server::NagayaServer;

/// Loops that claim and complete.
const WORKERS: usize = 4;
/// Jobs in one claim.
const CLAIM: usize = 500;
/// How long a claim waits for jobs.
const WAIT: Duration = Duration::from_secs(1);
/// Jobs registered in one call where single registrations are not measured.
const BATCH: usize = 1000;

pub(super) fn connect(server: &NagayaServer) -> anyhow::Result<Client> {
    // Failures must be visible, so nothing is retried.
    let client = Client::builder(&server.url()).retry(RetryPolicy::NONE);
    Ok(client.without_enqueue_keys().build()?)
}

pub(super) fn job(number: usize, webhook: Option<&str>) -> anyhow::Result<NewJob> {
    let job = NewJob::new(QUEUE, &number)?;
    Ok(match webhook {
        Some(url) => job.webhook(url),
        None => job,
    })
}

/// Workers that end whatever comes with its payload as the result, until they are dropped.
pub(super) fn workers(client: &Client) -> JoinSet<anyhow::Result<()>> {
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let client = client.clone();
        workers.spawn(async move {
            loop {
                end_some(&client).await?;
            }
        });
    }
    workers
}

async fn end_some(client: &Client) -> anyhow::Result<()> {
    let claim = Claim {
        worker: "bench".to_owned(),
        max: CLAIM,
        wait: WAIT,
        holding: Vec::new(),
    };
    let jobs = client.claim(QUEUE, &claim).await?;
    if jobs.is_empty() {
        return Ok(());
    }
    let results = jobs
        .iter()
        .map(|job| RawValue::from_string(job.raw_payload().to_owned()));
    let results: Vec<Box<RawValue>> = results.collect::<Result<_, _>>()?;
    let reports = jobs.iter().zip(&results).map(|(job, result)| Completion {
        token: &job.token,
        result: Some(result),
    });
    let reports: Vec<Completion<'_>> = reports.collect();
    for outcome in client.complete_many(&reports).await? {
        if let Err(problem) = outcome {
            bail!("a completion was refused: {problem}");
        }
    }
    Ok(())
}

/// Registers jobs one at a time at an even rate; `then` is done with the id of each.
pub(super) async fn at_rate<F>(
    client: &Client,
    ledger: &Arc<Ledger>,
    jobs: std::ops::Range<usize>,
    rate: f64,
    webhook: impl Fn(usize) -> Option<String>,
    then: impl Fn(Client, Arc<Ledger>, usize, String) -> F + Copy + Send + 'static,
) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let from = SystemClock.now();
    let mut producers = JoinSet::new();
    let mut sent = jobs.start;
    while sent < jobs.end {
        let passed = (SystemClock.now() - from).as_secs_f64();
        let due = (jobs.start + (passed * rate) as usize + 1).min(jobs.end);
        for number in sent..due {
            let job = job(number, webhook(number).as_deref())?;
            let (client, ledger) = (client.clone(), Arc::clone(ledger));
            ledger.sent(number);
            producers.spawn(async move {
                let id = client.enqueue(job).await?.id;
                then(client, ledger, number, id).await
            });
        }
        sent = due;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    while let Some(ended) = producers.join_next().await {
        ended.context("a submitter ended badly")??;
    }
    Ok(())
}

/// Registers jobs in batches.
pub(super) async fn at_once(
    client: &Client,
    ledger: &Ledger,
    webhook: &str,
    jobs: usize,
) -> anyhow::Result<()> {
    for first in (0..jobs).step_by(BATCH) {
        let numbers = first..(first + BATCH).min(jobs);
        let batch = numbers.clone().map(|number| job(number, Some(webhook)));
        let batch: Vec<NewJob> = batch.collect::<anyhow::Result<_>>()?;
        numbers.for_each(|number| ledger.sent(number));
        for outcome in client.enqueue_many(batch).await? {
            if let Err(problem) = outcome {
                bail!("a job was refused: {problem}");
            }
        }
    }
    Ok(())
}
