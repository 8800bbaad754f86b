//! Samples as a drawing and as words.

use std::fmt::Write;

use nagaya_exec::latency::{Events, Samples};

/// Width of a drawing, in characters.
const COLUMNS: usize = 80;
const ROWS: usize = 4;
/// What a column's topmost mark looks like, by height inside its row.
const TOPS: [char; 3] = ['_', 'o', '#'];

/// Draws one column per sample, oldest first, with its age written downwards below it.
pub(super) fn graph(event: &str, samples: &Samples, now_s: i64) -> String {
    let values: Vec<u64> = samples.kept.iter().map(|sample| sample.ms).collect();
    let (high, low) = (
        values.iter().max().copied().unwrap_or(0),
        values.iter().min().copied().unwrap_or(0),
    );
    let mut text = format!(
        "{event} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        samples.worst_ms,
        "-".repeat(COLUMNS)
    );
    let ages: Vec<String> = samples
        .kept
        .iter()
        .map(|sample| age(now_s - sample.at_s))
        .collect();
    for part in 0..values.len().div_ceil(COLUMNS) {
        let columns = part * COLUMNS..values.len().min((part + 1) * COLUMNS);
        if part > 0 {
            text.push('\n');
        }
        draw(&mut text, &values[columns.clone()], low, high);
        text.push_str(&" ".repeat(columns.len()));
        text.push('\n');
        let depth = ages[columns.clone()].iter().map(String::len).max().unwrap_or(0);
        for line in 0..depth {
            let letters = ages[columns.clone()]
                .iter()
                .map(|age| age.chars().nth(line).unwrap_or(' '));
            text.extend(letters);
            text.push('\n');
        }
    }
    text
}

fn draw(text: &mut String, values: &[u64], low: u64, high: u64) {
    let steps = (TOPS.len() * ROWS) as u64;
    let span = (high - low).max(1);
    for row in (0..ROWS).rev() {
        for value in values {
            let height = ((value - low) * steps / span).min(steps - 1) as usize;
            text.push(match height.checked_sub(row * TOPS.len()) {
                None => ' ',
                Some(inside) => TOPS.get(inside).copied().unwrap_or('|'),
            });
        }
        text.push('\n');
    }
}

fn age(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Says what the samples show.
pub(super) fn doctor(events: &Events, threshold_ms: i64) -> String {
    if threshold_ms == 0 && events.is_empty() {
        return "Nothing is being watched: set latency-monitor-threshold to a number of milliseconds, and what \
                takes longer will be shown here.\n"
            .to_owned();
    }
    if events.is_empty() {
        return format!("Nothing has taken {threshold_ms} ms or longer so far.\n");
    }
    let mut text = format!("{} kinds of events have taken long:\n\n", events.len());
    for (at, (event, samples)) in events.iter().enumerate() {
        let count = samples.kept.len().max(1) as u64;
        let mean = samples.kept.iter().map(|sample| sample.ms).sum::<u64>() / count;
        let first = samples.kept.front().map_or(0, |sample| sample.at_s);
        let last = samples.kept.back().map_or(0, |sample| sample.at_s);
        let period = (last - first) as f64 / count as f64;
        // Writing to a string cannot fail.
        writeln!(
            text,
            "{}. {event}: {count} samples, {mean} ms on average, one in {period:.2} seconds, worst {} ms.",
            at + 1,
            samples.worst_ms
        )
        .ok();
    }
    if events.contains_key("command") {
        text.push_str(
            "\nSLOWLOG GET shows which commands took long; lower slowlog-log-slower-than to see more.\n",
        );
    }
    text
}
