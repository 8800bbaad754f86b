//! DEBUG subcommands that look at values or write them anew.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::db::Expiry;
use nagaya_resp::parse_i64;
use nagaya_store::entry::Entry;
use nagaya_store::rdb;
use nagaya_store::table::Keyed;
use nagaya_store::value::{StrRef, ValueRef};

use super::Reply;

/// The type byte before a value's bytes, and version and checksum after them.
const FRAME_BYTES: usize = 1 + 10;

fn find<'a>(ctx: &'a Ctx<'_, '_>) -> Result<&'a Entry, CommandError> {
    ctx.db.peek(ctx.key(2)).ok_or(CommandError::NoSuchKey)
}

/// DEBUG RELOAD [MERGE] [NOFLUSH] [NOSAVE]
///
/// There is no snapshot file: every value is written as DUMP writes it and read back. The options, which
/// are about the file, are checked and change nothing.
pub(super) fn reload(ctx: &mut Ctx<'_, '_>) -> Reply {
    let known = |at: usize| ["MERGE", "NOFLUSH", "NOSAVE"].iter().any(|word| ctx.is(at, word));
    if !(2..ctx.args.len()).all(known) {
        return Err(CommandError::err(
            "DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
        ));
    }
    let has = |word: &str| (2..ctx.args.len()).any(|at| ctx.is(at, word));
    let has_data = ctx.db.keys_in_memory() > 0 || ctx.server().scripts.libraries().count() > 0;
    if has("NOFLUSH") && !has("MERGE") && has_data {
        // What the file held would be there twice.
        return Err(CommandError::err(
            "Error trying to load the RDB dump, check server logs.",
        ));
    }
    load_aof(ctx)
}

/// DEBUG LOADAOF
pub(super) fn load_aof(ctx: &mut Ctx<'_, '_>) -> Reply {
    let home = ctx.db.database();
    for database in 0..ctx.db.data().databases.count() {
        if ctx.db.figures_of(database).keys > 0 {
            ctx.db.select(database);
            rewrite_values(ctx)?;
        }
    }
    ctx.db.select(home);
    ctx.out.ok();
    Ok(())
}

/// Writes every value of the selected database anew.
fn rewrite_values(ctx: &mut Ctx<'_, '_>) -> Reply {
    let mut keys: Vec<Vec<u8>> = Vec::with_capacity(ctx.db.len());
    ctx.db.for_each(|entry| keys.push(entry.key().to_vec()));
    for key in keys {
        let Some(entry) = ctx.db.peek(&key) else { continue };
        let stamp = entry.stamp();
        let payload = rdb::dump_value(entry.value());
        let value = rdb::restore(&payload, &ctx.limits())
            .map_err(|_| CommandError::err("Error trying to load the RDB dump"))?;
        ctx.db.set(&key, value, Expiry::Keep);
        if let Some(entry) = ctx.db.peek(&key) {
            entry.set_stamp(stamp);
        }
    }
    Ok(())
}

/// DEBUG POPULATE count [prefix [size]]
pub(super) fn populate(ctx: &mut Ctx<'_, '_>) -> Reply {
    let positive = |at: usize| match ctx.args.get(at) {
        None => Ok(0),
        Some(text) => parse_i64(text)
            .filter(|number| *number >= 0)
            .ok_or(CommandError::MustBePositive),
    };
    let (count, size) = (positive(2)?, positive(4)? as usize);
    if size > ctx.config().proto_max_bulk_len {
        return Err(CommandError::OutOfRange);
    }
    let prefix = ctx.args.get(3).unwrap_or(b"key");
    for number in 0..count {
        let key = [prefix, format!(":{number}").as_bytes()].concat();
        if ctx.db.exists(&key) {
            continue;
        }
        let mut value = format!("value:{number}").into_bytes();
        if size > 0 {
            value.resize(size, 0);
        }
        ctx.db.set_str(&key, &value, Expiry::Clear);
        ctx.db.modified(&key);
        ctx.db.effect(&[b"SET", &key, &value]);
    }
    ctx.out.ok();
    Ok(())
}

