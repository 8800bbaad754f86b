//! The files of a recorded run.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// What a run leaves behind.
pub(super) struct Record {
    pub(super) markdown: String,
    pub(super) json: String,
    pub(super) raw_csv: String,
    /// Files of pictures, by name.
    pub(super) pictures: Vec<(&'static str, String)>,
}

/// Writes the run into a folder, made if it is missing.
pub(super) fn write(folder: &Path, record: &Record) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let files = [
        ("summary.md", &record.markdown),
        ("report.json", &record.json),
        ("raw.csv", &record.raw_csv),
    ];
    let pictures = record.pictures.iter().map(|(name, text)| (*name, text));
    for (name, text) in files.into_iter().chain(pictures) {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The command line that started this run, to repeat it by.
pub(crate) fn typed_command() -> String {
    let words = std::env::args().skip(1);
    words.fold("nagaya-bench".to_owned(), |line, word| line + " " + &word)
}
