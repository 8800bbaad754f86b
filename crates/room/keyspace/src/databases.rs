//! Databases, and the spaces that hold their keys.
//!
//! Clients know databases by their numbers. What is kept of one, in memory, in the
//! write-ahead log and in the cold tier, goes by the number of its *space*.
//! Each database has one space, at first the one of its own number; SWAPDB
//! exchanges the spaces of two databases, however many keys they hold and
//! wherever those are.
//!
//! In the cold tier and wherever tags of several spaces meet, a tag has a *name*:
//! in space 0 the tag itself, in space 3 `{3}` and the tag. No tag looks like that:
//! what stands between braces has no closing one in it, and a key that begins with
//! something in braces is not its own tag. So data from before there were databases
//! is the data of space 0 as it is.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use nagaya_tiering::cold::TagNames;

/// Most databases an engine may have.
pub const DATABASES_MAX: usize = 1024;

/// Which space each database has.
pub struct Databases {
    space_of: Box<[AtomicU16]>,
    /// Spaces from this one on were never used.
    used: AtomicUsize,
}

impl Databases {
    /// Makes `count` databases, each with the space of its number.
    pub fn new(count: usize) -> Databases {
        let count = count.clamp(1, DATABASES_MAX);
        Databases {
            space_of: (0..count).map(|number| AtomicU16::new(number as u16)).collect(),
            used: AtomicUsize::new(1),
        }
    }

    /// Returns how many databases there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.space_of.len()
    }

    /// Returns the space of a database. It stays while any shard is held.
    #[inline]
    pub fn space(&self, database: usize) -> usize {
        usize::from(self.space_of[database].load(Ordering::Relaxed))
    }

    /// Returns the database that has a space.
    pub fn database_of(&self, space: usize) -> usize {
        let mut spaces = self.space_of.iter();
        let found = spaces.position(|known| usize::from(known.load(Ordering::Relaxed)) == space);
        found.unwrap_or(space)
    }

    /// Exchanges the spaces of two databases. The caller holds every shard.
    pub fn swap(&self, first: usize, second: usize) {
        let (one, other) = (self.space(first), self.space(second));
        self.space_of[first].store(other as u16, Ordering::Relaxed);
        self.space_of[second].store(one as u16, Ordering::Relaxed);
    }

    /// Returns the spaces that may hold something.
    #[inline]
    pub fn spaces(&self) -> std::ops::Range<usize> {
        0..self.used.load(Ordering::Acquire)
    }

    /// Notes that a space may hold something from now on.
    #[inline]
    pub fn note_used(&self, space: usize) {
        if space >= self.used.load(Ordering::Relaxed) {
            self.used.fetch_max(space + 1, Ordering::AcqRel);
        }
    }

    /// Returns the spaces in the order of the databases that have them.
    pub fn in_order(&self) -> Vec<u16> {
        let spaces = self.space_of.iter().map(|space| space.load(Ordering::Relaxed));
        spaces.collect()
    }

    /// Gives the databases the spaces that they had in an earlier run; further ones keep that of their number. The
    /// caller has checked that these are the first numbers, each once.
    pub fn restore(&self, spaces: &[u16]) {
        for (own, space) in self.space_of.iter().zip(spaces) {
            own.store(*space, Ordering::Relaxed);
        }
    }
}

/// Returns the name of a tag.
#[inline]
pub fn tag_name(space: usize, tag: &[u8]) -> Cow<'_, [u8]> {
    match space {
        0 => Cow::Borrowed(tag),
        _ => Cow::Owned(prefixed(space, tag)),
    }
}

#[cold]
fn prefixed(space: usize, tag: &[u8]) -> Vec<u8> {
    let mut name = format!("{{{space}}}").into_bytes();
    name.extend_from_slice(tag);
    name
}

/// Returns the space and the tag of a name.
#[inline]
pub fn split_name(name: &[u8]) -> (usize, &[u8]) {
    match name.first() {
        Some(b'{') => split_prefixed(name).unwrap_or((0, name)),
        _ => (0, name),
    }
}

#[cold]
fn split_prefixed(name: &[u8]) -> Option<(usize, &[u8])> {
    let end = memchr::memchr(b'}', name)?;
    let digits = std::str::from_utf8(&name[1..end]).ok()?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    let space: usize = digits.parse().ok().filter(|_| is_number)?;
    (space < DATABASES_MAX).then_some((space, &name[end + 1..]))
}

/// Returns which names the tags of a space have.
pub fn names_of(space: usize) -> TagNames {
    match space {
        0 => TagNames::Unbraced,
        _ => TagNames::Beginning(prefixed(space, b"")),
    }
}

/// Returns a name that comes before all names of a space and after those of most others; nothing when that is the
/// start.
pub(crate) fn before_names_of(space: usize) -> Option<Vec<u8>> {
    // `|` comes before the closing brace.
    (space > 0).then(|| [format!("{{{space}|").as_bytes(), &[0xff; 8]].concat())
}

/// Returns a name behind all names of a space that is not 0.
pub(crate) fn behind_names_of(space: usize) -> Vec<u8> {
    // `~` comes next after the closing brace.
    format!("{{{space}~").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash_tag::hash_tag;

    #[test]
    fn no_tag_of_a_key_is_the_name_of_another_spaces_tag() {
        for key in [
            "plain", "{}x", "{1", "{1}", "{1}x", "a{{1}b}", "{1}{2}", "}{1}x", "{{1}x}", "", "{", "{}{1}a",
        ] {
            let tag = hash_tag(key.as_bytes());
            assert_eq!(split_name(tag), (0, tag), "{key}");
        }
    }

    #[test]
    fn names_lead_back_to_space_and_tag() {
        for space in [0, 1, 15, DATABASES_MAX - 1] {
            for tag in ["", "x", "{}", "{1", "7}"] {
                let name = tag_name(space, tag.as_bytes()).into_owned();
                assert_eq!(split_name(&name), (space, tag.as_bytes()));
                assert!(names_of(space).contain(&name));
                let other = space + 1;
                assert!(!names_of(other).contain(&name));
                if space > 0 {
                    assert!(before_names_of(space).unwrap() < name && name < behind_names_of(space));
                }
            }
        }
        for name in ["{01}x", "{+1}x", "{x}y", "{1024}x", "{99999999999999999999}x"] {
            assert_eq!(split_name(name.as_bytes()), (0, name.as_bytes()));
        }
    }

    #[test]
    fn databases_exchange_their_spaces() {
        let databases = Databases::new(4);
        databases.swap(1, 3);
        databases.swap(3, 0);
        assert_eq!(databases.in_order(), [1, 3, 2, 0]);
        assert_eq!((databases.space(0), databases.database_of(3)), (1, 1));
        let later = Databases::new(6);
        later.restore(&databases.in_order());
        assert_eq!(later.in_order(), [1, 3, 2, 0, 4, 5]);
    }
}
