//! Sorts more entries than fit into memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::path::PathBuf;

use super::AuditError;

const ENTRY_BYTES: usize = 16;
/// The fewest entries in a portion; smaller portions would only make more files.
const PORTION_MIN: usize = 16;

/// An id and where it was found. Sorted by id, then by line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) id: u64,
    /// Counted from 1.
    pub(super) line: u64,
}

/// Collects entries, then hands them out in order.
pub(super) struct Sorter {
    portion: Vec<Entry>,
    portion_max: usize,
    folder: Option<PathBuf>,
    /// Sorted portions; the files have no names and vanish with the process.
    runs: Vec<File>,
}

impl Sorter {
    pub(super) fn new(memory_bytes: usize, folder: Option<PathBuf>) -> Sorter {
        Sorter {
            portion: Vec::new(),
            portion_max: (memory_bytes / ENTRY_BYTES).max(PORTION_MIN),
            folder,
            runs: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, entry: Entry) -> io::Result<()> {
        if self.portion.len() == self.portion_max {
            self.spill()?;
        }
        if self.portion.len() == self.portion.capacity() {
            // Doubling, but never past the limit.
            let more = self
                .portion
                .len()
                .max(1024)
                .min(self.portion_max - self.portion.len());
            self.portion.reserve_exact(more);
        }
        self.portion.push(entry);
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        self.portion.sort_unstable();
        let folder = self.folder.clone().unwrap_or_else(std::env::temp_dir);
        let mut writer = BufWriter::with_capacity(1 << 20, tempfile::tempfile_in(folder)?);
        for entry in self.portion.drain(..) {
            writer.write_all(&entry.id.to_le_bytes())?;
            writer.write_all(&entry.line.to_le_bytes())?;
        }
        let mut file = writer.into_inner().map_err(|error| error.into_error())?;
        file.rewind()?;
        self.runs.push(file);
        Ok(())
    }

    /// Calls `visit` for every entry in order.
    pub(super) fn merge(mut self, mut visit: impl FnMut(Entry)) -> Result<(), AuditError> {
        self.portion.sort_unstable();
        if self.runs.is_empty() {
            self.portion.into_iter().for_each(visit);
            return Ok(());
        }
        let mut runs: Vec<_> = self.runs.into_iter().map(Run::new).collect();
        let mut rest = self.portion.into_iter();
        let memory = runs.len();
        let mut heap = BinaryHeap::with_capacity(memory + 1);
        for (at, run) in runs.iter_mut().enumerate() {
            heap.extend(
                run.next()
                    .map_err(AuditError::Scratch)?
                    .map(|entry| Reverse((entry, at))),
            );
        }
        heap.extend(rest.next().map(|entry| Reverse((entry, memory))));
        while let Some(Reverse((entry, at))) = heap.pop() {
            visit(entry);
            let next = match runs.get_mut(at) {
                Some(run) => run.next().map_err(AuditError::Scratch)?,
                None => rest.next(),
            };
            heap.extend(next.map(|entry| Reverse((entry, at))));
        }
        Ok(())
    }
}

struct Run(BufReader<File>);

impl Run {
    fn new(file: File) -> Run {
        Run(BufReader::with_capacity(256 << 10, file))
    }

    fn next(&mut self) -> io::Result<Option<Entry>> {
        let mut bytes = [0; ENTRY_BYTES];
        match self.0.read_exact(&mut bytes) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let [a, b, c, d, e, f, g, h, line @ ..] = bytes;
        Ok(Some(Entry {
            id: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            line: u64::from_le_bytes(line),
        }))
    }
}
