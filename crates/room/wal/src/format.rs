//! The bytes of a segment file.
//!
//! ```text
//! segment header, 40 bytes: magic 8 | version u32 | zero u32 | start u64 | follows u64 | crc u32 | zero u32
//! record:                   length u32 | crc u32 | payload
//! mark:                     length u32 = 0x8000_0008 | crc u32 | durable u64
//! ```
//!
//! Numbers are little-endian. A position counts the bytes of records and marks, not those
//! of segment headers: in a file, position `p` is at byte `40 + p - start`. `follows` is the
//! position at which the segment before ends, whatever else that file may hold after it; it
//! differs from `start` only where positions were skipped.
//!
//! A record's crc covers its own position, its length and its payload, so that a record is
//! taken for one only where it was written. No record is empty: a run of zeros is no record.
//!
//! A mark stands at the beginning of each batch of records and says up to which position the
//! disk had confirmed when the batch was written. It distinguishes damage from a torn end.

use crc32fast::Hasher;

/// The longest record. A value is 512 MiB at most; this leaves room for what goes with it.
pub const RECORD_BYTES_MAX: usize = 1 << 30;

pub(crate) const VERSION: u32 = 1;
pub(crate) const SEGMENT_HEADER_BYTES: u64 = 40;
pub(crate) const RECORD_HEADER_BYTES: usize = 8;
pub(crate) const MARK_BYTES: usize = 16;
pub(crate) const MARK_LENGTH: u32 = 0x8000_0008;

const MAGIC: [u8; 8] = *b"nagayaWL";

/// What the first bytes of a segment say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) start: u64,
    pub(crate) follows: u64,
}

/// Why the first bytes of a file are no segment header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadHeader {
    Unreadable,
    Version(u32),
}

impl SegmentHeader {
    pub(crate) fn encode(self) -> [u8; SEGMENT_HEADER_BYTES as usize] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.start.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.follows.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..32]);
        bytes[32..36].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BadHeader> {
        let whole = bytes.len() >= SEGMENT_HEADER_BYTES as usize;
        if !whole || bytes[..8] != MAGIC || crc32fast::hash(&bytes[..32]) != u32_at(bytes, 32) {
            return Err(BadHeader::Unreadable);
        }
        match u32_at(bytes, 8) {
            VERSION => Ok(Self {
                start: u64_at(bytes, 16),
                follows: u64_at(bytes, 24),
            }),
            other => Err(BadHeader::Version(other)),
        }
    }
}

/// Returns how many bytes of payload a length field announces, or `None` when it can be no such field.
pub(crate) fn payload_bytes(length: u32) -> Option<usize> {
    match length {
        MARK_LENGTH => Some(MARK_BYTES - RECORD_HEADER_BYTES),
        0 => None,
        length if length as usize <= RECORD_BYTES_MAX => Some(length as usize),
        _ => None,
    }
}

/// Adds a record whose crc is filled in later, by [`seal`].
pub(crate) fn push_record(batch: &mut Vec<u8>, record: &[u8]) {
    batch.reserve(RECORD_HEADER_BYTES + record.len());
    batch.extend_from_slice(&u64::from(record.len() as u32).to_le_bytes());
    batch.extend_from_slice(record);
}

/// Adds a mark whose position and crc are filled in later, by [`seal`].
pub(crate) fn push_mark(batch: &mut Vec<u8>) {
    batch.extend_from_slice(&u64::from(MARK_LENGTH).to_le_bytes());
    batch.extend_from_slice(&[0; 8]);
}

/// Fills in the checksums of a batch that begins at position `start`, and what its marks say.
///
/// It is done once per batch and outside the lock that appends take: they pay for a copy only.
pub(crate) fn seal(batch: &mut [u8], start: u64, durable: u64) {
    let mut at = 0;
    while at < batch.len() {
        let size = frame_bytes(&batch[at..]);
        let frame = &mut batch[at..at + size];
        if u32_at(frame, 0) == MARK_LENGTH {
            frame[8..].copy_from_slice(&durable.to_le_bytes());
        }
        let crc = checksum(frame, start + at as u64);
        frame[4..8].copy_from_slice(&crc.to_le_bytes());
        at += size;
    }
}

/// Returns the size of the first record or mark of a batch made by this process.
pub(crate) fn frame_bytes(batch: &[u8]) -> usize {
    let payload = payload_bytes(u32_at(batch, 0)).expect("the batch was made by push_record and push_mark");
    RECORD_HEADER_BYTES + payload
}

/// Returns whether a whole record or mark is what was written at that position.
pub(crate) fn is_sound(frame: &[u8], position: u64) -> bool {
    checksum(frame, position) == u32_at(frame, 4)
}

fn checksum(frame: &[u8], position: u64) -> u32 {
    let mut head = [0; 12];
    head[..8].copy_from_slice(&position.to_le_bytes());
    head[8..].copy_from_slice(&frame[..4]);
    let mut hasher = Hasher::new();
    hasher.update(&head);
    hasher.update(&frame[RECORD_HEADER_BYTES..]);
    hasher.finalize()
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(
        bytes[at..at + 4]
            .try_into()
            .expect("the range is four bytes long"),
    )
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(
        bytes[at..at + 8]
            .try_into()
            .expect("the range is eight bytes long"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_and_a_changed_one_does_not() {
        let header = SegmentHeader {
            start: 7_000_000_000,
            follows: 6_999_999_000,
        };
        let bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
        for at in 0..36 {
            let mut changed = bytes;
            changed[at] ^= 0x10;
            assert_eq!(
                SegmentHeader::decode(&changed),
                Err(BadHeader::Unreadable),
                "byte {at}"
            );
        }
        assert_eq!(SegmentHeader::decode(&bytes[..39]), Err(BadHeader::Unreadable));
    }

    #[test]
    fn a_record_is_sound_only_at_its_own_position() {
        let mut batch = Vec::new();
        push_mark(&mut batch);
        push_record(&mut batch, b"hello");
        seal(&mut batch, 100, 90);
        assert_eq!(u64_at(&batch, 8), 90);
        assert!(is_sound(&batch[..MARK_BYTES], 100));
        assert!(is_sound(&batch[MARK_BYTES..], 116));
        assert!(!is_sound(&batch[MARK_BYTES..], 117));
    }

    #[test]
    fn zeros_and_absurd_lengths_are_no_records() {
        assert_eq!(payload_bytes(0), None);
        assert_eq!(payload_bytes(u32::MAX), None);
        assert_eq!(payload_bytes(RECORD_BYTES_MAX as u32 + 1), None);
        assert_eq!(payload_bytes(1), Some(1));
    }
}
