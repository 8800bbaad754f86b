//! Claims. All demands of a call for one queue are one statement.
//!
//! A scan for ready jobs begins a little before the position where the last one found jobs. So dead rows at the
//! front, which an old snapshot keeps from being vacuumed, are not scanned again. The position is only a hint:
//! after a claim that found too few jobs, and at an interval, the scan begins at the front. After a slow scan
//! the next one is delayed, so that a queue that keeps running empty does not spend its time on dead rows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nagaya_jobs::clock::{span, span_ms};
use nagaya_jobs::error::Error;
use nagaya_jobs::fair::ReadyTenant;
use nagaya_jobs::job::Body;
use nagaya_jobs::queue::EventDetail;
use nagaya_jobs::record::JobOptions;
use nagaya_jobs::request::{ClaimRequest, ClaimedJob};
use nagaya_jobs::token::Lease;
use nagaya_postgres_client::Session;
use tokio::time::Instant;

use crate::names::Queue;
use crate::rows::{ClaimedRow, ReadyTenantRow, job_id, unsigned_32};
use crate::sql::{Queries, begin, commit, query};
use crate::store::Inner;

/// How far before the last found job a scan begins, in positions: two seconds, for servers whose clocks differ
/// and registrations that commit late.
const SCAN_BACK: i64 = 2_000 << 22;
/// Number of claims after which a scan begins at the front.
const FRONT_SCAN_EVERY: u32 = 64;
/// How long a hint is kept after the last job of its tenant. A late commit that it hides waits no longer than
/// this.
const DRY_HINT_TTL: Duration = Duration::from_secs(5);
/// A scan from the front that took longer than this is slow.
const SLOW_SCAN: Duration = Duration::from_millis(20);
/// After a slow scan, the next one is delayed by this multiple of its duration, capped by
/// `SLOW_SCAN_DELAY_MAX`.
const SLOW_SCAN_DELAY_FACTOR: u32 = 9;
const SLOW_SCAN_DELAY_MAX: Duration = Duration::from_secs(1);
/// Short claims that found something look at the front no more often than this. At light load nearly all claims are such.
const FRONT_LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long a new tenant of another server may go unseen.
const READY_TENANTS_TTL: Duration = Duration::from_millis(250);

/// The position where ready jobs were last found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanHint {
    rank: i16,
    pos: i64,
    claims: u32,
    /// Since when no job was found there.
    dry_since: Option<Instant>,
}

impl ScanHint {
    /// Returns the position at which a scan begins.
    fn from(&self) -> i64 {
        self.pos - SCAN_BACK
    }
}

/// Where a scan begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanStart {
    FromHints,
    FromFront,
}

/// The tenants with ready jobs in a queue.
#[derive(Clone, Debug)]
pub(crate) struct ReadyTenants {
    tenants: Vec<i32>,
    seen_at: Instant,
}

/// The part of a claim request that is not satisfied yet.
struct ClaimDemand<'a> {
    request: &'a ClaimRequest,
    /// The index of the queue that is asked now.
    at: usize,
    jobs: Vec<ClaimedJob>,
}

impl ClaimDemand<'_> {
    fn missing(&self) -> usize {
        self.request.max - self.jobs.len()
    }
}

