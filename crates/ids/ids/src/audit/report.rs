//! The findings of an audit, for people and for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use super::sorter::Entry;
use crate::utc;

/// How much of a line that is no id is repeated, in characters.
const ECHO_MAX: usize = 80;

/// The result of an audit. All findings are counted, and the first ones of the input are listed up to
/// a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub bytes: u64,
    pub lines: u64,
    pub ids: u64,
    pub distinct: u64,
    pub workers: u64,
    /// The times of the oldest and the newest id, in milliseconds since 1970.
    pub span_ms: Option<(u64, u64)>,
    /// How many ids were there before; an id seen three times counts two.
    pub duplicates: u64,
    pub named_duplicates: Vec<Duplicate>,
    /// How many ids are lower than an earlier one of the same worker.
    pub order_violations: u64,
    pub named_order_violations: Vec<OrderViolation>,
    pub future: u64,
    pub named_future: Vec<FutureId>,
    /// Lines that should be an id and are not.
    pub unreadable: u64,
    pub named_unreadable: Vec<UnreadableLine>,
}

/// An id that was there before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    pub id: u64,
    /// Where it was first, and where it is again.
    pub line: u64,
    pub again: u64,
}

/// An id that is lower than an earlier one of its worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderViolation {
    pub worker: u64,
    pub id: u64,
    pub line: u64,
    pub after: u64,
    pub after_line: u64,
}

/// An id whose time is in the future.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FutureId {
    pub id: u64,
    pub line: u64,
    pub unix_ms: u64,
}

/// A line that is no id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableLine {
    pub line: u64,
    pub text: String,
}

impl Report {
    /// Returns whether there are no duplicates, no ids from the future and no unreadable lines. Falling
    /// order alone is no defect.
    pub fn is_clean(&self) -> bool {
        self.duplicates == 0 && self.future == 0 && self.unreadable == 0
    }

