//! Requests that wait for the end of a pause.
//!
//! A paused request is not run; the I/O loop hands it in again later.

use nagaya_resp::Args;

use crate::client::Client;
use crate::command_table::Command;
use crate::pause::{PauseMode, PauseState};
use crate::scripting::{self, Scripts};
use crate::spec::{Flags, MAY_REPLICATE, WRITE};

const CHANGES: Flags = WRITE.and(MAY_REPLICATE);

/// Returns whether a request has to wait for the end of a pause.
pub(crate) fn holds_up(
    pause: &PauseState,
    scripts: &Scripts,
    client: &Client,
    command: &Command,
    args: &Args<'_>,
    now_ms: i64,
) -> bool {
    match pause.mode_at(now_ms) {
        None => false,
        Some(PauseMode::Writes) => changes_data(scripts, client, command, args),
        // CLIENT goes through: otherwise no client could end the pause.
        Some(PauseMode::All) => !command.full_name.starts_with("client"),
    }
}

/// Tells whether a command may change something: EXEC does what its commands do, and a script may
/// have promised not to.
fn changes_data(scripts: &Scripts, client: &Client, command: &Command, args: &Args<'_>) -> bool {
    let changes = |command: &Command, args: &Args<'_>| {
        command.spec.flags.has(CHANGES) && !scripting::only_reads(scripts, command, args)
    };
    let queued = client
        .transaction
        .as_ref()
        .filter(|_| command.full_name == "exec");
    changes(command, args)
        || queued.is_some_and(|transaction| {
            let mut commands = transaction.commands.iter();
            commands.any(|(command, args)| changes(command, &args.as_args()))
        })
}
