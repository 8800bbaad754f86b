//! The `struct` library: numbers and strings to packed bytes and back, by a format string.

use crate::number;
use crate::raw::{Lua, Raise, Slice, function};

/// Integers of up to this many bytes can be packed, though only eight carry a value.
const INTEGER_BYTES_MAX: usize = 32;
/// What a bare `!` aligns to: the platform's strictest basic type.
const ALIGN_MAX: usize = 8;

/// Pushes the `struct` table.
pub(crate) fn push_library(lua: Lua<'_>) {
    lua.new_table(0, 3);
    lua.set_function(-1, "pack", function!(pack));
    lua.set_function(-1, "unpack", function!(unpack));
    lua.set_function(-1, "size", function!(size));
}

/// A format string being read, with the byte order and alignment it has set so far.
struct Format<'a> {
    rest: &'a [u8],
    big_endian: bool,
    align: usize,
}

/// One letter of a format with the size that belongs to it.
struct Item {
    option: u8,
    size: usize,
}

impl<'a> Format<'a> {
    /// Formats are C strings: a zero byte ends them.
    fn new(text: &'a [u8]) -> Format<'a> {
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Format {
            rest: &text[..end],
            big_endian: false,
            align: 1,
        }
    }

    fn next(&mut self) -> Result<Option<Item>, Raise> {
        let Some((option, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        self.rest = rest;
        let size = match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'f' => 4,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size > INTEGER_BYTES_MAX {
                    return Err(Raise::located(format!(
                        "integral size {size} is larger than limit of {INTEGER_BYTES_MAX}"
                    )));
                }
                size
            }
            _ => 0,
        };
        Ok(Some(Item {
            option: *option,
            size,
        }))
    }

    fn number(&mut self, default: usize) -> Result<usize, Raise> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let mut number: i32 = 0;
        for digit in &self.rest[..digits] {
            number = number
                .checked_mul(10)
                .and_then(|number| number.checked_add(i32::from(digit - b'0')))
                .ok_or(Raise::located("integral size overflow"))?;
        }
        self.rest = &self.rest[digits..];
        Ok(usize::try_from(number).unwrap_or(0))
    }

    /// Returns the bytes to add at `position` so that an item starts aligned.
    fn padding(&self, position: usize, item: &Item) -> usize {
        if item.size == 0 || item.option == b'c' {
            return 0;
        }
        // The mask is what Redis computes; for sizes that are no power of two it is not an alignment, but is kept.
        let size = item.size.min(self.align);
        size.wrapping_sub(position & (size - 1)) & (size - 1)
    }

    /// Handles letters that set something instead of standing for data.
    fn control(&mut self, option: u8) -> Result<(), Raise> {
        match option {
            b' ' => (),
            b'>' => self.big_endian = true,
            b'<' => self.big_endian = false,
            b'!' => {
                let align = self.number(ALIGN_MAX)?;
                if !align.is_power_of_two() {
                    return Err(Raise::located(format!("alignment {align} is not a power of 2")));
                }
                self.align = align;
            }
            _ => {
                return Err(Raise::Argument(
                    1,
                    format!("invalid format option '{}'", char::from(option)).into(),
                ));
            }
        }
        Ok(())
    }
}

/// struct.pack(format, ...)
fn pack(lua: Lua<'_>) -> Result<i32, Raise> {
    let mut format = Format::new(lua.check_bytes(1)?);
    let mut packed = Vec::new();
    let mut argument = 2;
    lua.push_nil(); // Error texts call the first missing argument nil, not absent.
    while let Some(item) = format.next()? {
        packed.resize(packed.len() + format.padding(packed.len(), &item), 0);
        match item.option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                put_integer(
                    &mut packed,
                    lua.check_number(argument)?,
                    item.size,
                    format.big_endian,
                );
                argument += 1;
            }
            b'x' => packed.push(0),
            b'f' => {
                let bytes = (lua.check_number(argument)? as f32).to_le_bytes();
                put_ordered(&mut packed, &bytes, format.big_endian);
                argument += 1;
            }
            b'd' => {
                put_ordered(
                    &mut packed,
                    &lua.check_number(argument)?.to_le_bytes(),
                    format.big_endian,
                );
                argument += 1;
            }
            b'c' | b's' => {
                let text = lua.check_bytes(argument)?;
                argument += 1;
                let size = if item.size == 0 { text.len() } else { item.size };
                let Some(text) = text.get(..size) else {
                    return Err(Raise::Argument(argument, "string too short".into()));
                };
                lua.context().check_room(packed.len() + size)?;
                packed.extend_from_slice(text);
                if item.option == b's' {
                    packed.push(0);
                }
            }
            option => format.control(option)?,
        }
    }
    lua.push_bytes(&packed);
    Ok(1)
}

