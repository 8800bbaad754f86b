//! `nagaya room export`: keys and values as JSON lines.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use nagaya_clock::{Clock, SystemClock};
use nagaya_cold::sqlite::SqliteCold;
use nagaya_cold::{base64, bytes_as_json, value_as_json};
use nagaya_keyspace::databases::split_name;
use nagaya_redis_client::RedisUrl;
use nagaya_tiering::cold::{ColdTier, Row, TagRow};
use nagaya_tiering::tag::tag_of;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::copy::Copy;
use super::export_rdb;
use super::moving::server;
use super::room_data::RoomData;
use super::size::{count, human, shown};
use crate::cli::GlobalArgs;

/// Tags listed at a time.
const PAGE: usize = 1000;
/// Bytes of values read together, unless one tag has more.
const READ_BYTES: u64 = 8 << 20;

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// The tags to export; without any, all of them
    tags: Vec<OsString>,
    /// The data folder [default: ./nagaya-data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Write here instead of to standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How to write
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    format: Format,
    /// Add what DUMP gives, in base64
    #[arg(long)]
    payload: bool,
    /// Write an RDB file instead, out of a running server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tags", "output", "payload", "format"])]
    rdb: Option<PathBuf>,
    /// With --rdb: only keys that match this pattern, as SCAN has it
    #[arg(long = "match", value_name = "PATTERN", requires = "rdb")]
    pattern: Option<String>,
    /// With --rdb: the server [default: that of the data folder]
    #[arg(long, value_name = "URL", requires = "rdb")]
    from: Option<RedisUrl>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Jsonl,
}

/// What was written.
#[derive(Default)]
struct Counts {
    tags: u64,
    keys: u64,
    bytes: u64,
    expired: u64,
    unreadable: u64,
    missing: u64,
}

pub(super) fn export(global: &GlobalArgs, args: ExportArgs) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.rdb {
        let from = server(global, args.data.clone(), args.from.clone(), "--from")?;
        return export_rdb::export(from, args.pattern.as_deref(), path);
    }
    let Format::Jsonl = args.format;
    let room_data = RoomData::new(global, args.data.clone())?;
    let copy = Copy::fresh(&room_data)?;
    let counts = match &args.output {
        None => export_to(&copy.cold, &args, BufWriter::new(io::stdout().lock()))?,
        Some(path) => to_file(&copy.cold, &args, path)?,
    };
    tell(&counts);
    Ok(match counts.unreadable + counts.missing {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Writes a file that appears under its name only once it is whole.
fn to_file(cold: &SqliteCold, args: &ExportArgs, path: &Path) -> anyhow::Result<Counts> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let cannot = || format!("cannot write {}", path.display());
    let file = NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).with_context(cannot)?;
    let counts = export_to(cold, args, BufWriter::new(&file))?;
    file.as_file().sync_all().with_context(cannot)?;
    file.persist(path).with_context(cannot)?;
    Ok(counts)
}

fn export_to(cold: &SqliteCold, args: &ExportArgs, out: impl Write) -> anyhow::Result<Counts> {
    let keys = if args.tags.is_empty() {
        Some(cold.totals()?.keys)
    } else {
        None
    };
    let spaces = nagaya_engine::saved_databases(cold)?;
    let mut exporter = Exporter {
        cold,
        spaces,
        out,
        payload: args.payload,
        now_ms: SystemClock.unix_ms(),
        counts: Counts::default(),
        bar: bar(keys),
    };
    if args.tags.is_empty() {
        exporter.all()?;
    } else {
        exporter.named(&args.tags)?;
    }
    exporter.out.flush()?;
    exporter.bar.finish_and_clear();
    Ok(exporter.counts)
}

