//! `nagaya room export --rdb`: a running server's keys as a file that redis-server loads.

use std::io::BufWriter;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use nagaya_clock::SystemClock;
use nagaya_migrate::{ExportOptions, Exported, Progress};
use nagaya_redis_client::{Client, RedisUrl};
use tempfile::NamedTempFile;

use super::moving::{Unit, bar, watched};
use super::size::{count, human};
use crate::jobs::tools::block_on;

/// Writes a file that appears under its name only once it is whole.
pub(super) fn export(from: RedisUrl, pattern: Option<&str>, path: &Path) -> anyhow::Result<ExitCode> {
    let cannot = || format!("cannot write {}", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let file = NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).with_context(cannot)?;
    let options = ExportOptions {
        pattern: pattern.map(|pattern| pattern.as_bytes().to_vec()),
    };
    let (progress, bar) = (Progress::default(), bar(None, Unit::Keys, "exporting"));
    let exported = block_on(async {
        let databases = clients(from).await?;
        let out = BufWriter::new(&file);
        let work = nagaya_migrate::export(databases, out, options, &SystemClock, &progress, |_| ());
        Ok(watched(work, &bar, &progress, Unit::Keys).await?.0)
    })?;
    file.as_file().sync_all().with_context(cannot)?;
    file.persist(path).with_context(cannot)?;
    tell(&exported);
    Ok(ExitCode::SUCCESS)
}

/// Makes a client for each database that has keys; for one that the URL names, for that alone, which the file has as
/// number 0.
async fn clients(from: RedisUrl) -> anyhow::Result<Vec<(u32, Client)>> {
    let first = nagaya_migrate::client(from.clone())?;
    if from.db > 0 {
        return Ok(vec![(0, first)]);
    }
    let numbers = nagaya_migrate::databases(&first).await?;
    let mut clients = vec![(0, first)];
    for db in numbers.into_iter().filter(|db| *db > 0) {
        let url = RedisUrl { db, ..from.clone() };
        clients.push((db, nagaya_migrate::client(url)?));
    }
    Ok(clients)
}

fn tell(exported: &Exported) {
    let (keys, bytes) = (count(exported.keys, "key"), human(exported.bytes));
    eprintln!(
        "exported {keys}, {bytes}, as an RDB file of version {}",
        exported.version
    );
    if exported.functions > 0 {
        eprintln!("libraries of functions: {}", exported.functions);
    }
    if let Some(why) = &exported.functions_refused {
        eprintln!("without functions: the server answered {why}");
    }
    if exported.gone > 0 {
        eprintln!("{} went away meanwhile", count(exported.gone, "key"));
    }
}
