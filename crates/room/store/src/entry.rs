//! One key with its value, in one block of memory.
//!
//! A keyspace of millions of small keys is mostly overhead, so a key is a
//! single allocation and the table holds one thin pointer to it:
//!
//! ```text
//! stamp u32 | kind and flags u8 | key length u8 | string length u16
//! [expiry i64]            when the flag says so
//! [wide key length u64]   when the key is 255 bytes or longer
//! [payload 8 bytes]       an integer, or a pointer to what does not fit here
//! key bytes
//! [string bytes]          a short string
//! ```
//!
//! Keys without an expiry pay nothing for it; setting one moves the block.
//!
//! Three of the flags are sync flags that the keyspace's owner sets ([`SyncFlags`]); they
//! stay with the key whatever happens to its value.
#![allow(
    unsafe_code,
    reason = "the layout above cannot be said in safe Rust; every access is in this file"
)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::hash::Hash;
use crate::list::List;
use crate::set::Set;
use crate::stream::Stream;
use crate::table::Keyed;
use crate::value::{Collection, StrRef, Value, ValueKind, ValueRef};
use crate::zset::Zset;

/// Longest string kept inside the key's own block.
const INLINE_BYTES_MAX: usize = 1024;
const HEADER: usize = 8;
const WIDE_KEY: u8 = 255;

const KIND_MASK: u8 = 0x0f;
const HAS_EXPIRY: u8 = 0x10;
const MARKS: u8 = 0xe0;

const INT: u8 = 0;
const INLINE: u8 = 1;
const HEAP: u8 = 2;
const LIST: u8 = 3;
const SET: u8 = 4;
const HASH: u8 = 5;
const ZSET: u8 = 6;
const STREAM: u8 = 7;

#[repr(C)]
struct Header {
    /// Written through shared references: reading a key is a use of it.
    stamp: AtomicU32,
    tag: u8,
    key_len: u8,
    inline_len: u16,
}

/// What the copy of a key in slower storage is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncFlags(u8);

impl SyncFlags {
    pub const NONE: SyncFlags = SyncFlags(0);
    /// The value has changed since a copy was last taken.
    pub const UNSAVED: SyncFlags = SyncFlags(0x20);
    /// A copy was taken and is on its way.
    pub const SAVING: SyncFlags = SyncFlags(0x40);
    /// There is, or will be, a copy.
    pub const COPIED: SyncFlags = SyncFlags(0x80);

    /// Joins two sets of flags.
    pub const fn and(self, other: SyncFlags) -> SyncFlags {
        SyncFlags(self.0 | other.0)
    }
}

/// An owning pointer to a key's block.
pub struct Entry {
    block: NonNull<u8>,
}

// SAFETY: the block is owned by this pointer alone and holds only Send data.
unsafe impl Send for Entry {}
// SAFETY: shared references only read, but for the stamp, which is atomic.
unsafe impl Sync for Entry {}

/// What goes into the block beside the key.
enum Payload {
    Int(i64),
    Inline,
    Pointer(u8, *mut u8),
}

impl Entry {
    /// Makes the block for a key and its value.
    pub fn new(key: &[u8], value: Value, expiry: Option<i64>) -> Entry {
        match value {
            Value::Int(number) => Entry::build(key, &[], expiry, Payload::Int(number)),
            Value::Str(bytes) if bytes.len() <= INLINE_BYTES_MAX => {
                Entry::build(key, &bytes, expiry, Payload::Inline)
            }
            Value::Str(bytes) => Entry::build(key, &[], expiry, pointer(HEAP, Box::new(bytes))),
            Value::List(list) => Entry::build(key, &[], expiry, pointer(LIST, list)),
            Value::Set(set) => Entry::build(key, &[], expiry, pointer(SET, set)),
            Value::Hash(hash) => Entry::build(key, &[], expiry, pointer(HASH, hash)),
            Value::Zset(zset) => Entry::build(key, &[], expiry, pointer(ZSET, zset)),
            Value::Stream(stream) => Entry::build(key, &[], expiry, pointer(STREAM, stream)),
        }
    }

