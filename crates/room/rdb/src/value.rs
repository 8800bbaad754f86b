//! The structure of values: where each ends, and where it can be cut into parts.

use std::io::Read;

use crate::Error;
use crate::source::Source;

const MODULE_OLD: u8 = 6;
const MODULE: u8 = 7;
const STREAM_7: u8 = 19;
const STREAM_7_2: u8 = 21;
/// A hash whose fields may expire, with the earliest of all times in front.
const HASH_WITH_EXPIRIES: u8 = 24;
const HASH_LISTPACK_WITH_EXPIRIES: u8 = 25;

/// What one element of a counted type is made of.
#[derive(Clone, Copy)]
enum Element {
    /// List and set members, ziplists of a list.
    String,
    /// A field and its value.
    Pair,
    /// A member and its score as text with a byte of length.
    TextScore,
    /// A member and its score in eight bytes.
    BinaryScore,
    /// A kind of node and its bytes.
    Node,
    /// An expiry, a field and its value.
    ExpiringPair,
}

/// A value whose end has not been reached.
pub(crate) struct Walk {
    kind: u8,
    element: Option<Element>,
    /// What stands between the type and the count.
    earliest_expiry: Option<[u8; 8]>,
    /// Elements to come; 1 for a value that has none.
    left: u64,
    counted: Option<u64>,
}

impl Walk {
    /// Reads up to the first element. `offset` is that of the type byte.
    pub(crate) fn begin<R: Read>(source: &mut Source<R>, kind: u8, offset: u64) -> Result<Walk, Error> {
        let element = match kind {
            1 | 2 | 14 => Some(Element::String),
            3 => Some(Element::TextScore),
            4 => Some(Element::Pair),
            5 => Some(Element::BinaryScore),
            18 => Some(Element::Node),
            22 | HASH_WITH_EXPIRIES => Some(Element::ExpiringPair),
            0 | 9..=13 | 15..=17 | STREAM_7..=STREAM_7_2 | 23 | HASH_LISTPACK_WITH_EXPIRIES | MODULE => None,
            MODULE_OLD => return Err(Error::OldModule { offset }),
            _ => return Err(Error::UnknownType { offset, kind }),
        };
        let earliest_expiry = if kind == HASH_WITH_EXPIRIES {
            Some(source.array()?)
        } else {
            None
        };
        let counted = match element {
            Some(_) => Some(source.length()?),
            None => None,
        };
        Ok(Walk {
            kind,
            element,
            earliest_expiry,
            left: counted.unwrap_or(1),
            counted,
        })
    }

    /// Returns how many elements the value says to have; for a list, how many nodes.
    pub(crate) fn counted(&self) -> Option<u64> {
        self.counted
    }

    pub(crate) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Whether it may be cut between two steps. Hashes whose fields expire are not: who puts the parts together
    /// by ordinary commands would lose the expiries.
    pub(crate) fn has_parts(&self) -> bool {
        !matches!(self.element, None | Some(Element::ExpiringPair))
    }

    /// Returns what comes before the elements in a payload of `count` of them.
    pub(crate) fn head(&self, count: u64) -> Vec<u8> {
        let mut head = vec![self.kind];
        if let Some(earliest) = self.earliest_expiry {
            head.extend_from_slice(&earliest);
        }
        if self.element.is_some() {
            put_length(&mut head, count);
        }
        head
    }

    /// Passes over one element, or over the whole of a value that has none.
    pub(crate) fn step<R: Read>(&mut self, source: &mut Source<R>) -> Result<(), Error> {
        self.left -= 1;
        match self.element {
            Some(Element::String) => source.pass_string(),
            Some(Element::Pair) => {
                source.pass_string()?;
                source.pass_string()
            }
            Some(Element::TextScore) => {
                source.pass_string()?;
                match source.byte()? {
                    // Infinite or not a number: no text follows.
                    253..=255 => Ok(()),
                    len => source.pass(u64::from(len)),
                }
            }
            Some(Element::BinaryScore) => {
                source.pass_string()?;
                source.pass(8)
            }
            Some(Element::Node) => {
                source.length()?;
                source.pass_string()
            }
            Some(Element::ExpiringPair) => {
                source.length()?;
                source.pass_string()?;
                source.pass_string()
            }
            None => self.pass_whole(source),
        }
    }

