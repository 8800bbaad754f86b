//! CLIENT PAUSE and CLIENT UNPAUSE.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::pause::PauseMode;
use nagaya_resp::parse_i64;

use super::Reply;

/// CLIENT PAUSE timeout [WRITE|ALL]
pub(super) fn pause(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.args.len() > 4 {
        return Err(super::unknown_form(ctx));
    }
    let mode = match ctx.args.get(3) {
        None => PauseMode::All,
        Some(word) if word.eq_ignore_ascii_case(b"ALL") => PauseMode::All,
        Some(word) if word.eq_ignore_ascii_case(b"WRITE") => PauseMode::Writes,
        Some(_) => return Err(CommandError::err("CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let timeout_ms =
        parse_i64(ctx.key(2)).ok_or(CommandError::err("timeout is not an integer or out of range"))?;
    if timeout_ms < 0 {
        return Err(CommandError::err("timeout is negative"));
    }
    let until_ms = ctx.db.now_ms().checked_add(timeout_ms);
    let until_ms = until_ms.ok_or(CommandError::err("timeout is out of range"))?;
    ctx.server().keyspace.pause.begin(mode, until_ms);
    ctx.out.ok();
    Ok(())
}

/// CLIENT UNPAUSE
pub(super) fn unpause(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.server().keyspace.pause.end();
    ctx.out.ok();
    Ok(())
}
