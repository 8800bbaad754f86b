//! Memory, keys and resident tags of the nodes.

use nagaya_redis_client::slot::SLOTS;
use nagaya_redis_client::{Endpoint, Error, Script, reply};
use nagaya_tiering::error::HotError;

use super::batch::hot_error;
use super::hot::{RedisHotTier, TierPart};
use super::keys;
use super::nodes::Nodes;

static COUNT_KEYS: Script = Script::new(
    "count_keys",
    include_str!("scripts/count_keys.lua"),
    &[],
    &["prefix", "slots", "..."],
);

/// The memory of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMemory {
    pub server: Endpoint,
    pub used_bytes: u64,
    /// The limit at which the node refuses writes, if it has one.
    pub max_bytes: Option<u64>,
}

impl RedisHotTier {
    /// Returns the memory of the nodes of this part of the tier.
    pub fn memory(&self) -> Result<Vec<NodeMemory>, HotError> {
        let mut memories = Vec::new();
        for part in self.parts()? {
            let asked = self.block_on(self.nodes().memory(&part.server));
            memories.push(asked.map_err(hot_error)?);
        }
        Ok(memories)
    }

    /// Returns for each tag whether it is in memory or being loaded.
    pub fn are_resident(&self, tags: &[&[u8]]) -> Result<Vec<bool>, HotError> {
        let exists = |tag: &&[u8]| (keys::slot_of(tag), vec![b"EXISTS".to_vec(), keys::meta(tag)]);
        let commands: Vec<_> = tags.iter().map(exists).collect();
        let replies = self
            .block_on(self.nodes().run_slots(&commands))
            .map_err(hot_error)?;
        let mut are_resident = vec![false; tags.len()];
        for found in replies {
            are_resident[found.at] = reply::int(&found.frame) == Some(1);
        }
        Ok(are_resident)
    }

    /// Counts the keys in memory without reserved ones. While a slot is being moved, those may be counted.
    pub fn keys(&self) -> Result<u64, HotError> {
        let mut keys = 0;
        for part in self.parts()? {
            let asked = self.block_on(self.nodes().keys(&part.server, part.tier.slots()));
            keys += asked.map_err(hot_error)?;
        }
        Ok(keys)
    }

    /// Counts the resident tags of this part of the tier.
    pub fn residents(&self) -> Result<u64, HotError> {
        let count = |slot: &u16| (*slot, vec![b"ZCARD".to_vec(), keys::used(*slot)]);
        let commands: Vec<_> = self.slots().iter().map(count).collect();
        let replies = self
            .block_on(self.nodes().run_slots(&commands))
            .map_err(hot_error)?;
        Ok(replies
            .iter()
            .filter_map(|found| reply::unsigned(&found.frame))
            .sum())
    }
}

impl RedisHotTier {
    /// Lists some keys of a server, the first one unless one is named, without reserved ones; returns them with the
    /// server and the cursor to go on with, none behind the last server.
    pub(crate) fn some_keys(&self, server: Option<&str>, cursor: u64) -> Result<KeyPage, HotError> {
        let mut parts = self.parts()?;
        parts.sort_by_key(|part| part.server.to_string());
        let named = |part: &TierPart| server.is_none_or(|server| part.server.to_string().as_str() >= server);
        let mut parts = parts.into_iter().skip_while(|part| !named(part));
        let Some(part) = parts.next() else {
            return Ok((Vec::new(), None));
        };
        let name = part.server.to_string();
        // A server that has gone meanwhile is passed over.
        let cursor = if server.is_none_or(|server| server == name) {
            cursor
        } else {
            0
        };
        let listed = self.block_on(self.nodes().some_keys(&part.server, cursor));
        let (names, cursor) = listed.map_err(hot_error)?;
        let next = match cursor {
            0 => parts.next().map(|part| (part.server.to_string(), 0)),
            cursor => Some((name, cursor)),
        };
        Ok((names, next))
    }
}

/// Some keys, with the server and the cursor that come next.
pub(crate) type KeyPage = (Vec<Vec<u8>>, Option<(String, u64)>);

/// About how many keys are looked at for one list.
const LISTED_KEYS: &[u8] = b"1000";

impl Nodes {
    async fn some_keys(&self, server: &Endpoint, cursor: u64) -> Result<(Vec<Vec<u8>>, u64), Error> {
        let link = self.link(server).await?;
        let cursor = cursor.to_string().into_bytes();
        let scan = [b"SCAN", &cursor[..], b"COUNT", LISTED_KEYS].map(<[u8]>::to_vec);
        let replies = link.run_all(&[scan.to_vec()]).await?;
        link.connection.check(&[b"SCAN"], &replies[0])?;
        let wrong = || reply::unexpected("SCAN", &replies[0]);
        let [cursor, names] = reply::items(&replies[0]) else {
            return Err(wrong());
        };
        let cursor = reply::text(cursor).and_then(|text| text.parse().ok());
        let names = reply::items(names).iter().filter_map(reply::bytes);
        let names = names.filter(|name| !keys::is_reserved(name)).map(<[u8]>::to_vec);
        Ok((names.collect(), cursor.ok_or_else(wrong)?))
    }

    /// The script has no keys, since it reads all slots of the node at one instant.
    async fn keys(&self, server: &Endpoint, slots: &[u16]) -> Result<u64, Error> {
        let link = self.link(server).await?;
        let tags: String = slots
            .iter()
            .map(|slot| format!("{} ", keys::slot_tag(*slot)))
            .collect();
        let mut count = vec![
            b"EVAL".to_vec(),
            COUNT_KEYS.source.as_bytes().to_vec(),
            b"0".to_vec(),
            keys::PREFIX.to_vec(),
            tags.into_bytes(),
        ];
        count.extend(slots.contains(&0).then(keys::workers));
        let in_range = |slot: &u16| *slot / (SLOTS / keys::RANGES);
        let shards = slots.chunk_by(|one, other| in_range(one) == in_range(other));
        count.extend(shards.map(|shard| keys::shard(shard[0])));
        let replies = link.run_all(&[count, vec![b"DBSIZE".to_vec()]]).await?;
        let counted = reply::unsigned(&replies[0]).or_else(|| reply::unsigned(&replies[1]));
        counted.ok_or_else(|| reply::unexpected("DBSIZE", &replies[1]))
    }

    async fn memory(&self, server: &Endpoint) -> Result<NodeMemory, Error> {
        let link = self.link(server).await?;
        let replies = link
            .run_all(&[vec![b"INFO".to_vec(), b"memory".to_vec()]])
            .await?;
        let info = &replies[0];
        link.connection.check(&[b"INFO"], info)?;
        let text = reply::text(info).ok_or_else(|| reply::unexpected("INFO", info))?;
        let field = |name| reply::info_field(&text, name).and_then(|value| value.parse::<u64>().ok());
        Ok(NodeMemory {
            server: server.clone(),
            used_bytes: field("used_memory").ok_or_else(|| reply::unexpected("INFO memory", info))?,
            max_bytes: field("maxmemory").filter(|max| *max > 0),
        })
    }
}
