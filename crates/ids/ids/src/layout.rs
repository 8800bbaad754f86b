//! How an id is put together: milliseconds since an epoch, then the worker, then a sequence.
//!
//! The time stands highest, so that ids sort by age; the sequence stands lowest, so that the
//! ids of one worker and millisecond are consecutive numbers. Each id is one whole number and
//! each (time, worker, sequence) is one id: two equal ids are the same as a repeated triple.

use crate::utc;

/// 2015-01-01T00:00:00Z, the epoch of katsubushi and Discord.
pub const DEFAULT_EPOCH_MS: u64 = 1_420_070_400_000;
/// A layout whose time field ends sooner than this is warned about, in years.
pub const WARN_YEARS: u64 = 10;

const YEAR_MS: u64 = 31_556_952_000;
/// The widest worker field, in bits: a wider one makes tables per worker too large.
const WORKER_BITS_MAX: u32 = 22;
const SEQUENCE_BITS_MAX: u32 = 22;

/// Where the parts of an id lie. Made by [`Layout::new`], so that it always fits together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    time_bits: u32,
    worker_bits: u32,
    sequence_bits: u32,
    epoch_ms: u64,
}

/// The parts of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Parts {
    /// When it was made, in milliseconds since 1970.
    pub unix_ms: u64,
    pub worker: u64,
    pub sequence: u64,
}

/// Why a layout cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    #[error("the {field} field has {bits} bits; allowed are {min} to {max}")]
    FieldBits {
        field: &'static str,
        bits: u32,
        min: u32,
        max: u32,
    },
    #[error("the fields have {sum} bits together; an id has 64")]
    TooManyBits { sum: u32 },
    #[error("the epoch {} is still to come", utc::rfc3339(*epoch_ms))]
    EpochInFuture { epoch_ms: u64 },
    #[error("the time field ended on {}; widen it or choose a later epoch", utc::rfc3339(*end_ms))]
    Ended { end_ms: u64 },
}

/// A property of a usable layout that its operator should know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutWarning {
    #[error("the time field ends on {}, in {years} years", utc::rfc3339(*end_ms))]
    EndsSoon { end_ms: u64, years: u64 },
    #[error("ids use all 64 bits: databases and languages with signed numbers will show some as negative")]
    NeedsUnsigned,
}

impl Default for Layout {
    /// 41 bits of milliseconds since 2015, 10 of worker, 12 of sequence.
    fn default() -> Layout {
        Layout {
            time_bits: 41,
            worker_bits: 10,
            sequence_bits: 12,
            epoch_ms: DEFAULT_EPOCH_MS,
        }
    }
}

impl Layout {
    /// Checks the widths against each other; [`Layout::check`] checks them against the clock.
    pub fn new(
        time_bits: u32,
        worker_bits: u32,
        sequence_bits: u32,
        epoch_ms: u64,
    ) -> Result<Layout, LayoutError> {
        let within = |field, bits: u32, min, max| {
            if (min..=max).contains(&bits) {
                Ok(())
            } else {
                Err(LayoutError::FieldBits {
                    field,
                    bits,
                    min,
                    max,
                })
            }
        };
        within("time", time_bits, 32, 63)?;
        within("worker", worker_bits, 0, WORKER_BITS_MAX)?;
        within("sequence", sequence_bits, 1, SEQUENCE_BITS_MAX)?;
        let sum = time_bits + worker_bits + sequence_bits;
        if sum > 64 {
            return Err(LayoutError::TooManyBits { sum });
        }
        Ok(Layout {
            time_bits,
            worker_bits,
            sequence_bits,
            epoch_ms,
        })
    }

    /// Checks that ids can be made now; returns what the operator should know.
    pub fn check(&self, now_ms: u64) -> Result<Vec<LayoutWarning>, LayoutError> {
        let (epoch_ms, end_ms) = (self.epoch_ms, self.end_ms());
        if now_ms < epoch_ms {
            return Err(LayoutError::EpochInFuture { epoch_ms });
        }
        if now_ms > end_ms {
            return Err(LayoutError::Ended { end_ms });
        }
        let mut warnings = Vec::new();
        let years = (end_ms - now_ms) / YEAR_MS;
        if years < WARN_YEARS {
            warnings.push(LayoutWarning::EndsSoon { end_ms, years });
        }
        if self.time_bits + self.worker_bits + self.sequence_bits == 64 {
            warnings.push(LayoutWarning::NeedsUnsigned);
        }
        Ok(warnings)
    }

    pub fn epoch_ms(&self) -> u64 {
        self.epoch_ms
    }

    /// Returns the last millisecond that has ids, since 1970.
    pub fn end_ms(&self) -> u64 {
        self.epoch_ms.saturating_add(self.time_max())
    }

    /// Returns the greatest worker number.
    pub fn worker_max(&self) -> u64 {
        low_bits(self.worker_bits)
    }

    /// Returns how many ids one worker can make in a millisecond.
    pub fn per_ms(&self) -> u64 {
        self.sequence_max() + 1
    }

