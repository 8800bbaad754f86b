//! One element as a reader sees it.

use super::parse_int;

/// One element of a listpack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A string that is the canonical text of this integer.
    Int(i64),
    /// Any other string.
    Str(&'a [u8]),
}

/// Room for the text of an integer item.
#[derive(Default)]
pub struct ItemBuf(itoa::Buffer);

impl ItemBuf {
    /// Returns an empty buffer.
    pub fn new() -> ItemBuf {
        ItemBuf::default()
    }
}

impl<'a> Item<'a> {
    /// Returns the element as text, written into `buf` when it is an integer.
    #[inline]
    pub fn as_bytes<'b>(&self, buf: &'b mut ItemBuf) -> &'b [u8]
    where
        'a: 'b,
    {
        match *self {
            Item::Int(int) => buf.0.format(int).as_bytes(),
            Item::Str(bytes) => bytes,
        }
    }

    /// Returns whether the element's text is `other`.
    #[inline]
    pub fn eq_bytes(&self, other: &[u8]) -> bool {
        match *self {
            Item::Int(int) => ItemBuf::new().0.format(int).as_bytes() == other,
            Item::Str(bytes) => bytes == other,
        }
    }

    /// Returns the element's text as bytes of its own.
    pub fn to_vec(&self) -> Vec<u8> {
        self.as_bytes(&mut ItemBuf::new()).to_vec()
    }

    /// Returns the element's integer, also when it was stored as its text.
    #[inline]
    pub fn int(&self) -> Option<i64> {
        match *self {
            Item::Int(int) => Some(int),
            Item::Str(bytes) => parse_int(bytes),
        }
    }

    /// Returns the length of the element's text.
    #[inline]
    pub fn text_len(&self) -> usize {
        match *self {
            Item::Int(int) => ItemBuf::new().0.format(int).len(),
            Item::Str(bytes) => bytes.len(),
        }
    }
}

/// Something to look for in listpacks, with its integer form worked out once.
#[derive(Clone, Copy, Debug)]
pub struct SearchItem<'a> {
    bytes: &'a [u8],
    int: Option<i64>,
}

impl<'a> SearchItem<'a> {
    /// Prepares `bytes` to be compared with many items.
    pub fn new(bytes: &'a [u8]) -> SearchItem<'a> {
        SearchItem {
            bytes,
            int: parse_int(bytes),
        }
    }

    /// Returns whether the item's text is the searched one.
    #[inline]
    pub fn matches(&self, item: Item<'_>) -> bool {
        match item {
            Item::Int(int) => self.int == Some(int),
            Item::Str(bytes) => bytes == self.bytes,
        }
    }
}
