//! The rows that statements return, and how domain values are stored in columns.

use nagaya_jobs::delivery::{DeliveryId, DeliveryState};
use nagaya_jobs::event::EventKind;
use nagaya_jobs::id::JobId;
use nagaya_jobs::job::Body;
use nagaya_jobs::queue::{Depth, Throughput};
use nagaya_jobs::state::{AttemptEnd, State, Tries};
use nagaya_sql::row;
use rusqlite::Row;

use crate::memory::Counts;

row! {
    sqlite;
    struct IdRow {
        id as _: JobId = JobId::new else "job id",
    }
}

/// Reads the job id of a statement that returns one column.
pub(crate) fn job_id(row: &Row<'_>) -> rusqlite::Result<JobId> {
    Ok(IdRow::read(row)?.id)
}

row! {
    sqlite;
    /// The columns of `jobs` that a state transition needs.
    pub(crate) struct StoredJob {
        queue: i64,
        tenant: i64,
        priority: i16,
        max_retries: u32,
        run_at_ms: Option<i64>,
        options: Option<String>,
    }
}

row! {
    sqlite;
    /// A job in a listing, with the attempt that each table says it is at.
    pub(crate) struct SummaryRow {
        id: JobId = JobId::new else "job id",
        queue: i64,
        tenant: i64,
        kind: Option<String>,
        priority: i16,
        created_ms: i64,
        max_retries: u32,
        options: Option<String>,
        running_attempt as "attempt": Option<u32>,
        run_at_ms: Option<i64>,
        delayed_attempt as "attempt": Option<u32>,
        ended as "state": Option<State> = optional_ended_state else "state",
        done_attempt as "attempt": Option<u32>,
        ended_ms: Option<i64>,
        error: Option<String>,
        held_attempt as "attempt": Option<u32>,
    }
}

row! {
    sqlite;
    /// The tables that a job is in, as far as its state depends on them.
    pub(crate) struct StateRow {
        queue: i64,
        tenant: i64,
        priority: i16,
        is_running as _: bool,
        ended as _: Option<State> = optional_ended_state else "state",
        is_delayed as _: bool,
    }
}

row! {
    sqlite;
    /// A target of a tenant with pending deliveries, and whether one is due.
    pub(crate) struct TargetRow {
        tenant: i64,
        target: String,
        is_due as _: bool,
    }
}

row! {
    sqlite;
    /// The job that an idempotency key stands for, and how it had ended when it was removed.
    pub(crate) struct IdempotencyRow {
        id: JobId = JobId::new else "job id",
        fingerprint: Option<[u8; 32]>,
        ended: Option<State> = optional_ended_state else "state",
    }
}

row! {
    sqlite;
    /// The payload of a job.
    pub(crate) struct BodyRow {
        _run_at_ms as "run_at_ms": Option<i64>,
        lease_ms: i64,
        content_type: Option<String>,
        payload: Option<Vec<u8>>,
    }
}

row! {
    sqlite;
    /// A ready job with everything that its worker gets.
    pub(crate) struct ReadyRow {
        rank: i64,
        pos: i64,
        id: JobId = JobId::new else "job id",
        attempt: u32,
        attempt_max: u32,
        kind: Option<String>,
        priority: i16,
        created_ms: i64,
        lease_ms: i64,
        max_retries: u32,
        options: Option<String>,
        content_type: Option<String>,
        payload: Vec<u8>,
    }
}

row! {
    sqlite;
    /// A row of `running`.
    #[derive(Clone, Debug)]
    pub(crate) struct RunningRow {
        id: JobId = JobId::new else "job id",
        queue: i64,
        tenant: i64,
        attempt: u32,
        attempt_max: u32,
        nonce: i64,
        worker: String,
        started_ms: i64,
        _lease_ms as "lease_ms": i64,
        lease_until_ms: i64,
        plain: bool,
    }
}

impl RunningRow {
    pub(crate) fn tries(&self) -> Tries {
        Tries {
            attempt: self.attempt,
            attempt_max: self.attempt_max,
        }
    }
}

row! {
    sqlite;
    /// The attempts of a job that was taken out of `ready` or `held`.
    pub(crate) struct TakenRow {
        attempt: u32,
        attempt_max: u32,
    }
}

row! {
    sqlite;
    /// When a delayed job is due.
    pub(crate) struct DelayedRow {
        run_at_ms: i64,
        attempt: u32,
    }
}

