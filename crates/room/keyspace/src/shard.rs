//! The data, cut into shards by hash tag, and the locks on them.
//!
//! A key's shard follows from its hash tag (the part in braces, or the whole
//! key), so keys that belong together lie together. **Lock order:** a thread
//! takes the shards it needs in rising index order and takes no more while it
//! holds any; every other lock of the engine may be taken under a shard's, and
//! no shard's under any other. A shard has the keys of all databases: where a key
//! lies does not depend on its database, and one lock covers a key in all of them.
//!
//! A script holds every shard for as long as it runs. Once that is too long it
//! says so here ([`Shards::set_long_script`]), and a thread that wants a shard is refused
//! with [`Busy`] instead of waiting.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use nagaya_connections::blocking::Wait;
use nagaya_connections::client::Client;
use nagaya_store::hasher::hash_bytes;
use nagaya_store::key_table::KeyTable;
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

use crate::databases::split_name;
use crate::hash_tag::hash_tag;
use crate::residency::shard::ShardResidency;

/// One shard's keys of one space, and the clients that wait for or watch them.
#[derive(Default)]
pub struct Shard {
    pub keys: KeyTable,
    /// Blocked clients per key, longest waiting first.
    pub waiters: HashMap<Box<[u8]>, VecDeque<Waiter>, ahash::RandomState>,
    /// Flags to raise when a watched key changes.
    pub watchers: HashMap<Box<[u8]>, Vec<Arc<AtomicBool>>, ahash::RandomState>,
    /// Which tags are resident, which have changed, which are being loaded.
    pub tiers: ShardResidency,
}

/// What one lock covers: a shard of every space. Those of most spaces are not there until they are used.
#[derive(Default)]
pub struct ShardSpaces {
    first: Shard,
    more: Vec<Shard>,
}

impl ShardSpaces {
    /// Returns the shard of a space that is there, see [`ShardSpaces::make`].
    #[inline]
    pub fn space(&self, space: usize) -> &Shard {
        match space {
            0 => &self.first,
            _ => &self.more[space - 1],
        }
    }

    #[inline]
    pub fn space_mut(&mut self, space: usize) -> &mut Shard {
        match space {
            0 => &mut self.first,
            _ => &mut self.more[space - 1],
        }
    }

    /// Makes sure that the shard of a space is there.
    pub fn make(&mut self, space: usize) {
        if space > self.more.len() {
            self.more.resize_with(space, Shard::default);
        }
    }

    /// Returns the shards of all spaces that are there.
    pub fn every(&self) -> impl Iterator<Item = &Shard> {
        std::iter::once(&self.first).chain(&self.more)
    }

    /// Exchanges who waits for and watches the keys of two spaces.
    fn swap_clients(&mut self, one: usize, other: usize) {
        self.make(one.max(other));
        let first = self.space_mut(one);
        let clients = (
            std::mem::take(&mut first.waiters),
            std::mem::take(&mut first.watchers),
        );
        let second = self.space_mut(other);
        let waiters = std::mem::replace(&mut second.waiters, clients.0);
        let watchers = std::mem::replace(&mut second.watchers, clients.1);
        let first = self.space_mut(one);
        (first.waiters, first.watchers) = (waiters, watchers);
    }
}

/// A held shard of one space.
pub type ShardGuard<'a> = MappedMutexGuard<'a, Shard>;

/// A blocked command in the queue of a key, with the client that gets its reply.
#[derive(Clone)]
pub struct Waiter {
    pub wait: Arc<Wait>,
    pub client: Arc<Client>,
}

/// Keeps neighbouring locks out of each other's cache line.
#[repr(align(128))]
struct Padded(Mutex<ShardSpaces>);

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
pub enum LongScript {
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
pub struct KeyLocation {
    pub hash: u64,
    pub shard: usize,
}

/// Most shards an engine may have; a [`ShardSet`] is this many bits.
pub const SHARDS_MAX: usize = 256;

/// A set of shard indices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardSet([u64; SHARDS_MAX / 64]);

impl ShardSet {
    #[inline]
    pub fn insert(&mut self, shard: usize) {
        self.0[shard / 64] |= 1 << (shard % 64);
    }

    #[inline]
    pub fn contains(&self, shard: usize) -> bool {
        self.0[shard / 64] & (1 << (shard % 64)) != 0
    }
}

/// Which shards a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockScope {
    None,
    One(usize),
    Some(ShardSet),
    All,
}

