//! Segment files as a reader sees them.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::{Damage, OpenError};
use crate::files::{File, Files, read_all};
use crate::format::{
    self, BadHeader, MARK_BYTES, MARK_LENGTH, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader,
};

/// How much is read at a time; a longer record is read whole.
const READ_BYTES: usize = 1 << 20;

/// A segment file whose header has been read.
#[derive(Clone, Debug)]
pub(crate) struct SegmentFile {
    pub(crate) path: PathBuf,
    pub(crate) header: SegmentHeader,
    pub(crate) size: u64,
}

impl SegmentFile {
    /// Returns where in the file a position is.
    pub(crate) fn offset(&self, position: u64) -> u64 {
        offset_in(self.header.start, position)
    }

    /// Returns the position at which the file ends.
    pub(crate) fn file_end(&self) -> u64 {
        self.header.start + self.size.saturating_sub(SEGMENT_HEADER_BYTES)
    }

    /// Returns the error for bad bytes at a position.
    pub(crate) fn damage(&self, position: u64, what: impl fmt::Display) -> OpenError {
        damage_at(&self.path, self.offset(position), what)
    }
}

/// Returns the error for bad bytes at an offset; at 0, nothing of the file is of use.
pub(crate) fn damage_at(path: &Path, offset: u64, what: impl fmt::Display) -> OpenError {
    OpenError::Damaged(Damage {
        path: path.to_owned(),
        offset,
        what: what.to_string(),
    })
}

/// Returns where in a segment that begins at `start` a position is.
pub(crate) fn offset_in(start: u64, position: u64) -> u64 {
    SEGMENT_HEADER_BYTES + (position - start)
}

/// Returns the file of the segment that begins at a position.
pub(crate) fn path_of(dir: &Path, start: u64) -> PathBuf {
    dir.join(format!("{start:020}.wal"))
}

/// Returns the start positions of the segment files in a folder, in order. Other files are left alone.
pub(crate) fn list(files: &dyn Files, dir: &Path) -> Result<Vec<u64>, OpenError> {
    let names = files.list(dir).map_err(OpenError::io("listing", dir))?;
    let mut starts: Vec<u64> = names.iter().filter_map(|name| start_of(name)).collect();
    starts.sort_unstable();
    Ok(starts)
}

fn start_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".wal")?;
    let plain = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

/// What the beginning of a segment file turned out to be.
pub(crate) enum Opened {
    Segment(SegmentFile, Box<dyn File>),
    /// The header is not there, and nothing after it: the file was made just before a crash.
    /// A header is confirmed by the disk before the first record is written.
    Unfinished {
        bytes: u64,
    },
}

/// Opens a segment and reads its header.
pub(crate) fn open(files: &dyn Files, dir: &Path, start: u64) -> Result<Opened, OpenError> {
    let path = path_of(dir, start);
    let file = files.open(&path).map_err(OpenError::io("opening", &path))?;
    let size = file.size().map_err(OpenError::io("reading", &path))?;
    let mut bytes = vec![0; SEGMENT_HEADER_BYTES.min(size) as usize];
    read_all(&*file, &mut bytes, 0).map_err(OpenError::io("reading", &path))?;
    match SegmentHeader::decode(&bytes) {
        Ok(header) if header.start == start => Ok(Opened::Segment(SegmentFile { path, header, size }, file)),
        Ok(_) => Err(damage_at(&path, 0, "the header belongs to another file")),
        Err(BadHeader::Version(found)) => Err(OpenError::Version { path, found }),
        Err(BadHeader::Unreadable) if size <= SEGMENT_HEADER_BYTES => Ok(Opened::Unfinished { bytes: size }),
        Err(BadHeader::Unreadable) => Err(damage_at(&path, 0, "the header of the segment is not readable")),
    }
}

/// Why the bytes at some place are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// Fewer bytes are left than the head of a record has.
    Head,
    Length,
    /// The record would run past the end.
    Short,
    Checksum,
}

impl fmt::Display for Bad {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Bad::Head => "a record begins too close to the end",
            Bad::Length => "a record's length makes no sense",
            Bad::Short => "a record runs past the end",
            Bad::Checksum => "a record does not match its checksum",
        })
    }
}

