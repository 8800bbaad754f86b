//! Chooses and removes keys when `maxmemory` is reached.
//!
//! As in Redis the choice is by sampling: of a few random keys the one that the
//! policy likes least goes.

use nagaya_store::entry::Entry;
use nagaya_store::rng::with_thread_rng;
use nagaya_store::table::Keyed;

use crate::db::Db;
use crate::notify::Events;

/// Random keys looked at in a shard to find those with an expiry.
const TRIES: usize = 64;

/// Which of the sampled keys goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    LeastRecent,
    SoonestExpiry,
    Any,
}

impl Db<'_> {
    /// Picks the key of a shard that goes next among some random ones of each database, and selects its database.
    pub fn choose_victim(
        &mut self,
        shard: usize,
        samples: usize,
        order: Order,
        only_volatile: bool,
    ) -> Option<Vec<u8>> {
        let mut best: Option<(i64, usize, Vec<u8>)> = None;
        for space in self.data().databases.spaces() {
            self.enter_space(space);
            if let Some((rank, key)) = self.choose_in_space(shard, samples, order, only_volatile)
                && best.as_ref().is_none_or(|(least, ..)| rank < *least)
            {
                best = Some((rank, space, key));
            }
        }
        let (_, space, key) = best?;
        self.enter_space(space);
        Some(key)
    }

    fn choose_in_space(
        &self,
        shard: usize,
        samples: usize,
        order: Order,
        only_volatile: bool,
    ) -> Option<(i64, Vec<u8>)> {
        let keys = self.keys_of(shard);
        if keys.is_empty() || (only_volatile && keys.volatile() == 0) {
            return None;
        }
        let mut best: Option<(i64, &Entry)> = None;
        let mut seen = 0;
        for _ in 0..samples.max(TRIES) {
            let entry = with_thread_rng(|rng| keys.random(rng))?;
            if only_volatile && entry.expiry().is_none() {
                continue;
            }
            let rank = match order {
                Order::LeastRecent => {
                    let stamp = entry.stamp();
                    self.recency.frequency(stamp).map_or(i64::from(stamp), i64::from)
                }
                Order::SoonestExpiry => entry.expiry().unwrap_or(i64::MAX),
                Order::Any => with_thread_rng(|rng| rng.below(usize::MAX)) as i64,
            };
            if best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, entry));
            }
            seen += 1;
            if seen >= samples {
                break;
            }
        }
        let volatile_one = || keys.iter().find(|entry| entry.expiry().is_some());
        let (rank, chosen) = best.or_else(|| Some((i64::MAX, volatile_one()?)))?;
        Some((rank, chosen.key().to_vec()))
    }

    /// Removes a key to free memory, with its event.
    pub fn evict(&mut self, key: &[u8]) -> bool {
        let Some(entry) = self.take(key) else { return false };
        drop(entry);
        self.notify(Events::EVICTED, "evicted", key);
        self.modified(key);
        self.record_removal(key);
        true
    }
}
