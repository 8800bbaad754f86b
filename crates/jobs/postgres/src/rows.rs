//! The rows that statements return.

use nagaya_jobs::error::Error;
use nagaya_jobs::id::JobId;
use nagaya_jobs::record::JobOptions;
use nagaya_sql::row;

use crate::error::damaged;
use crate::step::JobPosition;

row! {
    postgres;
    /// The columns that every job table shares, with the options of the job.
    pub(crate) struct PositionRow {
        id: i64,
        queue: i32,
        tenant: i32,
        rank: i16,
        attempt: i32,
        attempt_max: i32,
        flags: i16,
        options: Option<String>,
    }
}

row! {
    postgres;
    /// A job that was taken out of `jobs_running`.
    pub(crate) struct RunningRow {
        id: i64,
        queue: i32,
        tenant: i32,
        rank: i16,
        attempt: i32,
        attempt_max: i32,
        flags: i16,
        options: Option<String>,
        nonce: i64,
        worker: String,
        started_ms: i64,
    }
}

row! {
    postgres;
    /// A job that was taken out of `jobs_done`, with the attempt that succeeded.
    pub(crate) struct DoneRow {
        id: i64,
        queue: i32,
        tenant: i32,
        rank: i16,
        attempt: i32,
        attempt_max: i32,
        flags: i16,
        options: Option<String>,
        nonce: Option<i64>,
        worker: Option<String>,
        started_ms: Option<i64>,
        ended_ms: i64,
        max_retries: i32,
    }
}

row! {
    postgres;
    /// A running job whose progress was stored.
    pub(crate) struct ProgressedRow {
        id: i64,
        queue: i32,
        tenant: i32,
        rank: i16,
        attempt: i32,
        attempt_max: i32,
        flags: i16,
        options: Option<String>,
        is_event_due as "coalesce": bool,
    }
}

row! {
    postgres;
    /// The queue of a job.
    pub(crate) struct JobQueueRow {
        queue: i32,
        is_unique as "exists": bool,
    }
}

row! {
    postgres;
    /// A lease that was extended.
    pub(crate) struct ExtendedRow {
        id: i64,
        lease_until_ms: i64,
    }
}

row! {
    postgres;
    /// The lease of a running job.
    pub(crate) struct LeaseRow {
        id: i64,
        attempt: i32,
        nonce: i64,
    }
}

row! {
    postgres;
    /// A blocked job that waits for one dependency less.
    pub(crate) struct ReleasedRow {
        id: i64,
        queue: i32,
        tenant: i32,
        rank: i16,
        attempt: i32,
        attempt_max: i32,
        flags: i16,
        options: Option<String>,
        pending: i32,
        run_at_ms: i64,
    }
}

macro_rules! position {
    ($($row:ident),*) => {
        $(impl $row {
            pub(crate) fn position(&self) -> Result<JobPosition, Error> {
                Ok(JobPosition {
                    id: job_id(self.id)?,
                    queue: self.queue,
                    tenant: self.tenant,
                    rank: self.rank,
                    attempt: self.attempt,
                    attempt_max: self.attempt_max,
                    flags: self.flags,
                    options: JobOptions::read(self.options.as_deref())?,
                })
            }
        })*
    };
}
position!(PositionRow, RunningRow, DoneRow, ProgressedRow, ReleasedRow);

row! {
    postgres;
    /// A job that was registered, and the last event of its statement.
    pub(crate) struct EnqueuedRow {
        id: i64,
        head as "max": Option<i64>,
    }
}

row! {
    postgres;
    /// A job that was claimed, with everything that its worker gets.
    pub(crate) struct ClaimedRow {
        slot: i64,
        id: i64,
        attempt as "?column?": i32,
        lease_ms: i64,
        lease_until_ms as "?column?": i64,
        tenant: i32,
        rank: i16,
        pos: i64,
        kind: Option<String>,
        options: Option<String>,
        content_type: Option<String>,
        payload: Vec<u8>,
        max_retries: i32,
        created_ms: i64,
        head as "max": Option<i64>,
    }
}

row! {
    postgres;
    /// A job that was completed. The last two columns are of the whole statement.
    pub(crate) struct CompletedRow {
        id: i64,
        _queue as "queue": i32,
        head as "max": Option<i64>,
        resolving as "count": i64,
    }
}

