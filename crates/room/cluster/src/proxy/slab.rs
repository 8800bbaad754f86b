//! Connections by number, safe against numbers that outlive them.
//!
//! Events, replies and messages name a connection by its [`Key`]; one that has
//! ended meanwhile is not found, even when its place is taken by another.

/// A place in a [`Slab`] and which of its tenants is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    index: u32,
    generation: u32,
}

impl Key {
    /// Packs the key and one bit of the caller's into the number that epoll keeps.
    pub(crate) fn token(self, mark: bool) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index) << 1 | u64::from(mark)
    }

    /// Undoes [`Key::token`].
    pub(crate) fn of_token(token: u64) -> (Key, bool) {
        let key = Key {
            index: (token as u32) >> 1,
            generation: (token >> 32) as u32,
        };
        (key, token & 1 == 1)
    }
}

struct Place<T> {
    generation: u32,
    value: Option<T>,
}

/// Values in numbered places.
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            places: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Reserves a place; its value comes with [`Slab::put`].
    pub(crate) fn reserve(&mut self) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                generation: 0,
                value: None,
            });
            (self.places.len() - 1) as u32
        });
        Key {
            index,
            generation: self.places[index as usize].generation,
        }
    }

    pub(crate) fn insert(&mut self, value: T) -> Key {
        let key = self.reserve();
        self.put(key, value);
        key
    }

    fn place(&mut self, key: Key) -> Option<&mut Place<T>> {
        self.places
            .get_mut(key.index as usize)
            .filter(|place| place.generation == key.generation)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.place(key)?.value.as_mut()
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key.index as usize)?;
        place
            .value
            .as_ref()
            .filter(|_| place.generation == key.generation)
    }

    /// Takes a value out to work on it; its place stays its own.
    pub(crate) fn take(&mut self, key: Key) -> Option<T> {
        self.place(key)?.value.take()
    }

    /// Puts a value into its place, for the first time or back.
    pub(crate) fn put(&mut self, key: Key, value: T) {
        if let Some(place) = self.place(key) {
            place.value = Some(value);
        }
    }

    /// Tells whether the key's tenant still has its place, in it or taken out.
    pub(crate) fn is_live(&self, key: Key) -> bool {
        self.places
            .get(key.index as usize)
            .is_some_and(|place| place.generation == key.generation)
    }

    /// Gives the place up; keys that name its tenant find nothing from now on.
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.place(key)?;
        place.generation = place.generation.wrapping_add(1);
        let value = place.value.take();
        self.free.push(key.index);
        value
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        let filled = self
            .places
            .iter()
            .enumerate()
            .filter(|(_, place)| place.value.is_some());
        filled
            .map(|(index, place)| Key {
                index: index as u32,
                generation: place.generation,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_not_find_the_next_tenant_of_its_place() {
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
    fn a_value_that_is_taken_out_keeps_its_place() {
        let mut slab = Slab::default();
        let key = slab.insert(1);
        assert_eq!(slab.take(key), Some(1));
        assert!(slab.is_live(key) && slab.get(key).is_none());
        slab.put(key, 2);
        assert_eq!(slab.get_mut(key), Some(&mut 2));
    }

    #[test]
    fn a_token_carries_its_key_and_its_mark() {
        let mut slab = Slab::default();
        slab.insert(());
        let key = slab.insert(());
        slab.remove(key);
        let key = slab.insert(());
        assert_eq!(Key::of_token(key.token(true)), (key, true));
        assert_eq!(Key::of_token(key.token(false)), (key, false));
    }
}
