//! The generator behind `math.random`.
//!
//! Redis ships its own 48-bit linear congruential generator (the classic `lrand48`) so that a seed gives the same
//! numbers on every platform. It is not reseeded between scripts.

use crate::raw::{Lua, Raise};

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 0xB;
const MASK: u64 = (1 << 48) - 1;
/// Results are below this.
const RANGE: u32 = i32::MAX as u32;

/// The 48 bits of state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Default for Random {
    fn default() -> Random {
        Random(0x1234_ABCD_330E)
    }
}

impl Random {
    pub(crate) fn seeded(seed: i32) -> Random {
        Random((u64::from(seed as u32) << 16) | 0x330E)
    }

    /// Returns the next 31 bits.
    fn advance(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & MASK;
        (self.0 >> 17) as u32
    }

    fn fraction(&mut self) -> f64 {
        f64::from(self.advance() % RANGE) / f64::from(RANGE)
    }
}

/// math.random([m [, n]])
pub(crate) fn random(lua: Lua<'_>) -> Result<i32, Raise> {
    crate::redis_api::require_running(lua, "math.random")?;
    let mut generator = lua.context().random.get();
    let fraction = generator.fraction();
    lua.context().random.set(generator);
    let number = match lua.top() {
        0 => fraction,
        1 => {
            let upper = lua.check_integer(1)? as i32;
            if upper < 1 {
                return Err(Raise::Argument(1, "interval is empty".into()));
            }
            (fraction * f64::from(upper)).floor() + 1.0
        }
        2 => {
            let (lower, upper) = (lua.check_integer(1)? as i32, lua.check_integer(2)? as i32);
            if lower > upper {
                return Err(Raise::Argument(2, "interval is empty".into()));
            }
            // The width is a C int and may wrap.
            (fraction * f64::from(upper.wrapping_sub(lower).wrapping_add(1))).floor() + f64::from(lower)
        }
        _ => return Err(Raise::located("wrong number of arguments")),
    };
    lua.push_number(number);
    Ok(1)
}

/// math.randomseed(seed)
pub(crate) fn randomseed(lua: Lua<'_>) -> Result<i32, Raise> {
    crate::redis_api::require_running(lua, "math.randomseed")?;
    lua.context()
        .random
        .set(Random::seeded(lua.check_integer(1)? as i32));
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_zero_gives_the_numbers_of_lrand48() {
        let mut generator = Random::seeded(0);
        let numbers: Vec<u32> = (0..3).map(|_| generator.advance()).collect();
        assert_eq!(numbers, [366850414, 1610402240, 206956554]);
    }
}