row! {
    postgres;
    /// A tenant with ready jobs, and how many, up to a bound.
    pub(crate) struct ReadyTenantRow {
        tenant: i32,
        jobs: i64,
    }
}

row! {
    postgres;
    /// A target of a tenant with pending deliveries, and whether one is due.
    pub(crate) struct TargetRow {
        tenant: i32,
        target: String,
        is_due as "exists": bool,
    }
}

row! {
    postgres;
    /// The holder of an idempotency key.
    pub(crate) struct IdempotencyRow {
        id: i64,
        is_live as "?column?": bool,
        fingerprint: Option<Vec<u8>>,
        ended: Option<i16>,
    }
}

row! {
    postgres;
    /// A job in a listing, with the attempt that each table says it is at.
    pub(crate) struct SummaryRow {
        id: i64,
        queue: i32,
        tenant: i32,
        kind: Option<String>,
        rank: i16,
        created_ms: i64,
        max_retries: i32,
        options: Option<String>,
        running_attempt as "attempt": Option<i32>,
        run_at_ms: Option<i64>,
        delayed_attempt as "attempt": Option<i32>,
        ended as "state": Option<i16>,
        done_attempt as "attempt": Option<i32>,
        ended_ms: Option<i64>,
        error: Option<String>,
        blocked_attempt as "attempt": Option<i32>,
        _content_type as "?column?": Option<String>,
        _payload as "?column?": Option<String>,
        _lease_ms as "?column?": Option<String>,
        ready_attempt as "attempt": Option<i32>,
    }
}

row! {
    postgres;
    /// Everything that the job tables say of one job.
    pub(crate) struct JobRow {
        id: i64,
        queue: i32,
        tenant: i32,
        kind: Option<String>,
        rank: i16,
        created_ms: i64,
        max_retries: i32,
        options: Option<String>,
        running_attempt as "attempt": Option<i32>,
        run_at_ms: Option<i64>,
        delayed_attempt as "attempt": Option<i32>,
        ended as "state": Option<i16>,
        done_attempt as "attempt": Option<i32>,
        ended_ms: Option<i64>,
        error: Option<String>,
        blocked_attempt as "attempt": Option<i32>,
        content_type: Option<String>,
        payload: Option<Vec<u8>>,
        lease_ms: i64,
        ready_attempt as "attempt": Option<i32>,
        worker: Option<String>,
        started_ms: Option<i64>,
        lease_until_ms: Option<i64>,
        result_type as "content_type": Option<String>,
        result: Option<Vec<u8>>,
        purge_at_ms: Option<i64>,
        success_worker as "worker": Option<String>,
        success_started_ms as "started_ms": Option<i64>,
        _unused as "?column?": Option<String>,
        log_lines as "coalesce": i64,
        pending as "array": Vec<i64>,
    }
}

/// The columns that [`SummaryRow`] and [`JobRow`] share.
pub(crate) struct SummaryColumns {
    pub(crate) id: i64,
    pub(crate) queue: i32,
    pub(crate) tenant: i32,
    pub(crate) kind: Option<String>,
    pub(crate) rank: i16,
    pub(crate) created_ms: i64,
    pub(crate) max_retries: i32,
    pub(crate) options: Option<String>,
    pub(crate) running_attempt: Option<i32>,
    pub(crate) run_at_ms: Option<i64>,
    /// Of the ended, running, delayed, blocked or ready job, whichever it is.
    pub(crate) attempt: Option<i32>,
    pub(crate) ended: Option<i16>,
    pub(crate) ended_ms: Option<i64>,
    pub(crate) error: Option<String>,
}

macro_rules! summary_columns {
    ($($row:ident),*) => {
        $(impl $row {
            /// Takes the columns of a summary out of the row.
            pub(crate) fn take_summary(&mut self) -> SummaryColumns {
                let attempts = [
                    self.done_attempt,
                    self.running_attempt,
                    self.delayed_attempt,
                    self.blocked_attempt,
                    self.ready_attempt,
                ];
                SummaryColumns {
                    id: self.id,
                    queue: self.queue,
                    tenant: self.tenant,
                    kind: self.kind.take(),
                    rank: self.rank,
                    created_ms: self.created_ms,
                    max_retries: self.max_retries,
                    options: self.options.take(),
                    running_attempt: self.running_attempt,
                    run_at_ms: self.run_at_ms,
                    attempt: attempts.into_iter().flatten().next(),
                    ended: self.ended,
                    ended_ms: self.ended_ms,
                    error: self.error.take(),
                }
            }
        })*
    };
}
summary_columns!(SummaryRow, JobRow);

