//! XREAD and XREADGROUP.
//!
//! A command that waits is run again when one of its streams changes. What it
//! runs then is spelled out: `$` has become the id it stood for, and without a
//! COUNT a woken reader gets at most a thousand entries.

use nagaya_command_spec::error::CommandError;
use nagaya_connections::blocking::TimeoutReply;
use nagaya_exec::ctx::{Ctx, KeyWait};
use nagaya_keyspace::notify::Events;
use nagaya_resp::{ArgVec, Args, Proto};
use nagaya_store::stream::{ConsumerId, Delivery, Group, Stream, StreamId};
use nagaya_store::value::ValueKind;

use super::format::{Reply, lossy, parse_id, put_entry, put_id};

const WOKEN_COUNT_DEFAULT: usize = 1000;
/// Where XREADGROUP's key spec starts to look for the word STREAMS.
pub(super) const SEARCHED_FROM: usize = 4;

/// What the arguments ask for.
struct Request<'a> {
    /// Group and consumer, for XREADGROUP.
    reader: Option<(&'a [u8], &'a [u8])>,
    no_ack: bool,
    /// 0 means all.
    count: usize,
    block_ms: Option<i64>,
    streams_at: usize,
    streams: usize,
}

/// From where one stream is read.
#[derive(Clone, Copy)]
enum From {
    After(StreamId),
    /// What the group has not handed out yet.
    New,
}

/// XREAD [COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]
pub(super) fn xread(ctx: &mut Ctx<'_, '_>) -> Reply {
    read(ctx, false)
}

/// XREADGROUP GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key [key ...] id [id ...]
pub(super) fn xreadgroup(ctx: &mut Ctx<'_, '_>) -> Reply {
    read(ctx, true)
}

/// Finds XREADGROUP's keys when a group or consumer is called `STREAMS`, which misleads the key spec.
pub(super) fn hidden_keys(args: &Args<'_>) -> Vec<usize> {
    let is = |at: usize, word: &str| {
        args.get(at)
            .is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    };
    let mut at = 1;
    while !is(at, "STREAMS") {
        at += match () {
            () if is(at, "NOACK") => 1,
            () if is(at, "BLOCK") || is(at, "COUNT") => 2,
            () if is(at, "GROUP") => 3,
            () => return Vec::new(),
        };
    }
    let found_by_spec = (SEARCHED_FROM..args.len()).find(|&at| is(at, "STREAMS"));
    if found_by_spec == Some(at) {
        return Vec::new();
    }
    (at + 1..=at + (args.len() - 1 - at) / 2).collect()
}

fn read(ctx: &mut Ctx<'_, '_>, as_group: bool) -> Reply {
    let request = parse(ctx, as_group)?;
    let mut starts = Vec::with_capacity(request.streams);
    for index in 0..request.streams {
        starts.push(start_of(ctx, &request, index)?);
    }
    let mark = ctx.out.defer();
    let mut answered = 0;
    for (index, &from) in starts.iter().enumerate() {
        let key = ctx.key(request.streams_at + index);
        let served = match request.reader {
            None => read_plain(ctx, key, from, request.count),
            Some((group, consumer)) => {
                let served = read_as(ctx, key, from, &request, group, consumer);
                if served {
                    tell_read(ctx, &request, index);
                }
                served
            }
        };
        answered += usize::from(served);
    }
    if answered > 0 {
        match ctx.out.proto {
            Proto::Resp2 => ctx.out.finish_array(mark, answered),
            Proto::Resp3 => ctx.out.finish_map(mark, answered),
        }
        return Ok(());
    }
    ctx.out.truncate(mark);
    match request.block_ms {
        None => ctx.out.nil_array(),
        Some(timeout_ms) => wait(ctx, &request, &starts, timeout_ms),
    }
    Ok(())
}

