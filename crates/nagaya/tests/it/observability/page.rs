//! `docs/metrics.md`, from what the metrics say of themselves.

use super::exposition::{Families, Family};
use std::fmt::Write;

const HEAD: &str = "\
# Metrics

<!-- Generated from a running server; see CONTRIBUTING.md. -->

`GET /metrics` tells all of these in OpenMetrics text, for Prometheus and whatever reads the same. A counter only
grows until the process starts anew: look at its `rate()`. A histogram has `_bucket`, `_sum` and `_count`. Labels come
from closed sets, so the number of series does not grow with keys, jobs or clients. [operations.md](operations.md) says
what to alert on, [alerts.yml](alerts.yml) does it, [grafana.json](grafana.json) draws it.
";

/// Parts of the page: how its metrics begin, its title, and when they are there.
const PARTS: [(&str, &str, &str); 10] = [
    ("nagaya_build", "The binary", ""),
    ("nagaya_component_", "The components", "Told by `nagaya up`."),
    ("process_", "The process", ""),
    ("nagaya_http_", "HTTP", ""),
    (
        "nagaya_room_",
        "Room",
        "Reported by a server whose room is in the process. Those of saving and loading stay 0 with `room.persist = false`.",
    ),
    (
        "nagaya_tiers_",
        "Room on Redis and PostgreSQL",
        "Reported instead of the above by a server with `--redis` and `--postgres`, and by `room serve`, `collect` and `task`.",
    ),
    ("nagaya_jobs_", "Jobs", "Told when `jobs.enabled` is on."),
    (
        "nagaya_fanout_",
        "Fan-out",
        "Told when `fanout.enabled` is on; those of endpoints when there are some.",
    ),
    ("nagaya_ids_", "Ids", "Told when `ids.enabled` is on."),
    (
        "nagaya_fleet_",
        "Fleet",
        "Told by managers, each for itself; take the highest of several, not the sum, for the gauges.",
    ),
];

pub(super) fn render(families: &Families) -> String {
    let mut page = HEAD.to_owned();
    let mut told = 0;
    for (prefix, title, when) in PARTS {
        let part: Vec<(&String, &Family)> = families
            .iter()
            .filter(|(name, _)| name.starts_with(prefix))
            .collect();
        if part.is_empty() {
            continue;
        }
        told += part.len();
        write!(page, "\n## {title}\n\n").expect("writing to a string cannot fail");
        if !when.is_empty() {
            write!(page, "{when}\n\n").expect("writing to a string cannot fail");
        }
        page.push_str("| metric | kind | labels | meaning |\n| --- | --- | --- | --- |\n");
        for (name, family) in part {
            page.push_str(&row(name, family));
        }
    }
    assert_eq!(told, families.len(), "a metric belongs to no part of the page");
    page
}

fn row(name: &str, family: &Family) -> String {
    let name = match family.kind.as_str() {
        "counter" => format!("{name}_total"),
        "info" => format!("{name}_info"),
        _ => name.to_owned(),
    };
    let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
    format!(
        "| `{name}` | {} | {} | {} |\n",
        family.kind,
        labels.join(", "),
        family.help
    )
}