row! {
    sqlite;
    /// A job that was taken out of `delayed` before its time.
    pub(crate) struct TakenDelayedRow {
        run_at_ms: i64,
        attempt: u32,
        attempt_max: u32,
    }
}

row! {
    sqlite;
    /// A job that was taken out of `delayed` because it is due.
    pub(crate) struct DueRow {
        run_at_ms: i64,
        id: JobId = JobId::new else "job id",
        attempt: u32,
        attempt_max: u32,
    }
}

row! {
    sqlite;
    /// An ended job whose dependents are yet to be resolved.
    pub(crate) struct ResolvingRow {
        parent: JobId = JobId::new else "job id",
        succeeded: bool,
    }
}

row! {
    sqlite;
    /// The slots of a concurrency key.
    #[derive(Default)]
    pub(crate) struct SlotsRow {
        places: u32,
        taken: u32,
    }
}

row! {
    sqlite;
    /// Where a job waits for a slot.
    pub(crate) struct HeldKeyRow {
        key: String,
        pos: i64,
        _attempt as "attempt": u32,
    }
}

row! {
    sqlite;
    /// A job that waits for a slot.
    pub(crate) struct HeldRow {
        pos: i64,
        id: JobId = JobId::new else "job id",
        attempt: u32,
        attempt_max: u32,
    }
}

row! {
    sqlite;
    /// A row of `done`.
    pub(crate) struct DoneRow {
        state: State = ended_state else "state",
        attempt: u32,
        nonce: Option<i64>,
        worker: Option<String>,
        started_ms: Option<i64>,
        ended_ms: i64,
        purge_at_ms: i64,
        _error as "error": Option<String>,
        content_type: Option<String>,
        result: Option<Vec<u8>>,
    }
}

row! {
    sqlite;
    /// A job whose retention is over.
    pub(crate) struct PurgeableRow {
        id: JobId = JobId::new else "job id",
        state: State = ended_state else "state",
        queue: i64,
        tenant: i64,
    }
}

row! {
    sqlite;
    /// An attempt that is over, as readers see it.
    pub(crate) struct AttemptRow {
        number: u32,
        worker: String,
        started_ms: i64,
        ended_ms: Option<i64>,
        end: AttemptEnd = attempt_end else "end",
        error: Option<String>,
    }
}

row! {
    sqlite;
    /// An attempt that is over, as reports are compared with it.
    pub(crate) struct PastAttemptRow {
        nonce: i64,
        end: AttemptEnd = attempt_end else "end",
        error: Option<String>,
    }
}

row! {
    sqlite;
    pub(crate) struct ProgressRow {
        per_mille: Option<u16>,
        message: Option<String>,
        data: Option<String>,
        at_ms: i64,
    }
}

row! {
    sqlite;
    pub(crate) struct LogLineRow {
        number: u64,
        at_ms: i64,
        attempt: u32,
        text: String,
    }
}

row! {
    sqlite;
    pub(crate) struct LateReportRow {
        at_ms: i64,
        attempt: u32,
        what: String,
        why: String,
    }
}

row! {
    sqlite;
    /// An event, with the kind of its job and the ending that it may report.
    pub(crate) struct EventRow {
        seq: u64,
        job: JobId = JobId::new else "job id",
        queue: i64,
        tenant: i64,
        kind: EventKind = EventKind::coded else "kind of event",
        attempt: u32,
        at_ms: i64,
        data: Option<String>,
        job_kind as "kind": Option<String>,
        error: Option<String>,
        content_type: Option<String>,
        result: Option<Vec<u8>>,
    }
}

row! {
    sqlite;
    /// The position and the time of an event.
    pub(crate) struct EventTimeRow {
        seq: u64,
        at_ms: i64,
    }
}

row! {
    sqlite;
    pub(crate) struct SubscriptionRow {
        tenant as "name": String,
        name: String,
        filter: String,
        cursor: u64,
        created_ms: i64,
        advanced_ms: i64,
    }
}

row! {
    sqlite;
    pub(crate) struct DeliveryRow {
        id: DeliveryId = DeliveryId,
        job: JobId = JobId::new else "job id",
        queue: i64,
        tenant: i64,
        seq: u64,
        kind: EventKind = EventKind::coded else "kind of event",
        attempt: u32,
        webhook: String,
        target: String,
        state: DeliveryState = delivery_state else "state of a delivery",
        tries: u32,
        created_ms: i64,
        next_try_ms: i64,
    }
}

