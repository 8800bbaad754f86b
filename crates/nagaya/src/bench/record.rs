//! The files of a recorded run.

use std::fs;
use std::path::Path;

use anyhow::Context;

use super::report::Report;

/// Writes the run into a folder, made if it is missing.
pub(super) fn write(folder: &Path, report: &Report) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let files = [
        ("summary.md", report.markdown()),
        ("report.json", report.json()?),
        ("raw.csv", report.raw_csv()),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
