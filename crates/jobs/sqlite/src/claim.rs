//! Claims: hands ready jobs to workers.

use std::time::Duration;

use nagaya_jobs::clock::{span, span_ms};
use nagaya_jobs::error::Error;
use nagaya_jobs::event::{EventData, EventKind};
use nagaya_jobs::fair::ReadyTenant;
use nagaya_jobs::job::Body;
use nagaya_jobs::limits::CLAIM_MAX;
use nagaya_jobs::record::JobOptions;
use nagaya_jobs::request::{ClaimRequest, ClaimedJob};
use nagaya_jobs::token::Lease;
use rusqlite::params;

use crate::rows::ReadyRow;
use crate::sql::{all, query, run};
use crate::write_transaction::{JobRow, WriteTransaction};

pub(crate) fn claim(tx: &mut WriteTransaction<'_>, request: &ClaimRequest) -> Result<Vec<ClaimedJob>, Error> {
    // One nonce is enough for all jobs of a claim: the token's MAC distinguishes them.
    let nonce: i64 = rand::random();
    let mut claimed = Vec::new();
    for name in &request.queues {
        let left = request.max.min(CLAIM_MAX).saturating_sub(claimed.len());
        let Some(&num) = tx.memory.queue_nums.get(name) else {
            continue;
        };
        if left == 0 {
            break;
        }
        for (tenant, jobs) in shares(tx, num, left, request) {
            take(tx, (num, tenant), jobs, request, nonce, &mut claimed)?;
        }
    }
    Ok(claimed)
}

/// Divides the jobs that a queue may start now between its tenants.
fn shares(
    tx: &mut WriteTransaction<'_>,
    num: i64,
    wanted: usize,
    request: &ClaimRequest,
) -> Vec<(i64, usize)> {
    let now_ms = tx.now_ms;
    let memory = &mut *tx.memory;
    let only = match &request.tenant {
        None => None,
        Some(tenant) => match memory.tenant_nums.get(tenant) {
            None => return Vec::new(),
            Some(num) => Some(*num),
        },
    };
    let Some(queue) = memory.queues.get_mut(&num).filter(|queue| !queue.paused) else {
        return Vec::new();
    };
    let mut ready_tenants = Vec::new();
    for (&tenant, counts) in memory.counts.get(&num).into_iter().flatten() {
        if counts.depth.ready > 0 && only.is_none_or(|only| only == tenant) {
            ready_tenants.push(ReadyTenant {
                tenant,
                weight: memory.tenants.get(&tenant).map_or(1, |tenant| tenant.weight),
                ready: usize::try_from(counts.depth.ready).unwrap_or(usize::MAX),
            });
        }
    }
    let ready: usize = ready_tenants.iter().map(|ready_tenant| ready_tenant.ready).sum();
    let mut wanted = wanted.min(ready);
    if wanted == 0 {
        return Vec::new();
    }
    if let Some(rate) = queue.settings.rate {
        let allowed = rate.allow(queue.rate_horizon_us, now_ms, wanted);
        wanted = allowed.jobs;
        queue.rate_horizon_us = allowed.horizon_us;
    }
    if wanted > 0 {
        queue.last_claim_ms = Some(now_ms);
        memory.claimed.insert(num);
    }
    match only {
        // A claim for one tenant does not affect the round of the others.
        Some(tenant) => vec![(tenant, wanted)],
        None => queue.fair_round.split(&ready_tenants, wanted),
    }
}

/// Moves the first ready jobs of a tenant to `running`.
fn take(
    tx: &mut WriteTransaction<'_>,
    (queue, tenant): (i64, i64),
    jobs: usize,
    request: &ClaimRequest,
    nonce: i64,
    claimed: &mut Vec<ClaimedJob>,
) -> Result<(), Error> {
    let rows = all(
        tx.connection,
        query!(ready.first),
        params![queue, tenant, jobs],
        ReadyRow::read,
    )?;
    let Some(last) = rows.last() else {
        return Ok(());
    };
    let values = params![queue, tenant, last.rank, last.pos];
    let deleted = run(tx.connection, query!(ready.delete_up_to), values)?;
    if deleted != rows.len() {
        return Err(Error::Damaged {
            what: "a ready job has no row of its own".into(),
        });
    }
    let counts = tx.memory.counts(queue, tenant);
    counts.depth.ready -= rows.len() as u64;
    counts.depth.running += rows.len() as u64;
    counts.throughput.started += rows.len() as u64;
    let names = (
        tx.memory.queues.get(&queue).map(|queue| queue.name.clone()),
        tx.memory.tenants.get(&tenant).map(|tenant| tenant.name.clone()),
    );
    let (Some(queue_name), Some(tenant_name)) = names else {
        return Err(Error::Damaged {
            what: "a ready job has no queue or no tenant".into(),
        });
    };
    for ready in rows {
        let options = JobOptions::read(ready.options.as_deref())?;
        let lease_length: Duration = request.lease.unwrap_or(span(ready.lease_ms));
        let lease_until_ms = tx.now_ms + span_ms(lease_length);
        let attempt = ready.attempt + 1;
        let plain = ready.options.is_none() && ready.pos == ready.id.get();
        let values = params![
            ready.id.get(),
            queue,
            tenant,
            attempt,
            ready.attempt_max,
            nonce,
            request.worker,
            tx.now_ms,
            span_ms(lease_length),
            lease_until_ms,
            plain,
        ];
        run(tx.connection, query!(running.insert), values)?;
        let mut job = JobRow {
            id: ready.id,
            queue,
            tenant,
            priority: ready.priority,
            max_retries: ready.max_retries,
            run_at_ms: None,
            options,
            plain,
        };
        tx.event(EventKind::Started, &job, attempt, &EventData::None)?;
        claimed.push(ClaimedJob {
            lease: Lease {
                id: ready.id,
                attempt,
                nonce,
            },
            lease_until_ms,
            lease_length,
            tenant: tenant_name.clone(),
            queue: queue_name.clone(),
            kind: ready.kind,
            tags: std::mem::take(&mut job.options.tags),
            priority: ready.priority,
            payload: Body {
                content_type: ready.content_type.map(Into::into),
                bytes: ready.payload.into(),
            },
            max_retries: ready.max_retries,
            created_at_ms: ready.created_ms,
            trace: job.options.trace.take(),
        });
    }
    Ok(())
}