impl LockScope {
    /// Returns the scope that covers both.
    #[inline]
    pub fn join(self, other: LockScope) -> LockScope {
        match (self, other) {
            (LockScope::None, scope) | (scope, LockScope::None) => scope,
            (LockScope::All, _) | (_, LockScope::All) => LockScope::All,
            (LockScope::One(a), LockScope::One(b)) if a == b => LockScope::One(a),
            (a, b) => {
                let mut set = ShardSet::default();
                for scope in [a, b] {
                    match scope {
                        LockScope::One(shard) => set.insert(shard),
                        LockScope::Some(more) => {
                            set.0.iter_mut().zip(more.0).for_each(|(all, more)| *all |= more)
                        }
                        LockScope::None | LockScope::All => unreachable!("both were handled above"),
                    }
                }
                LockScope::Some(set)
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

    /// Returns what has been holding every shard for too long, if anything does.
    #[inline]
    pub fn long_script(&self) -> Option<LongScript> {
        match self.slow.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(LongScript::Script),
            _ => Some(LongScript::Function),
        }
    }

    /// Makes threads that want a shard be refused, or wait again. The caller holds every shard.
    pub fn set_long_script(&self, slow: Option<LongScript>) {
        self.slow
            .store(slow.map_or(0, |slow| slow as u8), Ordering::Relaxed);
    }

    /// Returns the number of shards.
    #[inline]
    pub fn count(&self) -> usize {
        self.shards.len()
    }

    /// Returns the number of keys, shard by shard: exact only when nothing changes meanwhile. While a slow
    /// script holds the shards, it is the number of the last time.
    pub fn keys(&self) -> usize {
        let counts = (0..self.count()).map(|shard| {
            let shard = self.lock_all_spaces(shard)?;
            Ok(shard.every().map(|shard| shard.keys.len()).sum::<usize>())
        });
        if let Ok(count) = counts.sum::<Result<usize, Busy>>() {
            self.keys_seen.store(count, Ordering::Relaxed);
        }
        self.keys_seen.load(Ordering::Relaxed)
    }

    /// Returns where a key lives.
    #[inline]
    pub fn locate(&self, key: &[u8]) -> KeyLocation {
        let hash = hash_bytes(key);
        let tag = hash_tag(key);
        let tag_hash = if tag.len() == key.len() {
            hash
        } else {
            hash_bytes(tag)
        };
        // The table inside a shard uses the low and the topmost bits.
        KeyLocation {
            hash,
            shard: (tag_hash >> 40) as usize & (self.shards.len() - 1),
        }
    }

    /// Returns the shard of a tag, given its name.
    #[inline]
    pub fn shard_of_tag(&self, name: &[u8]) -> usize {
        let (_, tag) = split_name(name);
        (hash_bytes(tag) >> 40) as usize & (self.shards.len() - 1)
    }

    /// Takes the locks of a scope, in order.
    #[inline]
    pub fn lock(&self, scope: LockScope) -> Result<Locked<'_>, Busy> {
        Ok(match scope {
            LockScope::None => Locked::None,
            LockScope::One(shard) => Locked::One(shard, self.lock_all_spaces(shard)?),
            LockScope::Some(set) => {
                let held = (0..self.count()).filter(|&shard| set.contains(shard));
                let held = held.map(|shard| Ok((shard, self.lock_all_spaces(shard)?)));
                Locked::Some(held.collect::<Result<_, Busy>>()?)
            }
            LockScope::All => {
                let held = (0..self.count()).map(|shard| self.lock_all_spaces(shard));
                Locked::All(held.collect::<Result<_, Busy>>()?)
            }
        })
    }

    /// Takes the lock of one shard for one space. The caller holds none.
    pub fn lock_one(&self, shard: usize, space: usize) -> Result<ShardGuard<'_>, Busy> {
        Ok(in_space(self.lock_all_spaces(shard)?, space))
    }

    /// Takes the lock of one shard. The caller holds none.
    #[inline]
    pub fn lock_all_spaces(&self, shard: usize) -> Result<MutexGuard<'_, ShardSpaces>, Busy> {
        match self.shards[shard].0.try_lock() {
            Some(guard) => Ok(guard),
            None => self.lock_contended(shard),
        }
    }

    /// Takes the lock of one shard for one space, however long a script holds it. For threads that serve no client.
    pub fn lock_patiently(&self, shard: usize, space: usize) -> ShardGuard<'_> {
        in_space(self.lock_spaces_patiently(shard), space)
    }

    /// Takes the lock of one shard, however long a script holds it.
    pub fn lock_spaces_patiently(&self, shard: usize) -> MutexGuard<'_, ShardSpaces> {
        self.shards[shard].0.lock()
    }

    #[cold]
    fn lock_contended(&self, shard: usize) -> Result<MutexGuard<'_, ShardSpaces>, Busy> {
        loop {
            if self.long_script().is_some() {
                return Err(Busy);
            }
            if let Some(guard) = self.shards[shard].0.try_lock_for(CONTENDED_WAIT) {
                return Ok(guard);
            }
        }
    }
}

