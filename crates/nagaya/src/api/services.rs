//! Statistics of each service in `/v1/house`, except those of the room.

use std::sync::Arc;
use std::time::Duration;

use nagaya_jobs::Visibility;
use nagaya_jobs::queue::Counted;
use nagaya_telemetry::history::Now;
use serde_json::{Value, json};

use super::AdminState;

/// Time limit for a store to report its statistics; a slower one is left out of the response.
const PATIENCE: Duration = Duration::from_secs(2);

/// A rate, to three digits after the point; 0 while it is not known.
pub(crate) fn rate(now: &Now, name: &str) -> f64 {
    rounded(now.rate(name).unwrap_or(0.0))
}

pub(crate) fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// A gauge as a whole number.
pub(crate) fn count(now: &Now, name: &str) -> Option<u64> {
    now.value(name).map(|value| value.max(0.0) as u64)
}

pub(crate) async fn jobs(state: &Arc<AdminState>, now: &Now) -> Option<Value> {
    let jobs = state.jobs.as_ref()?;
    let asked = tokio::time::timeout(
        PATIENCE,
        jobs.store().queues(Visibility::everything(), Counted::All),
    )
    .await;
    let queues = match asked {
        Ok(Ok(queues)) => Some(queues),
        Ok(Err(_)) | Err(_) => None,
    };
    let sum = |read: fn(&nagaya_jobs::queue::Depth) -> u64| {
        let queues = queues.as_ref()?.iter();
        Some(queues.map(|queue| read(&queue.depth)).sum::<u64>())
    };
    let paused = queues
        .as_ref()
        .map(|queues| queues.iter().filter(|queue| queue.paused).count());
    Some(json!({
        "waiting": sum(|depth| depth.ready + depth.blocked),
        "running": sum(|depth| depth.running),
        "scheduled": sum(|depth| depth.scheduled),
        "failed": sum(|depth| depth.failed),
        "queues": queues.as_ref().map(Vec::len),
        "paused": paused,
        "enqueued_per_second": rate(now, "nagaya_jobs_enqueued_total"),
        "finished_per_second": rate(now, "nagaya_jobs_finished_total"),
    }))
}

pub(crate) fn fanout(state: &AdminState, now: &Now) -> Option<Value> {
    let (fanout, _) = state.fanout.as_ref()?;
    let (_, _, in_flight) = fanout.in_flight();
    Some(json!({
        "endpoints": fanout.endpoints().iter().len(),
        "requests_per_second": rate(now, "nagaya_fanout_requests_total"),
        "answers_ok_per_second": rate(now, "nagaya_fanout_answers_ok_total"),
        "in_flight": in_flight,
        "sheds_per_second": rate(now, "nagaya_fanout_sheds_total"),
    }))
}

pub(crate) async fn ids(state: &AdminState, now: &Now) -> Option<Value> {
    let (ids, _) = state.ids.as_ref()?;
    let report = tokio::time::timeout(PATIENCE, ids.report()).await;
    let stats = match report {
        Ok(Ok(report)) => Some(report.stats()),
        Ok(Err(_)) | Err(_) => None,
    };
    let (number, fence) = ids.number().unzip();
    let now_ms = state.clock.unix_ms().unsigned_abs();
    Some(json!({
        "number": number,
        "fence": fence,
        "held_seconds": ids.held_since_ms().map(|since_ms| now_ms.saturating_sub(since_ms) / 1000),
        "minted_per_second": rate(now, "nagaya_ids_issued_total"),
        "clock_skew_ms": ids.clock_behind_ms(),
        "numbers_held": stats.as_ref().map(|stats| stats.using_ids),
        "numbers_free": stats.as_ref().map(|stats| stats.unusing_ids),
    }))
}

pub(crate) fn fleet(state: &AdminState) -> Option<Value> {
    let status = state.fleet.as_ref()?.status();
    let status = status.borrow();
    Some(json!({
        "instances": status.live_instances,
        "workers": status.workers,
        "placed": status.workers.saturating_sub(status.unplaced),
        "spread": status.cost.spread_before,
        "moves": status.revoked_total,
        "is_held": status.held.is_some(),
    }))
}

pub(crate) fn http(now: &Now) -> Value {
    json!({
        "requests_per_second": rate(now, "nagaya_http_requests_total"),
        "connections": count(now, "nagaya_http_connections_open"),
    })
}
