//! CLIENT KILL.

use std::sync::Arc;

use nagaya_command_spec::error::CommandError;
use nagaya_connections::client::{Client, ClientFlag, Message};
use nagaya_exec::ctx::Ctx;

use super::Reply;
use super::filter::Filter;

/// CLIENT KILL ip:port | option value [option value ...]
pub(super) fn kill(ctx: &mut Ctx<'_, '_>) -> Reply {
    let by_address = ctx.args.len() == 3;
    let filter = if by_address {
        Filter::by_address(ctx.key(2))
    } else {
        Filter::parse(ctx, true)?
    };
    let now_s = ctx.now_us() / 1_000_000;
    let mut chosen = ctx.server().subscribers.clients.all();
    chosen.retain(|client| filter.fits(client, ctx.session.id(), now_s));
    for client in &chosen {
        end(ctx, client);
    }
    match (by_address, chosen.is_empty()) {
        (true, true) => return Err(CommandError::err("No such client")),
        (true, false) => ctx.out.ok(),
        (false, _) => ctx.out.int(chosen.len() as i64),
    }
    Ok(())
}

fn end(ctx: &mut Ctx<'_, '_>, client: &Arc<Client>) {
    client.set_flag(ClientFlag::CLOSING, true);
    // From here on no command finds it, though its thread has yet to close it.
    ctx.server().subscribers.clients.remove(client.id);
    if client.id == ctx.session.id() {
        ctx.session.close_after_reply = true;
    } else {
        client.deliver(Message::Close);
    }
}
