//! Proves that a list of ids has no duplicates, or names them.
//!
//! Ids are collected with the line they came from, sorted, and neighbours compared. What does
//! not fit into the allowed memory is sorted in portions, each written to an unnamed temporary
//! file, and merged in the end: the list may be as long as the disk allows. An id is the same
//! number as its (time, worker, sequence), so that no duplicate means no repeated triple.
//!
//! Apart from duplicates the report lists ids of one worker that come in falling order (log
//! lines overtake each other, so that is no proof of anything wrong) and ids from the future.

mod extract;
mod report;
mod sorter;

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::path::PathBuf;

use crate::layout::Layout;
pub use extract::Source;
pub use report::{Duplicate, FutureId, OrderViolation, Report, UnreadableLine};
use sorter::{Entry, Sorter};

/// Ids up to this much ahead of now are taken for clocks that disagree, not for mistakes.
const FUTURE_ALLOWED_MS: u64 = 60_000;
/// Lines are cut here: the memory for one is bounded, whatever the input is.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Ids between two progress reports.
const PROGRESS_IDS: u64 = 1 << 20;

/// How to read and check.
#[derive(Clone, Debug)]
pub struct AuditOptions {
    pub layout: Layout,
    pub source: Source,
    /// The current time, to find ids from the future.
    pub now_ms: u64,
    /// Memory for sorting, in bytes.
    pub memory_bytes: usize,
    /// Where temporary files go, 16 bytes per id; the system's folder unless set.
    pub scratch_folder: Option<PathBuf>,
    /// How many findings of each kind are listed; all are counted.
    pub named_max: usize,
}

impl AuditOptions {
    pub fn new(layout: Layout, now_ms: u64) -> AuditOptions {
        AuditOptions {
            layout,
            source: Source::Lines,
            now_ms,
            memory_bytes: 512 << 20,
            scratch_folder: None,
            named_max: 10,
        }
    }
}

/// The progress of an audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Reading comes first, then comparing.
    pub reading: bool,
    pub bytes_read: u64,
    /// Read so far, or compared so far.
    pub ids: u64,
}

