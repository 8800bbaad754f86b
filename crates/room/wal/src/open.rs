//! Opening a log: which files belong to it, and where it ends.
//!
//! Only the last segment may end badly. A segment is begun after the disk has confirmed all
//! of the one before, and its header names the position at which that one ends; so in every
//! other segment, each byte up to there was confirmed, and a bad one is damage.
//!
//! In the last segment, bytes that the disk had not confirmed when the machine stopped may
//! be missing, cut, or there in any order: a later page can have arrived without an earlier
//! one. Sound records after a bad one therefore prove nothing. A *mark* does: it says what the
//! disk had confirmed when it was written. If any mark after the bad bytes vouches for them,
//! they are damage, and opening refuses. Otherwise they were never vouched for, and the log
//! is cut before them.
//!
//! What is left past the last mark's word is then written again, the header too, and synced. The system's
//! cache may hold bytes from before a restart that a failed sync left off the disk, and a
//! plain sync would say nothing about those.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::OpenError;
use crate::files::{File, Files, read_all, write_all};
use crate::format::{MARK_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::segment::{self, Bad, Opened, SegmentFile, SegmentReader, Step, offset_in, path_of};

const COPY_BYTES: u64 = 1 << 20;

/// An end that was cut off because it had never been confirmed by the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    pub segment: PathBuf,
    /// How many bytes were cut.
    pub bytes: u64,
    pub reason: TornReason,
}

/// How the end of the log was found to be torn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TornReason {
    /// The segment's header was never finished; the whole file went.
    UnfinishedSegment,
    /// The last record is not all there.
    UnfinishedRecord,
    /// The length of a record makes no sense.
    BadLength,
    /// A record does not match its checksum.
    BadChecksum,
}

impl fmt::Display for TornReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            TornReason::UnfinishedSegment => "unfinished segment",
            TornReason::UnfinishedRecord => "unfinished record",
            TornReason::BadLength => "bad length",
            TornReason::BadChecksum => "bad checksum",
        })
    }
}

/// The segments of a log as found, with the last one open.
pub(crate) struct Opening {
    /// Each segment and the position at which it ends. Never empty.
    pub(crate) segments: Vec<(SegmentFile, u64)>,
    pub(crate) last: Box<dyn File>,
    pub(crate) torn: Option<TornTail>,
    /// Whether records stand past the last mark's word.
    pub(crate) unmarked: bool,
}

/// Finds the log in a folder and makes its end whole.
pub(crate) fn open(files: &Arc<dyn Files>, dir: &Path, start_at_least: u64) -> Result<Opening, OpenError> {
    files.create_dir(dir).map_err(OpenError::io("making", dir))?;
    let (found, unfinished) = read_headers(&**files, dir)?;
    let ends = check_chain(&found)?;
    let mut segments: Vec<_> = found.into_iter().zip(ends).collect();
    let mut unmarked = false;
    let mut torn = None;
    let mut last = None;
    if let Some((segment, end)) = segments.last_mut() {
        let tail = repair_end(&**files, segment)?;
        *end = tail.end;
        unmarked = tail.unmarked;
        torn = tail.torn;
        last = Some(tail.file);
    }
    if let Some((start, bytes)) = unfinished {
        let path = path_of(dir, start);
        files.remove(&path).map_err(OpenError::io("removing", &path))?;
        // A tail torn in the segment before it as well is the greater loss; tell that one.
        torn = torn.or(Some(TornTail {
            segment: path,
            bytes,
            reason: TornReason::UnfinishedSegment,
        }));
    }
    let end = segments.last().map_or(start_at_least, |(_, end)| *end);
    let last = match last {
        Some(last) if end >= start_at_least => last,
        _ => {
            let header = SegmentHeader {
                start: start_at_least,
                follows: end,
            };
            let (segment, file) = create(&**files, dir, header)?;
            segments.push((segment, start_at_least));
            file
        }
    };
    files.sync_dir(dir).map_err(OpenError::io("syncing", dir))?;
    Ok(Opening {
        segments,
        last,
        torn,
        unmarked,
    })
}

/// Makes a segment file whose header is safe. The folder is not synced yet.
fn create(
    files: &dyn Files,
    dir: &Path,
    header: SegmentHeader,
) -> Result<(SegmentFile, Box<dyn File>), OpenError> {
    let path = path_of(dir, header.start);
    let file = files.create(&path).map_err(OpenError::io("making", &path))?;
    write_all(&*file, &header.encode(), 0).map_err(OpenError::io("writing to", &path))?;
    file.sync().map_err(OpenError::io("syncing", &path))?;
    Ok((
        SegmentFile {
            path,
            header,
            size: SEGMENT_HEADER_BYTES,
        },
        file,
    ))
}

