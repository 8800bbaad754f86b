//! Values in numbered slots, addressed by keys that outlive them safely.
//!
//! Events, replies and messages name a connection by its [`Key`]. A connection that has ended in the
//! meantime is not found, even when its slot is in use again: the key carries the slot's generation.

/// A slot of a [`Slab`] and the generation of its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// Packs the key and one bit of the caller's into the number that the poller keeps.
    #[inline]
    pub fn token(self, mark: bool) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index) << 1 | u64::from(mark)
    }

    /// Unpacks what [`Key::token`] has packed.
    #[inline]
    pub fn from_token(token: u64) -> (Key, bool) {
        let key = Key {
            index: (token as u32) >> 1,
            generation: (token >> 32) as u32,
        };
        (key, token & 1 == 1)
    }
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Values in numbered slots. Slots are used again and never given back.
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Reserves a slot; its value follows with [`Slab::put`].
    pub fn reserve(&mut self) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                value: None,
            });
            (self.slots.len() - 1) as u32
        });
        Key {
            index,
            generation: self.slots[index as usize].generation,
        }
    }

    pub fn insert(&mut self, value: T) -> Key {
        let key = self.reserve();
        self.put(key, value);
        key
    }

    #[inline]
    fn slot(&mut self, key: Key) -> Option<&mut Slot<T>> {
        self.slots
            .get_mut(key.index as usize)
            .filter(|slot| slot.generation == key.generation)
    }

    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.slot(key)?.value.as_mut()
    }

    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.index as usize)?;
        slot.value.as_ref().filter(|_| slot.generation == key.generation)
    }

    /// Takes a value out to work on it. Its slot stays reserved for it.
    #[inline]
    pub fn take(&mut self, key: Key) -> Option<T> {
        self.slot(key)?.value.take()
    }

    /// Puts a value into its slot, for the first time or after [`Slab::take`]. A value whose slot has
    /// been removed is dropped.
    #[inline]
    pub fn put(&mut self, key: Key, value: T) {
        if let Some(slot) = self.slot(key) {
            slot.value = Some(value);
        }
    }

    /// Returns whether the key's slot has not been removed; its value may be taken out.
    #[inline]
    pub fn is_live(&self, key: Key) -> bool {
        self.slots
            .get(key.index as usize)
            .is_some_and(|slot| slot.generation == key.generation)
    }

    /// Frees the slot and returns its value, if that is not taken out. The key finds nothing from now on.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slot(key)?;
        slot.generation = slot.generation.wrapping_add(1);
        let value = slot.value.take();
        self.free.push(key.index);
        value
    }

    /// Returns the keys of all values that are in their slots.
    pub fn keys(&self) -> Vec<Key> {
        self.keys_where(|_| true)
    }

    /// Returns the keys of those values, among the ones in their slots, that `wanted` picks. Allocates
    /// only if there are any.
    pub fn keys_where(&self, mut wanted: impl FnMut(&T) -> bool) -> Vec<Key> {
        let slots = self.slots.iter().enumerate();
        slots
            .filter(|(_, slot)| slot.value.as_ref().is_some_and(&mut wanted))
            .map(|(index, slot)| Key {
                index: index as u32,
                generation: slot.generation,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::{reserved_number, reserved_token};

    #[test]
    fn a_key_does_not_find_the_next_value_of_its_slot() {
        let mut slab = Slab::default();
        let first = slab.insert("a");
        assert_eq!(slab.remove(first), Some("a"));
        let second = slab.insert("b");
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.get(second), Some(&"b"));
        assert!(!slab.is_live(first));
        assert_eq!(slab.keys(), [second]);
    }

    #[test]
    fn a_value_that_is_taken_out_keeps_its_slot() {
        let mut slab = Slab::default();
        let key = slab.insert(1);
        assert_eq!(slab.take(key), Some(1));
        assert!(slab.is_live(key) && slab.get(key).is_none());
        assert!(slab.keys().is_empty());
        assert_ne!(slab.insert(3), key);
        slab.put(key, 2);
        assert_eq!(slab.get_mut(key), Some(&mut 2));
    }

    #[test]
    fn a_slot_removed_while_its_value_is_out_takes_nothing_back() {
        let mut slab = Slab::default();
        let key = slab.insert(1);
        slab.take(key);
        assert_eq!(slab.remove(key), None);
        let next = slab.insert(2);
        slab.put(key, 1);
        assert_eq!(slab.get(next), Some(&2));
        assert_eq!(slab.get(key), None);
    }

    #[test]
    fn a_token_carries_its_key_and_its_mark() {
        let mut slab = Slab::default();
        slab.insert(());
        let key = slab.insert(());
        slab.remove(key);
        let key = slab.insert(());
        assert_eq!(Key::from_token(key.token(true)), (key, true));
        assert_eq!(Key::from_token(key.token(false)), (key, false));
        assert_eq!(reserved_number(key.token(true)), None);
        assert_eq!(reserved_number(reserved_token(5)), Some(5));
    }

    #[test]
    fn churn_keeps_the_live_values_and_finds_no_dead_one() {
        let mut slab = Slab::default();
        let (mut live, mut dead) = (HashMap::new(), Vec::new());
        let mut state = 1u64;
        for number in 0..100_000u64 {
            // A linear congruential generator: the same churn in every run.
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let grow = live.len() < 100 || (live.len() < 1000 && state >> 63 == 0);
            if grow {
                assert_eq!(live.insert(slab.insert(number), number), None);
                continue;
            }
            let index = (state >> 33) as usize % live.len();
            let key = *live.keys().nth(index).unwrap();
            assert_eq!(slab.remove(key), live.remove(&key));
            dead.push(key);
        }
        assert!(slab.slots.len() <= 1000, "slots are used again");
        live.iter()
            .for_each(|(key, number)| assert_eq!(slab.get(*key), Some(number)));
        dead.iter().for_each(|key| assert!(!slab.is_live(*key)));
        assert_eq!(slab.keys().len(), live.len());
    }
}
