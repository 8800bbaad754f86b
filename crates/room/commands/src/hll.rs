//! HyperLogLogs: estimating how many different elements were seen, in a string of fixed size.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{
    ACCESS, ADMIN, Category, DENYOOM, FAST, INSERT, MAY_REPLICATE, READONLY, RO, RW, WRITE, key, keys_to,
};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::cmd;
use nagaya_keyspace::db::{Db, Expiry};
use nagaya_keyspace::notify::Events;
use nagaya_store::entry::Entry;
use nagaya_store::hll::{self, Corrupt};
use nagaya_store::rng::with_thread_rng;
use nagaya_store::value::{StrRef, Value};

type Reply = Result<(), CommandError>;

pub(crate) const COMMANDS: &[nagaya_exec::entry::Entry] = &[
    cmd("PFADD", -2, pfadd)
        .flags(WRITE.and(DENYOOM).and(FAST))
        .acl(Category::HYPERLOGLOG)
        .group("hyperloglog")
        .keys(&[key(1, RW.and(INSERT))])
        .since("2.8.9")
        .about("Adds elements to a HyperLogLog.", "O(1) per element"),
    cmd("PFCOUNT", -2, pfcount)
        .flags(READONLY.and(MAY_REPLICATE))
        .acl(Category::HYPERLOGLOG)
        .group("hyperloglog")
        .keys(&[keys_to(1, -1, 1, RW.and(ACCESS))])
        .since("2.8.9")
        .about(
            "Estimates how many different elements were added to HyperLogLogs.",
            "O(1) for one key, O(N) for N keys",
        ),
    cmd("PFDEBUG", 3, pfdebug)
        .flags(WRITE.and(DENYOOM).and(ADMIN))
        .acl(Category::HYPERLOGLOG)
        .group("hyperloglog")
        .keys(&[key(2, RW.and(ACCESS))])
        .since("2.8.9")
        .about("Shows the inner state of a HyperLogLog.", "N/A"),
    cmd("PFMERGE", -2, pfmerge)
        .flags(WRITE.and(DENYOOM))
        .acl(Category::HYPERLOGLOG)
        .group("hyperloglog")
        .keys(&[
            key(1, RW.and(ACCESS).and(INSERT)),
            keys_to(2, -1, 1, RO.and(ACCESS)),
        ])
        .since("2.8.9")
        .about("Merges HyperLogLogs into one.", "O(N) for N keys"),
    cmd("PFSELFTEST", 1, pfselftest)
        .flags(ADMIN)
        .acl(Category::HYPERLOGLOG)
        .group("hyperloglog")
        .since("2.8.9")
        .about("Tests the HyperLogLog code on random data.", "N/A"),
];

/// PFADD key [element ...]
fn pfadd(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    let sparse_bytes_max = ctx.limits().hll_sparse_max_bytes;
    let created = create_if_missing(ctx.db, key);
    let value = value_mut(ctx.db, key)?;
    let mut updated = created;
    for element in ctx.args.iter().skip(2) {
        match hll::add(value, element, sparse_bytes_max) {
            Ok(raised) => updated |= raised,
            Err(found) => return Err(half_done(ctx.db, key, found)),
        }
    }
    if updated {
        hll::mark_stale(value);
        ctx.db.modified(key);
        ctx.db.notify(Events::STRING, "pfadd", key);
    }
    ctx.out.int(i64::from(updated));
    Ok(())
}

/// PFCOUNT key [key ...]
fn pfcount(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.args.len() > 2 {
        let mut union = hll::Union::default();
        for key in ctx.args.iter().skip(1) {
            if let Some(entry) = ctx.db.entry(key) {
                union.add(value(entry)?).map_err(corrupt)?;
            }
        }
        ctx.out.int(union.count() as i64);
        return Ok(());
    }
    let key = ctx.key(1);
    let Some(entry) = ctx.db.entry(key) else {
        ctx.out.int(0);
        return Ok(());
    };
    let value = value(entry)?;
    let count = match hll::cached_count(value) {
        Some(count) => count,
        None => {
            let count = hll::count(value).map_err(corrupt)?;
            hll::cache_count(value_mut(ctx.db, key)?, count);
            ctx.db.modified(key);
            count
        }
    };
    ctx.out.int(count as i64);
    Ok(())
}

/// PFMERGE destination [source ...]
fn pfmerge(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    let sparse_bytes_max = ctx.limits().hll_sparse_max_bytes;
    let (mut union, mut dense) = (hll::Union::default(), false);
    for key in ctx.args.iter().skip(1) {
        if let Some(entry) = ctx.db.entry(key) {
            let value = value(entry)?;
            dense |= hll::is_dense(value);
            union.add(value).map_err(corrupt)?;
        }
    }
    create_if_missing(ctx.db, key);
    let value = value_mut(ctx.db, key)?;
    if dense {
        hll::make_dense(value).map_err(corrupt)?;
    }
    if let Err(found) = hll::raise_all(value, &union, sparse_bytes_max) {
        return Err(half_done(ctx.db, key, found));
    }
    hll::mark_stale(value);
    ctx.db.modified(key);
    ctx.db.effect_state(key);
    ctx.db.notify(Events::STRING, "pfadd", key);
    ctx.out.ok();
    Ok(())
}

