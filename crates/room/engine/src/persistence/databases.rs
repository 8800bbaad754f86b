//! Which database has which space: one metadata entry of the cold tier, and the log since.

use nagaya_exec::server::Server;
use nagaya_keyspace::databases::{DATABASES_MAX, Databases, names_of};
use nagaya_keyspace::residency::Tiering;
use nagaya_tiering::cold::{ColdError, ColdTier};
use nagaya_wal::{Log, Position};

use super::recovery::RecoveryError;
use super::saver::RoundError;

/// The entry's name. Its value is the log position in eight bytes, then the number of each database's space in two,
/// the least significant byte first.
const FACT: &str = "databases";

/// The state of the databases in the cold tier.
#[derive(Default)]
pub(super) struct SavedDatabases {
    saved: Option<Vec<u16>>,
}

impl SavedDatabases {
    /// Saves which database has which space, if that has changed since the last save.
    pub(super) fn save(&mut self, server: &Server, tiering: &Tiering, log: &Log) -> Result<(), RoundError> {
        let (spaces, position) = {
            // SWAPDB is logged while it holds every shard.
            let _one_shard = server.keyspace.shards.lock_spaces_patiently(0);
            (server.keyspace.databases.in_order(), tiering.log_end())
        };
        if self.saved.as_ref() == Some(&spaces) {
            return Ok(());
        }
        log.sync(Position(position))?;
        let spaces_bytes = spaces.iter().flat_map(|space| space.to_le_bytes());
        let value: Vec<u8> = position.to_le_bytes().into_iter().chain(spaces_bytes).collect();
        tiering.cold.set_fact(FACT, &value)?;
        self.saved = Some(spaces);
        Ok(())
    }
}

/// Returns the spaces of the databases as they were saved last, in the order of the databases; none where each has
/// that of its number.
pub fn saved_databases(cold: &dyn ColdTier) -> Result<Vec<u16>, ColdError> {
    Ok(load(cold)?.map_or(Vec::new(), |(_, spaces)| spaces))
}

/// Gives the databases their saved spaces; returns the log position that those are of.
pub(super) fn restore(databases: &Databases, cold: &dyn ColdTier) -> Result<u64, RecoveryError> {
    let Some((position, spaces)) = load(cold)? else {
        // A folder from before there were several.
        return Ok(0);
    };
    let count = databases.count();
    for (database, space) in spaces.iter().enumerate().skip(count) {
        if cold.keys_of(&names_of(usize::from(*space)))? > 0 {
            return Err(RecoveryError::TooFewDatabases { database, count });
        }
    }
    if let Some(first) = spaces
        .iter()
        .take(count)
        .position(|space| usize::from(*space) >= count)
    {
        // It has a space of those that are no more; what is in it would be lost.
        return Err(RecoveryError::TooFewDatabases {
            database: first.max(usize::from(spaces[first])),
            count,
        });
    }
    databases.restore(&spaces);
    Ok(position)
}

fn load(cold: &dyn ColdTier) -> Result<Option<(u64, Vec<u16>)>, ColdError> {
    let Some(value) = cold.fact(FACT)? else {
        return Ok(None);
    };
    let damaged = || ColdError::Damaged {
        what: "the list of databases cannot be read".to_owned(),
    };
    let (position, spaces) = value.split_first_chunk::<8>().ok_or_else(damaged)?;
    let pairs = spaces.chunks_exact(2);
    let is_cut = !pairs.remainder().is_empty();
    let spaces: Vec<u16> = pairs.map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    let mut sorted = spaces.clone();
    sorted.sort_unstable();
    let is_whole = sorted.iter().copied().eq(0..spaces.len() as u16) && spaces.len() <= DATABASES_MAX;
    if is_cut || !is_whole {
        return Err(damaged());
    }
    Ok(Some((u64::from_le_bytes(*position), spaces)))
}

/// Returns how many of the cold tier's keys are in each space, given how many there are.
pub(super) fn keys_of_spaces(cold: &dyn ColdTier, keys: u64, count: usize) -> Result<Vec<u64>, ColdError> {
    let others = (1..count).map(|space| cold.keys_of(&names_of(space)));
    let mut all = vec![0];
    all.extend(others.collect::<Result<Vec<u64>, _>>()?);
    all[0] = keys.saturating_sub(all.iter().sum());
    Ok(all)
}
