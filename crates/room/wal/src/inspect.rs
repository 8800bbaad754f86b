//! Looking at a log without opening it: for tools, also beside a process that writes it.

use std::io;
use std::path::Path;

use crate::error::{Damage, OpenError};
use crate::files::{File, Files};
use crate::open::read_headers;
use crate::position::Position;
use crate::salvage::find_damage;
use crate::segment::{self, Opened, SegmentFile, SegmentReader, Step, path_of};

/// What a folder holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    pub segments: usize,
    /// The size of all segment files.
    pub bytes: u64,
    /// The lowest position that the files cover; `None` when there are none.
    pub first: Option<Position>,
    /// Where the last sound record ends.
    pub end: Position,
    /// Sound records after the position that was asked about.
    pub records_after: u64,
    /// Bytes behind the last sound record, which opening the log would cut.
    pub torn_bytes: u64,
    /// The first damage. What comes after it was not counted.
    pub damage: Option<Damage>,
}

/// Reads all of a log and changes nothing; `after` is a checkpoint, up to which records are not counted.
///
/// A file that is removed meanwhile, because the log is in use, is an error of the kind "not found":
/// try again.
pub fn inspect(dir: &Path, files: &dyn Files, after: Position) -> Result<Inspection, OpenError> {
    let mut found = Inspection::default();
    let starts = match segment::list(files, dir) {
        Err(OpenError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(found),
        listed => listed?,
    };
    found.segments = starts.len();
    found.damage = find_damage(files, dir)?;
    let mut segments: Vec<(SegmentFile, Box<dyn File>)> = Vec::new();
    for start in starts {
        let path = path_of(dir, start);
        if found.damage.as_ref().is_some_and(|damage| path > damage.path) {
            break;
        }
        match segment::open(files, dir, start) {
            Ok(Opened::Segment(segment, file)) => {
                found.bytes += segment.size;
                segments.push((segment, file));
            }
            Ok(Opened::Unfinished { bytes }) => found.torn_bytes += bytes,
            Err(OpenError::Damaged(_)) => break,
            Err(error) => return Err(error),
        }
    }
    found.first = segments
        .first()
        .map(|(segment, _)| Position(segment.header.follows));
    // A segment ends where the next one says that it follows, the last one with its file.
    let mut ends: Vec<u64> = segments
        .iter()
        .skip(1)
        .map(|(next, _)| next.header.follows)
        .collect();
    ends.extend(segments.last().map(|(last, _)| last.file_end()));
    for ((segment, file), end) in segments.into_iter().zip(ends) {
        let start = segment.header.start;
        let end = end.clamp(start, segment.file_end());
        read_segment(&mut found, SegmentReader::new(file, start, start, end), after)
            .map_err(OpenError::io("reading", &segment.path))?;
        found.torn_bytes += end - found.end.0;
    }
    Ok(found)
}

fn read_segment(found: &mut Inspection, mut reader: SegmentReader, after: Position) -> io::Result<()> {
    loop {
        match reader.step()? {
            Step::Record(_) => found.records_after += u64::from(reader.at() > after.0),
            Step::Mark { .. } => (),
            Step::End | Step::Bad(_) => break,
        }
    }
    found.end = Position(reader.at());
    Ok(())
}

/// Removes the files of a log all of whose records end at `up_to` or before, so that nothing of them is
/// left on the disk; returns whether it did. The log must not be open. The next one begins where the last
/// one ended if that is set by [`Options::start_at_least`](crate::Options::start_at_least).
pub fn discard(dir: &Path, files: &dyn Files, up_to: Position) -> Result<bool, OpenError> {
    let (segments, unfinished) = read_headers(files, dir)?;
    let found = inspect(dir, files, up_to)?;
    if found.records_after > 0 || found.damage.is_some() {
        return Ok(false);
    }
    // From the beginning, so that a crash on the way leaves a log whose beginning was released.
    let starts = segments.iter().map(|segment| segment.header.start);
    for start in starts.chain(unfinished.map(|(start, _)| start)) {
        let path = path_of(dir, start);
        files.remove(&path).map_err(OpenError::io("removing", &path))?;
        files.sync_dir(dir).map_err(OpenError::io("syncing", dir))?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::files::{OsFiles, ReadOnlyFiles};
    use crate::log::Log;
    use crate::options::Options;

    fn filled(dir: &Path, options: &Options) -> Vec<Position> {
        let (log, _) = Log::open(dir, options, Arc::new(OsFiles)).unwrap();
        let positions = (0..20).map(|number| log.append(format!("record {number:100}").as_bytes()).unwrap());
        let positions = positions.collect();
        log.close().unwrap();
        positions
    }

    fn small() -> Options {
        Options {
            segment_bytes: 500,
            ..Options::default()
        }
    }

    #[test]
    fn records_after_a_checkpoint_are_counted_without_a_change() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            inspect(&folder.path().join("none"), &ReadOnlyFiles, Position(0)).unwrap(),
            Inspection::default()
        );
        let positions = filled(folder.path(), &small());
        let all = inspect(folder.path(), &ReadOnlyFiles, Position(0)).unwrap();
        assert_eq!((all.records_after, all.torn_bytes, all.damage), (20, 0, None));
        assert!(all.segments > 3);
        let some = inspect(folder.path(), &ReadOnlyFiles, positions[14]).unwrap();
        assert_eq!(some.records_after, 5);
    }

    #[test]
    fn damage_is_named_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        filled(folder.path(), &small());
        let mut names = ReadOnlyFiles.list(folder.path()).unwrap();
        names.sort_unstable();
        let path = folder.path().join(&names[1]);
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let found = inspect(folder.path(), &ReadOnlyFiles, Position(0)).unwrap();
        let damage = found.damage.unwrap();
        assert_eq!(damage.path, path);
        assert!(damage.offset > 0 && damage.offset <= middle as u64);
        assert!(found.records_after > 0 && found.records_after < 20);
    }

    #[test]
    fn only_a_log_that_is_not_needed_is_discarded() {
        let folder = tempfile::tempdir().unwrap();
        let positions = filled(folder.path(), &small());
        assert!(!discard(folder.path(), &OsFiles, positions[18]).unwrap());
        let end = inspect(folder.path(), &ReadOnlyFiles, Position(0)).unwrap().end;
        assert!(discard(folder.path(), &OsFiles, end).unwrap());
        assert!(ReadOnlyFiles.list(folder.path()).unwrap().is_empty());
        let options = Options {
            start_at_least: end,
            ..small()
        };
        let (log, _) = Log::open(folder.path(), &options, Arc::new(OsFiles)).unwrap();
        assert_eq!(log.end(), end);
    }
}
