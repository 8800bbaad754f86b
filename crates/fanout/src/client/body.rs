//! Reads the body of a response, decompresses it, and accounts for every byte.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use flate2::write::MultiGzDecoder;
use http::Response;
use http::header::CONTENT_ENCODING;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

use super::FetchError;
use super::pool::chain;

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) wire: usize,
    pub(super) unpacked: usize,
}

/// The memory budget for all response bodies.
#[derive(Debug)]
pub(crate) struct Buffers {
    used: AtomicUsize,
    max: usize,
}

/// A share of the budget; returned when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    buffers: Arc<Buffers>,
    bytes: usize,
}

impl Buffers {
    pub(crate) fn new(max: usize) -> Buffers {
        Buffers {
            used: AtomicUsize::new(0),
            max,
        }
    }
}

impl Held {
    fn none(buffers: &Arc<Buffers>) -> Held {
        Held {
            buffers: Arc::clone(buffers),
            bytes: 0,
        }
    }

    /// Takes a share at once; `None` if there is not that much left.
    pub(crate) fn take(buffers: &Arc<Buffers>, bytes: usize) -> Option<Held> {
        let mut held = Held::none(buffers);
        held.grow(bytes).ok()?;
        Some(held)
    }

    fn grow(&mut self, bytes: usize) -> Result<(), FetchError> {
        let used = self.buffers.used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        if used + bytes > self.buffers.max {
            Err(FetchError::NoMemory)
        } else {
            Ok(())
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.buffers.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Reads a whole body.
pub(super) async fn read(
    response: Response<Incoming>,
    limits: Limits,
    buffers: &Arc<Buffers>,
) -> Result<(Bytes, Held), FetchError> {
    let is_packed = response
        .headers()
        .get(CONTENT_ENCODING)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"gzip"));
    let mut body = response.into_body();
    if body.size_hint().lower() > limits.wire as u64 {
        return Err(FetchError::TooLarge(
            "its announced length is above `fanout.body_max`",
        ));
    }
    let mut held = Held::none(buffers);
    let mut collector = if is_packed {
        Collector::Packed(MultiGzDecoder::new(Limited::new(limits.unpacked)))
    } else {
        Collector::Plain(Plain::default())
    };
    let (mut wire, mut counted) = (0, 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| FetchError::Refused(chain(&error)))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        wire += data.len();
        if wire > limits.wire {
            return Err(FetchError::TooLarge("it is longer than `fanout.body_max`"));
        }
        let length = collector.push(data)?;
        held.grow(length - counted)?;
        counted = length;
    }
    let bytes = collector.finish()?;
    held.grow(bytes.len() - counted)?;
    Ok((bytes, held))
}

enum Collector {
    Plain(Plain),
    Packed(MultiGzDecoder<Limited>),
}

/// Most responses arrive in one chunk, which is kept without copying.
#[derive(Default)]
struct Plain {
    first: Option<Bytes>,
    all: BytesMut,
}

/// A writer with a size limit: a few kilobytes may decompress to gigabytes.
struct Limited {
    bytes: Vec<u8>,
    max: usize,
    overflowed: bool,
}

impl Limited {
    fn new(max: usize) -> Limited {
        Limited {
            bytes: Vec::new(),
            max,
            overflowed: false,
        }
    }
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.max {
            self.overflowed = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Collector {
    /// Adds a chunk. Returns the number of bytes so far.
    fn push(&mut self, data: Bytes) -> Result<usize, FetchError> {
        match self {
            Collector::Plain(plain) => {
                match plain.first.take() {
                    None if plain.all.is_empty() => {
                        let length = data.len();
                        plain.first = Some(data);
                        return Ok(length);
                    }
                    Some(first) => plain.all.extend_from_slice(&first),
                    None => (),
                }
                plain.all.extend_from_slice(&data);
                Ok(plain.all.len())
            }
            Collector::Packed(decoder) => match decoder.write_all(&data) {
                Ok(()) => Ok(decoder.get_ref().bytes.len()),
                Err(error) => Err(unpacking_failed(decoder.get_ref(), &error)),
            },
        }
    }

    fn finish(self) -> Result<Bytes, FetchError> {
        match self {
            Collector::Plain(Plain {
                first: Some(first), ..
            }) => Ok(first),
            Collector::Plain(plain) => Ok(plain.all.freeze()),
            Collector::Packed(mut decoder) => match decoder.try_finish() {
                Ok(()) => Ok(std::mem::take(&mut decoder.get_mut().bytes).into()),
                Err(error) => Err(unpacking_failed(decoder.get_ref(), &error)),
            },
        }
    }
}

fn unpacking_failed(limited: &Limited, error: &io::Error) -> FetchError {
    if limited.overflowed {
        FetchError::TooLarge("unpacked it is longer than `fanout.unpacked_max`")
    } else {
        FetchError::Refused(format!("its gzip cannot be unpacked: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn unpack(bytes: &[u8], max: usize) -> Result<Bytes, FetchError> {
        let mut collector = Collector::Packed(MultiGzDecoder::new(Limited::new(max)));
        for chunk in bytes.chunks(1000) {
            collector.push(Bytes::copy_from_slice(chunk))?;
        }
        collector.finish()
    }

    #[test]
    fn gzip_is_unpacked_up_to_the_limit() {
        let bomb = packed(&vec![0; 10 << 20]);
        assert!(bomb.len() < 20_000);
        assert!(matches!(unpack(&bomb, 1 << 20), Err(FetchError::TooLarge(_))));
        assert_eq!(unpack(&bomb, 10 << 20).unwrap().len(), 10 << 20);
        assert!(matches!(
            unpack(b"no gzip at all", 100),
            Err(FetchError::Refused(_))
        ));
        let cut = packed(b"hello");
        assert!(matches!(
            unpack(&cut[..cut.len() - 3], 100),
            Err(FetchError::Refused(_))
        ));
    }

    #[test]
    fn pieces_are_joined_and_a_single_one_is_not_copied() {
        let mut one = Collector::Plain(Plain::default());
        let piece = Bytes::from_static(b"whole");
        one.push(piece.clone()).unwrap();
        assert_eq!(one.finish().unwrap().as_ptr(), piece.as_ptr());
        let mut more = Collector::Plain(Plain::default());
        for piece in ["a", "", "b", "c"] {
            more.push(Bytes::from(piece)).unwrap();
        }
        assert_eq!(more.finish().unwrap(), "abc");
    }

    #[test]
    fn memory_is_counted_until_it_is_given_back() {
        let buffers = Arc::new(Buffers::new(10));
        let mut first = Held::none(&buffers);
        first.grow(8).unwrap();
        let mut second = Held::none(&buffers);
        assert!(matches!(second.grow(3), Err(FetchError::NoMemory)));
        drop((first, second));
        assert_eq!(buffers.used.load(Ordering::Relaxed), 0);
    }
}
