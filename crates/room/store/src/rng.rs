//! A small, fast, seedable random source. Not for secrets.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};

/// Wyrand: one multiplication per number, passes the usual statistical suites.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Returns a generator whose whole output follows from `seed`.
    pub fn seeded(seed: u64) -> Rng {
        Rng { state: seed }
    }

    /// Returns a generator seeded from the process's random hash keys.
    pub fn from_entropy() -> Rng {
        Rng::seeded(RandomState::new().build_hasher().finish())
    }

    /// Returns the next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0xa076_1d64_78bd_642f);
        let wide = u128::from(self.state) * u128::from(self.state ^ 0xe703_7ed1_a0b4_28db);
        (wide >> 64) as u64 ^ wide as u64
    }

    /// Returns a number in `0..bound`, or 0 when the bound is 0.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }
}

/// Runs `f` with this thread's generator.
pub fn with_thread_rng<R>(f: impl FnOnce(&mut Rng) -> R) -> R {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(Rng::from_entropy().state);
    }
    STATE.with(|state| {
        let mut rng = Rng::seeded(state.get());
        let result = f(&mut rng);
        state.set(rng.state);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let mut rng = Rng::seeded(7);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[rng.below(10)] += 1;
        }
        assert!(seen.iter().all(|&count| count > 800), "{seen:?}");
        assert_eq!(rng.below(0), 0);
    }
}