/// A bar on the terminal; indicatif draws none elsewhere.
fn bar(keys: Option<u64>) -> ProgressBar {
    let (bar, template) = match keys {
        Some(keys) => (
            ProgressBar::new(keys),
            "{bar:30} {pos} of {len} keys, {per_sec}, {eta} left",
        ),
        None => (ProgressBar::no_length(), "{spinner} {pos} keys"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

struct Exporter<'c, W> {
    cold: &'c SqliteCold,
    /// The spaces of the databases, in their order.
    spaces: Vec<u16>,
    out: W,
    payload: bool,
    now_ms: i64,
    counts: Counts,
    bar: ProgressBar,
}

impl<W: Write> Exporter<'_, W> {
    fn all(&mut self) -> anyhow::Result<()> {
        let mut last: Option<Vec<u8>> = None;
        loop {
            let page = self.cold.tags_after(last.as_deref(), PAGE)?;
            let Some(end) = page.last() else { return Ok(()) };
            last = Some(end.tag.clone());
            self.some(&page)?;
        }
    }

    fn named(&mut self, tags: &[OsString]) -> anyhow::Result<()> {
        for tag in tags {
            let tag = tag_of(tag.as_bytes());
            match self.cold.tag(tag)? {
                Some(row) if row.keys > 0 => self.some(&[row])?,
                _ => {
                    self.counts.missing += 1;
                    eprintln!("nothing is stored under the tag {}", shown(tag));
                }
            }
        }
        Ok(())
    }

    /// Exports some tags, as many at a time as fit into memory well.
    fn some(&mut self, rows: &[TagRow]) -> anyhow::Result<()> {
        let mut rest = rows;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take_while(|row| {
                let fits = bytes == 0 || bytes + row.bytes <= READ_BYTES;
                bytes += row.bytes.max(1);
                fits
            });
            let (now, later) = rest.split_at(fits.count().max(1));
            rest = later;
            let tags: Vec<&[u8]> = now.iter().map(|row| row.tag.as_slice()).collect();
            for (tag, loaded) in tags.iter().zip(self.cold.read(&tags)?) {
                let rows = loaded.map_or(Vec::new(), |loaded| loaded.rows);
                self.counts.tags += u64::from(!rows.is_empty());
                for row in rows {
                    self.key(tag, &row)?;
                }
            }
        }
        Ok(())
    }

    fn key(&mut self, tag: &[u8], row: &Row) -> anyhow::Result<()> {
        self.bar.inc(1);
        if row.value.expires_at_ms.is_some_and(|at_ms| at_ms < self.now_ms) {
            self.counts.expired += 1;
            return Ok(());
        }
        let (space, tag) = split_name(tag);
        let mut spaces = self.spaces.iter();
        let database = spaces.position(|known| usize::from(*known) == space);
        let line = line(database.unwrap_or(space), tag, row, self.payload);
        if line.get("error").is_some() {
            self.counts.unreadable += 1;
            eprintln!("the value of key {} cannot be read", shown(&row.key));
        }
        writeln!(self.out, "{line}")?;
        self.counts.keys += 1;
        self.counts.bytes += (row.key.len() + row.value.payload.len()) as u64;
        Ok(())
    }
}

/// A key as a line of an export, with its database where that is not 0; a value that cannot be read comes as its
/// payload with an error.
pub(crate) fn line(database: usize, tag: &[u8], row: &Row, with_payload: bool) -> Value {
    let value = value_as_json(&row.value.payload);
    let mut line = json!({
        "tag": bytes_as_json(tag),
        "key": bytes_as_json(&row.key),
        "type": row.value.kind.name(),
        "expires_at_ms": row.value.expires_at_ms,
        "value": value,
    });
    if database > 0 {
        line["db"] = Value::from(database);
    }
    if value.is_none() {
        line["error"] = Value::from("the value cannot be read");
    }
    if with_payload || value.is_none() {
        line["payload"] = Value::from(base64(&row.value.payload));
    }
    line
}

fn tell(counts: &Counts) {
    let (keys, tags) = (count(counts.keys, "key"), count(counts.tags, "tag"));
    eprintln!("exported {keys} of {tags}, {} as stored", human(counts.bytes));
    if counts.expired > 0 {
        eprintln!("left out {} that had expired", count(counts.expired, "key"));
    }
    if counts.unreadable > 0 {
        let keys = count(counts.unreadable, "value");
        eprintln!("{keys} could not be read and came as bytes only; run `nagaya room doctor`");
    }
}
