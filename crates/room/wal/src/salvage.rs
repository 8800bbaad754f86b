//! The remedy for damage: keep what comes before it.

use std::path::{Path, PathBuf};

use crate::error::{Damage, OpenError};
use crate::files::Files;
use crate::open::{check_chain, read_headers};
use crate::segment::{self, Opened, SegmentFile, SegmentReader, Step, path_of};

/// What [`salvage`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// The first damage found; without any, nothing was touched.
    pub damage: Option<Damage>,
    /// How many bytes were cut, whole files included.
    pub bytes_cut: u64,
    /// The files that went whole.
    pub removed: Vec<PathBuf>,
}

/// Cuts a damaged log before its first damage, so that it can be opened again.
///
/// Acknowledged records after the damage are lost by this, sound ones too: they would follow
/// on others that are missing. Copy the folder first. The log must not be open.
pub fn salvage(dir: &Path, files: &dyn Files) -> Result<Salvaged, OpenError> {
    let Some(damage) = find_damage(files, dir)? else {
        return Ok(Salvaged::default());
    };
    let mut done = Salvaged {
        damage: Some(damage.clone()),
        ..Salvaged::default()
    };
    let starts = segment::list(files, dir)?;
    let keep_part = damage.offset > 0;
    // From the end, so that a crash on the way leaves the damage for another try.
    for path in starts.iter().rev().map(|start| path_of(dir, *start)) {
        if path < damage.path || (keep_part && path == damage.path) {
            break;
        }
        done.bytes_cut += size_of(files, &path)?;
        files.remove(&path).map_err(OpenError::io("removing", &path))?;
        files.sync_dir(dir).map_err(OpenError::io("syncing", dir))?;
        done.removed.push(path);
    }
    if keep_part {
        let path = &damage.path;
        let file = files.open(path).map_err(OpenError::io("opening", path))?;
        done.bytes_cut += size_of(files, path)?.saturating_sub(damage.offset);
        file.truncate(damage.offset)
            .map_err(OpenError::io("cutting", path))?;
        file.sync().map_err(OpenError::io("syncing", path))?;
    }
    Ok(done)
}

fn size_of(files: &dyn Files, path: &Path) -> Result<u64, OpenError> {
    let file = files.open(path).map_err(OpenError::io("opening", path))?;
    file.size().map_err(OpenError::io("reading", path))
}

/// Returns the first damage of a log. A torn end is none: opening the log cuts it.
pub(crate) fn find_damage(files: &dyn Files, dir: &Path) -> Result<Option<Damage>, OpenError> {
    let checked = read_headers(files, dir).and_then(|(found, _)| check_chain(&found).map(|_| found));
    let (found, outer) = match checked {
        Ok(found) => (found, None),
        Err(OpenError::Damaged(damage)) => (readable(files, dir, &damage)?, Some(damage)),
        Err(other) => return Err(other),
    };
    for (index, segment) in found.iter().enumerate() {
        let end = found.get(index + 1).map(|next| next.header.follows);
        if let Some(damage) = first_bad(files, dir, segment, end)? {
            return Ok(Some(damage));
        }
    }
    Ok(outer)
}

/// Returns the segments before a damage in the headers or between the files.
fn readable(files: &dyn Files, dir: &Path, damage: &Damage) -> Result<Vec<SegmentFile>, OpenError> {
    let mut found = Vec::new();
    for start in segment::list(files, dir)? {
        if path_of(dir, start) >= damage.path {
            break;
        }
        if let Opened::Segment(segment, _) = segment::open(files, dir, start)? {
            found.push(segment);
        }
    }
    Ok(found)
}

/// Returns the first bad record of a segment that ends at `end`, or of the last one, which has none.
fn first_bad(
    files: &dyn Files,
    dir: &Path,
    segment: &SegmentFile,
    end: Option<u64>,
) -> Result<Option<Damage>, OpenError> {
    let path = &segment.path;
    let start = segment.header.start;
    let Opened::Segment(_, file) = segment::open(files, dir, start)? else {
        return Ok(None);
    };
    let mut reader = SegmentReader::new(file, start, start, end.unwrap_or(segment.file_end()));
    let bad = loop {
        match reader.step().map_err(OpenError::io("reading", path))? {
            Step::Record(_) | Step::Mark { .. } => (),
            Step::End => return Ok(None),
            Step::Bad(bad) => break bad,
        }
    };
    let at = reader.at();
    let file = reader.into_file();
    if end.is_none() {
        let proof = segment::find_proof(&*file, segment, at).map_err(OpenError::io("reading", path))?;
        if proof.is_none() {
            return Ok(None);
        }
    }
    Ok(Some(Damage {
        path: path.clone(),
        offset: segment.offset(at),
        what: bad.to_string(),
    }))
}