    fn pass_whole<R: Read>(&self, source: &mut Source<R>) -> Result<(), Error> {
        match self.kind {
            15 | STREAM_7 | STREAM_7_2 => pass_stream(source, self.kind),
            // Its number was read with the key.
            MODULE => pass_module_parts(source),
            HASH_LISTPACK_WITH_EXPIRIES => {
                source.pass(8)?;
                source.pass_string()
            }
            _ => source.pass_string(),
        }
    }
}

/// Every count is followed by that many things of at least one byte, so a false one ends with the file.
fn pass_stream<R: Read>(source: &mut Source<R>, kind: u8) -> Result<(), Error> {
    for _ in 0..source.length()? {
        source.pass_string()?;
        source.pass_string()?;
    }
    source.length()?;
    pass_id(source)?;
    if kind >= STREAM_7 {
        pass_id(source)?;
        pass_id(source)?;
        source.length()?;
    }
    for _ in 0..source.length()? {
        pass_group(source, kind)?;
    }
    Ok(())
}

fn pass_group<R: Read>(source: &mut Source<R>, kind: u8) -> Result<(), Error> {
    source.pass_string()?;
    pass_id(source)?;
    if kind >= STREAM_7 {
        source.length()?;
    }
    // Pending entries: id, time of delivery, deliveries.
    for _ in 0..source.length()? {
        source.pass(16 + 8)?;
        source.length()?;
    }
    // Consumers: name, time seen, time active, ids.
    let times = if kind >= STREAM_7_2 { 16 } else { 8 };
    for _ in 0..source.length()? {
        source.pass_string()?;
        source.pass(times)?;
        for _ in 0..source.length()? {
            source.pass(16)?;
        }
    }
    Ok(())
}

fn pass_id<R: Read>(source: &mut Source<R>) -> Result<(), Error> {
    source.length()?;
    source.length().map(drop)
}

/// Passes over what a module wrote, up to its end mark.
pub(crate) fn pass_module_parts<R: Read>(source: &mut Source<R>) -> Result<(), Error> {
    loop {
        let offset = source.offset();
        match source.length()? {
            0 => return Ok(()),
            1 | 2 => source.length().map(drop)?,
            3 => source.pass(4)?,
            4 => source.pass(8)?,
            5 => source.pass_string()?,
            _ => {
                return Err(Error::Damaged {
                    offset,
                    what: "the data of a module has a part of an unknown kind",
                });
            }
        }
    }
}

/// Returns the name in a module's number: nine characters of six bits above ten bits of version.
pub(crate) fn module_name(id: u64) -> String {
    const CHARACTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    (0..9)
        .map(|index| char::from(CHARACTERS[(id >> (58 - 6 * index) & 63) as usize]))
        .collect()
}

/// Writes a length in its shortest form.
pub(crate) fn put_length(out: &mut Vec<u8>, length: u64) {
    if length < 1 << 6 {
        out.push(length as u8);
    } else if length < 1 << 14 {
        out.extend_from_slice(&((length as u16) | 1 << 14).to_be_bytes());
    } else if let Ok(short) = u32::try_from(length) {
        out.push(0x80);
        out.extend_from_slice(&short.to_be_bytes());
    } else {
        out.push(0x81);
        out.extend_from_slice(&length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modules_number_spells_its_name() {
        // "ReJSON-RL" of version 3, as RedisJSON writes it.
        let name = b"ReJSON-RL";
        let characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let id = name.iter().fold(0, |id: u64, byte| {
            id << 6 | characters.find(char::from(*byte)).unwrap() as u64
        });
        assert_eq!(module_name(id << 10 | 3), "ReJSON-RL");
    }
}
