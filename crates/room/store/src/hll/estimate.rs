//! From bytes to a register, and from registers to a count.

use super::{INDEX_BITS, REGISTERS, RUN_BITS};

/// Half the inverse of the natural logarithm of two.
const ALPHA: f64 = 0.721_347_520_444_481_7;
/// Seed of the element hash.
const SEED: u64 = 0xadc8_3b19;

/// Returns the register an element falls into and its zero run plus one.
pub(super) fn index_and_run(element: &[u8]) -> (usize, u8) {
    let hash = murmur64a(element);
    let rest = hash >> INDEX_BITS | 1 << RUN_BITS;
    (hash as usize & (REGISTERS - 1), rest.trailing_zeros() as u8 + 1)
}

/// MurmurHash64A, the 64-bit form of Murmur 2 for 64-bit machines, little endian.
fn murmur64a(data: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = SEED ^ (data.len() as u64).wrapping_mul(M);
    let (words, tail) = data.as_chunks::<8>();
    for word in words {
        let mut k = u64::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        hash = (hash ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    if !tail.is_empty() {
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(M);
    }
    hash = (hash ^ hash >> R).wrapping_mul(M);
    hash ^ hash >> R
}

/// Estimates the number of elements from how many registers hold each value.
pub(super) fn estimate(histogram: &[u32; 64]) -> u64 {
    let m = REGISTERS as f64;
    let mut z = m * tau((m - f64::from(histogram[RUN_BITS + 1])) / m);
    for &registers in histogram[1..=RUN_BITS].iter().rev() {
        z = (z + f64::from(registers)) * 0.5;
    }
    z += m * sigma(f64::from(histogram[0]) / m);
    (ALPHA * m * m / z).round() as u64
}

/// Returns the correction for registers still at zero.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if before == z {
            return z;
        }
    }
}

/// Returns the correction for registers at their largest value.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if before == z {
            return z / 3.0;
        }
    }
}
