//! Replies and stored results of sorted-set commands.

use nagaya_command_spec::error::CommandError;
use nagaya_keyspace::db::{Db, Expiry};
use nagaya_keyspace::notify::Events;
use nagaya_resp::{Out, Proto};
use nagaya_store::zset::{Entry, Zset};

use crate::collection::bulk_item;

pub(super) type Reply = Result<(), CommandError>;

pub(super) fn write_score_or_nil(out: &mut Out, score: Option<f64>) {
    match score {
        Some(score) => out.double(score),
        None => out.nil(),
    }
}

/// Writes the header of a list of members: RESP2 counts scores as elements of
/// their own, RESP3 pairs them up.
pub(super) fn write_header(out: &mut Out, members: usize, with_scores: bool) {
    let flat = with_scores && out.proto == Proto::Resp2;
    out.array(if flat { members * 2 } else { members });
}

pub(super) fn write_entry(out: &mut Out, entry: Entry<'_>, with_scores: bool) {
    if with_scores && out.proto == Proto::Resp3 {
        out.array(2);
    }
    bulk_item(out, entry.member);
    if with_scores {
        out.double(entry.score);
    }
}

/// Puts a computed set at a key, or removes the key when the set is empty, and replies its size.
pub(crate) fn store(out: &mut Out, db: &mut Db<'_>, key: &[u8], set: Zset, event: &str) {
    let members = set.len();
    if members > 0 {
        db.set(
            key,
            nagaya_store::value::Value::Zset(Box::new(set)),
            Expiry::Clear,
        );
        db.modified(key);
        db.notify(Events::ZSET, event, key);
        db.effect_state(key);
    } else if db.remove(key) {
        db.modified(key);
        db.notify(Events::GENERIC, "del", key);
        db.effect_state(key);
    }
    out.int(members as i64);
}
