//! CLIENT PAUSE: requests that wait until a moment in time.
//!
//! A paused request is not run; the I/O loop hands it in again later. While a
//! pause lasts no key expires for good, so that nothing changes.

use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use nagaya_resp::{Args, parse_i64};

use super::Reply;
use crate::client::Client;
use crate::command_table::Command;
use crate::ctx::Ctx;
use crate::error::CommandError;
use crate::scripting;
use crate::server::Server;
use crate::spec::{Flags, MAY_REPLICATE, WRITE};

const CHANGES: Flags = WRITE.and(MAY_REPLICATE);

/// Whether clients are paused, and which.
#[derive(Default)]
pub(crate) struct Pause {
    mode: AtomicU8,
    until_ms: AtomicI64,
}

const OFF: u8 = 0;
const WRITES: u8 = 1;
const ALL: u8 = 2;

impl Pause {
    /// Tells whether a pause was ordered; it may be over.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.mode.load(Ordering::Relaxed) != OFF
    }

    /// Tells whether a command has to wait; ends a pause that is over.
    pub(crate) fn holds_up(
        &self,
        server: &Server,
        client: &Client,
        command: &Command,
        args: &Args<'_>,
        now_ms: i64,
    ) -> bool {
        if self.is_on() && self.until_ms.load(Ordering::Relaxed) <= now_ms {
            self.end();
        }
        match self.mode.load(Ordering::Relaxed) {
            OFF => false,
            WRITES => changes_data(server, client, command, args),
            // CLIENT goes through, or nobody could end the pause.
            _ => !command.full_name.starts_with("client"),
        }
    }

    /// Begins or lengthens a pause; the stricter of two counts.
    fn begin(&self, mode: u8, until_ms: i64) {
        self.until_ms.fetch_max(until_ms, Ordering::Relaxed);
        self.mode.fetch_max(mode, Ordering::Relaxed);
    }

    fn end(&self) {
        self.mode.store(OFF, Ordering::Relaxed);
        self.until_ms.store(0, Ordering::Relaxed);
    }
}

/// Tells whether a command may change something: EXEC does what its commands do, and a script may
/// have promised not to.
fn changes_data(server: &Server, client: &Client, command: &Command, args: &Args<'_>) -> bool {
    let changes = |command: &Command, args: &Args<'_>| {
        command.spec.flags.has(CHANGES) && !scripting::only_reads(server, command, args)
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

/// CLIENT PAUSE timeout [WRITE|ALL]
pub(super) fn pause(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.args.len() > 4 {
        return Err(super::unknown_form(ctx));
    }
    let mode = match ctx.args.get(3) {
        None => ALL,
        Some(word) if word.eq_ignore_ascii_case(b"ALL") => ALL,
        Some(word) if word.eq_ignore_ascii_case(b"WRITE") => WRITES,
        Some(_) => return Err(CommandError::err("CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let timeout_ms =
        parse_i64(ctx.key(2)).ok_or(CommandError::err("timeout is not an integer or out of range"))?;
    if timeout_ms < 0 {
        return Err(CommandError::err("timeout is negative"));
    }
    let until_ms = ctx.db.now_ms().checked_add(timeout_ms);
    let until_ms = until_ms.ok_or(CommandError::err("timeout is out of range"))?;
    ctx.core.server.pause.begin(mode, until_ms);
    ctx.out.ok();
    Ok(())
}

/// CLIENT UNPAUSE
pub(super) fn unpause(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.core.server.pause.end();
    ctx.out.ok();
    Ok(())
}
