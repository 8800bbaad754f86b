//! Throughput with everything kept: our write-ahead log beside Redis's append-only file.

use std::path::Path;

use serde::Serialize;

use super::options::{Part, Plan};
use crate::load_generator::Sample;
use crate::servers::Pair;
use crate::throughput::{self, Row};
use crate::{progress, table};

/// One way to sync, measured.
#[derive(Serialize)]
pub(super) struct Persisted {
    pub(super) part: Part,
    pub(super) rows: Vec<Row>,
}

/// The word that both servers have for the way to sync.
pub(super) fn fsync(part: Part) -> &'static str {
    match part {
        Part::Always => "always",
        _ => "everysec",
    }
}

pub(super) fn our_setting(fsync: &str) -> String {
    format!("room.fsync={fsync}")
}

pub(super) fn redis_arguments(fsync: &str) -> [&str; 4] {
    ["--appendonly", "yes", "--appendfsync", fsync]
}

pub(super) fn run(
    plan: &Plan,
    part: Part,
    folder: &Path,
    raw: &mut Vec<Sample>,
) -> anyhow::Result<Persisted> {
    let fsync = fsync(part);
    progress(&format!("throughput with fsync {fsync}"));
    let setting = our_setting(fsync);
    let ours = ["--set", &setting];
    let servers = Pair::start_with(&plan.programs, folder, &ours, &redis_arguments(fsync))?;
    let rows = throughput::measure(&plan.throughput(part), &servers, raw)?;
    Ok(Persisted { part, rows })
}

/// One table per depth.
pub(super) fn tables(persisted: &Persisted) -> Vec<(String, table::Table)> {
    let fsync = fsync(persisted.part);
    let named = |(title, table)| (format!("{title}, fsync {fsync}"), table);
    throughput::tables(&persisted.rows)
        .into_iter()
        .map(named)
        .collect()
}