/// PFDEBUG GETREG | DECODE | ENCODING | TODENSE key
fn pfdebug(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (subcommand, key) = (ctx.key(1), ctx.key(2));
    let is = |word: &str| subcommand.eq_ignore_ascii_case(word.as_bytes());
    if !ctx.db.exists(key) {
        return Err(CommandError::err("The specified key does not exist"));
    }
    let value = value_mut(ctx.db, key)?;
    if is("getreg") {
        let converted = hll::make_dense(value).map_err(corrupt)?;
        ctx.out.array(hll::REGISTERS);
        hll::dense_registers(value).for_each(|register| ctx.out.int(i64::from(register)));
        ctx.db.dirty += u64::from(converted);
    } else if is("decode") {
        if hll::is_dense(value) {
            return Err(CommandError::err("HLL encoding is not sparse"));
        }
        ctx.out.bulk_str(&hll::sparse_text(value));
    } else if is("encoding") {
        ctx.out
            .simple(if hll::is_dense(value) { "dense" } else { "sparse" });
    } else if is("todense") {
        let converted = hll::make_dense(value).map_err(corrupt)?;
        ctx.out.int(i64::from(converted));
        ctx.db.dirty += u64::from(converted);
    } else {
        let name = String::from_utf8_lossy(subcommand);
        return Err(CommandError::err(format!("Unknown PFDEBUG subcommand '{name}'")));
    }
    Ok(())
}

/// PFSELFTEST
fn pfselftest(ctx: &mut Ctx<'_, '_>) -> Reply {
    let seed = with_thread_rng(|rng| rng.next_u64());
    hll::self_test(seed, ctx.limits().hll_sparse_max_bytes)
        .map_err(|failure| CommandError::err(format!("TESTFAILED {failure}")))?;
    ctx.out.ok();
    Ok(())
}

/// Makes an empty value at a missing key; true when it did.
fn create_if_missing(db: &mut Db<'_>, key: &[u8]) -> bool {
    let missing = db.entry_mut(key).is_none();
    if missing {
        db.set(key, Value::Str(hll::empty()), Expiry::Clear);
    }
    missing
}

/// Reads a value, refusing strings that are not one.
fn value(entry: &Entry) -> Result<&[u8], CommandError> {
    match entry.string().ok_or(CommandError::WrongType)? {
        StrRef::Bytes(bytes) if hll::is_valid(bytes) => Ok(bytes),
        _ => Err(CommandError::coded(
            "WRONGTYPE Key is not a valid HyperLogLog string value.",
        )),
    }
}

/// Finds a value to change it in place; the caller knows that the key exists.
fn value_mut<'d>(db: &'d mut Db<'_>, key: &[u8]) -> Result<&'d mut Vec<u8>, CommandError> {
    let entry = db.entry_mut(key).ok_or(CommandError::NoSuchKey)?;
    value(entry)?;
    entry.string_mut().ok_or(CommandError::WrongType)
}

/// Fails over a value of which a part may have been changed before it was found to be corrupt.
fn half_done(db: &mut Db<'_>, key: &[u8], found: Corrupt) -> CommandError {
    db.effect_state(key);
    corrupt(found)
}

fn corrupt(_: Corrupt) -> CommandError {
    CommandError::coded("INVALIDOBJ Corrupted HLL object detected")
}

#[cfg(test)]
mod tests {
    use crate::testing::TestSession;

    #[test]
    fn counting_twice_uses_the_cache_and_adding_drops_it() {
        let mut session = TestSession::new();
        session.check("PFADD h a b c", ":1\r\n");
        session.check("PFADD h a b c", ":0\r\n");
        session.check("PFCOUNT h", ":3\r\n");
        session.check("GETRANGE h 15 15", "$1\r\n\0\r\n");
        session.check("PFADD h d", ":1\r\n");
        session.check("PFCOUNT h", ":4\r\n");
        session.check("PFCOUNT missing", ":0\r\n");
    }

    #[test]
    fn pfadd_without_elements_creates_an_empty_value() {
        let mut session = TestSession::new();
        session.check("PFADD h", ":1\r\n");
        session.check("PFADD h", ":0\r\n");
        session.check("PFCOUNT h", ":0\r\n");
        session.check("PFDEBUG DECODE h", "$7\r\nZ:16384\r\n");
    }

    #[test]
    fn strings_that_are_no_hyperloglog_are_refused() {
        let wrong = "-WRONGTYPE Key is not a valid HyperLogLog string value.\r\n";
        let mut session = TestSession::new();
        for text in ["5", "abc", "HYLL", "HYLL\u{2}-----------"] {
            session.check(&format!("SET h {text}"), "+OK\r\n");
            session.check("PFADD h a", wrong);
            session.check("PFCOUNT h", wrong);
            session.check("PFMERGE d h", wrong);
        }
        session.check("SET h HYLL\u{1}\0\0\0\0\0\0\0\0\0\0\u{0}0", "+OK\r\n");
        session.check("PFADD h a", "-INVALIDOBJ Corrupted HLL object detected\r\n");
    }

    #[test]
    fn merging_takes_in_the_destination() {
        let mut session = TestSession::new();
        session.check("PFADD a 1 2 3", ":1\r\n");
        session.check("PFADD b 3 4 5", ":1\r\n");
        session.check("PFMERGE a b", "+OK\r\n");
        session.check("PFCOUNT a", ":5\r\n");
        session.check("PFCOUNT a b missing", ":5\r\n");
        session.check("PFDEBUG ENCODING a", "+sparse\r\n");
        session.check("PFDEBUG TODENSE a", ":1\r\n");
        session.check("PFMERGE c a", "+OK\r\n");
        session.check("PFDEBUG ENCODING c", "+dense\r\n");
    }
}
