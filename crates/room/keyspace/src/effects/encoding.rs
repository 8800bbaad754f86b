//! The bytes of a record: one effect after the other.
//!
//! An effect is the number of its arguments, then each argument's length and
//! bytes. Numbers are little-endian base-128 varints.

/// The word before an effect that needs to know when it happened; Unix milliseconds and the command follow.
pub const AT: &[u8] = b"AT";

/// The word before the number of the space that the effects behind it, up to the end of the record, are about.
/// Those at its beginning are about space 0.
pub const SELECT: &[u8] = b"SELECT";

/// The bytes are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("record is cut short or malformed at byte {at}")]
pub struct Corrupt {
    pub at: usize,
}

/// A record being put together. Cleared and used again, it does not allocate.
#[derive(Default)]
pub struct EffectBuf(Vec<u8>);

impl EffectBuf {
    /// Adds an effect.
    #[inline]
    pub fn push(&mut self, args: &[&[u8]]) {
        self.push_iter(args.len(), args.iter().copied());
    }

    /// Adds an effect of exactly `count` arguments.
    #[inline]
    pub fn push_iter<'a>(&mut self, count: usize, args: impl Iterator<Item = &'a [u8]>) {
        put_varint(&mut self.0, count as u64);
        for arg in args {
            put_varint(&mut self.0, arg.len() as u64);
            self.0.extend_from_slice(arg);
        }
    }

    /// Returns the record.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes the record empty; keeps up to `bytes_max` of room for the next one.
    #[inline]
    pub fn clear(&mut self, bytes_max: usize) {
        self.0.clear();
        if self.0.capacity() > bytes_max {
            self.0.shrink_to(bytes_max);
        }
    }
}

#[inline]
fn put_varint(buf: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        buf.push(number as u8 | 0x80);
        number >>= 7;
    }
    buf.push(number as u8);
}

/// Walks the effects of a record. Any bytes will do; after an error nothing more comes.
#[derive(Clone)]
pub struct Reader<'a> {
    record: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(record: &'a [u8]) -> Reader<'a> {
        Reader { record, at: 0 }
    }

    fn effect(&mut self) -> Option<Effect<'a>> {
        let count = usize::try_from(take_varint(self.record, &mut self.at)?).ok()?;
        let start = self.at;
        // Each argument takes a byte at least.
        if count == 0 || count > self.record.len() - start {
            return None;
        }
        for _ in 0..count {
            take_arg(self.record, &mut self.at)?;
        }
        Some(Effect {
            args: &self.record[start..self.at],
            count,
        })
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Effect<'a>, Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.record.len() {
            return None;
        }
        let start = self.at;
        let effect = self.effect();
        if effect.is_none() {
            self.at = self.record.len();
        }
        Some(effect.ok_or(Corrupt { at: start }))
    }
}

/// One effect; at least one argument.
#[derive(Clone, Copy)]
pub struct Effect<'a> {
    /// Checked: `count` whole arguments.
    args: &'a [u8],
    count: usize,
}

impl<'a> Effect<'a> {
    /// Returns the arguments, the command's name first.
    pub fn args(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (bytes, mut at) = (self.args, 0);
        (0..self.count).map_while(move |_| take_arg(bytes, &mut at))
    }
}

fn take_arg<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let length = usize::try_from(take_varint(bytes, at)?).ok()?;
    let end = at.checked_add(length)?;
    let arg = bytes.get(*at..end)?;
    *at = end;
    Some(arg)
}

fn take_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn effects(record: &[u8]) -> Result<Vec<Vec<Vec<u8>>>, Corrupt> {
        Reader::new(record)
            .map(|effect| Ok(effect?.args().map(<[u8]>::to_vec).collect()))
            .collect()
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            written in proptest::collection::vec(
                proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..6), 0..6)
        ) {
            let mut buf = EffectBuf::default();
            for effect in &written {
                buf.push(&effect.iter().map(Vec::as_slice).collect::<Vec<_>>());
            }
            prop_assert_eq!(effects(buf.as_bytes()), Ok(written.clone()));
            for cut in 0..buf.as_bytes().len() {
                if let Ok(read) = effects(&buf.as_bytes()[..cut]) {
                    prop_assert!(read.len() < written.len());
                }
            }
        }

        #[test]
        fn any_bytes_give_effects_or_an_error(record in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = effects(&record);
        }
    }

    #[test]
    fn lengths_past_the_end_are_refused() {
        for record in [
            &[0][..],
            &[2, 1, b'a'],
            &[1, 2, b'a'],
            &[0xff; 12],
            &[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &[0x80],
        ] {
            assert!(effects(record).is_err(), "{record:?}");
        }
    }
}
