//! Where the servers' programs are, and the package to name when they are not.

use std::path::PathBuf;
use std::{env, fs};

use crate::Error;

/// A program and the Debian package that brings it.
#[derive(Clone, Copy)]
pub(crate) struct Binary {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
}

impl Binary {
    /// Looks where Debian keeps its versioned PostgreSQL programs, then in `PATH`,
    /// then in the folders of servers. Debian's `psql` in `PATH` is a slow script.
    pub(crate) fn find(self) -> Result<PathBuf, Error> {
        let path = env::var_os("PATH").unwrap_or_default();
        postgres_folders()
            .into_iter()
            .chain(env::split_paths(&path))
            .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
            .map(|folder| folder.join(self.name))
            .find(|candidate| candidate.is_file())
            .ok_or(Error::MissingBinary {
                binary: self.name,
                package: self.package,
            })
    }
}

/// Newest version first.
fn postgres_folders() -> Vec<PathBuf> {
    let Ok(versions) = fs::read_dir("/usr/lib/postgresql") else {
        return Vec::new();
    };
    let mut folders: Vec<(u32, PathBuf)> = versions
        .flatten()
        .map(|entry| {
            (
                entry.file_name().to_string_lossy().parse().unwrap_or(0),
                entry.path().join("bin"),
            )
        })
        .collect();
    folders.sort_by(|a, b| b.cmp(a));
    folders.into_iter().map(|(_, folder)| folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_the_package_to_install() {
        let error = Binary {
            name: "no-such-server",
            package: "no-such-package",
        }
        .find()
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "`no-such-server` was not found; install it with: apt-get install no-such-package"
        );
    }
}
