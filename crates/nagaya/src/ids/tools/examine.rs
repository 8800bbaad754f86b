//! `nagaya ids decode` and `nagaya ids audit`: what ids say, and whether any comes twice.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use nagaya_clock::{Clock, SystemClock};
use nagaya_config::Loaded;
use nagaya_ids::audit::{AuditOptions, Progress, Report, Source};
use nagaya_ids::layout::Layout;
use nagaya_ids::{audit as auditing, decode as decoding};

use super::admin::{print, print_json};
use super::args::{AuditArgs, DecodeArgs};
use crate::ids::IdsConfig;

/// Enough for the system to read ahead.
const BUFFER_BYTES: usize = 1 << 20;

pub(super) fn decode(loaded: &Loaded, args: &DecodeArgs) -> anyhow::Result<ExitCode> {
    let layout = layout(loaded)?;
    let now_ms = SystemClock.unix_ms().unsigned_abs();
    let mut decoded = Vec::new();
    for text in &args.ids {
        let id = decoding::parse_id(text, &layout)?;
        decoded.push(decoding::decode(id, &layout, now_ms)?);
    }
    if args.json {
        print_json(&decoding::json(&decoded))
    } else {
        print(&decoding::table(&decoded))
    }
}

pub(super) fn audit(loaded: &Loaded, args: AuditArgs) -> anyhow::Result<ExitCode> {
    let mut options = AuditOptions::new(layout(loaded)?, SystemClock.unix_ms().unsigned_abs());
    options.memory_bytes = args.memory.as_usize();
    options.named_max = args.named;
    if args.log || args.field.is_some() {
        options.source = Source::Log { field: args.field };
    }
    let mut progress_line = ProgressLine::new(&args.file);
    let report = if args.file.as_os_str() == "-" {
        examine(io::stdin().lock(), &options, &mut progress_line)?
    } else {
        let file = File::open(&args.file).with_context(|| format!("cannot open {}", args.file.display()))?;
        examine(
            BufReader::with_capacity(BUFFER_BYTES, file),
            &options,
            &mut progress_line,
        )?
    };
    if args.json {
        print_json(&report.json())?
    } else {
        print(&report.text())?
    };
    Ok(if report.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn examine(
    input: impl BufRead,
    options: &AuditOptions,
    progress_line: &mut ProgressLine,
) -> anyhow::Result<Report> {
    let report = auditing::audit(input, options, &mut |progress| progress_line.show(progress));
    progress_line.wipe();
    Ok(report?)
}

fn layout(loaded: &Loaded) -> anyhow::Result<Layout> {
    loaded.section::<IdsConfig>().layout()
}

/// Shows progress on a terminal, on one line that is cleared at the end.
struct ProgressLine {
    is_terminal: bool,
    /// The length of the file; `None` unless it is a regular file.
    total_bytes: Option<u64>,
    is_shown: bool,
}

impl ProgressLine {
    fn new(file: &Path) -> ProgressLine {
        let metadata = std::fs::metadata(file).ok().filter(|metadata| metadata.is_file());
        ProgressLine {
            is_terminal: io::stderr().is_terminal(),
            total_bytes: metadata
                .map(|metadata| metadata.len())
                .filter(|length| *length > 0),
            is_shown: false,
        }
    }

    fn show(&mut self, progress: Progress) {
        if self.is_terminal {
            self.is_shown = true;
            eprint!("\r\x1b[K{}", line(progress, self.total_bytes));
        }
    }

    fn wipe(&self) {
        if self.is_shown {
            eprint!("\r\x1b[K");
        }
    }
}

fn line(progress: Progress, total_bytes: Option<u64>) -> String {
    let millions = progress.ids as f64 / 1e6;
    match (progress.reading, total_bytes) {
        (true, Some(total)) => {
            let percent = progress.bytes_read.saturating_mul(100) / total;
            format!("reading: {percent} %, {millions:.1} million ids")
        }
        (true, None) => format!("reading: {millions:.1} million ids"),
        (false, _) => format!("comparing: {millions:.1} million ids"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_as_a_share_when_the_length_is_known() {
        let progress = Progress {
            reading: true,
            bytes_read: 50,
            ids: 2_500_000,
        };
        assert_eq!(line(progress, Some(200)), "reading: 25 %, 2.5 million ids");
        assert_eq!(line(progress, None), "reading: 2.5 million ids");
    }
}
