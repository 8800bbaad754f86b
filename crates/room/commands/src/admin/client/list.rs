//! CLIENT LIST and CLIENT INFO: a line of facts per connection.

use std::sync::atomic::Ordering::Relaxed;

use nagaya_command_spec::error::CommandError;
use nagaya_connections::client::{Client, ClientFlag};
use nagaya_connections::tracking::TrackerInfo;
use nagaya_exec::ctx::Ctx;
use nagaya_exec::server::Server;
use nagaya_resp::{Args, Proto, parse_i64};

use super::Reply;
use super::filter::Filter;

/// What a connection is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientType {
    Normal,
    Master,
    Replica,
    PubSub,
}

impl ClientType {
    pub(super) fn parse(text: &[u8]) -> Result<ClientType, CommandError> {
        match text.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(ClientType::Normal),
            b"master" => Ok(ClientType::Master),
            b"slave" | b"replica" => Ok(ClientType::Replica),
            b"pubsub" => Ok(ClientType::PubSub),
            _ => Err(CommandError::err(format!(
                "Unknown client type '{}'",
                String::from_utf8_lossy(text)
            ))),
        }
    }

    pub(super) fn of(client: &Client) -> ClientType {
        if client.subscription_counts().is_empty() {
            ClientType::Normal
        } else {
            ClientType::PubSub
        }
    }
}

/// CLIENT INFO
pub(super) fn info(ctx: &mut Ctx<'_, '_>) -> Reply {
    let line = describe(
        ctx.server(),
        &ctx.session.shared,
        ctx.now_us() / 1_000_000,
        Some(&ctx.args),
    );
    ctx.out.verbatim("txt", line.as_bytes());
    Ok(())
}

/// CLIENT LIST [TYPE type] [ID client-id [client-id ...]] [option value ...]
pub(super) fn list(ctx: &mut Ctx<'_, '_>) -> Reply {
    let clients = &ctx.server().subscribers.clients;
    let (count, now_s) = (ctx.args.len(), ctx.now_us() / 1_000_000);
    let chosen = if count == 4 && ctx.is(2, "TYPE") {
        let wanted = ClientType::parse(ctx.key(3))?;
        let mut all = clients.all();
        all.retain(|client| ClientType::of(client) == wanted);
        all
    } else if count > 3 && ctx.is(2, "ID") && (3..count).all(|at| !is_option(ctx, at)) {
        let ids: Option<Vec<i64>> = (3..count).map(|at| parse_i64(ctx.key(at))).collect();
        let ids = ids.ok_or(CommandError::err("Invalid client ID"))?;
        ids.into_iter().filter_map(|id| clients.find(id as u64)).collect()
    } else {
        let filter = Filter::parse(ctx, false)?;
        let mut all = clients.all();
        all.retain(|client| filter.fits(client, ctx.session.id(), now_s));
        all
    };
    let lines = chosen.iter().map(|client| {
        let own = (client.id == ctx.session.id()).then_some(&ctx.args);
        describe(ctx.server(), client, now_s, own)
    });
    let text: String = lines.collect();
    ctx.out.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Returns whether an argument among ids begins another option.
fn is_option(ctx: &Ctx<'_, '_>, at: usize) -> bool {
    let options = [
        "TYPE", "USER", "ADDR", "LADDR", "SKIPME", "MAXAGE", "NAME", "IDLE",
    ];
    options.iter().any(|option| ctx.is(at, option))
}

/// Returns the line of a connection; `own` is the request of the one that asks.
pub(crate) fn describe(server: &Server, client: &Client, now_s: i64, own: Option<&Args<'_>>) -> String {
    let name = client.name().unwrap_or_default();
    let [library, library_version] = client.library();
    let counts = client.subscription_counts();
    let tracker = server.subscribers.tracking.info_of(client.id);
    // The request that is running has left the buffer already, where Redis still has it.
    let request_bytes = own.map_or(0, request_bytes);
    let argument_bytes = own.map_or(0, |args| args.bytes_len());
    let queued_bytes = client.queued_bytes.load(Relaxed);
    let (input, input_free) = (
        client.input_bytes.load(Relaxed),
        client.input_free_bytes.load(Relaxed),
    );
    let output = client.output_bytes.load(Relaxed);
    let total =
        size_of::<Client>() + request_bytes + argument_bytes + queued_bytes + input + input_free + output;
    let command = (client.last_command.load(Relaxed) as usize).checked_sub(1);
    let command = command
        .and_then(|number| server.registry.table.by_number(number))
        .map_or("NULL", |command| &command.full_name);
    format!(
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} \
         ssub={} multi={} qbuf={} qbuf-free={input_free} argv-mem={argument_bytes} \
         multi-mem={queued_bytes} rbs=0 rbp=0 obl=0 oll={} omem={output} tot-mem={total} events={} cmd={command} \
         user={} redir={} resp={} lib-name={} lib-ver={}\n",
        client.id,
        client.peer,
        client.local,
        client.fd.load(Relaxed),
        String::from_utf8_lossy(&name),
        now_s - client.connected_s.load(Relaxed),
        now_s - client.active_s.load(Relaxed),
        flags_of(client, tracker.as_ref()),
        client.database.load(Relaxed),
        counts.channels,
        counts.patterns,
        counts.shard_channels,
        client.queued.load(Relaxed),
        input + request_bytes,
        usize::from(output > 0),
        if output > 0 { "rw" } else { "r" },
        client.user(),
        tracker.map_or(-1, |tracker| tracker.redirect as i64),
        if client.proto() == Proto::Resp3 { 3 } else { 2 },
        String::from_utf8_lossy(&library),
        String::from_utf8_lossy(&library_version),
    )
}

pub(super) fn flags_of(client: &Client, tracker: Option<&TrackerInfo>) -> String {
    let all = [
        (client.has_flag(ClientFlag::MONITOR), 'O'),
        (!client.subscription_counts().is_empty(), 'P'),
        (client.queued.load(Relaxed) >= 0, 'x'),
        (client.is_waiting(), 'b'),
        (tracker.is_some(), 't'),
        (tracker.is_some_and(|tracker| tracker.broken_redirect), 'R'),
        (tracker.is_some_and(|tracker| tracker.broadcast), 'B'),
        (client.has_flag(ClientFlag::CLOSING), 'c'),
        (client.is_unix(), 'U'),
        (client.has_flag(ClientFlag::NO_EVICT), 'e'),
        (client.has_flag(ClientFlag::NO_TOUCH), 'T'),
    ];
    let set: String = all
        .into_iter()
        .filter(|(on, _)| *on)
        .map(|(_, letter)| letter)
        .collect();
    if set.is_empty() { "N".to_owned() } else { set }
}

/// Returns the length of a request as clients send it: an array of bulk strings.
fn request_bytes(args: &Args<'_>) -> usize {
    let digits = |number: usize| number.checked_ilog10().unwrap_or(0) as usize + 1;
    let bulks = args.iter().map(|arg| digits(arg.len()) + arg.len() + 5);
    digits(args.len()) + 3 + bulks.sum::<usize>()
}
