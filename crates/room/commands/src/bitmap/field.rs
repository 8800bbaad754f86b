//! BITFIELD and BITFIELD_RO: integers of one to 64 bits at any bit of a string.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{ACCESS, KeyFlags, RO, RW, UPDATE};
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::notify::Events;
use nagaya_resp::{Args, Out, parse_i64};

use super::{Reply, bit_offset, text};

/// The width and sign of an integer, and where it lies.
#[derive(Clone, Copy, Debug)]
struct Field {
    signed: bool,
    /// 1 to 64; to 63 when unsigned, since replies are signed 64-bit integers.
    bits: u32,
    /// Position of its highest bit.
    offset: usize,
}

/// What happens to a value that does not fit its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    /// Its low bits are kept.
    Wrap,
    /// The nearest value that fits is taken.
    Saturate,
    /// Nothing is written; the reply is nil.
    Fail,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Get,
    Set(i64, Overflow),
    IncrBy(i64, Overflow),
}

/// Tells what BITFIELD does with its key: it only reads when all its parts are GET.
pub(super) fn bitfield_key_use(args: &Args<'_>) -> KeyFlags {
    let mut at = 2;
    while at < args.len() {
        let more = args.len() - 1 - at;
        if args[at].eq_ignore_ascii_case(b"GET") && more >= 2 {
            at += 3;
        } else if args[at].eq_ignore_ascii_case(b"OVERFLOW") && more >= 1 {
            at += 2;
        } else {
            // It writes, or makes no sense; then the stricter answer is the safe one.
            return RW.and(ACCESS).and(UPDATE);
        }
    }
    RO.and(ACCESS)
}

/// BITFIELD key [GET type offset] [OVERFLOW WRAP | SAT | FAIL] [SET type offset value]
/// [INCRBY type offset increment] ...
pub(super) fn bitfield(ctx: &mut Ctx<'_, '_>) -> Reply {
    let steps = steps(ctx)?;
    if steps.iter().all(|(_, action)| matches!(action, Action::Get)) {
        return read(ctx, &steps);
    }
    let key = ctx.key(1);
    let text = ctx.db.string_mut_or_create(key)?;
    let written = steps.iter().filter(|(_, action)| !matches!(action, Action::Get));
    let length = written.map(|(field, _)| field.end()).max().unwrap_or(0);
    let grows = text.len() < length;
    if grows {
        text.resize(length, 0);
    }
    ctx.out.array(steps.len());
    let mut changed = false;
    for (field, action) in steps {
        changed |= field.act(action, text, grows, ctx.out);
    }
    if changed {
        ctx.db.notify(Events::STRING, "setbit", key);
        ctx.db.modified(key);
    } else if grows {
        // Room was made for what then did not fit: no change, as Redis counts, but longer.
        ctx.effect_verbatim();
    }
    Ok(())
}

/// BITFIELD_RO key [GET type offset ...]
pub(super) fn bitfield_ro(ctx: &mut Ctx<'_, '_>) -> Reply {
    let steps = steps(ctx)?;
    if !steps.iter().all(|(_, action)| matches!(action, Action::Get)) {
        return Err(CommandError::err("BITFIELD_RO only supports the GET subcommand"));
    }
    read(ctx, &steps)
}

fn read(ctx: &mut Ctx<'_, '_>, steps: &[(Field, Action)]) -> Reply {
    let text = text(ctx.db.string(ctx.key(1))?);
    ctx.out.array(steps.len());
    for (field, _) in steps {
        ctx.out.int(field.load(&text) as i64);
    }
    Ok(())
}