impl Inner {
    pub(crate) async fn claim(&self, requests: Vec<ClaimRequest>) -> Result<Vec<Vec<ClaimedJob>>, Error> {
        let mut session = self.hot().await?;
        self.names.refresh(&session).await?;
        let demand = |request| ClaimDemand {
            request,
            at: 0,
            jobs: Vec::new(),
        };
        let mut demands: Vec<ClaimDemand<'_>> = requests.iter().map(demand).collect();
        loop {
            // Demands for the same queue and tenant are grouped.
            let mut groups: Vec<((&_, &_), Vec<usize>)> = Vec::new();
            for (number, demand) in demands.iter().enumerate() {
                let Some(queue) = demand
                    .request
                    .queues
                    .get(demand.at)
                    .filter(|_| demand.missing() > 0)
                else {
                    continue;
                };
                let group = (queue, &demand.request.tenant);
                match groups.iter_mut().find(|(known, _)| *known == group) {
                    Some((_, members)) => members.push(number),
                    None => groups.push((group, vec![number])),
                }
            }
            if groups.is_empty() {
                return Ok(demands.into_iter().map(|demand| demand.jobs).collect());
            }
            for ((queue, tenant), members) in groups {
                if let Some(queue) = self.names.find_queue(&session, queue).await? {
                    let only = match tenant {
                        None => None,
                        Some(tenant) => match self.names.find_tenant(&session, tenant).await? {
                            Some(tenant) => Some(tenant.id),
                            // No job was ever registered for it, and no tenant has the id 0.
                            None => Some(0),
                        },
                    };
                    let claimed = self
                        .claim_group(&mut session, &queue, only, &mut demands, &members)
                        .await;
                    if let Err(error) = claimed {
                        // Jobs that were claimed before are leased: hand them out rather than let the leases
                        // expire.
                        if demands.iter().all(|demand| demand.jobs.is_empty()) {
                            return Err(error);
                        }
                        tracing::debug!(%error, "a claim returned fewer jobs than may be ready");
                        return Ok(demands.into_iter().map(|demand| demand.jobs).collect());
                    }
                }
                for member in members {
                    demands[member].at += 1;
                }
            }
        }
    }

