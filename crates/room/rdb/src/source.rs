//! Bytes of a file in order: where they stand, their checksum, and the lengths and strings they spell.

use std::io::{self, Read};

use nagaya_store::rdb::{crc64, unpack_lzf};

use crate::Error;

const BUFFER_BYTES: usize = 64 << 10;

const SHORT_INT_8: u8 = 0;
const SHORT_INT_16: u8 = 1;
const SHORT_INT_32: u8 = 2;
const SHORT_LZF: u8 = 3;

/// A length, or the kind of the short form of a string in its place.
enum Length {
    Plain(u64),
    Short(u8),
}

/// The file behind a buffer. Memory is taken for bytes that have arrived, never for a length that is claimed.
pub(crate) struct Source<R> {
    inner: R,
    buffer: Box<[u8]>,
    at: usize,
    filled: usize,
    /// Where the buffer's first byte stands in the file.
    base: u64,
    /// The checksum of all bytes before `summed`.
    crc: u64,
    summed: usize,
    kept: Option<Kept>,
}

/// Bytes that are remembered while they are passed.
struct Kept {
    bytes: Vec<u8>,
    max: usize,
}

impl<R: Read> Source<R> {
    pub(crate) fn new(inner: R) -> Source<R> {
        Source {
            inner,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            at: 0,
            filled: 0,
            base: 0,
            crc: 0,
            summed: 0,
            kept: None,
        }
    }

    /// Returns where the next byte stands in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Returns the checksum of all bytes so far.
    pub(crate) fn checksum(&mut self) -> u64 {
        self.crc = crc64(self.crc, &self.buffer[self.summed..self.at]);
        self.summed = self.at;
        self.crc
    }

    /// Remembers what is passed from now on; more than `max` bytes are an error.
    pub(crate) fn keep(&mut self, max: usize) {
        let bytes = Vec::new();
        self.kept = Some(Kept { bytes, max });
    }

