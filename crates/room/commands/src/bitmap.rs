//! Bitmaps: strings seen as rows of bits, the first bit of a byte being its highest.

use std::borrow::Cow;

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{
    ACCESS, Category, DENYOOM, FAST, OW, READONLY, RO, RW, UPDATE, VARIABLE_FLAGS, WRITE, key, keys_to,
};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};
use nagaya_keyspace::db::Expiry;
use nagaya_keyspace::notify::Events;
use nagaya_resp::parse_i64;
use nagaya_store::value::{StrRef, Value};

mod bits;
mod field;

pub(crate) const COMMANDS: &[Entry] = &[
    cmd("BITCOUNT", -2, bitcount)
        .flags(READONLY)
        .acl(Category::BITMAP)
        .group("bitmap")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("2.6.0")
        .about(
            "Counts the set bits of a string or of a part of it.",
            "O(N) for N bytes",
        ),
    cmd("BITFIELD", -2, field::bitfield)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::BITMAP)
        .group("bitmap")
        .keys(&[key(1, RW.and(UPDATE).and(ACCESS).and(VARIABLE_FLAGS))])
        .key_use(field::bitfield_key_use)
        .since("3.2.0")
        .about(
            "Reads and changes integers of any width inside a string.",
            "O(1) per operation",
        ),
    cmd("BITFIELD_RO", -2, field::bitfield_ro)
        .flags(READONLY.and(FAST))
        .acl(Category::BITMAP)
        .group("bitmap")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("6.0.0")
        .about(
            "Reads integers of any width inside a string.",
            "O(1) per operation",
        ),
    cmd("BITOP", -4, bitop)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::BITMAP)
        .group("bitmap")
        .keys(&[key(2, OW.and(UPDATE)), keys_to(3, -1, 1, RO.and(ACCESS))])
        .since("2.6.0")
        .about(
            "Joins strings bit by bit and stores the result.",
            "O(N) for N bytes of the longest string",
        ),
    cmd("BITPOS", -3, bitpos)
        .flags(READONLY)
        .acl(Category::BITMAP)
        .group("bitmap")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("2.8.7")
        .about(
            "Finds the first set or clear bit of a string.",
            "O(N) for N bytes",
        ),
    cmd("GETBIT", 3, getbit)
        .flags(READONLY.and(FAST))
        .acl(Category::BITMAP)
        .group("bitmap")
        .keys(&[key(1, RO.and(ACCESS))])
        .since("2.2.0")
        .about("Returns one bit of a string.", "O(1)"),
    cmd("SETBIT", 4, setbit)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::BITMAP)
        .group("bitmap")
        .keys(&[key(1, RW.and(ACCESS).and(UPDATE))])
        .since("2.2.0")
        .about(
            "Sets one bit of a string, growing it if need be, and returns what it was.",
            "O(1)",
        ),
];

type Reply = Result<(), CommandError>;

/// What the positions of a range count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Byte,
    Bit,
}

/// SETBIT key offset value
fn setbit(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    let offset = bit_offset(ctx.key(2), ctx.string_bytes_max())?;
    let on = match parse_i64(ctx.key(3)) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(CommandError::err("bit is not an integer or out of range")),
    };
    let text = ctx.db.string_mut_or_create(key)?;
    let (byte, mask) = (offset >> 3, 0x80u8 >> (offset & 7));
    let grows = text.len() <= byte;
    if grows {
        text.resize(byte + 1, 0);
    }
    let was_on = text[byte] & mask != 0;
    if on {
        text[byte] |= mask;
    } else {
        text[byte] &= !mask;
    }
    if grows || was_on != on {
        ctx.db.notify(Events::STRING, "setbit", key);
        ctx.db.modified(key);
    }
    ctx.out.int(i64::from(was_on));
    Ok(())
}

/// GETBIT key offset
fn getbit(ctx: &mut Ctx<'_, '_>) -> Reply {
    let offset = bit_offset(ctx.key(2), ctx.string_bytes_max())?;
    let text = text(ctx.db.string(ctx.key(1))?);
    let byte = text.get(offset >> 3).copied().unwrap_or(0);
    ctx.out.int(i64::from(byte & (0x80 >> (offset & 7)) != 0));
    Ok(())
}