    async fn claim_group(
        &self,
        session: &mut nagaya_postgres_client::Connection,
        queue: &Queue,
        tenant: Option<i32>,
        demands: &mut [ClaimDemand<'_>],
        members: &[usize],
    ) -> Result<(), Error> {
        // One slot for each demanded job: the demand that it serves, and its lease.
        let mut owners = Vec::new();
        let (mut workers, mut leases): (Vec<&str>, Vec<i64>) = (Vec::new(), Vec::new());
        for member in members {
            let demand = &demands[*member];
            for _ in 0..demand.missing() {
                owners.push(*member);
                workers.push(&demand.request.worker);
                leases.push(demand.request.lease.map_or(0, span_ms));
            }
        }
        let now_ms = self.time.now(session).await?;
        let slots = Slots {
            workers: &workers,
            leases: &leases,
        };
        let claimed = match queue.settings.rate {
            None => self.claim_slots(session, queue, tenant, slots, now_ms).await?,
            Some(rate) => {
                // The horizon is shared by all servers, so it is locked while jobs are taken.
                let transaction = begin(session).await?;
                let horizon_us = transaction.scalar(query!(queues.lock_rate), &[&queue.id]).await?;
                let allowed = rate.allow(horizon_us, now_ms, workers.len());
                let slots = Slots {
                    workers: &workers[..allowed.jobs],
                    leases: &leases[..allowed.jobs],
                };
                let claimed = match allowed.jobs {
                    0 => Vec::new(),
                    _ => {
                        self.claim_slots(&transaction, queue, tenant, slots, now_ms)
                            .await?
                    }
                };
                let used = rate.allow(horizon_us, now_ms, claimed.len());
                transaction
                    .run(query!(queues.set_rate), &[&queue.id, &used.horizon_us])
                    .await?;
                commit(transaction).await?;
                claimed
            }
        };
        if !claimed.is_empty() {
            self.last_claims.note(queue.id, now_ms);
        }
        for (slot, job) in claimed {
            demands[owners[slot]].jobs.push(job);
        }
        Ok(())
    }

    async fn claim_slots(
        &self,
        session: &Session,
        queue: &Queue,
        tenant: Option<i32>,
        slots: Slots<'_>,
        now_ms: i64,
    ) -> Result<Vec<(usize, ClaimedJob)>, Error> {
        let wanted = slots.workers.len();
        let shares = match tenant {
            Some(tenant) => vec![(tenant, wanted)],
            None => match self.shares(session, queue, wanted, ScanStart::FromHints).await? {
                Some(shares) => shares,
                None => return self.claim_from_front(session, queue, None, slots, now_ms).await,
            },
        };
        if shares.is_empty() {
            return Ok(Vec::new());
        }
        let found = self
            .take(session, queue, &shares, slots, now_ms, ScanStart::FromHints)
            .await?;
        let offset = found.rows.len();
        let was_hinted = found.was_hinted;
        let mut jobs = self.claimed(session, queue, found).await?;
        if offset == wanted || !was_hinted {
            return Ok(jobs);
        }
        if offset > 0 && self.looked_at_the_front(queue.id) {
            return Ok(jobs);
        }
        // Too few: scan once more from the front for the rest. Concurrent claims may be the reason.
        let rest = Slots {
            workers: &slots.workers[offset..],
            leases: &slots.leases[offset..],
        };
        match self.claim_from_front(session, queue, tenant, rest, now_ms).await {
            Ok(more) => jobs.extend(more.into_iter().map(|(slot, job)| (slot + offset, job))),
            // The first scan is committed unless it is part of a transaction, which only a rate limit needs.
            Err(error) if queue.settings.rate.is_some() || jobs.is_empty() => return Err(error),
            Err(error) => tracing::debug!(%error, "a claim returned fewer jobs than may be ready"),
        }
        Ok(jobs)
    }

    async fn claim_from_front(
        &self,
        session: &Session,
        queue: &Queue,
        tenant: Option<i32>,
        slots: Slots<'_>,
        now_ms: i64,
    ) -> Result<Vec<(usize, ClaimedJob)>, Error> {
        let began = Instant::now();
        let delayed_until = self.front_scan_delayed_until(queue.id);
        if delayed_until.is_some_and(|until| began < until) {
            return Ok(Vec::new());
        }
        self.front_looks.lock().insert(queue.id, began);
        let claimed = self.scan_from_front(session, queue, tenant, slots, now_ms).await;
        self.record_scan(queue.id, began.elapsed());
        claimed
    }

    /// Returns whether a scan from the front was made a moment ago. A short claim that found something then needs no
    /// other: what the hints hide can wait that long.
    fn looked_at_the_front(&self, queue: i32) -> bool {
        let looks = self.front_looks.lock();
        looks
            .get(&queue)
            .is_some_and(|at| at.elapsed() < FRONT_LOOK_EVERY)
    }

    fn front_scan_delayed_until(&self, queue: i32) -> Option<Instant> {
        let delays = self.front_scan_delays.lock();
        delays.get(&queue).copied()
    }

    /// Delays the next scan from the front when this one was slow.
    fn record_scan(&self, queue: i32, took: Duration) {
        let mut delays = self.front_scan_delays.lock();
        if took > SLOW_SCAN {
            let delay = (took * SLOW_SCAN_DELAY_FACTOR).min(SLOW_SCAN_DELAY_MAX);
            delays.insert(queue, Instant::now() + delay);
        } else {
            delays.remove(&queue);
        }
    }

    async fn scan_from_front(
        &self,
        session: &Session,
        queue: &Queue,
        tenant: Option<i32>,
        slots: Slots<'_>,
        now_ms: i64,
    ) -> Result<Vec<(usize, ClaimedJob)>, Error> {
        self.ready_tenants.lock().remove(&queue.id);
        let shares = match tenant {
            Some(tenant) => vec![(tenant, slots.workers.len())],
            None => self
                .shares(session, queue, slots.workers.len(), ScanStart::FromFront)
                .await?
                .unwrap_or_default(),
        };
        if shares.is_empty() {
            return Ok(Vec::new());
        }
        let more = self
            .take(session, queue, &shares, slots, now_ms, ScanStart::FromFront)
            .await?;
        self.claimed(session, queue, more).await
    }

    /// Runs the claim statement.
    async fn take(
        &self,
        session: &Session,
        queue: &Queue,
        shares: &[(i32, usize)],
        slots: Slots<'_>,
        now_ms: i64,
        scan_start: ScanStart,
    ) -> Result<Taken, Error> {
        let hints: Vec<Option<ScanHint>> = {
            let mut known = self.hints.lock();
            let mut hint_of = |tenant: i32| {
                let hint = known.get_mut(&queue.id)?.get_mut(&tenant)?;
                hint.claims += 1;
                let is_used = scan_start == ScanStart::FromHints && hint.claims % FRONT_SCAN_EVERY != 0;
                is_used.then_some(*hint)
            };
            shares.iter().map(|(tenant, _)| hint_of(*tenant)).collect()
        };
        let was_hinted = hints.iter().any(Option::is_some);
        let tenants: Vec<i32> = shares.iter().map(|(tenant, _)| *tenant).collect();
        let mosts: Vec<i32> = shares
            .iter()
            .map(|(_, jobs)| i32::try_from(*jobs).unwrap_or(i32::MAX))
            .collect();
        let ranks: Vec<i16> = hints
            .iter()
            .map(|hint| hint.map_or(i16::MIN, |hint| hint.rank))
            .collect();
        let from: Vec<i64> = hints
            .iter()
            .map(|hint| hint.map_or(i64::MIN, |hint| hint.from()))
            .collect();
        let nonce: i64 = rand::random();
        let is_logged = queue.settings.events == EventDetail::All;
        let rows = session
            .all(
                query!(ready.claim),
                &[
                    &now_ms,
                    &queue.id,
                    &tenants,
                    &mosts,
                    &ranks,
                    &from,
                    &nonce,
                    &slots.workers,
                    &slots.leases,
                    &is_logged,
                ],
                ClaimedRow::read,
            )
            .await?;
        let mut known = self.hints.lock();
        for row in &rows {
            let hint = known
                .entry(queue.id)
                .or_default()
                .entry(row.tenant)
                .or_insert(ScanHint {
                    rank: 0,
                    pos: 0,
                    claims: 0,
                    dry_since: None,
                });
            (hint.rank, hint.pos) = (row.rank, row.pos);
            hint.dry_since = None;
        }
        drop(known);
        if let Some(row) = rows.first() {
            self.notify_logged(row.head);
        }
        Ok(Taken {
            rows,
            nonce,
            was_hinted,
        })
    }

    /// Makes jobs of rows, each with the index of its slot.
    async fn claimed(
        &self,
        session: &Session,
        queue: &Queue,
        taken: Taken,
    ) -> Result<Vec<(usize, ClaimedJob)>, Error> {
        let mut jobs = Vec::with_capacity(taken.rows.len());
        for row in taken.rows {
            let options = JobOptions::read(row.options.as_deref())?;
            let job = ClaimedJob {
                lease: Lease {
                    id: job_id(row.id)?,
                    attempt: unsigned_32(row.attempt),
                    nonce: taken.nonce,
                },
                lease_until_ms: row.lease_until_ms,
                lease_length: span(row.lease_ms),
                tenant: self.names.tenant_of(session, row.tenant).await?.name.clone(),
                queue: queue.name.clone(),
                kind: row.kind,
                tags: options.tags,
                priority: -row.rank,
                payload: Body {
                    content_type: row.content_type.map(Into::into),
                    bytes: row.payload.into(),
                },
                max_retries: unsigned_32(row.max_retries),
                created_at_ms: row.created_ms,
                trace: options.trace,
            };
            let slot = usize::try_from(row.slot).unwrap_or(1) - 1;
            jobs.push((slot, job));
        }
        Ok(jobs)
    }

    /// Divides a claim between the tenants with jobs in the queue. Returns `None` when the hints find none;
    /// then a scan from the front decides.
    async fn shares(
        &self,
        session: &Session,
        queue: &Queue,
        wanted: usize,
        scan_start: ScanStart,
    ) -> Result<Option<Vec<(i32, usize)>>, Error> {
        let known = self.ready_tenants.lock().get(&queue.id).cloned();
        if let Some(known) = known
            && let [only] = known.tenants[..]
            && known.seen_at.elapsed() < READY_TENANTS_TTL
        {
            return Ok(Some(vec![(only, wanted)]));
        }
        let hints: BTreeMap<i32, ScanHint> = match scan_start {
            ScanStart::FromFront => BTreeMap::new(),
            ScanStart::FromHints => {
                let hints = self.hints.lock();
                hints.get(&queue.id).cloned().unwrap_or_default()
            }
        };
        let bound = i64::try_from(wanted).unwrap_or(i64::MAX);
        let tenants: Vec<i32> = hints.keys().copied().collect();
        let ranks: Vec<i16> = hints.values().map(|hint| hint.rank).collect();
        let from: Vec<i64> = hints.values().map(ScanHint::from).collect();
        let above: Vec<i32> = [i32::MIN].into_iter().chain(tenants.iter().copied()).collect();
        let below: Vec<i32> = tenants.iter().copied().chain([i32::MAX]).collect();
        let rows = session
            .all(
                query!(ready.tenants),
                &[&queue.id, &bound, &tenants, &ranks, &from, &above, &below],
                ReadyTenantRow::read,
            )
            .await?;
        if !hints.is_empty() {
            let with_jobs = rows.iter().map(|row| row.tenant).collect();
            self.drop_dry_hints(queue.id, &hints, &with_jobs);
            if rows.is_empty() {
                return Ok(None);
            }
        }
        let mut ready_tenants = Vec::with_capacity(rows.len());
        for row in &rows {
            let tenant = self.names.tenant_of(session, row.tenant).await?;
            ready_tenants.push(ReadyTenant {
                tenant: tenant.id,
                weight: tenant.weight,
                ready: usize::try_from(row.jobs).unwrap_or(0),
            });
        }
        let seen = ReadyTenants {
            tenants: ready_tenants
                .iter()
                .map(|ready_tenant| ready_tenant.tenant)
                .collect(),
            seen_at: Instant::now(),
        };
        self.ready_tenants.lock().insert(queue.id, seen);
        let mut fair_rounds = self.fair_rounds.lock();
        Ok(Some(
            fair_rounds
                .entry(queue.id)
                .or_default()
                .split(&ready_tenants, wanted),
        ))
    }

    /// Drops the hints of tenants without jobs for a while, so that hints do not accumulate. Until then they
    /// stay, because a queue that empties and fills again would otherwise be scanned from its front each time.
    fn drop_dry_hints(&self, queue: i32, asked: &BTreeMap<i32, ScanHint>, with_jobs: &BTreeSet<i32>) {
        let now = Instant::now();
        let mut known = self.hints.lock();
        let Some(known) = known.get_mut(&queue) else {
            return;
        };
        known.retain(|tenant, hint| {
            if !asked.contains_key(tenant) || with_jobs.contains(tenant) {
                return true;
            }
            let since = *hint.dry_since.get_or_insert(now);
            now.duration_since(since) < DRY_HINT_TTL
        });
    }

    /// Records that a tenant has a new ready job, so that claims do not skip it.
    pub(crate) fn note_ready(&self, queue: i32, tenant: i32, rank: i16) {
        let mut ready_tenants = self.ready_tenants.lock();
        if ready_tenants
            .get(&queue)
            .is_some_and(|known| !known.tenants.contains(&tenant))
        {
            ready_tenants.remove(&queue);
        }
        drop(ready_tenants);
        let mut hints = self.hints.lock();
        if let Some(hints) = hints.get_mut(&queue)
            && hints.get(&tenant).is_some_and(|hint| rank < hint.rank)
        {
            hints.remove(&tenant);
        }
    }

    /// Records that another server has made jobs ready, none of a rank below `rank`: which tenants have them is not
    /// known, and scans that would begin behind them begin at the front.
    pub(crate) fn note_ready_elsewhere(&self, queue: &nagaya_jobs::name::QueueName, rank: i16) {
        if let Some(queue) = self.names.known_queue(queue) {
            self.ready_tenants.lock().remove(&queue.id);
            let mut hints = self.hints.lock();
            if let Some(hints) = hints.get_mut(&queue.id) {
                hints.retain(|_, hint| hint.rank <= rank);
            }
        }
    }
}

/// The result of the claim statement.
struct Taken {
    rows: Vec<ClaimedRow>,
    nonce: i64,
    was_hinted: bool,
}

/// The worker and the lease of each demanded job, in order.
#[derive(Clone, Copy)]
struct Slots<'a> {
    workers: &'a [&'a str],
    leases: &'a [i64],
}
