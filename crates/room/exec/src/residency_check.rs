//! What a request needs of the tiers before it may run.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::key_positions::each_key;
use nagaya_command_spec::spec::OWN_LOCKS;
use nagaya_command_spec::table::Command;
use nagaya_keyspace::db::Db;
use nagaya_keyspace::hash_tag::hash_tag;
use nagaya_resp::Args;
use nagaya_tiering::cold::ColdError;

use crate::session::Session;

/// Refuses keys without braces where the settings say so.
#[inline]
pub(crate) fn check_hash_tags(command: &Command, args: &Args<'_>, db: &Db<'_>) -> Result<(), CommandError> {
    if db.tiering.is_none_or(|tiering| !tiering.require_hash_tag) {
        return Ok(());
    }
    let mut result = Ok(());
    each_key(command.spec, args, |at, _| {
        if hash_tag(&args[at]).len() == args[at].len() {
            let key = String::from_utf8_lossy(&args[at][..args[at].len().min(128)]).into_owned();
            result = Err(CommandError::err(format!(
                "key '{key}' has no hash tag in braces, and room.require_hash_tag is on"
            )));
        }
    })
    .ok();
    result
}

/// How often a request waits for loads before they are done in its place, beside twice for each key.
const LOAD_WAITS_MAX: usize = 8;

/// Lets a client wait for the tags that its request needs and that are not in memory; false when there are
/// none.
///
/// With little memory, tags may leave it again for those that others wait for, each time before the request
/// has run. One that has waited too often reads its tags in place, and then runs at once.
pub(crate) fn waits_for_load(
    session: &mut Session,
    command: &'static Command,
    args: &Args<'_>,
    db: &mut Db<'_>,
) -> bool {
    let mut waits = false;
    let (waited, mut keys) = (session.load_waits, 0);
    let mut need = |key: &[u8]| {
        keys += 1;
        let is_patient = waited <= LOAD_WAITS_MAX + 2 * keys;
        if !db.is_resident(key) && (is_patient || db.load_in_place(key).is_err()) {
            // All are ordered at once; the client waits for one of them, then for the next.
            db.order_load(key, (!waits).then_some(&session.shared));
            waits = true;
        }
    };
    let mut need_all = |command: &Command, args: &Args<'_>| {
        // The handler will say what is wrong with the arguments.
        each_key(command.spec, args, |at, _| need(&args[at])).ok();
    };
    need_all(command, args);
    if command.spec.flags.has(OWN_LOCKS) {
        if let Some(transaction) = &session.transaction {
            for (queued, args) in &transaction.commands {
                need_all(queued, &args.as_args());
            }
        }
        session.watched_keys().for_each(need);
    }
    session.load_waits = if waits { waited + 1 } else { 0 };
    waits
}

/// Reads the tags that a command inside a script or transaction needs, since nobody can wait there.
pub(crate) fn load_in_place(command: &Command, args: &Args<'_>, db: &mut Db<'_>) -> Result<(), ColdError> {
    let mut result = Ok(());
    each_key(command.spec, args, |at, _| {
        if result.is_ok() {
            result = db.load_in_place(&args[at]);
        }
    })
    .ok();
    result
}