/// BITCOUNT key [start end [BYTE | BIT]]
fn bitcount(ctx: &mut Ctx<'_, '_>) -> Reply {
    // As in Redis, the arguments of a missing key's range are not looked at.
    let Some(found) = ctx.db.string(ctx.key(1))? else {
        ctx.out.int(0);
        return Ok(());
    };
    let text = text(Some(found));
    let bits = match ctx.args.len() {
        2 => bits::count(&text),
        4 | 5 => {
            let (start, end) = (ctx.int(2)?, ctx.int(3)?);
            if start < 0 && end < 0 && start > end {
                ctx.out.int(0);
                return Ok(());
            }
            let unit = unit(ctx, 4)?;
            let range = bit_range(text.len(), start, end, unit);
            range.map_or(0, |(first, last)| bits::count_range(&text, first, last))
        }
        _ => return Err(CommandError::Syntax),
    };
    ctx.out.int(bits as i64);
    Ok(())
}

/// BITPOS key bit [start [end [BYTE | BIT]]]
fn bitpos(ctx: &mut Ctx<'_, '_>) -> Reply {
    let wanted = match ctx.int(2)? {
        0 => false,
        1 => true,
        _ => return Err(CommandError::err("The bit argument must be 1 or 0.")),
    };
    let Some(found) = ctx.db.string(ctx.key(1))? else {
        ctx.out.int(if wanted { -1 } else { 0 });
        return Ok(());
    };
    let text = text(Some(found));
    let (mut start, mut end, mut unit_given) = (0, -1, Unit::Byte);
    let count = ctx.args.len();
    if count > 6 {
        return Err(CommandError::Syntax);
    }
    if count > 3 {
        start = ctx.int(3)?;
        unit_given = unit(ctx, 5)?;
    }
    if count > 4 {
        end = ctx.int(4)?;
    }
    let Some((first, last)) = bit_range(text.len(), start, end, unit_given) else {
        ctx.out.int(-1);
        return Ok(());
    };
    let position = match bits::find(&text, wanted, first, last) {
        Some(at) => at as i64,
        // Without an end, the string is followed by clear bits for ever.
        None if !wanted && count <= 4 => text.len() as i64 * 8,
        None => -1,
    };
    ctx.out.int(position);
    Ok(())
}

/// BITOP AND | OR | XOR | NOT destination key [key ...]
fn bitop(ctx: &mut Ctx<'_, '_>) -> Reply {
    let operation = [
        ("AND", bits::Operation::And),
        ("OR", bits::Operation::Or),
        ("XOR", bits::Operation::Xor),
        ("NOT", bits::Operation::Not),
    ];
    let operation = operation.iter().find(|(name, _)| ctx.is(1, name));
    let operation = operation.ok_or(CommandError::Syntax)?.1;
    if operation == bits::Operation::Not && ctx.args.len() != 4 {
        return Err(CommandError::err(
            "BITOP NOT must be called with a single source key.",
        ));
    }
    let mut sources = Vec::with_capacity(ctx.args.len() - 3);
    for key in ctx.args.iter().skip(3) {
        sources.push(text(ctx.db.string(key)?));
    }
    let result = bits::combine(operation, &sources);
    drop(sources);
    let (target, length) = (ctx.key(2), result.len());
    if length > 0 {
        // Not a number even if it looks like one: what is made of bits stays raw, as in Redis.
        ctx.db.set(target, Value::Str(result), Expiry::Clear);
        ctx.db.notify(Events::STRING, "set", target);
        ctx.db.modified(target);
        ctx.db.effect_state(target);
    } else if ctx.db.remove(target) {
        ctx.db.notify(Events::GENERIC, "del", target);
        ctx.db.modified(target);
        ctx.db.effect_state(target);
    }
    ctx.out.int(length as i64);
    Ok(())
}

