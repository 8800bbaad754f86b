//! SCAN's cursors into the cold tier.
//!
//! A cursor is a number, a place among cold keys is two names. The places that
//! cursors stand for are kept here, up to a limit; the oldest are forgotten.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

/// Marks a cursor into the cold tier. Cursors into memory never have this bit, and with it they still fit
/// into signed integers.
const COLD: u64 = 1 << 62;
/// Places remembered at a time.
const CURSORS_MAX: usize = 4096;

/// A tag and a key of it.
pub type ColdPlace = (Vec<u8>, Vec<u8>);

/// The places that cursors stand for.
#[derive(Default)]
pub struct Cursors(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    latest: u64,
    places: HashMap<u64, ColdPlace, ahash::RandomState>,
    order: VecDeque<u64>,
}

/// Where a cold cursor leads.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    Start,
    After(ColdPlace),
    /// It was never given, or too long ago.
    Unknown,
}

impl Cursors {
    /// The cursor of the first cold key.
    pub const START: u64 = COLD;

    /// Tells whether a cursor leads into the cold tier.
    pub fn is_cold(cursor: u64) -> bool {
        cursor & COLD != 0
    }

    /// Returns a cursor that goes on after a place.
    pub fn after(&self, place: ColdPlace) -> u64 {
        let mut inner = self.0.lock();
        inner.latest += 1;
        let cursor = COLD | inner.latest;
        inner.places.insert(cursor, place);
        inner.order.push_back(cursor);
        if inner.order.len() > CURSORS_MAX
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.places.remove(&oldest);
        }
        cursor
    }

    pub fn find(&self, cursor: u64) -> Found {
        if cursor == Cursors::START {
            return Found::Start;
        }
        match self.0.lock().places.get(&cursor) {
            Some(place) => Found::After(place.clone()),
            None => Found::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_lead_where_they_were_made_for_until_they_are_too_old() {
        let cursors = Cursors::default();
        let place = |number: usize| (vec![number as u8], number.to_string().into_bytes());
        let first = cursors.after(place(0));
        assert!(Cursors::is_cold(first) && i64::try_from(first).is_ok());
        assert_eq!(cursors.find(first), Found::After(place(0)));
        assert_eq!(cursors.find(Cursors::START), Found::Start);
        (1..=CURSORS_MAX).for_each(|number| {
            cursors.after(place(number));
        });
        assert_eq!(cursors.find(first), Found::Unknown);
    }
}
