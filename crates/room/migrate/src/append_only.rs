//! The folder of a Redis 7 that keeps an append-only file.
//!
//! Its base is an RDB file. The increments are commands, and running those again would lose data: a key whose
//! expiry was moved on again and again would be removed by the first expiry that is past by now. So a folder is
//! taken only if nothing follows its base, as it is after BGREWRITEAOF.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;

/// Returns the RDB file that holds everything of an append-only folder.
pub fn base_of(folder: &Path) -> Result<PathBuf, Error> {
    let refuse = |what: String| Error::AppendOnly {
        folder: folder.display().to_string(),
        what,
    };
    let mut manifests = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::Read)? {
        let path = entry.map_err(Error::Read)?.path();
        if path.extension().is_some_and(|extension| extension == "manifest") {
            manifests.push(path);
        }
    }
    let [manifest] = manifests.as_slice() else {
        return Err(refuse(
            "it has no manifest, or several; name the RDB file in it".to_owned(),
        ));
    };
    let text = fs::read_to_string(manifest).map_err(Error::Read)?;
    let mut base = None;
    for line in text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
    {
        let (name, kind) =
            entry(line).ok_or_else(|| refuse(format!("its manifest has the line {line:?}")))?;
        let path = folder.join(name);
        match kind {
            "b" => base = Some(path),
            "i" if fs::metadata(&path).map_err(Error::Read)?.len() > 0 => {
                return Err(refuse(format!(
                    "commands follow its base, in {name}; stop the writers, run BGREWRITEAOF on that server, and try again"
                )));
            }
            // History is what Redis does not read either.
            "i" | "h" => (),
            other => return Err(refuse(format!("its manifest has a file of type {other:?}"))),
        }
    }
    base.ok_or_else(|| refuse("its manifest names no base".to_owned()))
}

/// Reads `file NAME seq NUMBER type LETTER`; the name may be quoted and has no folder.
fn entry(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim().strip_prefix("file ")?;
    let (name, rest) = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => rest.split_once(' ')?,
    };
    let kind = rest
        .split_whitespace()
        .skip_while(|word| *word != "type")
        .nth(1)?;
    let is_plain = !name.is_empty() && name != ".." && !name.contains(['/', '\\']);
    is_plain.then_some((name, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_manifest_are_read() {
        assert_eq!(entry("file a.base.rdb seq 1 type b"), Some(("a.base.rdb", "b")));
        assert_eq!(entry("file \"a b.rdb\" seq 1 type i"), Some(("a b.rdb", "i")));
        for wrong in [
            "",
            "file a",
            "file ../a seq 1 type b",
            "file .. seq 1 type b",
            "file a seq 1 type",
        ] {
            assert_eq!(entry(wrong), None, "{wrong}");
        }
    }
}