/// Returns the bytes of a string; a missing key has none.
fn text(found: Option<StrRef<'_>>) -> Cow<'_, [u8]> {
    match found {
        None => Cow::Borrowed(b""),
        Some(StrRef::Bytes(bytes)) => Cow::Borrowed(bytes),
        Some(number @ StrRef::Int(_)) => Cow::Owned(number.to_vec()),
    }
}

/// Reads the optional word that says what a range counts; bytes when it is missing.
fn unit(ctx: &Ctx<'_, '_>, at: usize) -> Result<Unit, CommandError> {
    if ctx.args.len() <= at || ctx.is(at, "BYTE") {
        Ok(Unit::Byte)
    } else if ctx.is(at, "BIT") {
        Ok(Unit::Bit)
    } else {
        Err(CommandError::Syntax)
    }
}

/// Reads the position of a bit that a string of at most `bytes_max` bytes can have.
fn bit_offset(arg: &[u8], bytes_max: usize) -> Result<usize, CommandError> {
    let offset = parse_i64(arg).and_then(|offset| usize::try_from(offset).ok());
    match offset {
        Some(offset) if offset >> 3 < bytes_max => Ok(offset),
        _ => Err(CommandError::err("bit offset is not an integer or out of range")),
    }
}

/// Turns an inclusive range with negative ends into the first and last bit of a string of `length`
/// bytes; nothing when the range is empty.
fn bit_range(length: usize, start: i64, end: i64, unit: Unit) -> Option<(usize, usize)> {
    let total = match unit {
        Unit::Byte => length as i64,
        Unit::Bit => length as i64 * 8,
    };
    let from_end = |at: i64| if at < 0 { (total + at).max(0) } else { at };
    let (start, end) = (from_end(start), from_end(end).min(total - 1));
    if start > end {
        return None;
    }
    let (start, end) = (start as usize, end as usize);
    Some(match unit {
        Unit::Byte => (start * 8, end * 8 + 7),
        Unit::Bit => (start, end),
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::TestSession;

    #[test]
    fn setbit_grows_the_string_and_returns_the_old_bit() {
        let mut session = TestSession::new();
        session.check("SETBIT k 1 1", ":0\r\n");
        session.check("GET k", "$1\r\n@\r\n");
        session.check("SETBIT k 1 1", ":1\r\n");
        session.check("SETBIT k 14 0", ":0\r\n");
        session.check("STRLEN k", ":2\r\n");
        session.check("GETBIT k 1", ":1\r\n");
        session.check("GETBIT k 99", ":0\r\n");
        session.check("SETBIT k 0 2", "-ERR bit is not an integer or out of range\r\n");
        session.check(
            "SETBIT k 4294967296 1",
            "-ERR bit offset is not an integer or out of range\r\n",
        );
        session.check(
            "GETBIT k -1",
            "-ERR bit offset is not an integer or out of range\r\n",
        );
    }

    #[test]
    fn setbit_of_a_number_works_on_its_digits() {
        let mut session = TestSession::new();
        session.check("SET k 1", "+OK\r\n");
        session.check("SETBIT k 6 1", ":0\r\n");
        session.check("GET k", "$1\r\n3\r\n");
    }

    #[test]
    fn bitcount_takes_ranges_of_bytes_and_of_bits() {
        let mut session = TestSession::new();
        session.check("SET k foobar", "+OK\r\n");
        for (range, expected) in [
            ("", 26),
            (" 0 0", 4),
            (" 1 1 BYTE", 6),
            (" 5 30 BIT", 17),
            (" -2 -1", 7),
            (" 3 1", 0),
            (" -1 -5 NONSENSE", 0),
        ] {
            session.check(&format!("BITCOUNT k{range}"), &format!(":{expected}\r\n"));
        }
        session.check("BITCOUNT k 1", "-ERR syntax error\r\n");
        session.check("BITCOUNT missing 1", ":0\r\n");
    }

    #[test]
    fn bitpos_sees_clear_bits_beyond_the_end_only_without_an_end() {
        let mut session = TestSession::new();
        session.run(&[b"SET", b"k", b"\xff\xff\xff"]);
        session.check("BITPOS k 0", ":24\r\n");
        session.check("BITPOS k 0 1", ":24\r\n");
        session.check("BITPOS k 0 0 -1", ":-1\r\n");
        session.check("BITPOS k 1 9 -1 BIT", ":9\r\n");
        session.check("BITPOS k 1 3", ":-1\r\n");
        session.check("BITPOS missing 0", ":0\r\n");
        session.check("BITPOS missing 1", ":-1\r\n");
        session.check("BITPOS k 2", "-ERR The bit argument must be 1 or 0.\r\n");
    }

    #[test]
    fn bitop_of_nothing_removes_the_target() {
        let mut session = TestSession::new();
        session.check("MSET a abc b ab", "+OK\r\n");
        session.check("BITOP AND d a b", ":3\r\n");
        assert_eq!(session.run(&[b"GET", b"d"]), b"$3\r\nab\0\r\n");
        session.check(
            "BITOP NOT d a b",
            "-ERR BITOP NOT must be called with a single source key.\r\n",
        );
        session.check("BITOP XOR d none nothing", ":0\r\n");
        session.check("GET d", "$-1\r\n");
        session.check("BITOP NAND d a", "-ERR syntax error\r\n");
    }
}
