//! Job ids: 64 bits that grow with time.
//!
//! From the top: 41 bits of milliseconds since 2024-01-01, 10 bits of server number, 12 bits of sequence. Rows
//! with such ids are inserted at the right edge of their index, and an id contains the time of registration.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// 2024-01-01T00:00:00Z, Unix milliseconds.
const EPOCH_MS: i64 = 1_704_067_200_000;
const SEQUENCE_BITS: u32 = 12;
const SERVER_BITS: u32 = 10;
const TIME_SHIFT: u32 = SEQUENCE_BITS + SERVER_BITS;
const SEQUENCE_MAX: i64 = (1 << SEQUENCE_BITS) - 1;

/// Most servers that can make ids for one store.
pub const SERVERS_MAX: u16 = 1 << SERVER_BITS;

/// The name of a job. Always positive; a decimal string on the wire, because JavaScript has no such integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(i64);

impl JobId {
    /// Makes an id of a stored number; `None` for one that no store makes.
    pub fn new(number: i64) -> Option<JobId> {
        (number > 0).then_some(JobId(number))
    }

    pub fn get(self) -> i64 {
        self.0
    }

    /// Returns the approximate time of registration, Unix milliseconds. Ids made in quick succession run
    /// slightly ahead.
    pub fn made_at_ms(self) -> i64 {
        (self.0 >> TIME_SHIFT) + EPOCH_MS
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl FromStr for JobId {
    type Err = Error;

    fn from_str(text: &str) -> Result<JobId, Error> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = if digits { text.parse().ok() } else { None };
        number
            .and_then(JobId::new)
            .filter(|id| id.0.to_string() == text)
            .ok_or_else(|| Error::invalid("id", "is not a job id"))
    }
}

/// Makes ids for one server, each higher than the last, whatever the clock does.
#[derive(Debug)]
pub struct IdMaker {
    server: i64,
    last: i64,
}

impl IdMaker {
    /// Continues above `last`, the highest id that this server may have made before.
    pub fn new(server: u16, last: i64) -> IdMaker {
        assert!(server < SERVERS_MAX, "a server number has {SERVER_BITS} bits");
        IdMaker {
            server: i64::from(server),
            last,
        }
    }

    /// Makes the next id. When the clock stands still or goes back, ids still grow and their time is inexact.
    pub fn next(&mut self, now_ms: i64) -> JobId {
        let now = (now_ms - EPOCH_MS).max(0);
        let last_time = self.last >> TIME_SHIFT;
        let first_of = |time: i64| time << TIME_SHIFT | self.server << SEQUENCE_BITS;
        let block = first_of(last_time);
        self.last = if now > last_time {
            first_of(now)
        } else if self.last < block {
            block
        } else if self.last < block + SEQUENCE_MAX {
            self.last + 1
        } else {
            first_of(last_time + 1)
        };
        // Zero is not a valid id.
        self.last = self.last.max(1);
        JobId(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow_even_when_the_clock_goes_back() {
        let mut maker = IdMaker::new(3, 0);
        let mut last = 0;
        for now_ms in [EPOCH_MS + 5, EPOCH_MS + 5, EPOCH_MS + 9, EPOCH_MS + 1, 0] {
            for _ in 0..10_000 {
                let id = maker.next(now_ms).get();
                assert!(id > last);
                assert_eq!((id >> SEQUENCE_BITS) & 0x3ff, 3, "the server's number is in it");
                last = id;
            }
        }
    }

    #[test]
    fn an_id_tells_its_time() {
        let mut maker = IdMaker::new(0, 0);
        assert_eq!(maker.next(EPOCH_MS + 77_000).made_at_ms(), EPOCH_MS + 77_000);
    }

    #[test]
    fn a_maker_goes_on_above_the_last_id() {
        let last = IdMaker::new(0, 0).next(EPOCH_MS + 1_000).get();
        assert!(IdMaker::new(0, last).next(EPOCH_MS).get() > last);
    }

    #[test]
    fn only_the_plain_decimal_form_is_an_id() {
        assert_eq!("17".parse::<JobId>().unwrap(), JobId(17));
        for text in [
            "",
            "0",
            "-1",
            "+1",
            "017",
            "1e3",
            " 1",
            "9223372036854775808",
            "x",
        ] {
            assert!(text.parse::<JobId>().is_err(), "{text:?}");
        }
    }
}
