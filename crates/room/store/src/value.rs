//! What a key can hold, as one type.

use crate::hash::Hash;
use crate::list::List;
use crate::set::Set;
use crate::stream::Stream;
use crate::zset::Zset;

/// The type of a value, as TYPE names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    String,
    List,
    Set,
    Hash,
    Zset,
    Stream,
}

impl ValueKind {
    /// Returns the name that TYPE and SCAN's TYPE option use.
    pub fn name(self) -> &'static str {
        match self {
            ValueKind::String => "string",
            ValueKind::List => "list",
            ValueKind::Set => "set",
            ValueKind::Hash => "hash",
            ValueKind::Zset => "zset",
            ValueKind::Stream => "stream",
        }
    }
}

/// An owned value on its way into or out of the keyspace.
#[derive(Clone, Debug)]
pub enum Value {
    /// A string that is a canonical 64-bit integer.
    Int(i64),
    Str(Vec<u8>),
    List(Box<List>),
    Set(Box<Set>),
    Hash(Box<Hash>),
    Zset(Box<Zset>),
    Stream(Box<Stream>),
}

impl Value {
    /// Makes a string value; text that is a canonical integer becomes one, as Redis stores it.
    pub fn string(bytes: &[u8]) -> Value {
        match nagaya_resp::parse_i64(bytes) {
            Some(number) if bytes.len() <= 20 => Value::Int(number),
            _ => Value::Str(bytes.to_vec()),
        }
    }

    /// Returns the type of this value.
    #[inline]
    pub fn kind(&self) -> ValueKind {
        match self {
            Value::Int(_) | Value::Str(_) => ValueKind::String,
            Value::List(_) => ValueKind::List,
            Value::Set(_) => ValueKind::Set,
            Value::Hash(_) => ValueKind::Hash,
            Value::Zset(_) => ValueKind::Zset,
            Value::Stream(_) => ValueKind::Stream,
        }
    }

    /// Returns how many allocations freeing this value takes, roughly.
    pub fn free_effort(&self) -> usize {
        match self {
            Value::Int(_) | Value::Str(_) => 1,
            Value::List(list) => list.free_effort(),
            Value::Set(set) => set.free_effort(),
            Value::Hash(hash) => hash.free_effort(),
            Value::Zset(zset) => zset.free_effort(),
            Value::Stream(stream) => stream.free_effort(),
        }
    }
}

/// A borrowed string value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrRef<'a> {
    Int(i64),
    Bytes(&'a [u8]),
}

impl<'a> StrRef<'a> {
    /// Returns the text of the string, written into `buffer` when it is an integer.
    #[inline]
    pub fn as_bytes<'b>(&'b self, buffer: &'b mut itoa::Buffer) -> &'b [u8] {
        match self {
            StrRef::Int(number) => buffer.format(*number).as_bytes(),
            StrRef::Bytes(bytes) => bytes,
        }
    }

    /// Returns the text of the string as an owned copy.
    pub fn to_vec(&self) -> Vec<u8> {
        self.as_bytes(&mut itoa::Buffer::new()).to_vec()
    }

    /// Returns the length of the text in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            StrRef::Int(number) => itoa::Buffer::new().format(*number).len(),
            StrRef::Bytes(bytes) => bytes.len(),
        }
    }

    /// Returns whether the text is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        matches!(self, StrRef::Bytes(bytes) if bytes.is_empty())
    }
}

/// A borrowed value of any type.
#[derive(Clone, Copy, Debug)]
pub enum ValueRef<'a> {
    Str(StrRef<'a>),
    List(&'a List),
    Set(&'a Set),
    Hash(&'a Hash),
    Zset(&'a Zset),
    Stream(&'a Stream),
}

impl ValueRef<'_> {
    /// Returns an owned copy.
    pub fn to_value(&self) -> Value {
        match self {
            ValueRef::Str(StrRef::Int(number)) => Value::Int(*number),
            ValueRef::Str(StrRef::Bytes(bytes)) => Value::Str(bytes.to_vec()),
            ValueRef::List(list) => Value::List(Box::new((*list).clone())),
            ValueRef::Set(set) => Value::Set(Box::new((*set).clone())),
            ValueRef::Hash(hash) => Value::Hash(Box::new((*hash).clone())),
            ValueRef::Zset(zset) => Value::Zset(Box::new((*zset).clone())),
            ValueRef::Stream(stream) => Value::Stream(Box::new((*stream).clone())),
        }
    }

    /// Returns the type of the value.
    #[inline]
    pub fn kind(&self) -> ValueKind {
        match self {
            ValueRef::Str(_) => ValueKind::String,
            ValueRef::List(_) => ValueKind::List,
            ValueRef::Set(_) => ValueKind::Set,
            ValueRef::Hash(_) => ValueKind::Hash,
            ValueRef::Zset(_) => ValueKind::Zset,
            ValueRef::Stream(_) => ValueKind::Stream,
        }
    }
}

/// A collection type that a key can hold behind a pointer.
///
/// Implemented here for exactly the five collections, so that the keyspace can
/// hand out typed references.
pub trait Collection: Default + Sized {
    /// The type's own kind.
    const KIND: ValueKind;
    /// Wraps an owned collection.
    fn into_value(self: Box<Self>) -> Value;
    /// Returns whether nothing is left in it; such a key is removed (streams excepted).
    fn is_empty(&self) -> bool;
}

macro_rules! collections {
    ($($kind:ident),*) => {$(
        impl Collection for $kind {
            const KIND: ValueKind = ValueKind::$kind;
            fn into_value(self: Box<Self>) -> Value {
                Value::$kind(self)
            }
            #[inline]
            fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }
    )*};
}
collections!(List, Set, Hash, Zset, Stream);
