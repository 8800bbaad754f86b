//! Tags come into memory.
//!
//! A request that names a key of a tag that is not resident leaves its client
//! waiting and, unless one is under way, orders a load. A loader thread reads the rows
//! without any lock and hands them to [`Keyspace::install`], which puts all of
//! them in under the shard's lock and lets the waiting clients go on: their
//! requests run again from the start.
//!
//! Where waiting is impossible (a script reaches a key that it has not declared), the
//! rows are read in place. The load's token keeps the two apart: rows that were
//! read for a load which has ended meanwhile are thrown away.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nagaya_connections::client::{Client, Message};
use nagaya_store::entry::SyncFlags;
use nagaya_store::hasher::hash_bytes;
use nagaya_store::rdb;
use nagaya_store::value::Value;
use nagaya_tiering::cold::{ColdError, Loaded};

use crate::databases::{split_name, tag_name};
use crate::db::Db;
use crate::hash_tag::hash_tag;
use crate::keyspace::Keyspace;
use crate::residency::shard::Loading;
use crate::residency::tiering::{ColdRequest, LoadOrder, Tiering};
use crate::shard::Shard;

/// The keys of a tag, ready to be put in.
struct Decoded {
    key: Vec<u8>,
    hash: u64,
    value: Value,
    expires_at_ms: Option<i64>,
}

impl Db<'_> {
    /// Returns whether anything may be in the cold tier and not in memory.
    #[inline]
    pub fn is_any_cold(&self) -> bool {
        self.tiering.is_some_and(Tiering::is_any_cold)
    }

    /// Returns whether the selected database may have keys in the cold tier that are not in memory, which a list of its
    /// keys has to ask for.
    pub fn has_cold_keys(&self) -> bool {
        let space = self.space();
        self.tiering
            .is_some_and(|tiering| tiering.is_any_cold() && !tiering.is_flush_pending(space))
    }

    /// Returns whether the tag of a key is resident.
    #[inline]
    pub fn is_resident(&self, key: &[u8]) -> bool {
        let Some(tiering) = self.tiering else { return true };
        let tag = hash_tag(key);
        if self.peek_expired(key).is_some() || self.tiers_of(key).has_record(tag) {
            return true;
        }
        let own_key_is_there = tag.len() != key.len() && self.peek_expired(tag).is_some();
        own_key_is_there || !tiering.may_be_cold(&tag_name(self.space(), tag))
    }

    /// Orders the load of a key's tag unless it is under way, and lets a client wait for it.
    pub fn order_load(&mut self, key: &[u8], client: Option<&Arc<Client>>) {
        let Some(tiering) = self.tiering else { return };
        let tag = hash_tag(key);
        let (shard, space) = (self.shard_of(key), self.space());
        let tiers = self.tiers_mut(key);
        if !tiers.loading.contains_key(tag) {
            let token = tiering.next_token.fetch_add(1, Ordering::Relaxed);
            let loading = Loading {
                token,
                waiters: Vec::new(),
            };
            tiers.loading.insert(tag.into(), loading);
            let tag = tag_name(space, tag).into();
            // When the receiver is gone, the engine is ending and so are its clients.
            tiering
                .loads
                .send(ColdRequest::Load(LoadOrder { tag, shard, token }))
                .ok();
        }
        if let Some(client) = client
            && let Some(loading) = tiers.loading.get_mut(tag)
        {
            loading.waiters.push(Arc::clone(client));
            tiering.counters.waits.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reads a key's tag from the cold tier on the calling thread, for commands that must not wait.
    pub fn load_in_place(&mut self, key: &[u8]) -> Result<(), ColdError> {
        if self.is_resident(key) {
            return Ok(());
        }
        let Some(tiering) = self.tiering else {
            return Ok(());
        };
        let (space, tag) = (self.space(), hash_tag(key));
        let loaded = tiering.cold.read(&[&tag_name(space, tag)])?.pop().flatten();
        let decoded = decode(tiering, space, loaded)?;
        let (now_ms, keeps_expired) = (self.now_ms(), self.replaying);
        let shard = self.shard_mut(key);
        if let Some(loading) = shard.tiers.loading.remove(tag) {
            go_on(loading.waiters, None);
        }
        put_in(shard, tiering, (space, tag), decoded, now_ms, keeps_expired);
        Ok(())
    }
}

impl Keyspace {
    /// Puts in what was read for an order, unless the tag came in another way meanwhile, and lets those
    /// who wait for it go on.
    pub fn install(&self, order: &LoadOrder, read: Result<Option<Loaded>, ColdError>) {
        let Some(tiering) = self.tiering.get() else { return };
        let (space, tag) = split_name(&order.tag);
        let decoded = read.and_then(|loaded| decode(tiering, space, loaded));
        let now_ms = self.clock.unix_us() / 1000;
        let (waiters, error) = {
            let mut shard = self.shards.lock_patiently(order.shard, space);
            let ours = shard.tiers.loading.get(tag);
            if ours.is_none_or(|loading| loading.token != order.token) {
                return;
            }
            let waiters = shard
                .tiers
                .loading
                .remove(tag)
                .map_or(Vec::new(), |loading| loading.waiters);
            match decoded {
                Ok(decoded) => {
                    put_in(&mut shard, tiering, (space, tag), decoded, now_ms, false);
                    (waiters, None)
                }
                Err(error) => (waiters, Some(error)),
            }
        };
        let refusal = error.map(|error| {
            tiering.counters.loads_failed.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "a tag could not be loaded"
            );
            format!("TRYAGAIN {error}")
        });
        go_on(waiters, refusal);
    }
}