row! {
    postgres;
    /// What keeps a job from running.
    pub(crate) struct ExplainRow {
        ended as "state": Option<i16>,
        worker: Option<String>,
        started_ms: Option<i64>,
        lease_until_ms: Option<i64>,
        run_at_ms: Option<i64>,
        attempt: Option<i32>,
        place: Option<i64>,
        parents as "array": Vec<i64>,
        options: Option<String>,
        queue: i32,
    }
}

row! {
    postgres;
    /// The slots of a concurrency key, and how many jobs wait before one.
    pub(crate) struct SlotsRow {
        most: i32,
        taken: i32,
        ahead as "count": i64,
    }
}

row! {
    postgres;
    /// An ended job whose dependents are yet to be resolved; without a state when it runs again.
    pub(crate) struct ResolvingRow {
        id: i64,
        state: Option<i16>,
    }
}

row! {
    postgres;
    /// When each kind of maintenance is next due.
    pub(crate) struct NextTimesRow {
        due_ms as "min": Option<i64>,
        lease_ms as "min": Option<i64>,
        schedule_ms as "min": Option<i64>,
        delivery_ms as "min": Option<i64>,
        purge_ms as "min": Option<i64>,
    }
}

row! {
    postgres;
    /// An attempt that is over, as readers see it.
    pub(crate) struct AttemptRow {
        number: i32,
        worker: String,
        started_ms: i64,
        ended_ms: i64,
        ending: i16,
        error: Option<String>,
    }
}

row! {
    postgres;
    /// An attempt that is over, as reports are compared with it.
    pub(crate) struct PastAttemptRow {
        ending: i16,
        error: Option<String>,
        is_result_kept as "bool": Option<bool>,
        content_type as "text": Option<String>,
        result as "bytea": Option<Vec<u8>>,
    }
}

row! {
    postgres;
    pub(crate) struct ProgressRow {
        per_mille: Option<i16>,
        message: Option<String>,
        data: Option<String>,
        at_ms: i64,
    }
}

row! {
    postgres;
    pub(crate) struct LogLineRow {
        number: i64,
        at_ms: i64,
        attempt: i32,
        text: String,
    }
}

row! {
    postgres;
    pub(crate) struct LateReportRow {
        number: i64,
        at_ms: i64,
        attempt: i32,
        what: String,
        why: String,
    }
}

row! {
    postgres;
    /// An event, with the kind of its job and the ending that it may report.
    pub(crate) struct EventRow {
        seq: i64,
        kind: i16,
        job: i64,
        queue: i32,
        tenant: i32,
        attempt: i32,
        data: Option<String>,
        job_kind as "kind": Option<String>,
        error: Option<String>,
        content_type: Option<String>,
        result: Option<Vec<u8>>,
        at_ms: i64,
    }
}

row! {
    postgres;
    /// The bounds of the log.
    pub(crate) struct BoundsRow {
        trimmed as "value": Option<Vec<u8>>,
        head as "coalesce": i64,
    }
}

row! {
    postgres;
    /// The position and the time of an event.
    pub(crate) struct EventTimeRow {
        seq: i64,
        at_ms: i64,
    }
}

row! {
    postgres;
    pub(crate) struct SubscriptionRow {
        tenant: i32,
        name: String,
        filter: String,
        cursor: i64,
        created_ms: i64,
        advanced_ms: i64,
    }
}

row! {
    postgres;
    pub(crate) struct DeliveryRow {
        id: i64,
        job: i64,
        queue: i32,
        tenant: i32,
        seq: i64,
        kind: i16,
        attempt: i32,
        webhook: String,
        target: String,
        state: i16,
        tries: i32,
        created_ms: i64,
        next_try_ms: i64,
    }
}

row! {
    postgres;
    /// A try of a delivery.
    pub(crate) struct TryRow {
        delivery: i64,
        number: i32,
        at_ms: i64,
        latency_ms: i64,
        status: Option<i32>,
        error: Option<String>,
        reply: Vec<u8>,
    }
}