/// Why an audit could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("could not read the ids")]
    Read(#[source] io::Error),
    #[error("could not use a temporary file; ids that do not fit into memory need one")]
    Scratch(#[source] io::Error),
}

/// Reads all ids of `input` and checks them against each other.
pub fn audit(
    input: impl BufRead,
    options: &AuditOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, AuditError> {
    let mut reading = Reading {
        options,
        report: Report::default(),
        sorter: Sorter::new(options.memory_bytes, options.scratch_folder.clone()),
        last_of_worker: HashMap::new(),
    };
    reading.read_all(input, progress)?;
    let Reading {
        mut report, sorter, ..
    } = reading;
    let bytes_read = report.bytes;
    let (mut previous, mut compared) = (None::<Entry>, 0);
    sorter.merge(|entry| {
        compared += 1;
        match previous.filter(|first| first.id == entry.id) {
            Some(first) => report.add_duplicate(first, entry, options.named_max),
            None => {
                report.distinct += 1;
                // It stays the first occurrence: further ones are compared with it.
                previous = Some(entry);
            }
        }
        if compared % PROGRESS_IDS == 0 {
            progress(Progress {
                reading: false,
                bytes_read,
                ids: compared,
            });
        }
    })?;
    Ok(report)
}

struct Reading<'a> {
    options: &'a AuditOptions,
    report: Report,
    sorter: Sorter,
    /// The last id of each worker and its line; no more entries than the layout has workers.
    last_of_worker: HashMap<u64, Entry>,
}

impl Reading<'_> {
    fn read_all(
        &mut self,
        mut input: impl BufRead,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), AuditError> {
        let mut line = Vec::new();
        let mut next_progress = PROGRESS_IDS;
        loop {
            line.clear();
            let mut limited = io::Read::take(&mut input, LINE_BYTES_MAX);
            let count = limited.read_until(b'\n', &mut line).map_err(AuditError::Read)?;
            if count == 0 {
                break;
            }
            self.report.bytes += count as u64;
            self.report.lines += 1;
            self.read_line(line.trim_ascii())?;
            if self.report.ids >= next_progress {
                next_progress += PROGRESS_IDS;
                progress(Progress {
                    reading: true,
                    bytes_read: self.report.bytes,
                    ids: self.report.ids,
                });
            }
        }
        self.report.workers = self.last_of_worker.len() as u64;
        Ok(())
    }

    fn read_line(&mut self, line: &[u8]) -> Result<(), AuditError> {
        let options = self.options;
        let before = self.report.ids;
        let latest_ms = options.now_ms.saturating_add(FUTURE_ALLOWED_MS);
        let mut result = Ok(());
        extract::each_id(line, &options.source, &options.layout, latest_ms, &mut |id| {
            if result.is_ok() {
                result = self.add(id);
            }
        });
        result?;
        if self.report.ids == before && !line.is_empty() && options.source.expects_an_id_per_line() {
            self.report.add_unreadable(line, options.named_max);
        }
        Ok(())
    }

    fn add(&mut self, id: u64) -> Result<(), AuditError> {
        let Some(parts) = self.options.layout.decode(id) else {
            return Ok(());
        };
        let (report, named_max) = (&mut self.report, self.options.named_max);
        let entry = Entry {
            id,
            line: report.lines,
        };
        report.ids += 1;
        report.note_time(parts.unix_ms);
        if parts.unix_ms > self.options.now_ms.saturating_add(FUTURE_ALLOWED_MS) {
            report.add_future(entry, parts.unix_ms, named_max);
        }
        match self.last_of_worker.get_mut(&parts.worker) {
            Some(last) if id < last.id => report.add_order_violation(*last, entry, parts.worker, named_max),
            Some(last) => *last = entry,
            None => {
                self.last_of_worker.insert(parts.worker, entry);
            }
        }
        self.sorter.add(entry).map_err(AuditError::Scratch)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW_MS: u64 = 1_794_722_701_042;

    fn options() -> AuditOptions {
        AuditOptions::new(Layout::default(), NOW_MS)
    }

    fn check(input: &str, options: &AuditOptions) -> Report {
        audit(input.as_bytes(), options, &mut |_| {}).unwrap()
    }

    /// Returns an id made `ago_ms` before now.
    fn id(ago_ms: u64, worker: u64, sequence: u64) -> u64 {
        let layout = Layout::default();
        layout.compose(NOW_MS - ago_ms - layout.epoch_ms(), worker, sequence)
    }

    #[test]
    fn a_clean_list_is_clean() {
        let input = format!("{}\n{}\n{}\n", id(2, 1, 0), id(1, 1, 0), id(1, 2, 0));
        let report = check(&input, &options());
        assert!(report.is_clean());
        assert_eq!(
            (report.lines, report.ids, report.distinct, report.workers),
            (3, 3, 3, 2)
        );
    }

    #[test]
    fn an_empty_list_is_clean() {
        let report = check("", &options());
        assert!(report.is_clean() && report.ids == 0);
    }

    #[test]
    fn duplicates_are_named_with_both_lines() {
        let (a, b) = (id(2, 1, 0), id(1, 1, 0));
        let report = check(&format!("{a}\n{b}\n\n{a}\n{a}\n"), &options());
        assert!(!report.is_clean());
        assert_eq!((report.duplicates, report.distinct), (2, 2));
        let lines: Vec<_> = report
            .named_duplicates
            .iter()
            .map(|one| (one.id, one.line, one.again))
            .collect();
        assert_eq!(lines, [(a, 1, 4), (a, 1, 5)]);
    }

    #[test]
    fn the_first_offenders_are_named_and_all_are_counted() {
        let ids: Vec<String> = (0..50).map(|ms| id(1000 - ms, 1, 0).to_string()).collect();
        let input = format!("{}\n{}\n", ids.join("\n"), ids.join("\n"));
        let report = check(
            &input,
            &AuditOptions {
                named_max: 3,
                ..options()
            },
        );
        assert_eq!(report.duplicates, 50);
        let named: Vec<u64> = report.named_duplicates.iter().map(|one| one.again).collect();
        assert_eq!(named, [51, 52, 53]);
    }

    #[test]
    fn falling_order_is_told_per_worker() {
        let input = format!("{}\n{}\n{}\n", id(1, 1, 0), id(2, 2, 0), id(2, 1, 0));
        let report = check(&input, &options());
        assert!(report.is_clean());
        assert_eq!(report.order_violations, 1);
        let one = &report.named_order_violations[0];
        assert_eq!((one.worker, one.line, one.after_line), (1, 3, 1));
    }

    #[test]
    fn ids_from_the_future_are_told() {
        let report = check(&(id(0, 1, 0) + (3_600_000 << 22)).to_string(), &options());
        assert_eq!(report.future, 1);
        assert_eq!(report.named_future[0].unix_ms, NOW_MS + 3_600_000);
        assert!(!report.is_clean());
    }

    #[test]
    fn lines_that_are_no_ids_are_named() {
        let report = check("abc\n\n12 34\n99999999999999999999\n", &options());
        assert_eq!((report.ids, report.unreadable), (0, 3));
        assert_eq!(report.named_unreadable[0].text, "abc");
        assert_eq!(report.named_unreadable[2].line, 4);
        assert!(!report.is_clean());
    }

    #[test]
    fn a_line_without_end_does_not_need_memory_without_end() {
        let long = "x".repeat((LINE_BYTES_MAX * 2 + 5) as usize);
        assert_eq!(check(&long, &options()).unreadable, 3);
    }

    #[test]
    fn progress_is_told_while_reading_and_comparing() {
        let mut input = String::new();
        (0..PROGRESS_IDS + 5)
            .for_each(|n| input.push_str(&format!("{}\n", id(900_000 - n / 4000, 1, n % 4000))));
        let mut told = Vec::new();
        let report = audit(input.as_bytes(), &options(), &mut |progress| told.push(progress)).unwrap();
        assert!(report.is_clean());
        let stages: Vec<_> = told.iter().map(|one| (one.reading, one.ids)).collect();
        assert_eq!(stages, [(true, PROGRESS_IDS), (false, PROGRESS_IDS)]);
    }

    proptest! {
        #[test]
        fn sorting_in_portions_finds_the_same(numbers in prop::collection::vec(0u64..60, 0..200)) {
            let input: String = numbers.iter().map(|n| format!("{}\n", id(*n, 1, 0))).collect();
            let whole = check(&input, &options());
            let portions = check(&input, &AuditOptions { memory_bytes: 1, ..options() });
            prop_assert_eq!(&whole, &portions);
            let distinct: std::collections::HashSet<_> = numbers.iter().collect();
            prop_assert_eq!(whole.distinct as usize, distinct.len());
            prop_assert_eq!(whole.duplicates as usize, numbers.len() - distinct.len());
        }
    }
}