    /// Makes the block for a string without taking ownership of its bytes.
    pub fn from_str(key: &[u8], bytes: &[u8], expiry: Option<i64>) -> Entry {
        if let Some(number) = canonical_int(bytes) {
            return Entry::build(key, &[], expiry, Payload::Int(number));
        }
        if bytes.len() <= INLINE_BYTES_MAX {
            return Entry::build(key, bytes, expiry, Payload::Inline);
        }
        Entry::build(key, &[], expiry, pointer(HEAP, Box::new(bytes.to_vec())))
    }

    /// Returns the type of the value.
    #[inline]
    pub fn kind(&self) -> ValueKind {
        match self.tag() & KIND_MASK {
            LIST => ValueKind::List,
            SET => ValueKind::Set,
            HASH => ValueKind::Hash,
            ZSET => ValueKind::Zset,
            STREAM => ValueKind::Stream,
            _ => ValueKind::String,
        }
    }

    /// Returns when the key expires, in Unix milliseconds.
    #[inline]
    pub fn expiry(&self) -> Option<i64> {
        if self.tag() & HAS_EXPIRY == 0 {
            return None;
        }
        // SAFETY: the flag says that the eight bytes after the header are an expiry.
        Some(unsafe { self.block.as_ptr().add(HEADER).cast::<i64>().read() })
    }

    /// Sets or clears the expiry; the block moves when the key had none or loses it.
    pub fn set_expiry(&mut self, expiry: Option<i64>) {
        match (self.tag() & HAS_EXPIRY != 0, expiry) {
            // SAFETY: the expiry's bytes exist, and we hold the block exclusively.
            (true, Some(at)) => unsafe { self.block.as_ptr().add(HEADER).cast::<i64>().write(at) },
            (false, None) => {}
            _ => {
                let payload = self.take_payload();
                let moved = {
                    let inline = if matches!(payload, Payload::Inline) {
                        self.inline_bytes()
                    } else {
                        &[]
                    };
                    Entry::build(self.key(), inline, expiry, payload).succeeding(self)
                };
                *self = moved;
            }
        }
    }

    /// Returns the recency stamp: whatever the keyspace's owner last wrote there.
    #[inline]
    pub fn stamp(&self) -> u32 {
        self.header().stamp.load(Ordering::Relaxed)
    }

    /// Writes the recency stamp; possible through a shared reference because reads touch keys too.
    #[inline]
    pub fn set_stamp(&self, stamp: u32) {
        self.header().stamp.store(stamp, Ordering::Relaxed);
    }

    /// Returns whether any of the flags is set.
    #[inline]
    pub fn has_flag(&self, flags: SyncFlags) -> bool {
        self.tag() & flags.0 != 0
    }

    /// Sets flags.
    #[inline]
    pub fn set_flag(&mut self, flags: SyncFlags) {
        self.header_mut().tag |= flags.0;
    }

    /// Clears flags.
    #[inline]
    pub fn clear_flag(&mut self, flags: SyncFlags) {
        self.header_mut().tag &= !flags.0;
    }

    /// Takes over stamp and sync flags of the block that this one replaces.
    fn succeeding(mut self, old: &Entry) -> Entry {
        self.set_stamp(old.stamp());
        self.take_marks(old);
        self
    }

    /// Takes over the sync flags of an entry of the same key.
    pub(crate) fn take_marks(&mut self, old: &Entry) {
        self.header_mut().tag |= old.tag() & MARKS;
    }

