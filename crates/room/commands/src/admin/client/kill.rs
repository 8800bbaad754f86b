//! CLIENT KILL.

use std::sync::Arc;

use nagaya_command_spec::error::CommandError;
use nagaya_connections::client::{Client, ClientFlag, Message};
use nagaya_exec::ctx::Ctx;
use nagaya_resp::parse_i64;

use super::Reply;
use super::list::ClientType;

/// Which connections to end: those that fit everything asked for.
#[derive(Default)]
struct Filter<'a> {
    id: Option<u64>,
    client_type: Option<ClientType>,
    user: Option<&'a [u8]>,
    peer: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    spare_me: bool,
}

/// CLIENT KILL ip:port | option value [option value ...]
pub(super) fn kill(ctx: &mut Ctx<'_, '_>) -> Reply {
    let by_address = ctx.args.len() == 3;
    let filter = if by_address {
        Filter {
            peer: Some(ctx.key(2)),
            ..Filter::default()
        }
    } else {
        parse(ctx)?
    };
    let mut chosen = ctx.server().subscribers.clients.all();
    chosen.retain(|client| filter.fits(client, ctx.session.id()));
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
    // From here on nobody sees it any more, though its thread has yet to close it.
    ctx.server().subscribers.clients.remove(client.id);
    if client.id == ctx.session.id() {
        ctx.session.close_after_reply = true;
    } else {
        client.deliver(Message::Close);
    }
}

fn parse<'a>(ctx: &Ctx<'a, '_>) -> Result<Filter<'a>, CommandError> {
    let mut filter = Filter {
        spare_me: true,
        ..Filter::default()
    };
    for at in (2..ctx.args.len()).step_by(2) {
        let value = ctx.arg(at + 1)?;
        if ctx.is(at, "ID") {
            let id = parse_i64(value).filter(|id| *id >= 1);
            let id = id.ok_or(CommandError::err("client-id should be greater than 0"))?;
            filter.id = Some(id as u64);
        } else if ctx.is(at, "TYPE") {
            filter.client_type = Some(ClientType::parse(value)?);
        } else if ctx.is(at, "ADDR") {
            filter.peer = Some(value);
        } else if ctx.is(at, "LADDR") {
            filter.local = Some(value);
        } else if ctx.is(at, "USER") {
            if !ctx.server().has_user(value) {
                return Err(CommandError::err(format!(
                    "No such user '{}'",
                    String::from_utf8_lossy(value)
                )));
            }
            filter.user = Some(value);
        } else if ctx.is(at, "SKIPME") {
            filter.spare_me = match value.to_ascii_lowercase().as_slice() {
                b"yes" => true,
                b"no" => false,
                _ => return Err(CommandError::Syntax),
            };
        } else {
            return Err(CommandError::Syntax);
        }
    }
    Ok(filter)
}

impl Filter<'_> {
    fn fits(&self, client: &Client, own_id: u64) -> bool {
        self.peer.is_none_or(|peer| client.peer.as_bytes() == peer)
            && self.local.is_none_or(|local| client.local.as_bytes() == local)
            && self
                .client_type
                .is_none_or(|wanted| ClientType::of(client) == wanted)
            && self.id.is_none_or(|id| client.id == id)
            && self.user.is_none_or(|user| client.user().as_bytes() == user)
            && !(self.spare_me && client.id == own_id)
    }
}
