//! Reading back what a log held when it was opened.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::error::OpenError;
use crate::files::Files;
use crate::open::TornTail;
use crate::position::Position;
use crate::segment::{self, Opened, SegmentFile, SegmentReader, Step};

/// The records that survived, in order.
///
/// It reads the files as they ended when the log was opened, whatever is appended meanwhile.
/// Release nothing before it is done.
pub struct Recovery {
    files: Arc<dyn Files>,
    segments: Vec<(SegmentFile, u64)>,
    torn: Option<TornTail>,
    /// The segment being read, by index, and its reader once it is open.
    current: usize,
    reader: Option<SegmentReader>,
    from: u64,
    bytes_total: u64,
    bytes_read: u64,
}

impl fmt::Debug for Recovery {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = out.debug_struct("Recovery");
        out.field("segments", &self.segments.len())
            .field("torn", &self.torn);
        out.field("bytes_total", &self.bytes_total)
            .field("bytes_read", &self.bytes_read)
            .finish()
    }
}

impl Recovery {
    pub(crate) fn new(
        files: Arc<dyn Files>,
        segments: Vec<(SegmentFile, u64)>,
        torn: Option<TornTail>,
    ) -> Self {
        let bytes_total = segments
            .iter()
            .map(|(segment, end)| end - segment.header.start)
            .sum();
        Self {
            files,
            segments,
            torn,
            current: 0,
            reader: None,
            from: 0,
            bytes_total,
            bytes_read: 0,
        }
    }

    /// Returns what was cut off the end, if anything was.
    pub fn torn_tail(&self) -> Option<&TornTail> {
        self.torn.as_ref()
    }

    /// Leaves out the records that end at `from` or before: a checkpoint has them. `from` is
    /// a position that this log gave out, or lower than any. Call it before the first read.
    ///
    /// Fails when records after `from` are gone.
    pub fn skip_to(&mut self, from: Position) -> Result<(), OpenError> {
        let first = self.segments[0].0.header;
        if first.follows > from.0 {
            return Err(OpenError::Missing {
                wanted: from,
                first: Position(first.start),
            });
        }
        self.from = from.0;
        self.current = self.segments.iter().take_while(|(_, end)| *end <= from.0).count();
        self.bytes_total = self.segments[self.current..]
            .iter()
            .map(|(segment, end)| end - segment.header.start.max(from.0))
            .sum();
        Ok(())
    }

    /// Returns the next record and the position of its end, or `None` after the last.
    ///
    /// An error is final: what follows a damaged place is not read.
    pub fn next_record(&mut self) -> Result<Option<(Position, &[u8])>, OpenError> {
        let range = loop {
            if self.reader.is_none() && !self.open_current()? {
                return Ok(None);
            }
            let (segment, _) = &self.segments[self.current];
            let reader = self.reader.as_mut().expect("it was opened just above");
            let before = reader.at();
            let step = reader.step().map_err(OpenError::io("reading", &segment.path))?;
            self.bytes_read += reader.at() - before;
            match step {
                Step::Record(range) => break range,
                Step::Mark { .. } => (),
                Step::End => {
                    self.reader = None;
                    self.current += 1;
                }
                Step::Bad(bad) => return Err(segment.damage(before, bad)),
            }
        };
        let reader = self.reader.as_ref().expect("it has just read a record");
        Ok(Some((Position(reader.at()), reader.payload(range))))
    }

    /// Returns how much there is to read, for showing progress.
    pub fn bytes_total(&self) -> u64 {
        self.bytes_total
    }

    /// Returns how much of [`Recovery::bytes_total`] has been read.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    fn open_current(&mut self) -> Result<bool, OpenError> {
        let Some((segment, end)) = self.segments.get(self.current) else {
            return Ok(false);
        };
        let start = segment.header.start;
        let dir = segment.path.parent().unwrap_or(Path::new("."));
        let Opened::Segment(_, file) = segment::open(&*self.files, dir, start)? else {
            return Err(segment.damage(start, "the header has vanished since the log was opened"));
        };
        let from = start.max(self.from).min(*end);
        self.reader = Some(SegmentReader::new(file, start, from, *end));
        Ok(true)
    }
}
