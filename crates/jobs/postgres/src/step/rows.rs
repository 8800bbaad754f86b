//! Rows to insert, with the names of their columns: PostgreSQL reads them as JSON.

use std::fmt::Write;

use nagaya_jobs::state::{AttemptEnd, State};
use serde::Serialize;

use super::JobPosition;

#[derive(Debug, Serialize)]
pub(crate) struct AttemptRow {
    pub(crate) id: i64,
    pub(crate) number: i32,
    pub(crate) nonce: i64,
    pub(crate) worker: String,
    pub(crate) started_ms: i64,
    pub(crate) ended_ms: i64,
    pub(crate) ending: i16,
    pub(crate) error: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct DoneRow {
    pub(super) id: i64,
    pub(super) queue: i32,
    pub(super) tenant: i32,
    pub(super) state: i16,
    pub(super) attempt: i32,
    pub(super) attempt_max: i32,
    pub(super) flags: i16,
    pub(super) nonce: Option<i64>,
    pub(super) worker: Option<String>,
    pub(super) started_ms: Option<i64>,
    pub(super) ended_ms: i64,
    pub(super) error: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) result: Option<String>,
    pub(super) purge_at_ms: i64,
}

#[derive(Debug, Serialize)]
pub(super) struct DelayedRow {
    run_at_ms: i64,
    id: i64,
    queue: i32,
    tenant: i32,
    rank: i16,
    attempt: i32,
    attempt_max: i32,
    flags: i16,
}

impl DelayedRow {
    pub(super) fn of(position: &JobPosition, run_at_ms: i64) -> DelayedRow {
        DelayedRow {
            run_at_ms,
            id: position.id.get(),
            queue: position.queue,
            tenant: position.tenant,
            rank: position.rank,
            attempt: position.attempt,
            attempt_max: position.attempt_max,
            flags: position.flags,
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct BlockedRow {
    id: i64,
    queue: i32,
    tenant: i32,
    rank: i16,
    attempt: i32,
    attempt_max: i32,
    flags: i16,
    pending: i32,
    run_at_ms: i64,
    /// Set once the row of its concurrency key is known.
    pub(super) place: Option<i64>,
    pos: Option<i64>,
}

impl BlockedRow {
    pub(super) fn for_place(position: &JobPosition, pos: i64) -> BlockedRow {
        BlockedRow {
            pos: Some(pos),
            ..BlockedRow::for_jobs(position, 0, 0)
        }
    }

    pub(super) fn for_jobs(position: &JobPosition, pending: i32, run_at_ms: i64) -> BlockedRow {
        BlockedRow {
            id: position.id.get(),
            queue: position.queue,
            tenant: position.tenant,
            rank: position.rank,
            attempt: position.attempt,
            attempt_max: position.attempt_max,
            flags: position.flags,
            pending,
            run_at_ms,
            place: None,
            pos: None,
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct ReadyRow {
    queue: i32,
    tenant: i32,
    rank: i16,
    pos: i64,
    id: i64,
    attempt: i32,
    attempt_max: i32,
    flags: i16,
}

impl ReadyRow {
    pub(super) fn of(position: &JobPosition, pos: i64) -> ReadyRow {
        ReadyRow {
            queue: position.queue,
            tenant: position.tenant,
            rank: position.rank,
            pos,
            id: position.id.get(),
            attempt: position.attempt,
            attempt_max: position.attempt_max,
            flags: position.flags,
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct EventRow {
    pub(super) kind: i16,
    pub(super) job: i64,
    pub(super) queue: i32,
    pub(super) tenant: i32,
    pub(super) attempt: i32,
    pub(super) at_ms: i64,
    pub(super) data: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct DeliveryRow {
    pub(super) job: i64,
    pub(super) queue: i32,
    pub(super) tenant: i32,
    pub(super) seq: i64,
    pub(super) kind: i16,
    pub(super) attempt: i32,
    pub(super) webhook: String,
    pub(super) target: String,
    pub(super) state: i16,
    pub(super) tries: i32,
    pub(super) created_ms: i64,
    pub(super) next_try_ms: i64,
}

/// Returns the stored number of an ending. Never changed.
pub(crate) fn state_code(state: State) -> i16 {
    match state {
        State::Succeeded => 4,
        State::Failed => 5,
        State::Cancelled => 6,
        State::Scheduled | State::Waiting | State::Running => {
            unreachable!("only endings are kept as numbers")
        }
    }
}

pub(crate) fn state_of(code: i16) -> State {
    match code {
        4 => State::Succeeded,
        5 => State::Failed,
        _ => State::Cancelled,
    }
}

pub(crate) fn end_code(end: AttemptEnd) -> i16 {
    match end {
        AttemptEnd::Succeeded => 1,
        AttemptEnd::Failed => 2,
        AttemptEnd::LeaseLost => 3,
        AttemptEnd::Cancelled => 4,
    }
}

pub(crate) fn end_of(code: i16) -> AttemptEnd {
    match code {
        1 => AttemptEnd::Succeeded,
        2 => AttemptEnd::Failed,
        3 => AttemptEnd::LeaseLost,
        _ => AttemptEnd::Cancelled,
    }
}

/// Encodes bytes as PostgreSQL reads them from text.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + bytes.len() * 2);
    text.push_str("\\x");
    for byte in bytes {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
    }
    text
}