    /// Returns the id of three parts, or nothing when one of them does not fit its field.
    pub fn encode(&self, parts: Parts) -> Option<u64> {
        let time = parts.unix_ms.checked_sub(self.epoch_ms)?;
        let fits = time <= self.time_max()
            && parts.worker <= self.worker_max()
            && parts.sequence <= self.sequence_max();
        fits.then(|| self.compose(time, parts.worker, parts.sequence))
    }

    /// Returns the parts of an id, or nothing when it has bits above the time field.
    pub fn decode(&self, id: u64) -> Option<Parts> {
        let time = id >> (self.worker_bits + self.sequence_bits);
        (time <= self.time_max()).then(|| Parts {
            unix_ms: self.epoch_ms.saturating_add(time),
            worker: (id >> self.sequence_bits) & self.worker_max(),
            sequence: id & self.sequence_max(),
        })
    }

    pub(crate) fn compose(&self, time: u64, worker: u64, sequence: u64) -> u64 {
        (time << (self.worker_bits + self.sequence_bits)) | (worker << self.sequence_bits) | sequence
    }

    pub(crate) fn sequence_bits(&self) -> u32 {
        self.sequence_bits
    }

    pub(crate) fn sequence_max(&self) -> u64 {
        low_bits(self.sequence_bits)
    }

    pub(crate) fn time_max(&self) -> u64 {
        low_bits(self.time_bits)
    }
}

fn low_bits(count: u32) -> u64 {
    (1 << count) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOV_2026: u64 = 1_794_700_800_000;

    #[test]
    fn the_default_is_katsubushis() {
        let layout = Layout::default();
        // An id from katsubushi's own documentation of the layout: 2015-06-29, worker 1.
        let parts = Parts {
            unix_ms: DEFAULT_EPOCH_MS + 15_552_000_123,
            worker: 1,
            sequence: 2,
        };
        let id = layout.encode(parts).unwrap();
        assert_eq!(id, (15_552_000_123 << 22) | (1 << 12) | 2);
        assert_eq!(layout.decode(id), Some(parts));
        assert_eq!((layout.worker_max(), layout.per_ms()), (1023, 4096));
        assert_eq!(utc::rfc3339(layout.end_ms()), "2084-09-06T15:47:35.551Z");
        assert_eq!(Layout::new(41, 10, 12, DEFAULT_EPOCH_MS), Ok(layout));
    }

    #[test]
    fn widths_that_do_not_fit_are_refused_by_name() {
        let check = |time, worker, sequence, words: &str| {
            let error = Layout::new(time, worker, sequence, 0).unwrap_err();
            assert_eq!(error.to_string(), words);
        };
        check(31, 10, 12, "the time field has 31 bits; allowed are 32 to 63");
        check(41, 23, 12, "the worker field has 23 bits; allowed are 0 to 22");
        check(41, 10, 0, "the sequence field has 0 bits; allowed are 1 to 22");
        check(43, 10, 12, "the fields have 65 bits together; an id has 64");
        check(
            u32::MAX,
            1,
            1,
            "the time field has 4294967295 bits; allowed are 32 to 63",
        );
    }

    #[test]
    fn the_end_of_time_is_announced_years_before() {
        let layout = Layout::default();
        assert_eq!(layout.check(NOV_2026), Ok(vec![]));
        let late = layout.end_ms() - 3 * YEAR_MS;
        let warnings = layout.check(late).unwrap();
        assert_eq!(
            warnings[0].to_string(),
            "the time field ends on 2084-09-06T15:47:35.551Z, in 3 years"
        );
        assert_eq!(layout.check(layout.end_ms()).unwrap().len(), 1);
        let error = layout.check(layout.end_ms() + 1).unwrap_err();
        assert!(matches!(error, LayoutError::Ended { .. }), "{error}");
        let error = layout.check(DEFAULT_EPOCH_MS - 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the epoch 2015-01-01T00:00:00.000Z is still to come"
        );
    }

    #[test]
    fn sixty_four_bits_are_allowed_and_warned_about() {
        let layout = Layout::new(42, 10, 12, DEFAULT_EPOCH_MS).unwrap();
        assert_eq!(layout.check(NOV_2026), Ok(vec![LayoutWarning::NeedsUnsigned]));
    }

    #[test]
    fn parts_outside_of_their_fields_have_no_id() {
        let layout = Layout::default();
        let parts = |unix_ms, worker, sequence| Parts {
            unix_ms,
            worker,
            sequence,
        };
        assert_eq!(layout.encode(parts(DEFAULT_EPOCH_MS - 1, 0, 0)), None);
        assert_eq!(layout.encode(parts(NOV_2026, 1024, 0)), None);
        assert_eq!(layout.encode(parts(NOV_2026, 0, 4096)), None);
        assert_eq!(layout.encode(parts(layout.end_ms() + 1, 0, 0)), None);
        assert_eq!(layout.decode(1 << 63), None);
    }

    proptest! {
        #[test]
        fn every_id_comes_apart_and_together_again(
            time in 32u32..=52, worker in 0u32..=10, sequence in 1u32..=12, id: u64
        ) {
            let layout = Layout::new(time.min(64 - worker - sequence), worker, sequence, 7).unwrap();
            if let Some(parts) = layout.decode(id) {
                prop_assert_eq!(layout.encode(parts), Some(id));
            }
        }
    }
}
