//! Checks before a request runs that the tags of its keys are resident.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::key_positions::each_key;
use nagaya_command_spec::spec::OWN_LOCKS;
use nagaya_command_spec::table::Command;
use nagaya_keyspace::db::Db;
use nagaya_keyspace::hash_tag::hash_tag;
use nagaya_resp::{Args, parse_i64};
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
    let (home, databases) = (db.database(), db.data().databases.count());
    let mut need = |database: usize, key: &[u8]| {
        keys += 1;
        let is_patient = waited <= LOAD_WAITS_MAX + 2 * keys;
        db.select(database);
        if !db.is_resident(key) && (is_patient || db.load_in_place(key).is_err()) {
            // All are ordered at once; the client waits for one of them, then for the next.
            db.order_load(key, (!waits).then_some(&session.shared));
            waits = true;
        }
    };
    let mut selected = home;
    let mut need_all = |command: &Command, args: &Args<'_>| {
        each_place(command, args, (selected, databases), &mut need);
        selected = selected_by(command, args, databases).unwrap_or(selected);
    };
    need_all(command, args);
    // Without a transaction, nothing is locked for EXEC, which is refused.
    if command.spec.flags.has(OWN_LOCKS)
        && let Some(transaction) = &session.transaction
    {
        for (queued, args) in &transaction.commands {
            need_all(queued, &args.as_args());
        }
        session
            .watched_keys()
            .for_each(|(database, key)| need(database, key));
    }
    db.select(home);
    session.load_waits = if waits { waited + 1 } else { 0 };
    waits
}

/// Reads the tags that a command inside a script or transaction needs, since they must not wait.
pub(crate) fn load_in_place(command: &Command, args: &Args<'_>, db: &mut Db<'_>) -> Result<(), ColdError> {
    let mut result = Ok(());
    let (home, databases) = (db.database(), db.data().databases.count());
    each_place(command, args, (home, databases), &mut |database, key| {
        if result.is_ok() {
            db.select(database);
            result = db.load_in_place(key);
        }
    });
    db.select(home);
    result
}

/// Visits the keys of a request with their databases, given the selected one and how many there are. What is wrong
/// with the arguments, the handler will say.
fn each_place(
    command: &Command,
    args: &Args<'_>,
    (selected, databases): (usize, usize),
    visit: &mut dyn FnMut(usize, &[u8]),
) {
    each_key(command.spec, args, |at, _| visit(selected, &args[at])).ok();
    let other = match command.spec.name {
        "MOVE" => Some((1, 2)),
        "COPY" => {
            let is_db = |at: &usize| args[*at].eq_ignore_ascii_case(b"DB");
            (3..args.len()).find(is_db).map(|at| (2, at + 1))
        }
        _ => None,
    };
    if let Some((key, number)) = other
        && let Some(database) = database_at(args, number, databases)
        && let Some(key) = args.get(key)
    {
        visit(database, key);
    }
}

/// Returns the database that a queued command selects for those behind it.
fn selected_by(command: &Command, args: &Args<'_>, databases: usize) -> Option<usize> {
    (command.spec.name == "SELECT")
        .then(|| database_at(args, 1, databases))
        .flatten()
}

fn database_at(args: &Args<'_>, at: usize, databases: usize) -> Option<usize> {
    let number = parse_i64(args.get(at)?)?;
    usize::try_from(number).ok().filter(|number| *number < databases)
}
