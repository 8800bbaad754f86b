//! Which of the server's metrics the charts of the room are drawn from.

use crate::chart::Unit;
use crate::pages::charts::Wanted;

/// The charts of a room in this process, or of one over a Redis: they count under different names.
pub(super) fn of(mode: &str) -> &'static [Wanted<'static>] {
    match mode {
        "tiered" => &TIERED,
        _ => &EMBEDDED,
    }
}

const EMBEDDED: [Wanted<'static>; 4] = [
    (
        "Memory",
        Unit::Bytes,
        &[("nagaya_room_memory_used_bytes", "used")],
    ),
    (
        "Commands",
        Unit::PerSecond,
        &[("nagaya_room_commands_total", "commands")],
    ),
    (
        "Loads and evictions",
        Unit::PerSecond,
        &[
            ("nagaya_room_load_seconds_count", "loads"),
            ("nagaya_room_evicted_tags_total", "evictions"),
        ],
    ),
    (
        "Staleness",
        Unit::Seconds,
        &[("nagaya_room_staleness_seconds", "staleness")],
    ),
];

const TIERED: [Wanted<'static>; 3] = [
    (
        "Commands",
        Unit::PerSecond,
        &[("nagaya_tiers_commands_total", "commands")],
    ),
    (
        "Loads and evictions",
        Unit::PerSecond,
        &[
            ("nagaya_tiers_loads_total", "loads"),
            ("nagaya_tiers_evictions_total", "evictions"),
        ],
    ),
    (
        "Staleness",
        Unit::Seconds,
        &[("nagaya_tiers_staleness_seconds", "staleness")],
    ),
];
