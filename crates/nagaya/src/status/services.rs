//! The figures of each service in a few words.

use serde_json::Value;

use super::units::{bytes, count, duration, rate};

/// What a service's line says beside its state; empty when there is nothing to say.
pub(super) fn figures(name: &str, service: &Value) -> String {
    let words = match name {
        "room" => room(service),
        "jobs" => jobs(service),
        "fanout" => fanout(service),
        "ids" => ids(service),
        "fleet" => fleet(service),
        "http" => vec![
            rated(service, "requests_per_second", "requests"),
            counted(service, "connections", "connection"),
        ],
        _ => Vec::new(),
    };
    let words: Vec<String> = words.into_iter().flatten().collect();
    words.join(", ")
}

type Words = Vec<Option<String>>;

fn room(room: &Value) -> Words {
    let memory = number(room, "memory_bytes").map(|used| {
        let limit = number(room, "memory_limit_bytes");
        match limit {
            Some(limit) => format!("{} of {}", bytes(used), bytes(limit)),
            None => bytes(used),
        }
    });
    let tags = number(room, "tags_hot").map(|hot| match number(room, "tags_cold") {
        Some(cold) => format!("{} tags hot and {} cold", count(hot), count(cold)),
        None => format!("{} tags", count(hot)),
    });
    let hits = room["hit_ratio"].as_f64();
    let stale = room["staleness_seconds"]
        .as_f64()
        .filter(|seconds| *seconds >= 1.0);
    vec![
        memory,
        counted(room, "keys", "key"),
        tags,
        counted(room, "clients", "client"),
        rated(room, "commands_per_second", "commands"),
        hits.map(|ratio| format!("{:.0}% hits", ratio * 100.0)),
        some_rate(room, "loads_per_second", "loads"),
        stale.map(|seconds| format!("disk {} behind", duration(seconds as u64))),
    ]
}

fn jobs(jobs: &Value) -> Words {
    let queues = counted(jobs, "queues", "queue").map(|queues| {
        match number(jobs, "paused").filter(|paused| *paused > 0) {
            Some(paused) => format!("{queues} ({paused} paused)"),
            None => queues,
        }
    });
    let state = |name: &str| number(jobs, name).map(|jobs| format!("{} {name}", count(jobs)));
    vec![
        state("waiting"),
        state("running"),
        state("scheduled"),
        state("failed"),
        queues,
        rated(jobs, "enqueued_per_second", "in"),
        rated(jobs, "finished_per_second", "done"),
    ]
}

fn fanout(fanout: &Value) -> Words {
    if number(fanout, "endpoints") == Some(0) {
        return fanout["detail"]
            .as_str()
            .map(|detail| Some(detail.to_owned()))
            .into_iter()
            .collect();
    }
    vec![
        counted(fanout, "endpoints", "endpoint"),
        rated(fanout, "requests_per_second", "requests"),
        rated(fanout, "answers_ok_per_second", "ok"),
        number(fanout, "in_flight").map(|jobs| format!("{} in flight", count(jobs))),
        some_rate(fanout, "sheds_per_second", "shed"),
    ]
}

fn ids(ids: &Value) -> Words {
    let held = number(ids, "held_seconds").map(|seconds| format!(", held {}", duration(seconds)));
    let number_of = number(ids, "number").map(|number_of| {
        let fence = number(ids, "fence").map(|fence| format!(" (fence {fence})"));
        format!(
            "number {number_of}{}{}",
            fence.unwrap_or_default(),
            held.unwrap_or_default()
        )
    });
    // Until the number may be used, its own words say when that is.
    let number_of = number_of.or_else(|| ids["detail"].as_str().map(str::to_owned));
    let numbers = number(ids, "numbers_held").zip(number(ids, "numbers_free"));
    vec![
        number_of,
        rated(ids, "minted_per_second", "ids"),
        numbers.map(|(held, free)| format!("{held} of {} numbers held", held + free)),
        number(ids, "clock_skew_ms")
            .filter(|skew| *skew > 0)
            .map(|skew| format!("clock {skew} ms behind")),
    ]
}

fn fleet(fleet: &Value) -> Words {
    let workers = counted(fleet, "workers", "worker");
    let placed = number(fleet, "placed").zip(number(fleet, "workers"));
    let waiting = placed.and_then(|(placed, all)| (placed < all).then(|| format!("{placed} placed")));
    vec![
        counted(fleet, "instances", "instance"),
        workers,
        waiting,
        number(fleet, "spread").map(|spread| format!("spread {spread}")),
        counted(fleet, "moves", "move"),
        fleet["is_held"]
            .as_bool()
            .filter(|held| *held)
            .map(|_| "stops held; see `nagaya fleet confirm`".to_owned()),
    ]
}

fn number(object: &Value, field: &str) -> Option<u64> {
    object[field].as_u64()
}

fn counted(object: &Value, field: &str, noun: &str) -> Option<String> {
    let number = number(object, field)?;
    let plural = if number == 1 { "" } else { "s" };
    Some(format!("{} {noun}{plural}", count(number)))
}

fn rated(object: &Value, field: &str, noun: &str) -> Option<String> {
    Some(format!("{} {noun}/s", rate(object[field].as_f64()?)))
}

/// Only when there is something.
fn some_rate(object: &Value, field: &str, noun: &str) -> Option<String> {
    object[field].as_f64().filter(|rate| *rate > 0.0)?;
    rated(object, field, noun)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_are_told_in_units_for_people() {
        let check =
            |name: &str, service: Value, expected: &str| assert_eq!(figures(name, &service), expected);
        check(
            "room",
            json!({"memory_bytes": 12_582_912, "memory_limit_bytes": 67_108_864, "keys": 1234, "tags_hot": 17,
                "tags_cold": 3, "clients": 1, "commands_per_second": 1520.4, "hit_ratio": 0.981,
                "loads_per_second": 0.0, "staleness_seconds": 0.2}),
            "12.0 MB of 64.0 MB, 1234 keys, 17 tags hot and 3 cold, 1 client, 1.52k commands/s, 98% hits",
        );
        check(
            "jobs",
            json!({"waiting": 2, "running": 1, "scheduled": 0, "failed": 0, "queues": 3, "paused": 1,
                "enqueued_per_second": 0.0, "finished_per_second": 0.25}),
            "2 waiting, 1 running, 0 scheduled, 0 failed, 3 queues (1 paused), 0 in/s, 0.25 done/s",
        );
        check(
            "ids",
            json!({"number": 3, "fence": 9, "held_seconds": 75, "minted_per_second": 0.0, "numbers_held": 1,
                "numbers_free": 1022, "clock_skew_ms": 0}),
            "number 3 (fence 9), held 1m 15s, 0 ids/s, 1 of 1023 numbers held",
        );
        check(
            "ids",
            json!({"number": null, "detail": "number 1, to be used in 3.3 s", "minted_per_second": 0.0}),
            "number 1, to be used in 3.3 s, 0 ids/s",
        );
        check(
            "fanout",
            json!({"endpoints": 0, "detail": "no endpoints yet"}),
            "no endpoints yet",
        );
        check(
            "fleet",
            json!({"instances": 1, "workers": 4, "placed": 3, "spread": 0, "moves": 0, "is_held": false}),
            "1 instance, 4 workers, 3 placed, spread 0, 0 moves",
        );
        check("unknown", json!({}), "");
    }
}