impl Keyspace {
    /// Puts a tag, given its name, in before its effects are replayed, and returns the log's position that the cold
    /// tier has of it, 0 when it is in memory. When that is not before `position`, the tag stays where it is.
    pub fn load_to_replay(&self, name: &[u8], position: u64) -> Result<u64, ColdError> {
        let Some(tiering) = self.tiering.get() else {
            return Ok(0);
        };
        let ((space, tag), shard) = (split_name(name), self.shards.shard_of_tag(name));
        if is_in_memory(&self.shards.lock_patiently(shard, space), tag) {
            // It has stayed when others left memory, and has all that came before.
            return Ok(0);
        }
        let loaded = tiering.cold.read(&[name])?.pop().flatten();
        let saved = loaded.as_ref().map_or(0, |loaded| loaded.saved.snap);
        if saved < position {
            let decoded = decode(tiering, space, loaded)?;
            let now_ms = self.clock.unix_us() / 1000;
            let mut shard = self.shards.lock_patiently(shard, space);
            put_in(&mut shard, tiering, (space, tag), decoded, now_ms, true);
        }
        Ok(saved)
    }
}

fn is_in_memory(shard: &Shard, tag: &[u8]) -> bool {
    shard.tiers.has_record(tag) || shard.keys.get(hash_bytes(tag), tag).is_some()
}

fn go_on(waiters: Vec<Arc<Client>>, refusal: Option<String>) {
    let refusal: Option<Arc<str>> = refusal.map(Into::into);
    for waiter in waiters {
        waiter.deliver(Message::Resume(refusal.clone()));
    }
}

/// Turns rows into values. Rows from before a FLUSHALL count as nothing; a FLUSHALL that comes after this
/// ends the load, so its rows are not put in either.
fn decode(tiering: &Tiering, space: usize, loaded: Option<Loaded>) -> Result<Vec<Decoded>, ColdError> {
    let loaded = loaded.filter(|loaded| !tiering.is_void(space, loaded.saved));
    let rows = loaded.map_or(Vec::new(), |loaded| loaded.rows);
    let decoded = rows.into_iter().map(|row| {
        let value = rdb::restore_as_it_was(&row.value.payload).map_err(|_| ColdError::Damaged {
            what: format!(
                "the value of key '{}' cannot be read",
                String::from_utf8_lossy(&row.key).escape_debug()
            ),
        })?;
        Ok(Decoded {
            hash: hash_bytes(&row.key),
            key: row.key,
            value,
            expires_at_ms: row.value.expires_at_ms,
        })
    });
    decoded.collect()
}

/// Makes a tag resident. What has expired meanwhile stays out, and goes from the cold tier too.
fn put_in(
    shard: &mut Shard,
    tiering: &Tiering,
    (space, tag): (usize, &[u8]),
    decoded: Vec<Decoded>,
    now_ms: i64,
    keeps_expired: bool,
) {
    let Shard {
        keys,
        tiers,
        watchers,
        ..
    } = shard;
    let count = decoded.len();
    let mut own_key = false;
    for row in decoded {
        let expired = row.expires_at_ms.is_some_and(|at| at < now_ms) && !keeps_expired;
        if expired {
            tiers.removed(&row.key, row.hash, true, now_ms);
            for flag in watchers.get(row.key.as_slice()).into_iter().flatten() {
                flag.store(true, Ordering::Release);
            }
            continue;
        }
        keys.insert(
            row.hash,
            &row.key,
            row.value,
            row.expires_at_ms,
            SyncFlags::COPIED,
        );
        if let Some(entry) = keys.get(row.hash, &row.key) {
            entry.set_stamp((now_ms / 1000) as u32);
        }
        own_key |= *row.key == *tag;
        tiers.created(&row.key, row.hash);
    }
    if !own_key {
        // Resident, even with nothing in it.
        tiers.record(tag);
        tiers.forget_if_idle(tag);
    }
    tiering.spaces[space]
        .keys
        .fetch_sub(count as i64, Ordering::Relaxed);
    tiering.counters.loads.fetch_add(1, Ordering::Relaxed);
    tiering
        .counters
        .load_keys
        .fetch_add(count as u64, Ordering::Relaxed);
}