row! {
    sqlite;
    /// A try of a delivery.
    pub(crate) struct TryRow {
        number: u32,
        at_ms: i64,
        latency_ms: i64,
        status: Option<u16>,
        error: Option<String>,
        reply: Vec<u8>,
    }
}

row! {
    sqlite;
    pub(crate) struct ScheduleRow {
        tenant as "name": String,
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
    sqlite;
    pub(crate) struct QueueRow {
        num: i64,
        name: String,
        settings: String,
        paused: bool,
        created_ms: i64,
        rate_horizon_us: i64,
        last_claim_ms: Option<i64>,
        gone: bool,
    }
}

row! {
    sqlite;
    /// The counters of one tenant in one queue.
    pub(crate) struct CountersRow {
        queue: i64,
        tenant: i64,
        scheduled: u64,
        ready: u64,
        blocked: u64,
        running: u64,
        succeeded: u64,
        failed: u64,
        cancelled: u64,
        passed_enqueued: u64,
        passed_started: u64,
        passed_succeeded: u64,
        passed_failed: u64,
        passed_cancelled: u64,
        passed_attempts_failed: u64,
        passed_leases_lost: u64,
        passed_late_reports: u64,
    }
}

row! {
    sqlite;
    /// The sums of a queue's counters over all tenants.
    pub(crate) struct QueueCountersRow {
        scheduled as "sum(scheduled)": u64 = or_zero,
        ready as "sum(ready)": u64 = or_zero,
        blocked as "sum(blocked)": u64 = or_zero,
        running as "sum(running)": u64 = or_zero,
        succeeded as "sum(succeeded)": u64 = or_zero,
        failed as "sum(failed)": u64 = or_zero,
        cancelled as "sum(cancelled)": u64 = or_zero,
        passed_enqueued as "sum(passed_enqueued)": u64 = or_zero,
        passed_started as "sum(passed_started)": u64 = or_zero,
        passed_succeeded as "sum(passed_succeeded)": u64 = or_zero,
        passed_failed as "sum(passed_failed)": u64 = or_zero,
        passed_cancelled as "sum(passed_cancelled)": u64 = or_zero,
        passed_attempts_failed as "sum(passed_attempts_failed)": u64 = or_zero,
        passed_leases_lost as "sum(passed_leases_lost)": u64 = or_zero,
        passed_late_reports as "sum(passed_late_reports)": u64 = or_zero,
    }
}

macro_rules! counts {
    ($row:ident) => {
        impl $row {
            pub(crate) fn counts(&self) -> Counts {
                Counts {
                    depth: Depth {
                        scheduled: self.scheduled,
                        ready: self.ready,
                        blocked: self.blocked,
                        running: self.running,
                        succeeded: self.succeeded,
                        failed: self.failed,
                        cancelled: self.cancelled,
                    },
                    throughput: Throughput {
                        enqueued: self.passed_enqueued,
                        started: self.passed_started,
                        succeeded: self.passed_succeeded,
                        failed: self.passed_failed,
                        cancelled: self.passed_cancelled,
                        attempts_failed: self.passed_attempts_failed,
                        leases_lost: self.passed_leases_lost,
                        late_reports: self.passed_late_reports,
                    },
                }
            }
        }
    };
}
counts!(CountersRow);
counts!(QueueCountersRow);

row! {
    sqlite;
    pub(crate) struct TenantRow {
        num: i64,
        name: String,
        weight: u32,
        created_ms: i64,
    }
}

row! {
    sqlite;
    pub(crate) struct TokenRow {
        name: String,
        tenant as "name": String,
        hash: [u8; 32],
        scopes: i16,
        queues: String,
        created_ms: i64,
        expires_ms: Option<i64>,
    }
}

row! {
    sqlite;
    /// A job in no table or in several.
    pub(crate) struct MisplacedJob {
        id: i64,
        places as "count(p.id)": i64,
    }
}

row! {
    sqlite;
    /// A row of a table whose job does not exist.
    pub(crate) struct StrayRow {
        place: String,
        id: i64,
    }
}

row! {
    sqlite;
    /// A concurrency key whose count of taken slots is wrong.
    pub(crate) struct MiscountedKey {
        key: String,
        taken: i64,
        holders as _: i64,
    }
}

row! {
    sqlite;
    /// A job that waits for a slot though one is free.
    pub(crate) struct ForgottenJob {
        id: i64,
        _key as "key": String,
    }
}

row! {
    sqlite;
    /// A job whose number of pending dependencies is wrong.
    pub(crate) struct MiscountedJob {
        id: i64,
        _pending as "pending": i64,
        _parents as _: i64,
    }
}

row! {
    sqlite;
    /// Counters that differ from the tables.
    pub(crate) struct WrongCounters {
        queue: i64,
        tenant: i64,
    }
}

row! {
    sqlite;
    /// A job whose endings in the log do not match its state.
    pub(crate) struct WrongEndings {
        id: i64,
        endings: i64,
        revivals: i64,
        _ended as "ended": bool,
    }
}

/// Makes a body of its two columns; `None` without bytes.
pub(crate) fn body(content_type: Option<String>, bytes: Option<Vec<u8>>) -> Option<Body> {
    bytes.map(|bytes| Body {
        content_type: content_type.map(Into::into),
        bytes: bytes.into(),
    })
}

fn or_zero(number: Option<u64>) -> u64 {
    number.unwrap_or_default()
}

fn ended_state(code: i64) -> Option<State> {
    match code {
        4 => Some(State::Succeeded),
        5 => Some(State::Failed),
        6 => Some(State::Cancelled),
        _ => None,
    }
}

fn optional_ended_state(code: Option<i64>) -> Option<Option<State>> {
    match code {
        None => Some(None),
        Some(code) => ended_state(code).map(Some),
    }
}

/// Returns the number that tables keep of an ending.
pub(crate) fn ended_code(state: State) -> i64 {
    match state {
        State::Succeeded => 4,
        State::Failed => 5,
        _ => 6,
    }
}

fn attempt_end(code: i64) -> Option<AttemptEnd> {
    match code {
        1 => Some(AttemptEnd::Succeeded),
        2 => Some(AttemptEnd::Failed),
        3 => Some(AttemptEnd::LeaseLost),
        4 => Some(AttemptEnd::Cancelled),
        _ => None,
    }
}

/// Returns the number that the file keeps for the end of an attempt.
pub(crate) fn attempt_end_code(end: AttemptEnd) -> i64 {
    match end {
        AttemptEnd::Succeeded => 1,
        AttemptEnd::Failed => 2,
        AttemptEnd::LeaseLost => 3,
        AttemptEnd::Cancelled => 4,
    }
}

fn delivery_state(code: i64) -> Option<DeliveryState> {
    match code {
        1 => Some(DeliveryState::Pending),
        2 => Some(DeliveryState::Delivered),
        3 => Some(DeliveryState::GaveUp),
        _ => None,
    }
}

/// Returns the number that the file keeps for the state of a delivery.
pub(crate) fn delivery_state_code(state: DeliveryState) -> i64 {
    match state {
        DeliveryState::Pending => 1,
        DeliveryState::Delivered => 2,
        DeliveryState::GaveUp => 3,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use nagaya_sql::{SCALAR, assert_columns, blocks_in};
    use rusqlite::Connection;

    use super::*;
    use crate::migrate::SCHEMA;

    /// The row that reads each statement.
    const ROWS: &[(&str, &[&str])] = &[
        ("check/blocked", MiscountedJob::COLUMNS),
        ("check/counters", WrongCounters::COLUMNS),
        ("check/endings", WrongEndings::COLUMNS),
        ("check/file", SCALAR),
        ("check/held", ForgottenJob::COLUMNS),
        ("check/places", MisplacedJob::COLUMNS),
        ("check/strays", StrayRow::COLUMNS),
        ("check/taken", MiscountedKey::COLUMNS),
        ("concurrency/ahead", SCALAR),
        ("concurrency/find", SlotsRow::COLUMNS),
        ("concurrency/find_held", HeldKeyRow::COLUMNS),
        ("concurrency/first_held", HeldRow::COLUMNS),
        ("concurrency/take_held", TakenRow::COLUMNS),
        ("deliveries/count_tries", SCALAR),
        ("deliveries/due", DeliveryRow::COLUMNS),
        ("deliveries/targets", TargetRow::COLUMNS),
        ("deliveries/list", DeliveryRow::COLUMNS),
        ("deliveries/next", SCALAR),
        ("deliveries/of_job", DeliveryRow::COLUMNS),
        ("deliveries/tries", TryRow::COLUMNS),
        ("done/find", DoneRow::COLUMNS),
        ("done/next", SCALAR),
        ("done/of_queue", PurgeableRow::COLUMNS),
        ("done/purgeable", PurgeableRow::COLUMNS),
        ("queues/has_tenant", SCALAR),
        ("events/after", EventRow::COLUMNS),
        ("events/find_subscription", SubscriptionRow::COLUMNS),
        ("events/first_of_job", SCALAR),
        ("events/head", SCALAR),
        ("events/oldest", EventTimeRow::COLUMNS),
        ("events/subscriptions", SubscriptionRow::COLUMNS),
        ("jobs/body", BodyRow::COLUMNS),
        ("jobs/find", StoredJob::COLUMNS),
        ("jobs/highest_id", SCALAR),
        ("jobs/list_all", IdRow::COLUMNS),
        ("jobs/list_delayed", IdRow::COLUMNS),
        ("jobs/list_done", IdRow::COLUMNS),
        ("jobs/list_running", IdRow::COLUMNS),
        ("jobs/list_unsuccessful", IdRow::COLUMNS),
        ("jobs/state", StateRow::COLUMNS),
        ("jobs/summary", SummaryRow::COLUMNS),
        ("keys/find_idempotency", IdempotencyRow::COLUMNS),
        ("keys/find_unique", IdRow::COLUMNS),
        ("metadata/get", SCALAR),
        ("queues/all", QueueRow::COLUMNS),
        ("queues/counters", CountersRow::COLUMNS),
        ("queues/counters_of_queue", QueueCountersRow::COLUMNS),
        ("queues/oldest_ready", SCALAR),
        ("ready/ahead", SCALAR),
        ("ready/first", ReadyRow::COLUMNS),
        ("ready/position", SCALAR),
        ("ready/take", TakenRow::COLUMNS),
        ("reports/attempts", AttemptRow::COLUMNS),
        ("reports/find_attempt", PastAttemptRow::COLUMNS),
        ("reports/last_late_report", SCALAR),
        ("reports/last_log_line", SCALAR),
        ("reports/late_reports", LateReportRow::COLUMNS),
        ("reports/log_lines", LogLineRow::COLUMNS),
        ("reports/progress", ProgressRow::COLUMNS),
        ("reports/progress_event_at", SCALAR),
        ("running/extend", SCALAR),
        ("running/find", RunningRow::COLUMNS),
        ("running/next", SCALAR),
        ("running/take", RunningRow::COLUMNS),
        ("running/take_expired", RunningRow::COLUMNS),
        ("schedules/due", ScheduleRow::COLUMNS),
        ("schedules/find", ScheduleRow::COLUMNS),
        ("schedules/list", ScheduleRow::COLUMNS),
        ("schedules/next", SCALAR),
        ("tenants/all", TenantRow::COLUMNS),
        ("tenants/token", TokenRow::COLUMNS),
        ("tenants/tokens", TokenRow::COLUMNS),
        ("waiting/children", IdRow::COLUMNS),
        ("waiting/is_blocked", SCALAR),
        ("waiting/revivals", IdRow::COLUMNS),
        ("waiting/count_dependencies", SCALAR),
        ("waiting/find_delayed", DelayedRow::COLUMNS),
        ("waiting/first_resolving", ResolvingRow::COLUMNS),
        ("waiting/has_children", SCALAR),
        ("waiting/next_delayed", SCALAR),
        ("waiting/parents", IdRow::COLUMNS),
        ("waiting/take_delayed", TakenDelayedRow::COLUMNS),
        ("waiting/take_due", DueRow::COLUMNS),
    ];

    #[test]
    fn every_statement_returns_the_columns_of_its_row() {
        let connection = Connection::open_in_memory().unwrap();
        SCHEMA.upgrade(&connection, Path::new("jobs.db")).unwrap();
        let queries = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/queries");
        let mut found = BTreeMap::new();
        for (name, sql) in blocks_in(&queries) {
            let statement = connection
                .prepare(&sql)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let columns = statement.column_names().map(str::to_owned);
            found.insert(name, columns.collect());
        }
        assert_columns(&found, ROWS);
    }
}
