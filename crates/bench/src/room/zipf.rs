//! Which key comes next: few of them most of the time, as in real traffic.
//!
//! Ranks follow Zipf's law with exponent 0.99, drawn by the method of Gray and others ("Quickly generating
//! billion-record synthetic databases", 1994). Neighbours in rank are no neighbours as keys.

/// The exponent.
const THETA: f64 = 0.99;

/// A multiplier without common factors with any number of keys below it: a prime.
const SCATTER: u64 = 2_654_435_761;

/// Ranks from 0, the most used one, to `keys - 1`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zipf {
    keys: u64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// Prepares draws among this many keys; at most two billion.
    pub(super) fn new(keys: u64) -> Zipf {
        let zeta_of = |count: u64| -> f64 { (1..=count).map(|rank| (rank as f64).powf(-THETA)).sum() };
        let zeta = zeta_of(keys);
        let eta = (1.0 - (2.0 / keys as f64).powf(1.0 - THETA)) / (1.0 - zeta_of(2) / zeta);
        Zipf { keys, zeta, eta }
    }

    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(THETA) {
            return 1;
        }
        let rank = self.keys as f64 * (self.eta * unit - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        (rank as u64).min(self.keys - 1)
    }

    /// Returns the number of the key that has a rank.
    pub(super) fn key(&self, rank: u64) -> u64 {
        (u128::from(rank) * u128::from(SCATTER) % u128::from(self.keys)) as u64
    }
}

/// A small generator whose draws can be repeated.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number from 0 up to 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_ranks_are_drawn_as_often_as_the_law_says() {
        let zipf = Zipf::new(10_000);
        let mut random = Random::new(7);
        let mut counts = vec![0u32; 10_000];
        let draws = 200_000;
        for _ in 0..draws {
            counts[zipf.draw(&mut random) as usize] += 1;
        }
        let expected = f64::from(draws) / zipf.zeta;
        assert!((f64::from(counts[0]) - expected).abs() < expected * 0.05);
        let tenth: u32 = counts[..1000].iter().sum();
        assert!(tenth > draws * 7 / 10 && tenth < draws * 85 / 100, "{tenth}");
    }

    #[test]
    fn every_rank_has_a_key_of_its_own() {
        let zipf = Zipf::new(9_999);
        let mut keys: Vec<u64> = (0..9_999).map(|rank| zipf.key(rank)).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 9_999);
    }
}