    /// Returns the report as text for people.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} ids in {} lines, {} distinct, of {} workers\n",
            self.ids, self.lines, self.distinct, self.workers
        );
        if let Some((first_ms, last_ms)) = self.span_ms {
            let (first, last) = (utc::rfc3339(first_ms), utc::rfc3339(last_ms));
            line(&mut text, format_args!("made between {first} and {last}"));
        }
        self.tell_duplicates(&mut text);
        if self.order_violations > 0 {
            line(
                &mut text,
                format_args!("{} ids in falling order", self.order_violations),
            );
            for one in &self.named_order_violations {
                line(
                    &mut text,
                    format_args!(
                        "  worker {}: {} in line {} after {} in line {}",
                        one.worker, one.id, one.line, one.after, one.after_line
                    ),
                );
            }
        }
        if self.future > 0 {
            line(&mut text, format_args!("{} ids from the future", self.future));
            for one in &self.named_future {
                let time = utc::rfc3339(one.unix_ms);
                line(
                    &mut text,
                    format_args!("  {} in line {} is from {time}", one.id, one.line),
                );
            }
        }
        if self.unreadable > 0 {
            line(&mut text, format_args!("{} lines are no ids", self.unreadable));
            for one in &self.named_unreadable {
                line(&mut text, format_args!("  line {}: {:?}", one.line, one.text));
            }
        }
        text
    }

    fn tell_duplicates(&self, text: &mut String) {
        if self.duplicates == 0 {
            return line(text, format_args!("no duplicates"));
        }
        line(text, format_args!("{} DUPLICATES", self.duplicates));
        for one in &self.named_duplicates {
            line(
                text,
                format_args!(
                    "  {} in line {} and again in line {}",
                    one.id, one.line, one.again
                ),
            );
        }
    }

    /// Returns the report as a JSON object; ids are strings.
    pub fn json(&self) -> Value {
        let id = |id: u64| id.to_string();
        let duplicates = self.named_duplicates.iter();
        let order_violations = self.named_order_violations.iter();
        json!({
            "clean": self.is_clean(),
            "bytes": self.bytes,
            "lines": self.lines,
            "ids": self.ids,
            "distinct": self.distinct,
            "workers": self.workers,
            "first_time": self.span_ms.map(|(first_ms, _)| utc::rfc3339(first_ms)),
            "last_time": self.span_ms.map(|(_, last_ms)| utc::rfc3339(last_ms)),
            "duplicates": self.duplicates,
            "first_duplicates": duplicates
                .map(|one| json!({"id": id(one.id), "line": one.line, "again": one.again}))
                .collect::<Value>(),
            "out_of_order": self.order_violations,
            "first_out_of_order": order_violations
                .map(|one| json!({
                    "worker": one.worker, "id": id(one.id), "line": one.line,
                    "after": id(one.after), "after_line": one.after_line,
                }))
                .collect::<Value>(),
            "future": self.future,
            "first_future": self.named_future.iter()
                .map(|one| json!({"id": id(one.id), "line": one.line, "time": utc::rfc3339(one.unix_ms)}))
                .collect::<Value>(),
            "unreadable": self.unreadable,
            "first_unreadable": self.named_unreadable.iter()
                .map(|one| json!({"line": one.line, "text": one.text}))
                .collect::<Value>(),
        })
    }

    pub(super) fn note_time(&mut self, unix_ms: u64) {
        let (first, last) = self.span_ms.unwrap_or((unix_ms, unix_ms));
        self.span_ms = Some((first.min(unix_ms), last.max(unix_ms)));
    }

    /// Duplicates come in the order of ids; those that come first in the input are kept.
    pub(super) fn add_duplicate(&mut self, first: Entry, again: Entry, named_max: usize) {
        self.duplicates += 1;
        let named = &mut self.named_duplicates;
        let at = named.partition_point(|one| one.again < again.line);
        if at < named_max {
            named.truncate(named_max - 1);
            named.insert(
                at,
                Duplicate {
                    id: first.id,
                    line: first.line,
                    again: again.line,
                },
            );
        }
    }

    pub(super) fn add_order_violation(&mut self, last: Entry, entry: Entry, worker: u64, named_max: usize) {
        self.order_violations += 1;
        if self.named_order_violations.len() < named_max {
            self.named_order_violations.push(OrderViolation {
                worker,
                id: entry.id,
                line: entry.line,
                after: last.id,
                after_line: last.line,
            });
        }
    }

    pub(super) fn add_future(&mut self, entry: Entry, unix_ms: u64, named_max: usize) {
        self.future += 1;
        if self.named_future.len() < named_max {
            self.named_future.push(FutureId {
                id: entry.id,
                line: entry.line,
                unix_ms,
            });
        }
    }

    pub(super) fn add_unreadable(&mut self, text: &[u8], named_max: usize) {
        self.unreadable += 1;
        if self.named_unreadable.len() < named_max {
            let text = String::from_utf8_lossy(&text[..text.len().min(4 * ECHO_MAX)]);
            self.named_unreadable.push(UnreadableLine {
                line: self.lines,
                text: text.chars().take(ECHO_MAX).collect(),
            });
        }
    }
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    writeln!(text, "{words}").expect("writing to a string does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_like_one() {
        let mut report = Report {
            lines: 4,
            ids: 3,
            distinct: 2,
            workers: 1,
            span_ms: Some((1_420_070_400_000, 1_420_070_400_005)),
            ..Report::default()
        };
        report.add_duplicate(Entry { id: 7, line: 1 }, Entry { id: 7, line: 3 }, 10);
        report.add_order_violation(Entry { id: 8, line: 2 }, Entry { id: 7, line: 3 }, 0, 10);
        report.add_unreadable(b"x\xff", 10);
        let expected = "3 ids in 4 lines, 2 distinct, of 1 workers\n\
            made between 2015-01-01T00:00:00.000Z and 2015-01-01T00:00:00.005Z\n\
            1 DUPLICATES\n  7 in line 1 and again in line 3\n\
            1 ids in falling order\n  worker 0: 7 in line 3 after 8 in line 2\n\
            1 lines are no ids\n  line 4: \"x\u{fffd}\"\n";
        assert_eq!(report.text(), expected);
        assert_eq!(report.json()["first_duplicates"][0]["id"], "7");
        assert_eq!(report.json()["clean"], false);
    }
}
