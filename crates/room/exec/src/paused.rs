//! Requests that wait for the end of a pause.
//!
//! A paused request is not run; the I/O loop hands it in again later.

use nagaya_command_spec::spec::{Flags, MAY_REPLICATE, WRITE};
use nagaya_command_spec::table::Command;
use nagaya_keyspace::pause::{PauseMode, PauseState};
use nagaya_resp::Args;

use crate::scripts::shared::Scripts;
use crate::scripts::shared::only_reads;
use crate::session::Session;

const CHANGES: Flags = WRITE.and(MAY_REPLICATE);

/// Returns whether a request has to wait for the end of a pause.
pub(crate) fn holds_up(
    pause: &PauseState,
    scripts: &Scripts,
    session: &Session,
    command: &Command,
    args: &Args<'_>,
    now_ms: i64,
) -> bool {
    match pause.mode_at(now_ms) {
        None => false,
        Some(PauseMode::Writes) => changes_data(scripts, session, command, args),
        // CLIENT goes through: otherwise no client could end the pause.
        Some(PauseMode::All) => !command.full_name.starts_with("client"),
    }
}

/// Tells whether a command may change something: EXEC does what its commands do, and a script may
/// have promised not to.
fn changes_data(scripts: &Scripts, session: &Session, command: &Command, args: &Args<'_>) -> bool {
    let changes = |command: &Command, args: &Args<'_>| {
        command.spec.flags.has(CHANGES) && !only_reads(scripts, command, args)
    };
    let queued = session
        .transaction
        .as_ref()
        .filter(|_| command.full_name == "exec");
    changes(command, args)
        || queued.is_some_and(|transaction| {
            let mut commands = transaction.commands.iter();
            commands.any(|(command, args)| changes(command, &args.as_args()))
        })
}
