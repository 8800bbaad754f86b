//! Unsigned integers of any size: just enough to read and print 80-bit floats exactly.

use std::cmp::Ordering;

/// Digits in base 2^32, lowest first, without zeros at the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Big {
    limbs: Vec<u32>,
}

impl Big {
    pub(crate) fn from_u64(value: u64) -> Self {
        let mut big = Big {
            limbs: vec![value as u32, (value >> 32) as u32],
        };
        big.trim();
        big
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.limbs.is_empty()
    }

    /// Returns how many bits the number has, without leading zeros.
    pub(crate) fn bits(&self) -> usize {
        self.limbs
            .last()
            .map_or(0, |top| self.limbs.len() * 32 - top.leading_zeros() as usize)
    }

    /// Replaces the number by `self * factor + term`.
    pub(crate) fn mul_add(&mut self, factor: u32, term: u32) {
        let mut carry = u64::from(term);
        for limb in &mut self.limbs {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.limbs.push(carry as u32);
        }
    }

    pub(crate) fn mul_power_of_ten(&mut self, mut power: usize) {
        while power > 0 {
            let step = power.min(9);
            self.mul_add(10u32.pow(step as u32), 0);
            power -= step;
        }
    }

    pub(crate) fn shift_left(&mut self, bits: usize) {
        if self.is_zero() {
            return;
        }
        if !bits.is_multiple_of(32) {
            self.mul_add(1 << (bits % 32), 0);
        }
        self.limbs.splice(0..0, std::iter::repeat_n(0, bits / 32));
    }

    /// Subtracts a number that is not greater.
    pub(crate) fn subtract(&mut self, other: &Big) {
        let mut borrow = false;
        for (at, limb) in self.limbs.iter_mut().enumerate() {
            let (less, under) = limb.overflowing_sub(other.limbs.get(at).copied().unwrap_or(0));
            let (less, under_again) = less.overflowing_sub(u32::from(borrow));
            *limb = less;
            borrow = under || under_again;
        }
        debug_assert!(!borrow, "only a smaller number is subtracted");
        self.trim();
    }

    /// Divides by `divisor` and returns the remainder.
    pub(crate) fn divide(&mut self, divisor: u32) -> u32 {
        let mut rest = 0u64;
        for limb in self.limbs.iter_mut().rev() {
            rest = rest << 32 | u64::from(*limb);
            *limb = (rest / u64::from(divisor)) as u32;
            rest %= u64::from(divisor);
        }
        self.trim();
        rest as u32
    }

    /// Returns the bits from 2^`low` up, which must fit, and how the bits below compare with half of
    /// 2^`low`.
    pub(crate) fn split_bits(&self, low: usize) -> (u64, Ordering) {
        let bit = |at: usize| {
            self.limbs
                .get(at / 32)
                .is_some_and(|limb| limb >> (at % 32) & 1 == 1)
        };
        let high = (low..self.bits())
            .rev()
            .fold(0u64, |value, at| value << 1 | u64::from(bit(at)));
        if low == 0 || !bit(low - 1) {
            return (high, Ordering::Less);
        }
        let more = (0..low - 1).any(bit);
        (high, if more { Ordering::Greater } else { Ordering::Equal })
    }

    fn trim(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }
}

impl Ord for Big {
    fn cmp(&self, other: &Self) -> Ordering {
        self.limbs
            .len()
            .cmp(&other.limbs.len())
            .then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev()))
    }
}

impl PartialOrd for Big {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_u128(big: &Big) -> u128 {
        big.limbs
            .iter()
            .rev()
            .fold(0, |value, limb| value << 32 | u128::from(*limb))
    }

    #[test]
    fn arithmetic_agrees_with_machine_integers() {
        for value in [
            0u64,
            1,
            9,
            0xffff_ffff,
            0x1_0000_0000,
            0xdead_beef_cafe_f00d,
            u64::MAX,
        ] {
            let big = Big::from_u64(value);
            let wide = u128::from(value);
            assert_eq!(as_u128(&big), wide);
            assert_eq!(big.bits(), 128 - wide.leading_zeros() as usize);
            let mut other = big.clone();
            other.mul_add(1_000_003, 77);
            assert_eq!(
                as_u128(&other),
                if value == 0 { 77 } else { wide * 1_000_003 + 77 }
            );
            let rest = other.divide(1_000);
            assert_eq!(u128::from(rest), (wide * 1_000_003 + 77) % 1_000);
            let mut shifted = big.clone();
            shifted.shift_left(37);
            assert_eq!(as_u128(&shifted), wide << 37);
            assert!(shifted >= big);
            shifted.subtract(&big);
            assert_eq!(as_u128(&shifted), (wide << 37) - wide);
            let mut scaled = big.clone();
            scaled.mul_power_of_ten(11);
            assert_eq!(as_u128(&scaled), wide * 100_000_000_000);
        }
    }

    #[test]
    fn the_part_below_a_split_is_compared_with_half() {
        let big = Big::from_u64(0b1011_0100);
        assert_eq!(big.split_bits(0), (0b1011_0100, Ordering::Less));
        assert_eq!(big.split_bits(3), (0b10110, Ordering::Equal));
        assert_eq!(big.split_bits(4), (0b1011, Ordering::Less));
        assert_eq!(big.split_bits(6), (0b10, Ordering::Greater));
    }
}
