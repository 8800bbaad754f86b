//! The binary that is measured: found beside this program, or named.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// Names the binary to measure when `--nagaya` does not.
const VARIABLE: &str = "NAGAYA_BIN";
const PROFILE: &str = if cfg!(debug_assertions) {
    "debug"
} else {
    "release"
};
const BUILD: &str = if cfg!(debug_assertions) {
    "cargo build -p nagaya"
} else {
    "cargo build --release -p nagaya"
};

/// The `nagaya` that is measured.
#[derive(Clone, Debug)]
pub(crate) struct Nagaya {
    pub(crate) path: PathBuf,
    /// What it says its version is, and where it comes from.
    pub(crate) version: String,
}

impl Nagaya {
    /// Finds the binary: the one that was named, or the one that the same build put beside this program.
    pub(crate) fn find(named: Option<&Path>) -> anyhow::Result<Nagaya> {
        let named = named
            .map(Path::to_owned)
            .or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from));
        let (path, origin) = match named {
            Some(path) => {
                let origin = path.display().to_string();
                (path, origin)
            }
            None => (beside_this_program()?, format!("{PROFILE} build")),
        };
        ensure!(
            path.is_file(),
            "there is no nagaya at {}; build it with `{BUILD}`, or name one with --nagaya or {VARIABLE}",
            path.display()
        );
        // Servers run in folders of their own, where a relative path would lead elsewhere.
        let path = path
            .canonicalize()
            .with_context(|| format!("{} cannot be used", path.display()))?;
        let version = version_of(&path)?;
        Ok(Nagaya {
            version: format!("{version} ({origin})"),
            path,
        })
    }
}

fn beside_this_program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("the path of this program is unknown")?;
    Ok(own.with_file_name("nagaya"))
}

fn version_of(path: &Path) -> anyhow::Result<String> {
    let output = Command::new(path)
        .arg("--version")
        .output()
        .with_context(|| format!("{} cannot be started", path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.trim().strip_prefix("nagaya ");
    let version = version.with_context(|| format!("{} is not a nagaya", path.display()))?;
    Ok(version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_binary_is_named_with_the_command_that_builds_it() {
        let error = Nagaya::find(Some(Path::new("/nonexistent/nagaya"))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no nagaya at /nonexistent/nagaya; build it with `cargo build -p nagaya`, \
             or name one with --nagaya or NAGAYA_BIN"
        );
    }

    #[test]
    fn another_program_is_not_measured() {
        let error = Nagaya::find(Some(Path::new("/bin/true"))).unwrap_err();
        assert!(error.to_string().ends_with("is not a nagaya"), "{error}");
    }
}