fn parse<'c>(ctx: &Ctx<'c, '_>, as_group: bool) -> Result<Request<'c>, CommandError> {
    let mut request = Request {
        reader: None,
        no_ack: false,
        count: 0,
        block_ms: None,
        streams_at: 0,
        streams: 0,
    };
    let only_group = |option: &str| {
        let text = format!("The {option} option is only supported by XREADGROUP. You called XREAD instead.");
        if as_group {
            Ok(())
        } else {
            Err(CommandError::err(text))
        }
    };
    let mut at = 1;
    while at < ctx.args.len() {
        let more = ctx.args.len() - 1 - at;
        if ctx.is(at, "BLOCK") && more > 0 {
            if ctx.session.in_script {
                let name = String::from_utf8_lossy(ctx.key(0));
                return Err(CommandError::err(format!(
                    "{name} command is not allowed with BLOCK option from scripts"
                )));
            }
            request.block_ms = Some(parse_block(ctx, at + 1)?);
            at += 2;
        } else if ctx.is(at, "COUNT") && more > 0 {
            request.count = ctx.int(at + 1)?.max(0) as usize;
            at += 2;
        } else if ctx.is(at, "STREAMS") && more > 0 {
            if !more.is_multiple_of(2) {
                return Err(CommandError::err(
                    "Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
                ));
            }
            (request.streams_at, request.streams) = (at + 1, more / 2);
            break;
        } else if ctx.is(at, "GROUP") && more >= 2 {
            only_group("GROUP")?;
            request.reader = Some((ctx.key(at + 1), ctx.key(at + 2)));
            at += 3;
        } else if ctx.is(at, "NOACK") {
            only_group("NOACK")?;
            request.no_ack = true;
            at += 1;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    if request.streams_at == 0 {
        return Err(CommandError::Syntax);
    }
    if as_group && request.reader.is_none() {
        return Err(CommandError::err("Missing GROUP option for XREADGROUP"));
    }
    Ok(request)
}

/// Reads a timeout in milliseconds; 0 means without end.
fn parse_block(ctx: &Ctx<'_, '_>, at: usize) -> Result<i64, CommandError> {
    let ms = ctx
        .int(at)
        .map_err(|_| CommandError::err("timeout is not an integer or out of range"))?;
    if ms < 0 {
        return Err(CommandError::err("timeout is negative"));
    }
    Ok(ms.min(i64::MAX - ctx.db.now_ms()))
}

/// Checks a stream and its id, and tells from where to read it.
fn start_of(ctx: &Ctx<'_, '_>, request: &Request<'_>, index: usize) -> Result<From, CommandError> {
    let key = ctx.key(request.streams_at + index);
    let id = ctx.key(request.streams_at + request.streams + index);
    let stream = match ctx.db.read::<Stream>(key) {
        Err(_) if ctx.session.woken_by.is_some() => None,
        stream => stream?,
    };
    if let Some((group, _)) = request.reader
        && stream.and_then(|stream| stream.group(group)).is_none()
    {
        return Err(no_group(ctx, stream, key, group));
    }
    match id {
        b"$" if request.reader.is_some() => Err(CommandError::err(
            "The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this \
             consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just \
             return an empty result set.",
        )),
        b"+" if request.reader.is_some() => Err(CommandError::err(
            "The + ID is meaningless in the context of XREADGROUP: you want to read the history of this \
             consumer by specifying a proper ID, or use the > ID to get new messages. The + ID would just \
             return an empty result set.",
        )),
        b"$" => Ok(From::After(stream.map_or(StreamId::MIN, Stream::last_id))),
        b"+" => {
            let last = stream
                .and_then(Stream::last_entry)
                .and_then(|entry| entry.id.prev());
            Ok(From::After(last.unwrap_or_else(|| {
                stream.map_or(StreamId::MIN, Stream::last_id)
            })))
        }
        b">" if request.reader.is_some() => Ok(From::New),
        b">" => Err(CommandError::err(
            "The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
        )),
        id => {
            let id = parse_id(id)?;
            let new = request.reader.is_some() && id == StreamId::MAX;
            Ok(if new { From::New } else { From::After(id) })
        }
    }
}

fn no_group(ctx: &Ctx<'_, '_>, stream: Option<&Stream>, key: &[u8], group: &[u8]) -> CommandError {
    if ctx.session.woken_by.is_some() {
        return CommandError::coded(match stream {
            None => "UNBLOCKED the stream key no longer exists",
            Some(_) => "NOGROUP the consumer group this client was blocked on no longer exists",
        });
    }
    let (key, group) = (lossy(key), lossy(group));
    CommandError::coded(format!(
        "NOGROUP No such key '{key}' or consumer group '{group}' in XREADGROUP with GROUP option"
    ))
}

fn has_after(stream: &Stream, id: StreamId) -> bool {
    stream.last_entry().is_some_and(|last| last.id > id)
}

/// Starts one stream's part of the reply.
fn put_stream(ctx: &mut Ctx<'_, '_>, key: &[u8]) {
    if ctx.out.proto == Proto::Resp2 {
        ctx.out.array(2);
    }
    ctx.out.bulk(key);
}

fn limit(count: usize) -> usize {
    if count == 0 { usize::MAX } else { count }
}

/// Writes the entries after an id; false when there are none.
fn read_plain(ctx: &mut Ctx<'_, '_>, key: &[u8], from: From, count: usize) -> bool {
    let From::After(id) = from else { return false };
    if !ctx
        .db
        .peek(key)
        .and_then(|entry| entry.collection())
        .is_some_and(|stream| has_after(stream, id))
    {
        return false;
    }
    put_stream(ctx, key);
    let stream: Option<&Stream> = ctx.db.peek(key).and_then(|entry| entry.collection());
    if let (Some(stream), Some(start)) = (stream, id.next()) {
        super::range::put_entries(ctx.out, stream.range(start, StreamId::MAX).take(limit(count)));
    }
    true
}

/// Reads as a consumer: new entries, which become pending, or those already pending with it.
fn read_as(
    ctx: &mut Ctx<'_, '_>,
    key: &[u8],
    from: From,
    request: &Request<'_>,
    group_name: &[u8],
    consumer_name: &[u8],
) -> bool {
    let last_delivered = {
        let stream: Option<&Stream> = ctx.db.peek(key).and_then(|entry| entry.collection());
        let Some(stream) = stream else { return false };
        let Some(group) = stream.group(group_name) else {
            return false;
        };
        if matches!(from, From::New) && !has_after(stream, group.last_id) {
            return false;
        }
        group.last_id
    };
    put_stream(ctx, key);
    let now_ms = ctx.db.now_ms();
    let Ok(Some(stream)) = ctx.db.write::<Stream>(key) else {
        return false;
    };
    let Some(group) = stream.group_mut(group_name) else {
        return false;
    };
    let (consumer, created) = look_up_consumer(group, consumer_name, now_ms);
    match from {
        From::After(id) => put_history(ctx.out, stream, group_name, consumer, id, request.count, now_ms),
        From::New => {
            let start = last_delivered.next().unwrap_or(StreamId::MIN);
            let mark = ctx.out.defer();
            let mut ids = Vec::new();
            for entry in stream.range(start, StreamId::MAX).take(limit(request.count)) {
                put_entry(ctx.out, &entry);
                ids.push(entry.id);
            }
            ctx.out.finish_array(mark, ids.len());
            let delivery = if request.no_ack {
                Delivery::NoAck
            } else {
                Delivery::Pending { now_ms }
            };
            stream.deliver(group_name, &ids, consumer, delivery);
        }
    }
    ctx.db.dirty += 1;
    if created {
        ctx.db.notify(Events::STREAM, "xgroup-createconsumer", key);
    }
    true
}

/// Tells the effect of reading one stream as a consumer: the same again, of that stream alone.
fn tell_read(ctx: &mut Ctx<'_, '_>, request: &Request<'_>, index: usize) {
    let Some((group, consumer)) = request.reader else {
        return;
    };
    let mut text = itoa::Buffer::new();
    let who: [&[u8]; 4] = [b"XREADGROUP", b"GROUP", group, consumer];
    let no_ack: Option<&[u8]> = request.no_ack.then_some(b"NOACK");
    let count: [&[u8]; 2] = [b"COUNT", text.format(request.count).as_bytes()];
    let key = ctx.key(request.streams_at + index);
    let id = ctx.key(request.streams_at + request.streams + index);
    let what: [&[u8]; 3] = [b"STREAMS", key, id];
    let args = who.into_iter().chain(no_ack).chain(count).chain(what);
    ctx.db.effect_now(args.clone().count(), args);
}

/// Finds a consumer and notes that it is alive, or makes it.
pub(super) fn look_up_consumer(group: &mut Group, name: &[u8], now_ms: i64) -> (ConsumerId, bool) {
    match group.find_consumer(name) {
        Some(consumer) => {
            group.consumer_mut(consumer).seen_ms = now_ms;
            (consumer, false)
        }
        None => {
            let made = group.create_consumer(name, now_ms);
            (made.expect("the name was looked up just above"), true)
        }
    }
}

/// Writes the consumer's pending entries after an id; reading them counts as another delivery.
/// Entries that are deleted meanwhile come without fields.
fn put_history(
    out: &mut nagaya_resp::Out,
    stream: &mut Stream,
    group_name: &[u8],
    consumer: ConsumerId,
    after: StreamId,
    count: usize,
    now_ms: i64,
) {
    let Some(group) = stream.group(group_name) else {
        return;
    };
    let start = after.next().unwrap_or(StreamId::MIN);
    let ids: Vec<StreamId> = group
        .consumer(consumer)
        .pending_range(start..)
        .take(limit(count))
        .collect();
    out.array(ids.len());
    for id in ids {
        let Some(entry) = stream.get(id) else {
            out.array(2);
            put_id(out, id);
            out.nil_array();
            continue;
        };
        put_entry(out, &entry);
        if let Some(pending) = stream
            .group_mut(group_name)
            .and_then(|group| group.pending_mut(id))
        {
            pending.delivered_ms = now_ms;
            pending.deliveries = pending.deliveries.wrapping_add(1);
        }
    }
}

fn wait(ctx: &mut Ctx<'_, '_>, request: &Request<'_>, starts: &[From], timeout_ms: i64) {
    let keys: Vec<&[u8]> = (0..request.streams)
        .map(|index| ctx.key(request.streams_at + index))
        .collect();
    let mut args = ArgVec::new();
    args.push(ctx.key(0));
    if let Some((group, consumer)) = request.reader {
        [b"GROUP", group, consumer].iter().for_each(|arg| args.push(arg));
    }
    if request.no_ack {
        args.push(b"NOACK");
    }
    let count = if request.count == 0 {
        WOKEN_COUNT_DEFAULT
    } else {
        request.count
    };
    [
        b"COUNT",
        count.to_string().as_bytes(),
        b"BLOCK",
        timeout_ms.to_string().as_bytes(),
        b"STREAMS",
    ]
    .iter()
    .for_each(|arg| args.push(arg));
    keys.iter().for_each(|key| args.push(key));
    for start in starts {
        match start {
            From::After(id) => args.push(id.to_string().as_bytes()),
            From::New => args.push(b">"),
        }
    }
    ctx.wait(KeyWait {
        keys,
        wake_on: ValueKind::Stream,
        wake_on_loss: request.reader.is_some(),
        timeout_ms,
        on_timeout: TimeoutReply::NilArray,
        run_instead: Some(args),
    });
}
