//! What a key's stamp means: when it was used last or, under an LFU policy, how often.
//!
//! The frequency is Redis's: eight bits that grow the less likely the larger they
//! are, and lose one for every minute in which nobody used the key; the stamp's
//! next sixteen bits are the minute of the last change.

use nagaya_store::rng::with_thread_rng;

/// What a new key starts with, so that it is not the first to go.
const FRESH: u8 = 5;
/// How much harder each further step is (Redis's default `lfu-log-factor`).
const LOG_FACTOR: f64 = 10.0;

/// How uses of keys are counted, with the time of the command at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recency {
    /// Stamps are Unix seconds.
    Seconds(u32),
    /// Stamps are frequencies; this is the minute.
    Frequency(u16),
}

impl Recency {
    pub fn at(now_ms: i64, counts_uses: bool) -> Recency {
        if counts_uses {
            Recency::Frequency((now_ms / 60_000) as u16)
        } else {
            Recency::Seconds((now_ms / 1000) as u32)
        }
    }

    /// Returns the stamp of a key that is new.
    pub fn fresh(self) -> u32 {
        match self {
            Recency::Seconds(now_s) => now_s,
            Recency::Frequency(minute) => stamp_of(minute, FRESH),
        }
    }

    /// Returns the stamp of a key that was just used.
    #[inline]
    pub fn used(self, stamp: u32) -> u32 {
        match self {
            Recency::Seconds(now_s) => now_s,
            Recency::Frequency(minute) => stamp_of(minute, grown(decayed(stamp, minute))),
        }
    }

    /// Returns the stamp of a key that is set to another value: its frequency stays.
    pub fn replaced(self, old: Option<u32>) -> u32 {
        match (self, old) {
            (Recency::Frequency(_), Some(stamp)) => stamp,
            _ => self.fresh(),
        }
    }

    /// Returns the frequency of a key; nothing when frequencies are not counted.
    pub fn frequency(self, stamp: u32) -> Option<u8> {
        match self {
            Recency::Seconds(_) => None,
            Recency::Frequency(minute) => Some(decayed(stamp, minute)),
        }
    }

    /// Returns the stamp of a key that is given a frequency; nothing when they are not counted.
    pub fn with_frequency(self, frequency: u8) -> Option<u32> {
        match self {
            Recency::Seconds(_) => None,
            Recency::Frequency(minute) => Some(stamp_of(minute, frequency)),
        }
    }
}

fn stamp_of(minute: u16, frequency: u8) -> u32 {
    u32::from(minute) << 8 | u32::from(frequency)
}

fn decayed(stamp: u32, minute: u16) -> u8 {
    let idle_minutes = minute.wrapping_sub((stamp >> 8) as u16);
    (stamp as u8).saturating_sub(u8::try_from(idle_minutes).unwrap_or(u8::MAX))
}

fn grown(frequency: u8) -> u8 {
    let above = f64::from(frequency.saturating_sub(FRESH));
    let odds = 1.0 / (above * LOG_FACTOR + 1.0);
    let drawn = with_thread_rng(|rng| rng.next_u64()) as f64 / u64::MAX as f64;
    frequency.saturating_add(u8::from(drawn < odds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frequency_grows_ever_slower_and_fades_by_the_minute() {
        let now = Recency::Frequency(100);
        let mut stamp = now.fresh();
        assert_eq!(now.frequency(stamp), Some(5));
        for _ in 0..10_000 {
            stamp = now.used(stamp);
        }
        let reached = now.frequency(stamp).unwrap();
        assert!((20..90).contains(&reached), "{reached}");
        assert_eq!(Recency::Frequency(110).frequency(stamp), Some(reached - 10));
        assert_eq!(Recency::Frequency(1000).frequency(stamp), Some(0));
    }

    #[test]
    fn seconds_have_no_frequency() {
        let now = Recency::Seconds(7);
        assert_eq!((now.fresh(), now.used(3), now.frequency(3)), (7, 7, None));
    }
}