row! {
    postgres;
    pub(crate) struct ScheduleRow {
        tenant: i32,
        name: String,
        cron: String,
        time_zone: String,
        missed: String,
        paused: bool,
        template: String,
        next_run_ms: Option<i64>,
        last_run_ms: Option<i64>,
        refused_ms: Option<i64>,
        refused: Option<String>,
        created_ms: i64,
    }
}

row! {
    postgres;
    pub(crate) struct QueueRow {
        id: i32,
        name: String,
        settings: String,
        paused: bool,
        created_ms: i64,
        version: i64,
        rate_horizon_us: i64,
        last_claim_ms: Option<i64>,
        gone: bool,
    }
}

row! {
    postgres;
    /// How many jobs of a queue wait or run, and the oldest ready one.
    pub(crate) struct DepthRow {
        queue as "id": i32,
        scheduled as "count": i64,
        ready as "count": i64,
        blocked as "count": i64,
        running as "count": i64,
        oldest_ready_ms as "min": Option<i64>,
    }
}

row! {
    postgres;
    /// How many jobs of a queue ended in one state.
    pub(crate) struct EndedRow {
        queue: i32,
        state: i16,
        jobs as "count": i64,
    }
}

row! {
    postgres;
    /// The throughput of a queue over all servers.
    pub(crate) struct ThroughputRow {
        queue: i32,
        enqueued as "sum": i64,
        started as "sum": i64,
        succeeded as "sum": i64,
        failed as "sum": i64,
        cancelled as "sum": i64,
        attempts_failed as "sum": i64,
        leases_lost as "sum": i64,
        late_reports as "sum": i64,
    }
}

row! {
    postgres;
    pub(crate) struct TenantRow {
        id: i32,
        name: String,
        weight: i32,
        created_ms: i64,
    }
}

row! {
    postgres;
    pub(crate) struct TokenRow {
        hash: Vec<u8>,
        tenant: i32,
        name: String,
        scopes: i16,
        queues: Vec<String>,
        created_ms: i64,
        expires_ms: Option<i64>,
    }
}

/// Makes a job id of a column that is always positive.
pub(crate) fn job_id(number: i64) -> Result<JobId, Error> {
    JobId::new(number).ok_or_else(|| damaged("a job id is not positive"))
}

