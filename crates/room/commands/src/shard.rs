//! The data, cut into shards by hash tag, and the locks on them.
//!
//! A key's shard follows from its hash tag (the part in braces, or the whole
//! key), so keys that belong together lie together. **Lock order:** a thread
//! takes the shards it needs in rising index order and takes no more while it
//! holds any; every other lock of the engine may be taken under a shard's, and
//! no shard's under any other.
//!
//! A script holds every shard for as long as it runs. Once that is too long it
//! says so here ([`Shards::set_slow`]), and whoever wants a shard is refused
//! with [`Busy`] instead of waiting.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use nagaya_store::hasher::hash_bytes;
use nagaya_store::key_table::KeyTable;
use parking_lot::{Mutex, MutexGuard};

use crate::blocking::Wait;
use crate::client_shared::ClientShared;
use crate::tiering::ShardTiers;

/// One shard's keys and who waits for or watches them.
#[derive(Default)]
pub struct Shard {
    pub(crate) keys: KeyTable,
    /// Blocked clients per key, longest waiting first.
    pub(crate) waiters: HashMap<Box<[u8]>, VecDeque<Waiter>, ahash::RandomState>,
    /// Flags to raise when a watched key changes.
    pub(crate) watchers: HashMap<Box<[u8]>, Vec<Arc<AtomicBool>>, ahash::RandomState>,
    /// Which tags are resident, which have changed, which are being loaded.
    pub(crate) tiers: ShardTiers,
}

/// A blocked command in the queue of a key, with the client that gets its reply.
#[derive(Clone)]
pub(crate) struct Waiter {
    pub(crate) wait: Arc<Wait>,
    pub(crate) client: Arc<ClientShared>,
}

/// Keeps neighbouring locks out of each other's cache line.
#[repr(align(128))]
struct Padded(Mutex<Shard>);

/// How long a thread waits for a shard before it looks whether a slow script holds it.
const CONTENDED_WAIT: Duration = Duration::from_millis(10);

/// All shards.
pub struct Shards {
    shards: Box<[Padded]>,
    slow: AtomicU8,
    /// What [`Shards::keys`] found last.
    keys_seen: AtomicUsize,
}

/// What has been holding every shard for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Slow {
    /// A script of EVAL.
    Script = 1,
    /// A function of FCALL.
    Function = 2,
}

/// The shard is held by a slow script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// Where a key lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) hash: u64,
    pub(crate) shard: usize,
}

/// Most shards an engine may have; a [`ShardSet`] is this many bits.
pub const SHARDS_MAX: usize = 256;

/// A set of shard indices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardSet([u64; SHARDS_MAX / 64]);

impl ShardSet {
    pub(crate) fn insert(&mut self, shard: usize) {
        self.0[shard / 64] |= 1 << (shard % 64);
    }

    pub(crate) fn contains(&self, shard: usize) -> bool {
        self.0[shard / 64] & (1 << (shard % 64)) != 0
    }
}

/// Which shards a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    None,
    One(usize),
    Some(ShardSet),
    All,
}

impl Scope {
    /// Returns the scope that covers both.
    pub(crate) fn join(self, other: Scope) -> Scope {
        match (self, other) {
            (Scope::None, scope) | (scope, Scope::None) => scope,
            (Scope::All, _) | (_, Scope::All) => Scope::All,
            (Scope::One(a), Scope::One(b)) if a == b => Scope::One(a),
            (a, b) => {
                let mut set = ShardSet::default();
                for scope in [a, b] {
                    match scope {
                        Scope::One(shard) => set.insert(shard),
                        Scope::Some(more) => {
                            set.0.iter_mut().zip(more.0).for_each(|(all, more)| *all |= more)
                        }
                        Scope::None | Scope::All => unreachable!("both were handled above"),
                    }
                }
                Scope::Some(set)
            }
        }
    }
}

impl Shards {
    /// Makes `count` empty shards, rounded up to a power of two.
    pub fn new(count: usize) -> Shards {
        let count = count.clamp(1, SHARDS_MAX).next_power_of_two();
        Shards {
            shards: (0..count).map(|_| Padded(Mutex::default())).collect(),
            slow: AtomicU8::new(0),
            keys_seen: AtomicUsize::new(0),
        }
    }