    /// Borrows the value.
    #[inline]
    pub fn value(&self) -> ValueRef<'_> {
        match self.tag() & KIND_MASK {
            // SAFETY (all arms): the tag names the type behind the payload pointer.
            LIST => ValueRef::List(unsafe { &*self.pointer().cast::<List>() }),
            SET => ValueRef::Set(unsafe { &*self.pointer().cast::<Set>() }),
            HASH => ValueRef::Hash(unsafe { &*self.pointer().cast::<Hash>() }),
            ZSET => ValueRef::Zset(unsafe { &*self.pointer().cast::<Zset>() }),
            STREAM => ValueRef::Stream(unsafe { &*self.pointer().cast::<Stream>() }),
            _ => ValueRef::Str(self.string().expect("every other tag is a string")),
        }
    }

    /// Borrows the value as a string, or returns `None` when it is a collection.
    #[inline]
    pub fn string(&self) -> Option<StrRef<'_>> {
        match self.tag() & KIND_MASK {
            INT => Some(StrRef::Int(self.int())),
            INLINE => Some(StrRef::Bytes(self.inline_bytes())),
            // SAFETY: the tag says that the payload points to a byte vector.
            HEAP => Some(StrRef::Bytes(unsafe { &*self.pointer().cast::<Vec<u8>>() })),
            _ => None,
        }
    }

    /// Borrows the value as a collection of one type, or returns `None` when it is another.
    #[inline]
    pub fn collection<T: Collection>(&self) -> Option<&T> {
        // SAFETY: the kind was compared, and a collection's payload points to its type.
        (self.kind() == T::KIND).then(|| unsafe { &*self.pointer().cast::<T>() })
    }

    /// Borrows the value mutably as a collection of one type.
    #[inline]
    pub fn collection_mut<T: Collection>(&mut self) -> Option<&mut T> {
        // SAFETY: as above, and we hold the block exclusively.
        (self.kind() == T::KIND).then(|| unsafe { &mut *self.pointer().cast::<T>() })
    }

    /// Borrows a string as a growable buffer, moving it out of the block first if need be.
    ///
    /// From then on it is a "raw" string until it is set again.
    pub fn string_mut(&mut self) -> Option<&mut Vec<u8>> {
        match self.tag() & KIND_MASK {
            INT | INLINE => {
                let text = self.string()?.to_vec();
                let payload = pointer(HEAP, Box::new(text));
                *self = Entry::build(self.key(), &[], self.expiry(), payload).succeeding(self);
            }
            HEAP => {}
            _ => return None,
        }
        // SAFETY: the tag is HEAP now, and we hold the block exclusively.
        Some(unsafe { &mut *self.pointer().cast::<Vec<u8>>() })
    }

    /// Overwrites the value with a string, keeping the expiry; in place when the size allows.
    #[inline]
    pub fn replace_str(&mut self, bytes: &[u8]) {
        if let Some(number) = canonical_int(bytes) {
            self.replace_int(number);
            return;
        }
        if self.tag() & KIND_MASK == INLINE && self.header().inline_len as usize == bytes.len() {
            let at = self.inline_at();
            // SAFETY: the inline string has exactly this many bytes, and we hold the block exclusively.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.block.as_ptr().add(at), bytes.len())
            };
            return;
        }
        *self = Entry::from_str(self.key(), bytes, self.expiry()).succeeding(self);
    }

    /// Overwrites the value with an integer, keeping the expiry; in place when it was one.
    #[inline]
    pub fn replace_int(&mut self, number: i64) {
        if self.tag() & KIND_MASK == INT {
            // SAFETY: the tag says that the payload is an integer, and we hold the block exclusively.
            unsafe {
                self.block
                    .as_ptr()
                    .add(self.payload_at())
                    .cast::<i64>()
                    .write(number)
            };
            return;
        }
        *self = Entry::build(self.key(), &[], self.expiry(), Payload::Int(number)).succeeding(self);
    }

    /// Takes the value out and frees the block.
    pub fn into_value(mut self) -> Value {
        let kind = self.tag() & KIND_MASK;
        match kind {
            INT => Value::Int(self.int()),
            INLINE => Value::Str(self.inline_bytes().to_vec()),
            _ => {
                let Payload::Pointer(kind, raw) = self.take_payload() else {
                    unreachable!("a value that is not in the block is behind a pointer");
                };
                // SAFETY (all arms): `pointer` made this from a box of the type that the kind names,
                // and `take_payload` gave its ownership to us.
                unsafe {
                    match kind {
                        HEAP => Value::Str(*Box::from_raw(raw.cast())),
                        LIST => Value::List(Box::from_raw(raw.cast())),
                        SET => Value::Set(Box::from_raw(raw.cast())),
                        HASH => Value::Hash(Box::from_raw(raw.cast())),
                        ZSET => Value::Zset(Box::from_raw(raw.cast())),
                        _ => Value::Stream(Box::from_raw(raw.cast())),
                    }
                }
            }
        }
    }

    /// Returns the name OBJECT ENCODING gives.
    pub fn encoding(&self) -> &'static str {
        match self.value() {
            ValueRef::Str(StrRef::Int(_)) => "int",
            ValueRef::Str(StrRef::Bytes(bytes)) => {
                // Redis keeps strings of up to 44 bytes in one block with their object.
                if self.tag() & KIND_MASK == INLINE && bytes.len() <= 44 {
                    "embstr"
                } else {
                    "raw"
                }
            }
            ValueRef::List(list) => list.encoding(),
            ValueRef::Set(set) => set.encoding(),
            ValueRef::Hash(hash) => hash.encoding(),
            ValueRef::Zset(zset) => zset.encoding(),
            ValueRef::Stream(_) => "stream",
        }
    }

    /// Returns the bytes this key and its value take, roughly.
    pub fn mem_bytes(&self) -> usize {
        self.layout().size()
            + match self.value() {
                ValueRef::Str(StrRef::Bytes(_)) if self.tag() & KIND_MASK == HEAP => {
                    // SAFETY: the tag was just compared.
                    let bytes = unsafe { &*self.pointer().cast::<Vec<u8>>() };
                    bytes.capacity() + size_of::<Vec<u8>>()
                }
                ValueRef::Str(_) => 0,
                ValueRef::List(list) => list.mem_bytes(),
                ValueRef::Set(set) => set.mem_bytes(),
                ValueRef::Hash(hash) => hash.mem_bytes(),
                ValueRef::Zset(zset) => zset.mem_bytes(),
                ValueRef::Stream(stream) => stream.mem_bytes(),
            }
    }

    /// Returns how many allocations freeing this entry takes, roughly.
    pub fn free_effort(&self) -> usize {
        match self.value() {
            ValueRef::Str(_) => 1,
            ValueRef::List(list) => list.free_effort(),
            ValueRef::Set(set) => set.free_effort(),
            ValueRef::Hash(hash) => hash.free_effort(),
            ValueRef::Zset(zset) => zset.free_effort(),
            ValueRef::Stream(stream) => stream.free_effort(),
        }
    }

    fn build(key: &[u8], inline: &[u8], expiry: Option<i64>, payload: Payload) -> Entry {
        let wide = key.len() >= WIDE_KEY as usize;
        let kind = match payload {
            Payload::Int(_) => INT,
            Payload::Inline => INLINE,
            Payload::Pointer(kind, _) => kind,
        };
        let tag = kind | if expiry.is_some() { HAS_EXPIRY } else { 0 };
        let header = Header {
            stamp: AtomicU32::new(0),
            tag,
            key_len: if wide { WIDE_KEY } else { key.len() as u8 },
            inline_len: inline.len() as u16,
        };
        let payload_at = HEADER + 8 * usize::from(expiry.is_some()) + 8 * usize::from(wide);
        let key_at = payload_at + if kind == INLINE { 0 } else { 8 };
        let size = key_at + key.len() + inline.len();
        let layout = block_layout(size);
        // SAFETY: the layout's size is at least the header's, so not zero; every write below lies inside it
        // by the sums above, and the block is aligned to 8.
        unsafe {
            let Some(block) = NonNull::new(alloc(layout)) else {
                handle_alloc_error(layout)
            };
            let start = block.as_ptr();
            start.cast::<Header>().write(header);
            if let Some(at) = expiry {
                start.add(HEADER).cast::<i64>().write(at);
            }
            if wide {
                start.add(payload_at - 8).cast::<u64>().write(key.len() as u64);
            }
            match payload {
                Payload::Int(number) => start.add(payload_at).cast::<i64>().write(number),
                Payload::Inline => {}
                Payload::Pointer(_, raw) => start.add(payload_at).cast::<*mut u8>().write(raw),
            }
            std::ptr::copy_nonoverlapping(key.as_ptr(), start.add(key_at), key.len());
            std::ptr::copy_nonoverlapping(inline.as_ptr(), start.add(key_at + key.len()), inline.len());
            Entry { block }
        }
    }

    /// Moves the payload out. The block stays valid to read its key and inline bytes, and no longer owns
    /// what a pointer points to.
    fn take_payload(&mut self) -> Payload {
        let kind = self.tag() & KIND_MASK;
        match kind {
            INT => Payload::Int(self.int()),
            INLINE => Payload::Inline,
            _ => {
                let raw = self.pointer();
                // The block has a payload word already, so calling it an integer frees nothing twice.
                self.header_mut().tag = (self.tag() & !KIND_MASK) | INT;
                Payload::Pointer(kind, raw)
            }
        }
    }

    #[inline]
    fn header(&self) -> &Header {
        // SAFETY: every block starts with an initialised header.
        unsafe { &*self.block.as_ptr().cast::<Header>() }
    }

    #[inline]
    fn header_mut(&mut self) -> &mut Header {
        // SAFETY: as above, and we hold the block exclusively.
        unsafe { &mut *self.block.as_ptr().cast::<Header>() }
    }

    #[inline]
    fn tag(&self) -> u8 {
        self.header().tag
    }

    #[inline]
    fn payload_at(&self) -> usize {
        let header = self.header();
        HEADER + 8 * usize::from(header.tag & HAS_EXPIRY != 0) + 8 * usize::from(header.key_len == WIDE_KEY)
    }

    #[inline]
    fn key_at(&self) -> usize {
        self.payload_at() + if self.tag() & KIND_MASK == INLINE { 0 } else { 8 }
    }

    #[inline]
    fn key_len(&self) -> usize {
        let header = self.header();
        if header.key_len != WIDE_KEY {
            return header.key_len as usize;
        }
        // SAFETY: a wide key's length is the word before the payload.
        unsafe {
            self.block
                .as_ptr()
                .add(self.payload_at() - 8)
                .cast::<u64>()
                .read() as usize
        }
    }

    #[inline]
    fn inline_at(&self) -> usize {
        self.key_at() + self.key_len()
    }

    #[inline]
    fn inline_bytes(&self) -> &[u8] {
        let at = self.inline_at();
        // SAFETY: `build` wrote this many bytes there.
        unsafe { std::slice::from_raw_parts(self.block.as_ptr().add(at), self.header().inline_len as usize) }
    }

    fn int(&self) -> i64 {
        // SAFETY: the caller saw the tag INT.
        unsafe { self.block.as_ptr().add(self.payload_at()).cast::<i64>().read() }
    }

    fn pointer(&self) -> *mut u8 {
        // SAFETY: the caller saw a tag whose payload is a pointer.
        unsafe {
            self.block
                .as_ptr()
                .add(self.payload_at())
                .cast::<*mut u8>()
                .read()
        }
    }

    fn layout(&self) -> Layout {
        block_layout(self.inline_at() + self.header().inline_len as usize)
    }
}

