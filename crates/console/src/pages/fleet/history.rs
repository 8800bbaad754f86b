//! What happened to the fleet lately.

use maud::{Markup, html};

use super::wire::Event;
use crate::chart::{Chart, Series, Unit};
use crate::html::{Tone, badge, time};
use crate::table::Table;

/// Minutes in the chart.
const MINUTES: usize = 60;
/// Rows of the list.
const LISTED: usize = 20;

/// Moves and deaths in each minute of the last hour, the current one last. Events from before the oldest that
/// is known are not in it, so the beginning may be blank.
pub(super) fn chart(events: &[Event], now_ms: i64) -> Markup {
    let oldest = events.iter().filter_map(Event::at_ms).min();
    let count = |what: &str| -> Vec<Option<f64>> {
        let mut counts = [0.0; MINUTES];
        let times = events
            .iter()
            .filter(|event| event.what == what)
            .filter_map(Event::at_ms);
        for minutes in times.filter_map(|at_ms| minutes_before(at_ms, now_ms)) {
            counts[MINUTES - 1 - minutes] += 1.0;
        }
        let first = oldest.map_or(MINUTES, |at_ms| {
            minutes_before(at_ms, now_ms).map_or(0, |ago| MINUTES - 1 - ago)
        });
        counts
            .iter()
            .enumerate()
            .map(|(at, count)| (at >= first).then_some(*count))
            .collect()
    };
    let (placed, stopped, died) = (count("assigned"), count("revoked"), count("died"));
    let chart = Chart {
        title: "Moves in each minute",
        unit: Unit::Number,
        step_seconds: 60.0,
        series: vec![
            Series {
                name: "placed",
                points: &placed,
            },
            Series {
                name: "asked to stop",
                points: &stopped,
            },
            Series {
                name: "instances died",
                points: &died,
            },
        ],
    };
    chart.render()
}

fn minutes_before(at_ms: i64, now_ms: i64) -> Option<usize> {
    let minutes = usize::try_from((now_ms - at_ms).max(0) / 60_000).ok()?;
    (minutes < MINUTES).then_some(minutes)
}

/// The newest events first.
pub(super) fn table(events: &[Event]) -> Markup {
    let mut table = Table::new("Last events", "Nothing has happened yet.")
        .words("When")
        .words("What")
        .words("Worker")
        .words("Instance")
        .words("Why");
    for event in events.iter().rev().take(LISTED) {
        let dash = |text: &Option<String>| html! { (text.as_deref().unwrap_or("–")) };
        table.row(vec![
            event.at_ms().map_or_else(|| html! { (event.id) }, time),
            badge(tone(&event.what), &event.what),
            dash(&event.worker),
            dash(&event.instance),
            html! { (event.why) },
        ]);
    }
    table.render()
}

fn tone(what: &str) -> Tone {
    match what {
        "assigned" | "joined" => Tone::Good,
        "revoked" | "stopped" => Tone::Busy,
        "draining" | "leaving" => Tone::Warning,
        "died" | "dead" => Tone::Bad,
        _ => Tone::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(minutes_ago: i64, what: &str) -> Event {
        Event {
            id: format!("{}-0", 10_000_000 - minutes_ago * 60_000),
            what: what.to_owned(),
            worker: None,
            instance: None,
            why: String::new(),
        }
    }

    #[test]
    fn events_are_counted_in_their_minute() {
        let events = [
            event(90, "assigned"),
            event(2, "assigned"),
            event(2, "assigned"),
            event(0, "died"),
        ];
        let text = chart(&events, 10_000_000).into_string();
        assert!(text.contains("placed: 0 now, between 0 and 2"), "{text}");
        assert!(text.contains("instances died: 1 now"), "{text}");
    }

    #[test]
    fn the_newest_event_comes_first() {
        let text = table(&[event(2, "joined"), event(1, "died")]).into_string();
        assert!(text.find("died") < text.find("joined"), "{text}");
    }
}