    /// Tells what makes everybody else wait too long, if anything does.
    #[inline]
    pub fn slow(&self) -> Option<Slow> {
        match self.slow.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(Slow::Script),
            _ => Some(Slow::Function),
        }
    }

    /// Makes everybody who wants a shard be refused, or wait again. The caller holds every shard.
    pub(crate) fn set_slow(&self, slow: Option<Slow>) {
        self.slow
            .store(slow.map_or(0, |slow| slow as u8), Ordering::Relaxed);
    }

    /// Returns the number of shards.
    pub fn count(&self) -> usize {
        self.shards.len()
    }

    /// Returns the number of keys, shard by shard: exact only when nothing changes meanwhile. While a slow
    /// script holds the shards, it is the number of the last time.
    pub fn keys(&self) -> usize {
        let counts = (0..self.count()).map(|shard| Ok(self.lock_one(shard)?.keys.len()));
        if let Ok(count) = counts.sum::<Result<usize, Busy>>() {
            self.keys_seen.store(count, Ordering::Relaxed);
        }
        self.keys_seen.load(Ordering::Relaxed)
    }

    /// Returns where a key lives.
    #[inline]
    pub(crate) fn place(&self, key: &[u8]) -> Place {
        let hash = hash_bytes(key);
        let tag = hash_tag(key);
        let tag_hash = if tag.len() == key.len() {
            hash
        } else {
            hash_bytes(tag)
        };
        // The table inside a shard uses the low and the topmost bits.
        Place {
            hash,
            shard: (tag_hash >> 40) as usize & (self.shards.len() - 1),
        }
    }

    /// Returns the shard of a tag.
    pub(crate) fn place_of_tag(&self, tag: &[u8]) -> usize {
        (hash_bytes(tag) >> 40) as usize & (self.shards.len() - 1)
    }

    /// Takes the locks of a scope, in order.
    pub(crate) fn lock(&self, scope: Scope) -> Result<Locked<'_>, Busy> {
        Ok(match scope {
            Scope::None => Locked::None,
            Scope::One(shard) => Locked::One(shard, self.lock_one(shard)?),
            Scope::Some(set) => {
                let held = (0..self.count()).filter(|&shard| set.contains(shard));
                let held = held.map(|shard| Ok((shard, self.lock_one(shard)?)));
                Locked::Some(held.collect::<Result<_, Busy>>()?)
            }
            Scope::All => {
                let held = (0..self.count()).map(|shard| self.lock_one(shard));
                Locked::All(held.collect::<Result<_, Busy>>()?)
            }
        })
    }

    /// Takes the lock of one shard. The caller holds none.
    #[inline]
    pub(crate) fn lock_one(&self, shard: usize) -> Result<MutexGuard<'_, Shard>, Busy> {
        match self.shards[shard].0.try_lock() {
            Some(guard) => Ok(guard),
            None => self.lock_contended(shard),
        }
    }

    /// Takes the lock of one shard, however long a script holds it. For threads that serve no client.
    pub(crate) fn lock_patiently(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard].0.lock()
    }

    #[cold]
    fn lock_contended(&self, shard: usize) -> Result<MutexGuard<'_, Shard>, Busy> {
        loop {
            if self.slow().is_some() {
                return Err(Busy);
            }
            if let Some(guard) = self.shards[shard].0.try_lock_for(CONTENDED_WAIT) {
                return Ok(guard);
            }
        }
    }
}

/// The shards a command holds.
pub(crate) enum Locked<'a> {
    None,
    One(usize, MutexGuard<'a, Shard>),
    Some(Vec<(usize, MutexGuard<'a, Shard>)>),
    All(Vec<MutexGuard<'a, Shard>>),
}

impl Locked<'_> {
    #[inline]
    pub(crate) fn get(&self, shard: usize) -> &Shard {
        match self {
            Locked::One(held, guard) if *held == shard => guard,
            Locked::Some(guards) => {
                let at = guards.binary_search_by_key(&shard, |(held, _)| *held);
                &guards[at.expect("a command reaches only the keys that the table names")].1
            }
            Locked::All(guards) => &guards[shard],
            _ => panic!("a command reaches only the keys that the table names"),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, shard: usize) -> &mut Shard {
        match self {
            Locked::One(held, guard) if *held == shard => guard,
            Locked::Some(guards) => {
                let at = guards.binary_search_by_key(&shard, |(held, _)| *held);
                &mut guards[at.expect("a command reaches only the keys that the table names")].1
            }
            Locked::All(guards) => &mut guards[shard],
            _ => panic!("a command reaches only the keys that the table names"),
        }
    }
}

/// Returns the part of a key that decides where it lives: what stands in the first pair of braces, if
/// anything does, else all of it.
#[inline]
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = memchr::memchr(b'{', key) else {
        return key;
    };
    match memchr::memchr(b'}', &key[open + 1..]) {
        Some(length) if length > 0 => &key[open + 1..open + 1 + length],
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_tag_is_what_redis_cluster_takes_for_it() {
        for (key, tag) in [
            ("plain", "plain"),
            ("a{b}c", "b"),
            ("{}x", "{}x"),
            ("a{b", "a{b"),
            ("{a}{b}", "a"),
            ("x{{a}}", "{a"),
            ("", ""),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.as_bytes(), "{key}");
        }
    }

    #[test]
    fn keys_of_one_tag_share_a_shard() {
        let shards = Shards::new(64);
        let place = shards.place(b"app:{user1}:a").shard;
        assert_eq!(shards.place(b"{user1}").shard, place);
        assert_eq!(shards.place(b"user1").shard, place);
    }

    #[test]
    fn a_taken_shard_is_refused_while_a_script_is_slow() {
        let shards = Shards::new(4);
        let held = shards.lock(Scope::All);
        assert!(held.is_ok());
        shards.set_slow(Some(Slow::Script));
        assert!(matches!(shards.lock(Scope::One(2)), Err(Busy)));
        assert!(matches!(shards.lock(Scope::None), Ok(Locked::None)));
        shards.set_slow(None);
        drop(held);
        assert!(shards.lock(Scope::One(2)).is_ok());
    }

    #[test]
    fn scopes_join_to_what_covers_both() {
        assert_eq!(Scope::One(1).join(Scope::One(1)), Scope::One(1));
        assert_eq!(Scope::None.join(Scope::One(3)), Scope::One(3));
        assert_eq!(Scope::One(1).join(Scope::All), Scope::All);
        let Scope::Some(set) = Scope::One(1).join(Scope::One(200)) else {
            panic!("two shards")
        };
        assert!(set.contains(1) && set.contains(200) && !set.contains(2));
    }
}