fn put_integer(packed: &mut Vec<u8>, number: f64, size: usize, big_endian: bool) {
    let mut bytes = [0; INTEGER_BYTES_MAX];
    bytes[..8].copy_from_slice(&to_unsigned(number).to_le_bytes());
    put_ordered(packed, &bytes[..size], big_endian);
}

/// Converts as the processor does: negative numbers wrap, those out of range give the top bit alone.
fn to_unsigned(number: f64) -> u64 {
    if number < 0.0 {
        return if number >= number::I64_RANGE.start {
            (number as i64) as u64
        } else {
            1 << 63
        };
    }
    if number < 18_446_744_073_709_551_616.0 {
        number as u64
    } else if number.is_nan() {
        1 << 63
    } else {
        0
    }
}

fn put_ordered(packed: &mut Vec<u8>, little: &[u8], big_endian: bool) {
    if big_endian {
        packed.extend(little.iter().rev());
    } else {
        packed.extend_from_slice(little);
    }
}

/// struct.unpack(format, data [, position])
fn unpack(lua: Lua<'_>) -> Result<i32, Raise> {
    let mut format = Format::new(lua.check_bytes(1)?);
    let data = lua.check_bytes(2)?;
    let position = lua.optional_integer(3, 1)? as usize;
    if position == 0 {
        return Err(Raise::Argument(3, "offset must be 1 or greater".into()));
    }
    let mut position = position - 1;
    let mut results = 0;
    while let Some(item) = format.next()? {
        position = position.wrapping_add(format.padding(position, &item));
        let bytes = take(data, position, item.size)?;
        if !lua.reserve(2) {
            return Err(Raise::located("stack overflow (too many results)"));
        }
        let mut size = item.size;
        match item.option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                lua.push_number(get_integer(
                    bytes,
                    item.option.is_ascii_lowercase(),
                    format.big_endian,
                ));
                results += 1;
            }
            b'x' => (),
            b'f' => {
                lua.push_number(f64::from(f32::from_le_bytes(ordered(bytes, format.big_endian))));
                results += 1;
            }
            b'd' => {
                lua.push_number(f64::from_le_bytes(ordered(bytes, format.big_endian)));
                results += 1;
            }
            b'c' => {
                if size == 0 {
                    if results == 0 || !lua.is_number(-1) {
                        return Err(Raise::located("format 'c0' needs a previous size"));
                    }
                    size = to_unsigned(lua.number(-1)) as usize;
                    lua.pop(1);
                    results -= 1;
                }
                lua.push_bytes(take(data, position, size)?);
                results += 1;
            }
            b's' => {
                let rest = &data[position..];
                let Some(len) = rest.iter().position(|byte| *byte == 0) else {
                    return Err(Raise::located("unfinished string in data"));
                };
                lua.push_bytes(&rest[..len]);
                results += 1;
                size = len + 1;
            }
            option => format.control(option)?,
        }
        position += size;
    }
    lua.push_number((position + 1) as f64);
    Ok(results + 1)
}

fn take(data: Slice<'_>, position: usize, size: usize) -> Result<Slice<'_>, Raise> {
    position
        .checked_add(size)
        .and_then(|end| data.get(position..end))
        .ok_or(Raise::Argument(2, "data string too short".into()))
}

fn ordered<const N: usize>(bytes: &[u8], big_endian: bool) -> [u8; N] {
    let mut little = [0; N];
    for (to, from) in little.iter_mut().zip(bytes) {
        *to = *from;
    }
    if big_endian {
        little.reverse();
    }
    little
}

fn get_integer(bytes: &[u8], signed: bool, big_endian: bool) -> f64 {
    let mut value: u64 = 0;
    let mut shift_in = |byte: &u8| value = (value << 8) | u64::from(*byte);
    if big_endian {
        bytes.iter().for_each(&mut shift_in);
    } else {
        bytes.iter().rev().for_each(&mut shift_in);
    }
    if !signed {
        return value as f64;
    }
    // The shift wraps at 64 as the processor's does, which matters for sizes of zero and above eight.
    let mask = u64::MAX.wrapping_shl((bytes.len() as u32).wrapping_mul(8).wrapping_sub(1));
    if value & mask != 0 {
        value |= mask;
    }
    (value as i64) as f64
}

/// struct.size(format)
fn size(lua: Lua<'_>) -> Result<i32, Raise> {
    let mut format = Format::new(lua.check_bytes(1)?);
    let mut position: usize = 0;
    while let Some(item) = format.next()? {
        position = position.wrapping_add(format.padding(position, &item));
        match item.option {
            b's' => return Err(Raise::Argument(1, "option 's' has no fixed size".into())),
            b'c' if item.size == 0 => return Err(Raise::Argument(1, "option 'c0' has no fixed size".into())),
            option if !option.is_ascii_alphanumeric() => format.control(option)?,
            _ => (),
        }
        position = position.wrapping_add(item.size);
    }
    lua.push_number(position as f64);
    Ok(1)
}