    pub(crate) fn kept_len(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.bytes.len())
    }

    /// Returns what was passed since [`keep`](Source::keep).
    pub(crate) fn take_kept(&mut self) -> Vec<u8> {
        self.kept.take().map_or(Vec::new(), |kept| kept.bytes)
    }

    /// Returns whether the file has no further byte.
    pub(crate) fn is_at_end(&mut self) -> Result<bool, Error> {
        match self.fill() {
            Ok(()) => Ok(false),
            Err(Error::Cut { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Reads to the end of the file; `None` if there are more than `max` bytes.
    pub(crate) fn rest(&mut self, max: usize) -> Result<Option<Vec<u8>>, Error> {
        let mut rest = Vec::new();
        while !self.is_at_end()? {
            rest.extend_from_slice(&self.buffer[self.at..self.filled]);
            self.at = self.filled;
            if rest.len() > max {
                return Ok(None);
            }
        }
        Ok(Some(rest))
    }

    /// Makes sure that the buffer has a byte.
    fn fill(&mut self) -> Result<(), Error> {
        if self.at < self.filled {
            return Ok(());
        }
        self.checksum();
        self.base += self.filled as u64;
        (self.at, self.filled, self.summed) = (0, 0, 0);
        loop {
            match self.inner.read(&mut self.buffer) {
                Ok(0) => {
                    let offset = self.base;
                    return Err(Error::Cut { offset });
                }
                Ok(count) => {
                    self.filled = count;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(source) => {
                    let offset = self.base;
                    return Err(Error::Read { offset, source });
                }
            }
        }
    }

    /// Passes over some bytes, which come in pieces.
    fn pass_to(&mut self, len: u64, mut to: impl FnMut(&[u8])) -> Result<(), Error> {
        let mut left = len;
        while left > 0 {
            self.fill()?;
            let here = (self.filled - self.at).min(usize::try_from(left).unwrap_or(usize::MAX));
            let piece = &self.buffer[self.at..self.at + here];
            to(piece);
            if let Some(kept) = &mut self.kept {
                if kept.bytes.len() + here > kept.max {
                    return Err(Error::TooLarge {
                        offset: self.base + self.at as u64 - kept.bytes.len() as u64,
                        limit: kept.max as u64,
                    });
                }
                kept.bytes.extend_from_slice(piece);
            }
            self.at += here;
            left -= here as u64;
        }
        Ok(())
    }

    pub(crate) fn pass(&mut self, len: u64) -> Result<(), Error> {
        self.pass_to(len, |_| ())
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut array = [0; N];
        let mut got = 0;
        self.pass_to(N as u64, |piece| {
            array[got..got + piece.len()].copy_from_slice(piece);
            got += piece.len();
        })?;
        Ok(array)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Error> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Reads a length; a short form of a string in its place is damage.
    pub(crate) fn length(&mut self) -> Result<u64, Error> {
        let offset = self.offset();
        match self.length_or_short()? {
            Length::Plain(length) => Ok(length),
            Length::Short(_) => Err(Error::Damaged {
                offset,
                what: "a string stands where a length was expected",
            }),
        }
    }

    fn length_or_short(&mut self) -> Result<Length, Error> {
        let offset = self.offset();
        let first = self.byte()?;
        let low = first & 0b0011_1111;
        Ok(match first >> 6 {
            0 => Length::Plain(u64::from(low)),
            1 => Length::Plain(u64::from(low) << 8 | u64::from(self.byte()?)),
            2 if low == 0 => Length::Plain(u64::from(u32::from_be_bytes(self.array()?))),
            2 if low == 1 => Length::Plain(u64::from_be_bytes(self.array()?)),
            2 => {
                return Err(Error::Damaged {
                    offset,
                    what: "no length begins so",
                });
            }
            _ => Length::Short(low),
        })
    }

    /// Passes over a string of any form.
    pub(crate) fn pass_string(&mut self) -> Result<(), Error> {
        let offset = self.offset();
        match self.length_or_short()? {
            Length::Plain(len) => self.pass(len),
            Length::Short(SHORT_INT_8) => self.pass(1),
            Length::Short(SHORT_INT_16) => self.pass(2),
            Length::Short(SHORT_INT_32) => self.pass(4),
            Length::Short(SHORT_LZF) => {
                let packed = self.length()?;
                self.length()?;
                self.pass(packed)
            }
            Length::Short(_) => Err(unknown_string(offset)),
        }
    }

    /// Reads a string of at most `max` bytes.
    pub(crate) fn string(&mut self, max: u64) -> Result<Vec<u8>, Error> {
        let offset = self.offset();
        let number = match self.length_or_short()? {
            Length::Plain(len) => return self.bytes(offset, len, max),
            Length::Short(SHORT_INT_8) => i32::from(i8::from_le_bytes(self.array()?)),
            Length::Short(SHORT_INT_16) => i32::from(i16::from_le_bytes(self.array()?)),
            Length::Short(SHORT_INT_32) => i32::from_le_bytes(self.array()?),
            Length::Short(SHORT_LZF) => return self.packed(offset, max),
            Length::Short(_) => return Err(unknown_string(offset)),
        };
        Ok(number.to_string().into_bytes())
    }

    fn packed(&mut self, offset: u64, max: u64) -> Result<Vec<u8>, Error> {
        let packed = self.length()?;
        let len = self.length()?;
        if len > max {
            return Err(Error::TooLarge { offset, limit: max });
        }
        let packed = self.bytes(offset, packed, max)?;
        let len = usize::try_from(len).map_err(|_| Error::TooLarge { offset, limit: max })?;
        unpack_lzf(&packed, len).ok_or(Error::Damaged {
            offset,
            what: "a packed string cannot be unpacked",
        })
    }

    fn bytes(&mut self, offset: u64, len: u64, max: u64) -> Result<Vec<u8>, Error> {
        if len > max {
            return Err(Error::TooLarge { offset, limit: max });
        }
        let mut bytes = Vec::new();
        self.pass_to(len, |piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
    }
}

fn unknown_string(offset: u64) -> Error {
    Error::Damaged {
        offset,
        what: "no string begins so",
    }
}