/// One step of a [`SegmentReader`].
pub(crate) enum Step {
    /// The payload, for [`SegmentReader::payload`]; the reader stands at the record's end.
    Record(Range<usize>),
    Mark {
        durable: u64,
    },
    End,
    /// The reader stands before the bad bytes.
    Bad(Bad),
}

/// Walks the records of one segment up to a given end.
pub(crate) struct SegmentReader {
    file: Box<dyn File>,
    start: u64,
    end: u64,
    at: u64,
    buffer: Vec<u8>,
    /// The position of the buffer's first byte.
    buffer_at: u64,
}

impl SegmentReader {
    /// Reads the positions `from..end`; `from` is where a record or mark begins.
    pub(crate) fn new(file: Box<dyn File>, start: u64, from: u64, end: u64) -> Self {
        Self {
            file,
            start,
            end,
            at: from,
            buffer: Vec::new(),
            buffer_at: from,
        }
    }

    /// Returns where the next record begins.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    pub(crate) fn payload(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    pub(crate) fn into_file(self) -> Box<dyn File> {
        self.file
    }

    pub(crate) fn step(&mut self) -> io::Result<Step> {
        let left = self.end - self.at;
        if left == 0 {
            return Ok(Step::End);
        }
        if left < RECORD_HEADER_BYTES as u64 {
            return Ok(Step::Bad(Bad::Head));
        }
        self.fill(RECORD_HEADER_BYTES)?;
        let begin = (self.at - self.buffer_at) as usize;
        let length = format::u32_at(&self.buffer, begin);
        let Some(payload) = format::payload_bytes(length) else {
            return Ok(Step::Bad(Bad::Length));
        };
        let size = RECORD_HEADER_BYTES + payload;
        if size as u64 > left {
            return Ok(Step::Bad(Bad::Short));
        }
        self.fill(size)?;
        let begin = (self.at - self.buffer_at) as usize;
        let frame = &self.buffer[begin..begin + size];
        if !format::is_sound(frame, self.at) {
            return Ok(Step::Bad(Bad::Checksum));
        }
        self.at += size as u64;
        if length == MARK_LENGTH {
            return Ok(Step::Mark {
                durable: format::u64_at(frame, RECORD_HEADER_BYTES),
            });
        }
        Ok(Step::Record(begin + RECORD_HEADER_BYTES..begin + size))
    }

    /// Has at least `wanted` bytes from the current place on in the buffer. The caller has
    /// checked that the file has them, so no length from the file is trusted here.
    fn fill(&mut self, wanted: usize) -> io::Result<()> {
        let used = (self.at - self.buffer_at) as usize;
        let have = self.buffer.len() - used;
        if have >= wanted {
            return Ok(());
        }
        self.buffer.drain(..used);
        self.buffer_at = self.at;
        let left = self.end - self.at;
        let target = (wanted.max(READ_BYTES) as u64).min(left) as usize;
        self.buffer.resize(target, 0);
        read_all(
            &*self.file,
            &mut self.buffer[have..],
            offset_in(self.start, self.at + have as u64),
        )
    }
}

/// Looks past bad bytes at position `bad` for a mark that was written after the disk had
/// confirmed them. Returns its position.
pub(crate) fn find_proof(file: &dyn File, segment: &SegmentFile, bad: u64) -> io::Result<Option<u64>> {
    let end = segment.file_end();
    let mut at = bad;
    let mut buffer = Vec::new();
    while end - at >= MARK_BYTES as u64 {
        buffer.resize((READ_BYTES as u64).min(end - at) as usize, 0);
        read_all(file, &mut buffer, segment.offset(at))?;
        for (index, window) in buffer.windows(MARK_BYTES).enumerate() {
            if format::u32_at(window, 0) == MARK_LENGTH
                && format::is_sound(window, at + index as u64)
                && format::u64_at(window, RECORD_HEADER_BYTES) > bad
            {
                return Ok(Some(at + index as u64));
            }
        }
        at += (buffer.len() - MARK_BYTES + 1) as u64;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_twenty_digits_are_segments() {
        assert_eq!(start_of("00000000000000000042.wal"), Some(42));
        for other in [
            "42.wal",
            "00000000000000000042.wal.old",
            "0000000000000000004x.wal",
            "LOCK",
        ] {
            assert_eq!(start_of(other), None, "{other}");
        }
    }
}
