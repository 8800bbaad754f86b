//! How many keys a database has, and how long they live.

use nagaya_store::entry::Entry;

use crate::db::Db;
use crate::shard::Shard;

/// What INFO says of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatabaseFigures {
    /// Keys, those that are not in memory included.
    pub keys: usize,
    /// Keys in memory that have an expiry.
    pub volatile: usize,
    /// How long those have still to live, from a few keys of every shard.
    pub average_ttl_ms: i64,
    /// Bytes of the tables that find the keys in memory.
    pub overhead_bytes: usize,
}

impl Db<'_> {
    /// Returns the figures of a database. Needs every shard, like all that follow.
    pub fn figures_of(&self, database: usize) -> DatabaseFigures {
        let space = self.data().databases.space(database);
        let shards = || self.locked.of_space(space);
        let cold = self.tiering.map_or(0, |tiering| tiering.cold_keys_of(space));
        DatabaseFigures {
            keys: shards().map(|shard| shard.keys.len()).sum::<usize>() + cold as usize,
            volatile: shards().map(|shard| shard.keys.volatile()).sum(),
            average_ttl_ms: average_ttl_ms(shards(), self.now_ms()),
            overhead_bytes: shards().map(|shard| shard.keys.overhead_bytes()).sum(),
        }
    }

    /// Returns the number of keys in memory of all databases.
    pub fn keys_in_memory(&self) -> usize {
        self.held_everywhere().map(|shard| shard.keys.len()).sum()
    }

    /// Returns the number of keys of all databases that have an expiry.
    pub fn volatile(&self) -> usize {
        self.held_everywhere().map(|shard| shard.keys.volatile()).sum()
    }

    /// Returns the bytes of the tables that find the keys of all databases.
    pub fn overhead_bytes(&self) -> usize {
        let bytes = self.held_everywhere().map(|shard| shard.keys.overhead_bytes());
        bytes.sum()
    }
}

fn average_ttl_ms<'s>(shards: impl Iterator<Item = &'s Shard>, now_ms: i64) -> i64 {
    const KEYS_PER_SHARD: usize = 64;
    let (mut sum, mut count) = (0, 0);
    for shard in shards.filter(|shard| shard.keys.volatile() > 0) {
        let moments = shard.keys.iter().take(KEYS_PER_SHARD).filter_map(Entry::expiry);
        for at_ms in moments {
            sum += (at_ms - now_ms).max(0);
            count += 1;
        }
    }
    if count == 0 { 0 } else { sum / count }
}
