//! The options with their defaults filled in, checked before anything is started.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::ValueEnum;
use nagaya_clock::{Clock, SystemClock};

use super::options::{RedisArgs, Test};
use super::subject::Nagaya;

/// Bytes of a value that redis-benchmark writes.
pub(super) const VALUE_BYTES: usize = 16;
/// Keys of the scaling part when they are few.
pub(super) const SMALL_KEYS: u64 = 10_000;

/// What will be measured.
pub(super) struct Plan {
    pub(super) throughput: bool,
    pub(super) memory: bool,
    pub(super) scaling: bool,
    pub(super) requests: u64,
    pub(super) rounds: u32,
    pub(super) clients: u32,
    pub(super) depths: Vec<u32>,
    /// Keys that redis-benchmark's random keys are drawn from.
    pub(super) keyspace: u64,
    pub(super) tests: Vec<Test>,
    pub(super) keys: u64,
    pub(super) large_keys: u64,
    pub(super) programs: Programs,
    /// Where and whether the run is recorded.
    pub(super) target: Target,
}

/// Where a run is recorded.
pub(super) struct Target {
    /// The last part of the folder's name.
    pub(super) name: &'static str,
    /// Quick runs are recorded only when asked for.
    pub(super) quick: bool,
    pub(super) out: Option<PathBuf>,
}

/// The programs that a run starts.
#[derive(Clone)]
pub(super) struct Programs {
    pub(super) nagaya: Nagaya,
    pub(super) redis_server: PathBuf,
    pub(super) redis_benchmark: PathBuf,
}

impl Plan {
    pub(super) fn new(args: &RedisArgs, nagaya: Nagaya) -> anyhow::Result<Plan> {
        let of = |full, quick| if args.quick { quick } else { full };
        let tests = match args.tests.as_slice() {
            [] => Test::value_variants().to_vec(),
            named => named.to_vec(),
        };
        Ok(Plan {
            throughput: args.all || !(args.memory || args.scaling),
            memory: args.all || args.memory,
            scaling: args.all || args.scaling,
            requests: args.requests.unwrap_or(of(300_000, 20_000)),
            rounds: args.rounds.unwrap_or(if args.quick { 1 } else { 5 }),
            clients: args.clients,
            depths: args.depth.clone(),
            keyspace: args.keyspace,
            tests,
            keys: args.keys.unwrap_or(of(1_000_000, 100_000)),
            large_keys: args.large_keys.unwrap_or(of(10_000_000, 1_000_000)),
            programs: Programs::find(nagaya)?,
            target: Target {
                name: "redis",
                quick: args.quick,
                out: args.out.clone(),
            },
        })
    }

    /// Requests per test at this depth. Pipelined commands are so cheap that fewer would not move the
    /// server's CPU clock, which ticks a hundred times a second.
    pub(super) fn requests_at(&self, depth: u32) -> u64 {
        if depth > 1 {
            self.requests * 4
        } else {
            self.requests
        }
    }
}

impl Target {
    /// Where the run is recorded: the folder asked for, or a new one in the checkout around the working
    /// directory.
    pub(super) fn folder(&self) -> anyhow::Result<Option<PathBuf>> {
        if let Some(folder) = &self.out {
            return Ok(Some(folder.clone()));
        }
        let here = std::env::current_dir().context("cannot tell the working directory")?;
        let Some(checkout) = here.ancestors().find(|folder| is_checkout(folder)) else {
            return Ok(None);
        };
        if self.quick {
            return Ok(None);
        }
        let runs = checkout.join("bench/runs");
        let date = date_of(SystemClock.unix_ms().unsigned_abs());
        let numbered = (2..).map(|number| format!("{date}-{}-{number}", self.name));
        let free = std::iter::once(format!("{date}-{}", self.name))
            .chain(numbered)
            .map(|name| runs.join(name))
            .find(|folder| !folder.exists());
        Ok(free)
    }
}

impl Programs {
    pub(super) fn find(nagaya: Nagaya) -> anyhow::Result<Programs> {
        Ok(Programs {
            nagaya,
            redis_server: find_program("redis-server", "redis-server")?,
            redis_benchmark: find_program("redis-benchmark", "redis-tools")?,
        })
    }
}

pub(super) fn find_program(name: &str, package: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file());
    match found {
        Some(program) => Ok(program),
        None => bail!("`{name}` was not found; install it with: apt-get install {package}"),
    }
}

fn is_checkout(folder: &Path) -> bool {
    folder.join("bench/README.md").is_file() && folder.join("crates/nagaya/Cargo.toml").is_file()
}

/// The day of a wall-clock time, in UTC, as `2026-11-15`.
pub(super) fn date_of(unix_ms: u64) -> String {
    // Counted in 400-year cycles of years that begin in March, so that leap days come last.
    let days = unix_ms / 86_400_000 + 719_468;
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = cycle * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dated_across_leap_years() {
        let check = |days: u64, expected: &str| assert_eq!(date_of(days * 86_400_000 + 1), expected);
        check(0, "1970-01-01");
        check(59, "1970-03-01");
        check(789, "1972-02-29");
        check(11_016, "2000-02-29");
        check(20_772, "2026-11-15");
        check(47_540, "2100-02-28");
        check(47_541, "2100-03-01");
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let error = find_program("no-such-program", "its-package")
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "`no-such-program` was not found; install it with: apt-get install its-package"
        );
    }
}