impl Keyed for Entry {
    #[inline]
    fn key(&self) -> &[u8] {
        let (at, len) = (self.key_at(), self.key_len());
        // SAFETY: `build` wrote this many bytes there.
        unsafe { std::slice::from_raw_parts(self.block.as_ptr().add(at), len) }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let layout = self.layout();
        if let Payload::Pointer(kind, raw) = self.take_payload() {
            // SAFETY: as in `into_value`.
            unsafe {
                match kind {
                    HEAP => drop(Box::<Vec<u8>>::from_raw(raw.cast())),
                    LIST => drop(Box::<List>::from_raw(raw.cast())),
                    SET => drop(Box::<Set>::from_raw(raw.cast())),
                    HASH => drop(Box::<Hash>::from_raw(raw.cast())),
                    ZSET => drop(Box::<Zset>::from_raw(raw.cast())),
                    _ => drop(Box::<Stream>::from_raw(raw.cast())),
                }
            }
        }
        // SAFETY: allocated in `build` with the same layout, which depends only on lengths and flags.
        unsafe { dealloc(self.block.as_ptr(), layout) };
    }
}

fn pointer<T>(kind: u8, value: Box<T>) -> Payload {
    Payload::Pointer(kind, Box::into_raw(value).cast())
}

fn canonical_int(bytes: &[u8]) -> Option<i64> {
    if bytes.len() > 20 {
        None
    } else {
        nagaya_resp::parse_i64(bytes)
    }
}