/// Reads all operations before any of them runs.
fn steps(ctx: &Ctx<'_, '_>) -> Result<Vec<(Field, Action)>, CommandError> {
    let (mut steps, mut overflow, mut at) = (Vec::new(), Overflow::Wrap, 2);
    while at < ctx.args.len() {
        let left = ctx.args.len() - at - 1;
        if ctx.is(at, "OVERFLOW") && left >= 1 {
            overflow = read_overflow(ctx, at + 1)?;
            at += 2;
        } else if ctx.is(at, "GET") && left >= 2 {
            steps.push((Field::read(ctx, at + 1)?, Action::Get));
            at += 3;
        } else if ctx.is(at, "SET") && left >= 3 {
            let field = Field::read(ctx, at + 1)?;
            steps.push((field, Action::Set(ctx.int(at + 3)?, overflow)));
            at += 4;
        } else if ctx.is(at, "INCRBY") && left >= 3 {
            let field = Field::read(ctx, at + 1)?;
            steps.push((field, Action::IncrBy(ctx.int(at + 3)?, overflow)));
            at += 4;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    Ok(steps)
}

fn read_overflow(ctx: &Ctx<'_, '_>, at: usize) -> Result<Overflow, CommandError> {
    let kinds = [
        ("WRAP", Overflow::Wrap),
        ("SAT", Overflow::Saturate),
        ("FAIL", Overflow::Fail),
    ];
    let found = kinds.iter().find(|(name, _)| ctx.is(at, name));
    found
        .map(|(_, kind)| *kind)
        .ok_or(CommandError::err("Invalid OVERFLOW type specified"))
}

impl Field {
    /// Reads a type (`i16`, `u8`) and an offset (`100`, or `#2` for the second after the first).
    fn read(ctx: &Ctx<'_, '_>, at: usize) -> Result<Field, CommandError> {
        let invalid = CommandError::err(
            "Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        );
        let (signed, most, digits) = match ctx.arg(at)?.split_first() {
            Some((b'i', digits)) => (true, 64, digits),
            Some((b'u', digits)) => (false, 63, digits),
            _ => return Err(invalid),
        };
        let bits = parse_i64(digits).filter(|bits| (1..=most).contains(bits));
        let bits = bits.ok_or(invalid)?;
        let (arg, bytes_max) = (ctx.arg(at + 1)?, ctx.string_bytes_max());
        let offset = match arg.strip_prefix(b"#") {
            None => bit_offset(arg, bytes_max)?,
            Some(index) => {
                let product = parse_i64(index).and_then(|index| index.checked_mul(bits));
                let product = product.map_or(-1, |product| product);
                bit_offset(itoa::Buffer::new().format(product).as_bytes(), bytes_max)?
            }
        };
        Ok(Field {
            signed,
            bits: bits as u32,
            offset,
        })
    }

    /// Returns how many bytes a string needs to hold the field.
    fn end(&self) -> usize {
        (self.offset + self.bits as usize - 1) / 8 + 1
    }

    /// Runs one operation on a string that has room for it and writes its reply; tells whether the key
    /// counts as changed.
    fn act(self, action: Action, text: &mut [u8], grown: bool, out: &mut Out) -> bool {
        let old = self.load(text);
        let (wanted, overflow) = match action {
            Action::Get => {
                out.int(old as i64);
                return false;
            }
            // An unsigned field takes a negative number for a very large one.
            Action::Set(value, overflow) if !self.signed => (i128::from(value as u64), overflow),
            Action::Set(value, overflow) => (i128::from(value), overflow),
            Action::IncrBy(by, overflow) => (old + i128::from(by), overflow),
        };
        let Some(new) = self.fit(wanted, overflow) else {
            out.nil();
            return false;
        };
        self.store(text, new);
        out.int(if matches!(action, Action::Set(..)) {
            old
        } else {
            new
        } as i64);
        grown || old != new
    }

    /// Makes a value fit the field; nothing when it must not be made to.
    ///
    /// Unlike Redis, whose check overflows there, even the lowest numbers saturate to the lowest value.
    fn fit(&self, value: i128, overflow: Overflow) -> Option<i128> {
        let (low, high) = if self.signed {
            (-(1i128 << (self.bits - 1)), (1i128 << (self.bits - 1)) - 1)
        } else {
            (0, (1i128 << self.bits) - 1)
        };
        if (low..=high).contains(&value) {
            return Some(value);
        }
        match overflow {
            Overflow::Wrap => Some(self.extend(value as u64 & self.mask())),
            Overflow::Saturate => Some(value.clamp(low, high)),
            Overflow::Fail => None,
        }
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// Gives the bits of a field their meaning.
    fn extend(&self, bits: u64) -> i128 {
        let negative = self.signed && bits >> (self.bits - 1) == 1;
        i128::from(bits) - if negative { 1i128 << self.bits } else { 0 }
    }

    /// Reads the field; beyond its end, a string goes on with zeros.
    fn load(&self, text: &[u8]) -> i128 {
        let mut window = [0u8; 16];
        let rest = text.get(self.offset / 8..).unwrap_or_default();
        // A field touches nine bytes at most.
        let length = rest.len().min(9);
        window[..length].copy_from_slice(&rest[..length]);
        self.extend((u128::from_be_bytes(window) >> self.shift()) as u64 & self.mask())
    }

    /// Writes the field into a string that has room for it.
    fn store(&self, text: &mut [u8], value: i128) {
        let touched = &mut text[self.offset / 8..self.end()];
        let mut window = [0u8; 16];
        window[..touched.len()].copy_from_slice(touched);
        let mask = u128::from(self.mask()) << self.shift();
        let value = u128::from(value as u64 & self.mask()) << self.shift();
        window = (u128::from_be_bytes(window) & !mask | value).to_be_bytes();
        touched.copy_from_slice(&window[..touched.len()]);
    }

    /// How far the field's lowest bit is from that of a 128-bit window that starts at its first byte.
    fn shift(&self) -> u32 {
        128 - (self.offset % 8) as u32 - self.bits
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::TestSession;

    #[test]
    fn fields_lie_at_any_bit_and_at_multiples_of_their_width() {
        let mut session = TestSession::new();
        session.check(
            "BITFIELD k SET u8 #2 255 GET u8 16 GET u4 18",
            "*3\r\n:0\r\n:255\r\n:15\r\n",
        );
        session.check(
            "BITFIELD k SET i5 3 -7 GET i5 3 GET u5 3",
            "*3\r\n:0\r\n:-7\r\n:25\r\n",
        );
        session.check(
            "BITFIELD k SET i64 7 -9223372036854775808 GET i64 7",
            "*2\r\n:-9187483977324167168\r\n:-9223372036854775808\r\n",
        );
        session.check("BITFIELD k GET u63 100000", "*1\r\n:0\r\n");
    }

    #[test]
    fn every_overflow_mode_ends_where_it_should() {
        let mut session = TestSession::new();
        session.check("BITFIELD k SET u8 0 250", "*1\r\n:0\r\n");
        session.check("BITFIELD k INCRBY u8 0 10", "*1\r\n:4\r\n");
        session.check("BITFIELD k OVERFLOW SAT INCRBY u8 0 1000", "*1\r\n:255\r\n");
        session.check("BITFIELD k OVERFLOW SAT INCRBY u8 0 -1000", "*1\r\n:0\r\n");
        session.check(
            "BITFIELD k OVERFLOW FAIL INCRBY u8 0 -1 GET u8 0",
            "*2\r\n$-1\r\n:0\r\n",
        );
        session.check(
            "BITFIELD k OVERFLOW SAT SET u8 0 -1 GET u8 0",
            "*2\r\n:0\r\n:255\r\n",
        );
        session.check("BITFIELD k SET i8 0 127 INCRBY i8 0 1", "*2\r\n:-1\r\n:-128\r\n");
        session.check("BITFIELD k OVERFLOW SAT INCRBY i8 0 -5", "*1\r\n:-128\r\n");
    }

    #[test]
    fn mistakes_are_told_before_anything_is_written() {
        let mut session = TestSession::new();
        session.check("BITFIELD k SET u8 0 1 GET u64 0", "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.\r\n");
        session.check(
            "BITFIELD k SET u8 -1 1",
            "-ERR bit offset is not an integer or out of range\r\n",
        );
        session.check(
            "BITFIELD k SET u8 #9223372036854775807 1",
            "-ERR bit offset is not an integer or out of range\r\n",
        );
        session.check(
            "BITFIELD k OVERFLOW ROUND",
            "-ERR Invalid OVERFLOW type specified\r\n",
        );
        session.check("BITFIELD k SET u8 0", "-ERR syntax error\r\n");
        session.check(
            "BITFIELD_RO k SET u8 0 1",
            "-ERR BITFIELD_RO only supports the GET subcommand\r\n",
        );
        session.check("GET k", "$-1\r\n");
        session.check("BITFIELD k", "*0\r\n");
    }
}
