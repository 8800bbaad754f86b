//! How much the nodes hold.

use nagaya_redis_kit::{Endpoint, Error, reply};
use nagaya_room::error::HotError;

use super::batch::hot_error;
use super::hot::RedisHotTier;
use super::keys;
use super::nodes::Nodes;

/// The memory of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMemory {
    pub server: Endpoint,
    pub used_bytes: u64,
    /// Where the node refuses writes; nothing when it has no limit of its own.
    pub max_bytes: Option<u64>,
}

impl RedisHotTier {
    /// Asks the nodes of this part of the tier for their memory.
    pub fn memory(&self) -> Result<Vec<NodeMemory>, HotError> {
        let mut memories = Vec::new();
        for part in self.parts()? {
            let asked = self.block_on(self.nodes().memory(&part.server));
            memories.push(asked.map_err(hot_error)?);
        }
        Ok(memories)
    }

    /// Tells of each tag whether it is in memory or on its way.
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

impl Nodes {
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
