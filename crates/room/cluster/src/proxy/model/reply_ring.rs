//! The replies a client is owed, in the order of its requests.
//!
//! Requests go to several nodes and are answered in any order. Each takes a place in
//! the ring when it is sent; replies are written out from the front as far as they
//! are complete.

use std::collections::VecDeque;

/// One reply that is owed.
#[derive(Debug)]
enum ReplySlot {
    Awaited,
    /// Awaited, and dropped when it comes (CLIENT REPLY).
    Unwanted,
    Here(Vec<u8>),
}

/// The replies that are owed to one client.
#[derive(Debug, Default)]
pub(crate) struct ReplyRing {
    slots: VecDeque<ReplySlot>,
    /// The number of the first place.
    first: u32,
}

impl ReplyRing {
    /// Takes the next place.
    pub(crate) fn reserve(&mut self, wanted: bool) -> u32 {
        let number = self.first.wrapping_add(self.slots.len() as u32);
        self.slots.push_back(if wanted {
            ReplySlot::Awaited
        } else {
            ReplySlot::Unwanted
        });
        number
    }

    /// Puts a reply into its place and moves what is complete to `out`.
    #[inline]
    pub(crate) fn fill(&mut self, number: u32, reply: &[u8], out: &mut Vec<u8>) {
        let at = number.wrapping_sub(self.first) as usize;
        if at != 0 {
            if let Some(slots) = self.slots.get_mut(at) {
                *slots = ReplySlot::Here(match slots {
                    ReplySlot::Unwanted => Vec::new(),
                    _ => reply.to_vec(),
                });
            }
            return;
        }
        if matches!(self.slots.front(), Some(ReplySlot::Awaited)) {
            out.extend_from_slice(reply);
        }
        self.drop_first();
        while let Some(ReplySlot::Here(reply)) = self.slots.front() {
            out.extend_from_slice(reply);
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if self.slots.pop_front().is_some() {
            self.first = self.first.wrapping_add(1);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_leave_in_the_order_of_their_requests() {
        let (mut ring, mut out) = (ReplyRing::default(), Vec::new());
        let numbers: Vec<u32> = (0..4).map(|_| ring.reserve(true)).collect();
        ring.fill(numbers[2], b"c", &mut out);
        ring.fill(numbers[1], b"b", &mut out);
        assert_eq!((out.as_slice(), ring.len()), (&b""[..], 4));
        ring.fill(numbers[0], b"a", &mut out);
        assert_eq!((out.as_slice(), ring.len()), (&b"abc"[..], 1));
        ring.fill(numbers[3], b"d", &mut out);
        assert_eq!(out, b"abcd");
        assert!(ring.is_empty());
    }

    #[test]
    fn unwanted_replies_keep_their_place_and_leave_no_bytes() {
        let (mut ring, mut out) = (ReplyRing::default(), Vec::new());
        let (first, second, third) = (ring.reserve(false), ring.reserve(false), ring.reserve(true));
        ring.fill(third, b"c", &mut out);
        ring.fill(second, b"b", &mut out);
        ring.fill(first, b"a", &mut out);
        assert_eq!(out, b"c");
    }

    #[test]
    fn numbers_wrap_around() {
        let mut ring = ReplyRing {
            first: u32::MAX,
            ..ReplyRing::default()
        };
        let mut out = Vec::new();
        let (last, zero) = (ring.reserve(true), ring.reserve(true));
        assert_eq!((last, zero), (u32::MAX, 0));
        ring.fill(zero, b"b", &mut out);
        ring.fill(last, b"a", &mut out);
        assert_eq!(out, b"ab");
    }
}