fn block_layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a block is far smaller than the address space")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(entry: &Entry) -> Vec<u8> {
        entry.string().unwrap().to_vec()
    }

    #[test]
    fn a_stamp_is_written_while_others_read_the_entry() {
        let entry = Entry::from_str(b"key", b"value", Some(5));
        std::thread::scope(|scope| {
            scope.spawn(|| (1..=1000).for_each(|stamp| entry.set_stamp(stamp)));
            for _ in 0..1000 {
                assert_eq!(
                    (entry.key(), text(&entry).as_slice()),
                    (&b"key"[..], &b"value"[..])
                );
                assert!(entry.stamp() <= 1000);
            }
        });
        assert_eq!((entry.stamp(), entry.expiry()), (1000, Some(5)));
    }

    #[test]
    fn every_shape_of_key_and_string_reads_back() {
        for key_len in [0, 1, 24, 254, 255, 256, 70_000] {
            for value in [&b""[..], b"12", b"abc", &[7; 1024], &[7; 1025], &[9; 100_000]] {
                for expiry in [None, Some(5)] {
                    let key = vec![b'k'; key_len];
                    let mut entry = Entry::from_str(&key, value, expiry);
                    assert_eq!(
                        (entry.key(), text(&entry).as_slice(), entry.expiry()),
                        (&key[..], value, expiry)
                    );
                    entry.set_stamp(77);
                    entry.set_expiry(Some(9));
                    entry.set_expiry(Some(10));
                    assert_eq!((entry.key(), text(&entry).as_slice()), (&key[..], value));
                    assert_eq!((entry.expiry(), entry.stamp()), (Some(10), 77));
                    entry.set_expiry(None);
                    entry.replace_str(b"xyz");
                    assert_eq!((entry.key(), text(&entry).as_slice()), (&key[..], &b"xyz"[..]));
                    entry.replace_str(b"zyx");
                    entry.string_mut().unwrap().extend_from_slice(b"!");
                    assert_eq!(text(&entry), b"zyx!");
                    entry.replace_int(-4);
                    assert_eq!(
                        (entry.key(), text(&entry).as_slice(), entry.stamp()),
                        (&key[..], &b"-4"[..], 77)
                    );
                    assert!(matches!(entry.into_value(), Value::Int(-4)));
                }
            }
        }
    }

    #[test]
    fn collections_keep_their_value_when_the_block_moves() {
        let mut entry = Entry::new(b"h", Value::Hash(Box::default()), None);
        assert!(entry.collection::<List>().is_none());
        entry.set_expiry(Some(1));
        assert!(entry.collection_mut::<Hash>().is_some());
        assert_eq!(entry.kind(), ValueKind::Hash);
        entry.replace_str(b"gone");
        assert_eq!(entry.kind(), ValueKind::String);
    }

    #[test]
    fn marks_stay_with_the_key_whatever_happens_to_its_value() {
        let mut entry = Entry::from_str(b"k", b"abc", None);
        assert!(!entry.has_flag(SyncFlags::UNSAVED.and(SyncFlags::SAVING).and(SyncFlags::COPIED)));
        entry.set_flag(SyncFlags::UNSAVED.and(SyncFlags::COPIED));
        entry.set_expiry(Some(5));
        entry.replace_str(b"longer than before");
        entry.string_mut().unwrap().push(b'!');
        entry.replace_int(7);
        entry.set_expiry(None);
        assert!(entry.has_flag(SyncFlags::UNSAVED) && entry.has_flag(SyncFlags::COPIED));
        assert!(!entry.has_flag(SyncFlags::SAVING));
        entry.clear_flag(SyncFlags::UNSAVED);
        assert!(!entry.has_flag(SyncFlags::UNSAVED) && entry.has_flag(SyncFlags::COPIED));
        assert_eq!(text(&entry), b"7");
    }

    #[test]
    fn encodings_are_named_as_redis_names_them() {
        assert_eq!(Entry::from_str(b"k", b"12", None).encoding(), "int");
        assert_eq!(Entry::from_str(b"k", &[b'a'; 44], None).encoding(), "embstr");
        assert_eq!(Entry::from_str(b"k", &[b'a'; 45], None).encoding(), "raw");
        let mut entry = Entry::from_str(b"k", b"abc", None);
        entry.string_mut().unwrap().push(b'd');
        assert_eq!(entry.encoding(), "raw");
    }
}