fn in_space(guard: MutexGuard<'_, ShardSpaces>, space: usize) -> ShardGuard<'_> {
    MutexGuard::map(guard, |spaces| {
        spaces.make(space);
        spaces.space_mut(space)
    })
}

/// The shards a command holds.
pub enum Locked<'a> {
    None,
    One(usize, MutexGuard<'a, ShardSpaces>),
    Some(Vec<(usize, MutexGuard<'a, ShardSpaces>)>),
    All(Vec<MutexGuard<'a, ShardSpaces>>),
}

impl<'a> Locked<'a> {
    /// Returns a held shard of a space that was entered, see [`Locked::enter`].
    #[inline]
    pub fn get(&self, shard: usize, space: usize) -> &Shard {
        let spaces = match self {
            Locked::One(held, guard) if *held == shard => guard,
            Locked::Some(guards) => {
                let at = guards.binary_search_by_key(&shard, |(held, _)| *held);
                &guards[at.expect("a command reaches only the keys that the table names")].1
            }
            Locked::All(guards) => &guards[shard],
            _ => panic!("a command reaches only the keys that the table names"),
        };
        spaces.space(space)
    }

    #[inline]
    pub fn get_mut(&mut self, shard: usize, space: usize) -> &mut Shard {
        let spaces = match self {
            Locked::One(held, guard) if *held == shard => guard,
            Locked::Some(guards) => {
                let at = guards.binary_search_by_key(&shard, |(held, _)| *held);
                &mut guards[at.expect("a command reaches only the keys that the table names")].1
            }
            Locked::All(guards) => &mut guards[shard],
            _ => panic!("a command reaches only the keys that the table names"),
        };
        spaces.space_mut(space)
    }

    /// Returns the shards of all spaces, when all are held; else none.
    pub(crate) fn every(&self) -> impl Iterator<Item = &Shard> {
        let guards = match self {
            Locked::All(guards) => guards.as_slice(),
            _ => &[],
        };
        guards.iter().flat_map(|spaces| spaces.every())
    }

    /// Returns the shards of a space that are there, when all are held; else none.
    pub(crate) fn of_space(&self, space: usize) -> impl Iterator<Item = &Shard> {
        let guards = match self {
            Locked::All(guards) => guards.as_slice(),
            _ => &[],
        };
        guards.iter().filter_map(move |spaces| spaces.every().nth(space))
    }

    /// Returns whether a held shard has no key of a space.
    pub(crate) fn is_empty(&self, shard: usize, space: usize) -> bool {
        let spaces = match self {
            Locked::All(guards) => guards.get(shard),
            _ => None,
        };
        let found = spaces.and_then(|spaces| spaces.every().nth(space));
        found.is_none_or(|shard| shard.keys.is_empty())
    }

    /// Makes sure that the held shards have a space.
    pub(crate) fn enter(&mut self, space: usize) {
        self.each_mut().for_each(|spaces| spaces.make(space));
    }

    /// Exchanges who waits for and watches the keys of two spaces in the held shards.
    pub(crate) fn swap_clients(&mut self, one: usize, other: usize) {
        self.each_mut().for_each(|spaces| spaces.swap_clients(one, other));
    }

    fn each_mut(&mut self) -> impl Iterator<Item = &mut MutexGuard<'a, ShardSpaces>> {
        let (one, some, all) = match self {
            Locked::None => (None, None, None),
            Locked::One(_, guard) => (Some(guard), None, None),
            Locked::Some(guards) => (None, Some(guards), None),
            Locked::All(guards) => (None, None, Some(guards)),
        };
        let some = some.into_iter().flatten().map(|(_, guard)| guard);
        one.into_iter().chain(some).chain(all.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_tag_share_a_shard() {
        let shards = Shards::new(64);
        let location = shards.locate(b"app:{user1}:a").shard;
        assert_eq!(shards.locate(b"{user1}").shard, location);
        assert_eq!(shards.locate(b"user1").shard, location);
    }

    #[test]
    fn a_taken_shard_is_refused_while_a_script_is_slow() {
        let shards = Shards::new(4);
        let held = shards.lock(LockScope::All);
        assert!(held.is_ok());
        shards.set_long_script(Some(LongScript::Script));
        assert!(matches!(shards.lock(LockScope::One(2)), Err(Busy)));
        assert!(matches!(shards.lock(LockScope::None), Ok(Locked::None)));
        shards.set_long_script(None);
        drop(held);
        assert!(shards.lock(LockScope::One(2)).is_ok());
    }

    #[test]
    fn scopes_join_to_what_covers_both() {
        assert_eq!(LockScope::One(1).join(LockScope::One(1)), LockScope::One(1));
        assert_eq!(LockScope::None.join(LockScope::One(3)), LockScope::One(3));
        assert_eq!(LockScope::One(1).join(LockScope::All), LockScope::All);
        let LockScope::Some(set) = LockScope::One(1).join(LockScope::One(200)) else {
            panic!("two shards")
        };
        assert!(set.contains(1) && set.contains(200) && !set.contains(2));
    }
}
