//! Divides the slots between the processes that save and evict.
//!
//! The slots are divided into 16 ranges, and each of those by node. A worker holds the lease of such a
//! *shard* while it works there, so that work is not done twice; nothing is lost if it is. Leases are kept
//! in the tier itself, each in the first slot of its own shard: a worker that cannot reach the lease could
//! not do the work either. Workers also record that they are alive, in one more key, and hold no more than
//! their fair share, so that a new one soon has some.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use nagaya_clock::Sleep;
use nagaya_redis_client::slot::SLOTS;
use nagaya_redis_client::{Script, reply};
use nagaya_tiering::error::HotError;

use crate::hot_tier::keys::{self, RANGES};
use crate::hot_tier::scripts::Call;
use crate::hot_tier::{RedisHotTier, TierPart};

/// A range of slots on one node.
#[derive(Clone, Debug)]
pub(crate) struct Shard {
    pub(crate) part: TierPart,
}

impl Shard {
    /// Returns all shards of a tier.
    pub(crate) fn all(tier: &RedisHotTier) -> Result<Vec<Shard>, HotError> {
        let mut shards = Vec::new();
        for range in 0..RANGES {
            let parts = tier.within(slots_of(range)).parts()?;
            shards.extend(parts.into_iter().map(|part| Shard { part }));
        }
        Ok(shards)
    }

    /// Returns the first slot, which names the shard.
    pub(crate) fn first(&self) -> u16 {
        self.part.tier.slots()[0]
    }
}

static HOLD: Script = Script::new(
    "hold_shard",
    include_str!("scripts/hold_shard.lua"),
    &["lease"],
    &["holder", "ttl_ms"],
);
static RELEASE: Script = Script::new(
    "release_shard",
    include_str!("scripts/release_shard.lua"),
    &["lease"],
    &["holder"],
);
static JOIN: Script = Script::new(
    "join_workers",
    include_str!("scripts/join_workers.lua"),
    &["workers"],
    &["name", "ttl_ms"],
);

fn slots_of(range: u16) -> Range<u16> {
    const WIDTH: u16 = SLOTS / RANGES;
    range * WIDTH..(range + 1) * WIDTH
}

/// The shards that one worker holds.
pub(crate) struct ShardLeases {
    tier: RedisHotTier,
    clock: Arc<dyn Sleep>,
    /// The name of the worker; it is unique.
    name: String,
    ttl: Duration,
    /// Shards by name, each with the end of its lease by our clock.
    held: BTreeMap<u16, Duration>,
    /// The fair share: how many shards the worker holds at most.
    share: usize,
}

impl ShardLeases {
    pub(crate) fn new(tier: RedisHotTier, clock: Arc<dyn Sleep>, name: String, ttl: Duration) -> ShardLeases {
        ShardLeases {
            tier,
            clock,
            name,
            ttl,
            held: BTreeMap::new(),
            share: usize::from(RANGES),
        }
    }

    /// Returns the shards whose leases have not ended.
    pub(crate) fn held(&self) -> Vec<u16> {
        let now = self.clock.steady();
        let held = self.held.iter().filter(|(_, until)| **until > now);
        held.map(|(shard, _)| *shard).collect()
    }

    /// Renews the leases and takes free shards up to the fair share. Returns the shards beyond it, which
    /// should be released once no thread works there.
    pub(crate) fn renew(&mut self, shards: &[Shard]) -> Result<Vec<u16>, HotError> {
        let names: Vec<u16> = shards.iter().map(Shard::first).collect();
        let now = self.clock.steady();
        self.held
            .retain(|shard, until| *until > now && names.contains(shard));
        let held: Vec<u16> = self.held.keys().copied().collect();
        let mut failure = self.hold(&held).err();
        // The node with the list of workers may be down while those of our shards are not.
        match self.join() {
            Ok(alive) => self.share = names.len().div_ceil(alive.max(1)),
            Err(error) => failure = Some(error),
        }
        // Workers begin at different shards, so that they do not all ask for the same one.
        let mut others: Vec<u16> = names
            .into_iter()
            .filter(|shard| !self.held.contains_key(shard))
            .collect();
        let turn = self.name.bytes().map(usize::from).sum::<usize>() % others.len().max(1);
        others.rotate_left(turn);
        let mut others = others.into_iter();
        while self.held.len() < self.share && others.len() > 0 {
            let wanted: Vec<u16> = others.by_ref().take(self.share - self.held.len()).collect();
            failure = self.hold(&wanted).err().or(failure);
        }
        match failure {
            Some(error) if self.held.is_empty() => Err(error),
            _ => Ok(self.held.keys().copied().skip(self.share).collect()),
        }
    }

    /// Releases the leases of shards.
    pub(crate) fn release(&mut self, shards: &[u16]) {
        let release = |shard: &u16| {
            Call::new(
                &RELEASE,
                vec![keys::shard(*shard)],
                vec![self.name.clone().into()],
            )
        };
        let calls: Vec<Call> = shards.iter().map(release).collect();
        for error in self.tier.run_calls(&calls).into_iter().filter_map(Result::err) {
            tracing::debug!(%error, "a shard could not be released, its lease will run out");
        }
        self.held.retain(|shard, _| !shards.contains(shard));
    }

    /// Takes or renews leases. Fails if one of them could not be asked for; the others are held.
    fn hold(&mut self, shards: &[u16]) -> Result<(), HotError> {
        let sent = self.clock.steady();
        let calls: Vec<Call> = shards
            .iter()
            .map(|shard| self.call(&HOLD, keys::shard(*shard)))
            .collect();
        let mut failure = None;
        for (shard, answer) in shards.iter().zip(self.tier.run_calls(&calls)) {
            match answer {
                Ok(frame) if reply::bytes(&frame) == Some(b"held") => {
                    self.held.insert(*shard, sent + self.ttl);
                }
                Ok(_) => {
                    self.held.remove(shard);
                }
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Returns how many workers there are.
    fn join(&self) -> Result<usize, HotError> {
        let mut answers = self.tier.run_calls(&[self.call(&JOIN, keys::workers())]);
        let frame = answers.pop().expect("one call has one answer")?;
        Ok(reply::unsigned(&frame).map_or(1, |alive| usize::try_from(alive).unwrap_or(1)))
    }

    fn call(&self, script: &'static Script, key: Vec<u8>) -> Call {
        let ttl_ms = self.ttl.as_millis().to_string();
        Call::new(script, vec![key], vec![self.name.clone().into(), ttl_ms.into()])
    }
}

#[cfg(test)]
mod tests {
    use nagaya_redis_client::slot;

    use super::*;

    #[test]
    fn ranges_cover_every_slot_once() {
        let slots: Vec<u16> = (0..RANGES).flat_map(slots_of).collect();
        assert_eq!(slots, (0..SLOTS).collect::<Vec<_>>());
    }

    #[test]
    fn a_lease_lies_in_its_own_shard() {
        for range in 0..RANGES {
            let first = slots_of(range).start;
            assert_eq!(slot::of_key(&keys::shard(first)), first);
        }
    }
}