/// The segments, and the start and size of a last file that never became one.
type Headers = (Vec<SegmentFile>, Option<(u64, u64)>);

pub(crate) fn read_headers(files: &dyn Files, dir: &Path) -> Result<Headers, OpenError> {
    let starts = segment::list(files, dir)?;
    let mut found = Vec::with_capacity(starts.len());
    for (index, start) in starts.iter().enumerate() {
        match segment::open(files, dir, *start)? {
            Opened::Segment(segment, _) => found.push(segment),
            Opened::Unfinished { bytes } if index + 1 == starts.len() => {
                return Ok((found, Some((*start, bytes))));
            }
            Opened::Unfinished { .. } => {
                let path = path_of(dir, *start);
                return Err(segment::damage_at(
                    &path,
                    0,
                    "the header is missing, though segments follow",
                ));
            }
        }
    }
    Ok((found, None))
}

/// Returns the end position of each segment, which for all but the last its successor names.
pub(crate) fn check_chain(found: &[SegmentFile]) -> Result<Vec<u64>, OpenError> {
    let mut ends = Vec::with_capacity(found.len());
    for (index, segment) in found.iter().enumerate() {
        let file_end = segment.file_end();
        let Some(next) = found.get(index + 1) else {
            ends.push(file_end);
            continue;
        };
        let end = next.header.follows;
        if end < segment.header.start || end > next.header.start {
            return Err(segment::damage_at(
                &next.path,
                0,
                "the header does not fit the segment before it",
            ));
        }
        if end > file_end {
            let what = format!("the positions from {file_end} to {end} are missing, in it or in a lost file");
            return Err(segment.damage(file_end, what));
        }
        ends.push(end);
    }
    Ok(ends)
}

struct Tail {
    file: Box<dyn File>,
    end: u64,
    unmarked: bool,
    torn: Option<TornTail>,
}

/// Finds where the last segment ends, cuts what is torn, and makes the rest safe.
fn repair_end(files: &dyn Files, segment: &SegmentFile) -> Result<Tail, OpenError> {
    let path = &segment.path;
    let start = segment.header.start;
    let file = files.open(path).map_err(OpenError::io("opening", path))?;
    let mut reader = SegmentReader::new(file, start, start, segment.file_end());
    let mut vouched = start;
    let bad = loop {
        match reader.step().map_err(OpenError::io("reading", path))? {
            Step::Record(_) => (),
            Step::Mark { durable } => vouched = vouched.max(durable),
            Step::End => break None,
            Step::Bad(bad) => break Some(bad),
        }
    };
    let end = reader.at();
    let file = reader.into_file();
    let mut torn = None;
    if let Some(bad) = bad {
        let proof = segment::find_proof(&*file, segment, end).map_err(OpenError::io("reading", path))?;
        if let Some(proof) = proof {
            let proof = segment.offset(proof);
            return Err(segment.damage(end, format!("{bad}, and byte {proof} says that it was safe")));
        }
        file.truncate(segment.offset(end))
            .map_err(OpenError::io("cutting", path))?;
        let bytes = segment.file_end() - end;
        torn = Some(TornTail {
            segment: path.clone(),
            bytes,
            reason: reason_of(bad),
        });
    }
    rewrite(&*file, segment.header, vouched.min(end), end).map_err(OpenError::io("writing to", path))?;
    file.sync().map_err(OpenError::io("syncing", path))?;
    Ok(Tail {
        file,
        end,
        unmarked: end - vouched.min(end) > MARK_BYTES as u64,
        torn,
    })
}

fn reason_of(bad: Bad) -> TornReason {
    match bad {
        Bad::Head | Bad::Short => TornReason::UnfinishedRecord,
        Bad::Length => TornReason::BadLength,
        Bad::Checksum => TornReason::BadChecksum,
    }
}

/// Writes the header and the bytes of some positions over themselves, so that a sync answers
/// for them.
fn rewrite(file: &dyn File, header: SegmentHeader, from: u64, end: u64) -> io::Result<()> {
    write_all(file, &header.encode(), 0)?;
    let start = header.start;
    let mut at = from;
    let mut buffer = Vec::new();
    while at < end {
        buffer.resize(COPY_BYTES.min(end - at) as usize, 0);
        read_all(file, &mut buffer, offset_in(start, at))?;
        write_all(file, &buffer, offset_in(start, at))?;
        at += buffer.len() as u64;
    }
    Ok(())
}