/// DEBUG OBJECT key
pub(super) fn object(ctx: &mut Ctx<'_, '_>) -> Reply {
    let entry = ctx.db.peek_expired(ctx.key(2)).ok_or(CommandError::NoSuchKey)?;
    let serialized = rdb::dump_value(entry.value()).len() - FRAME_BYTES;
    let stamp = entry.stamp();
    let idle_s = ((ctx.db.now_ms() / 1000) as u32).saturating_sub(stamp);
    let mut text = format!(
        "Value at:{:p} refcount:1 encoding:{} serializedlength:{serialized} lru:{} lru_seconds_idle:{idle_s}",
        entry,
        entry.encoding(),
        stamp & 0xff_ffff
    );
    if let ValueRef::List(list) = entry.value() {
        let nodes = list.nodes().len();
        let mean = list.len() as f64 / nodes.max(1) as f64;
        let fill = ctx.limits().list_max_listpack_size;
        text.push_str(&format!(
            " ql_nodes:{nodes} ql_avg_node:{mean:.2} ql_listpack_max:{fill} ql_compressed:0 \
             ql_uncompressed_size:{}",
            list.mem_bytes()
        ));
    }
    ctx.out.simple(&text);
    Ok(())
}

/// DEBUG SDSLEN key
pub(super) fn sdslen(ctx: &mut Ctx<'_, '_>) -> Reply {
    let entry = find(ctx)?;
    let ValueRef::Str(StrRef::Bytes(bytes)) = entry.value() else {
        return Err(CommandError::err("Not an sds encoded string."));
    };
    let (key, value) = (entry.key().len(), bytes.len());
    let text = format!(
        "key_sds_len:{key}, key_sds_avail:0, key_zmalloc: {key}, val_sds_len:{value}, val_sds_avail:0, \
         val_zmalloc: {value}"
    );
    ctx.out.simple(&text);
    Ok(())
}

/// DEBUG LISTPACK key
pub(super) fn listpack(ctx: &mut Ctx<'_, '_>) -> Reply {
    if find(ctx)?.encoding() != "listpack" {
        return Err(CommandError::err("Not a listpack encoded object."));
    }
    ctx.out.simple("Listpack structure printed on stdout");
    Ok(())
}

/// DEBUG QUICKLIST key [0|1]
pub(super) fn quicklist(ctx: &mut Ctx<'_, '_>) -> Reply {
    if find(ctx)?.encoding() != "quicklist" {
        return Err(CommandError::err("Not a quicklist encoded object."));
    }
    ctx.out.simple("Quicklist structure printed on stdout");
    Ok(())
}

/// DEBUG HTSTATS dbid
pub(super) fn htstats(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.int(2)? != 0 {
        return Err(CommandError::err("Out of range database"));
    }
    let text = format!(
        "[Dictionary HT]\nHash table 0 stats (main hash table):\n table size: {} bytes in {} shards\n \
         number of elements: {}\n[Expires HT]\n number of elements: {}\n",
        ctx.db.overhead_bytes(),
        ctx.server().keyspace.shards.count(),
        ctx.db.len(),
        ctx.db.volatile()
    );
    ctx.out.verbatim("txt", text.as_bytes());
    Ok(())
}

/// DEBUG HTSTATS-KEY key
pub(super) fn htstats_key(ctx: &mut Ctx<'_, '_>) -> Reply {
    let entry = find(ctx)?;
    if !matches!(entry.encoding(), "hashtable" | "skiplist") {
        return Err(CommandError::err(
            "The value stored at the specified key is not represented using an hash table",
        ));
    }
    let elements = match entry.value() {
        ValueRef::Set(set) => set.len(),
        ValueRef::Hash(hash) => hash.len(),
        ValueRef::Zset(zset) => zset.len(),
        _ => 0,
    };
    let text = format!(
        "Hash table 0 stats (main hash table):\n table size: {} bytes\n number of elements: {elements}\n",
        entry.mem_bytes()
    );
    ctx.out.verbatim("txt", text.as_bytes());
    Ok(())
}