/// Makes an unsigned number of a column that is never negative.
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Makes an unsigned number of a column that is never negative.
pub(crate) fn unsigned_32(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use nagaya_sql::{SCALAR, assert_columns, blocks_in};
    use nagaya_testkit::shared;

    use super::*;
    use crate::{Options, PgStore};

    /// The row that reads each statement.
    const ROWS: &[(&str, &[&str])] = &[
        ("check/attempts", SCALAR),
        ("check/blocked", SCALAR),
        ("check/endings", SCALAR),
        ("check/places", SCALAR),
        ("check/strays", SCALAR),
        ("check/taken", SCALAR),
        ("concurrency/explain", SlotsRow::COLUMNS),
        ("concurrency/find_or_insert", SCALAR),
        ("concurrency/grant", PositionRow::COLUMNS),
        ("concurrency/set_limit", SCALAR),
        ("deliveries/claim", DeliveryRow::COLUMNS),
        ("deliveries/targets", TargetRow::COLUMNS),
        ("deliveries/list", DeliveryRow::COLUMNS),
        ("deliveries/of_job", DeliveryRow::COLUMNS),
        ("deliveries/report", SCALAR),
        ("deliveries/tries", TryRow::COLUMNS),
        ("done/purge", SCALAR),
        ("waiting/revivals", SCALAR),
        ("jobs/options", SCALAR),
        ("done/of_queue", SCALAR),
        ("done/remove", SCALAR),
        ("done/take", DoneRow::COLUMNS),
        ("events/advance", SCALAR),
        ("events/after", EventRow::COLUMNS),
        ("events/bounds", BoundsRow::COLUMNS),
        ("events/insert", SCALAR),
        ("events/oldest", EventTimeRow::COLUMNS),
        ("events/put_subscription", SubscriptionRow::COLUMNS),
        ("events/subscribe", SubscriptionRow::COLUMNS),
        ("events/subscriptions", SubscriptionRow::COLUMNS),
        ("jobs/enqueue", EnqueuedRow::COLUMNS),
        ("jobs/explain", ExplainRow::COLUMNS),
        ("jobs/insert", SCALAR),
        ("jobs/list_all", SCALAR),
        ("jobs/list_delayed", SCALAR),
        ("jobs/list_done", SCALAR),
        ("jobs/list_running", SCALAR),
        ("jobs/list_unsuccessful", SCALAR),
        ("jobs/queue", JobQueueRow::COLUMNS),
        ("jobs/read", JobRow::COLUMNS),
        ("jobs/states", SCALAR),
        ("jobs/summaries", SummaryRow::COLUMNS),
        ("keys/find_idempotency", IdempotencyRow::COLUMNS),
        ("keys/find_unique", SCALAR),
        ("keys/hold_unique", SCALAR),
        ("keys/is_unique_taken", SCALAR),
        ("keys/purge_idempotency", SCALAR),
        ("metadata/get", SCALAR),
        ("metadata/get_or_set", SCALAR),
        ("metadata/now", SCALAR),
        ("metadata/server_number", SCALAR),
        ("queues/all", QueueRow::COLUMNS),
        ("queues/depths", DepthRow::COLUMNS),
        ("queues/ended", EndedRow::COLUMNS),
        ("queues/find_or_insert", QueueRow::COLUMNS),
        ("queues/lock_rate", SCALAR),
        ("queues/open_jobs", SCALAR),
        ("queues/of_tenant", SCALAR),
        ("queues/throughput", ThroughputRow::COLUMNS),
        ("queues/unstarted", SCALAR),
        ("ready/ahead", SCALAR),
        ("ready/claim", ClaimedRow::COLUMNS),
        ("ready/take", PositionRow::COLUMNS),
        ("ready/tenants", ReadyTenantRow::COLUMNS),
        ("reports/attempts", AttemptRow::COLUMNS),
        ("reports/find_attempt", PastAttemptRow::COLUMNS),
        ("reports/insert_late_report", SCALAR),
        ("reports/insert_log_lines", SCALAR),
        ("reports/late_reports", LateReportRow::COLUMNS),
        ("reports/log_lines", LogLineRow::COLUMNS),
        ("reports/progress", ProgressRow::COLUMNS),
        ("reports/put_progress", ProgressedRow::COLUMNS),
        ("running/alive", SCALAR),
        ("running/complete", CompletedRow::COLUMNS),
        ("running/extend", ExtendedRow::COLUMNS),
        ("running/leases", LeaseRow::COLUMNS),
        ("running/take", RunningRow::COLUMNS),
        ("running/take_expired", RunningRow::COLUMNS),
        ("running/take_leased", RunningRow::COLUMNS),
        ("schedules/due", ScheduleRow::COLUMNS),
        ("schedules/list", ScheduleRow::COLUMNS),
        ("schedules/put", ScheduleRow::COLUMNS),
        ("tenants/all", TenantRow::COLUMNS),
        ("tenants/find_or_insert", TenantRow::COLUMNS),
        ("tenants/token", TokenRow::COLUMNS),
        ("tenants/tokens", TokenRow::COLUMNS),
        ("waiting/lock_resolving", ResolvingRow::COLUMNS),
        ("waiting/next_times", NextTimesRow::COLUMNS),
        ("waiting/release_dependents", ReleasedRow::COLUMNS),
        ("waiting/take_blocked", PositionRow::COLUMNS),
        ("waiting/take_delayed", PositionRow::COLUMNS),
        ("waiting/take_held", PositionRow::COLUMNS),
        ("waiting/take_dependents", PositionRow::COLUMNS),
        ("waiting/take_due", PositionRow::COLUMNS),
    ];

    #[tokio::test]
    async fn every_statement_returns_the_columns_of_its_row() {
        let url = shared::postgres().create_database();
        let store = PgStore::open(&url.parse().unwrap(), Options::default())
            .await
            .unwrap();
        let session = store.inner.cool().await.unwrap();
        let queries = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/queries");
        let mut found = BTreeMap::new();
        for (name, sql) in blocks_in(&queries) {
            let statement = session.driver().prepare(&sql).await;
            let statement = statement.unwrap_or_else(|error| panic!("{name}: {error}"));
            let columns = statement.columns().iter().map(|column| column.name().to_owned());
            found.insert(name, columns.collect());
        }
        assert_columns(&found, ROWS);
    }
}
