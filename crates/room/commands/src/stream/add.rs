//! Appending, trimming, deleting.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_keyspace::db::Db;
use nagaya_keyspace::notify::Events;
use nagaya_resp::Args;
use nagaya_store::stream::{AddError, NewId, PartialId, Stream, StreamId, Trim, TrimTo};

use super::format::{INVALID_ID, IdText, Reply, parse_id, put_id};

/// Bounds of the work of an approximate trim without LIMIT.
const TRIM_LIMIT_DEFAULT: u64 = 10_000;
const TRIM_LIMIT_MAX: u64 = 1_000_000;
/// An approximate trim without LIMIT removes at most this many full blocks.
const TRIM_BLOCKS: u64 = 100;

/// The options that XADD and XTRIM share.
#[derive(Default)]
struct Options {
    no_mkstream: bool,
    trim_to: Option<TrimTo>,
    approximate: bool,
    limit: Option<u64>,
}

/// XADD key [NOMKSTREAM] [MAXLEN | MINID [= | ~] threshold [LIMIT count]] * | id field value [field value ...]
pub(super) fn xadd(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    let (options, id_at) = parse_options(ctx, true)?;
    let id_text = ctx.args.get(id_at);
    let id = match id_text {
        None | Some(b"*") => NewId::Auto {
            now_ms: ctx.db.now_ms() as u64,
        },
        Some(text) => match StreamId::parse_partial(text, 0).ok_or(INVALID_ID)? {
            PartialId::Full(id) => NewId::Exact(id),
            PartialId::TimeOnly(ms) => NewId::InMs(ms),
        },
    };
    let trim = options.trim(ctx)?;
    let args = ctx.args;
    let pairs_at = id_at + 1;
    if args.len() < pairs_at + 2 || (args.len() - pairs_at) % 2 == 1 {
        return Err(CommandError::wrong_arity(&ctx.command.full_name));
    }
    if id == NewId::Exact(StreamId::MIN) {
        return Err(CommandError::err(
            "The ID specified in XADD must be greater than 0-0",
        ));
    }
    if options.no_mkstream && ctx.db.read::<Stream>(key)?.is_none() {
        ctx.out.nil();
        return Ok(());
    }
    let limits = ctx.limits();
    let stream = ctx.db.write_or_create::<Stream>(key)?;
    if stream.last_id() == StreamId::MAX {
        let text = "The stream has exhausted the last possible ID, unable to add more items";
        return Err(CommandError::err(text));
    }
    let pairs = (pairs_at..args.len()).step_by(2).map(|at| {
        (
            args.get(at).unwrap_or_default(),
            args.get(at + 1).unwrap_or_default(),
        )
    });
    let id = match stream.add(id, pairs, &limits) {
        Ok(id) => id,
        Err(error) => {
            if stream.last_id() == StreamId::MIN {
                // The stream may have been made for this.
                ctx.db.effect_state(key);
            }
            return Err(add_error(error));
        }
    };
    let (trimmed, done) = trim.map_or((0, None), |order| trim_stream(stream, &order));
    tell(ctx.db, [b"XADD", key], done, Some((id, args.skip(pairs_at))));
    put_id(ctx.out, id);
    ctx.db.notify(Events::STREAM, "xadd", key);
    if trimmed > 0 {
        ctx.db.notify(Events::STREAM, "xtrim", key);
    }
    ctx.db.modified(key);
    Ok(())
}

fn add_error(error: AddError) -> CommandError {
    CommandError::err(match error {
        AddError::NotAbove => "The ID specified in XADD is equal or smaller than the target stream top item",
        AddError::TooLarge | AddError::SequenceUsedUp => "Elements are too large to be stored",
    })
}

/// Reads the options from argument 2 on. Returns where they end: at the id, for XADD.
fn parse_options(ctx: &Ctx<'_, '_>, adding: bool) -> Result<(Options, usize), CommandError> {
    let mut options = Options::default();
    let mut at = 2;
    while at < ctx.args.len() {
        let more = ctx.args.len() - 1 - at;
        if adding && ctx.key(at) == b"*" {
            break;
        } else if (ctx.is(at, "MAXLEN") || ctx.is(at, "MINID")) && more > 0 {
            at = parse_threshold(ctx, at, &mut options)?;
        } else if ctx.is(at, "LIMIT") && more > 0 {
            let limit = u64::try_from(ctx.int(at + 1)?);
            options.limit = Some(limit.map_err(|_| CommandError::err("The LIMIT argument must be >= 0."))?);
            at += 2;
        } else if adding && ctx.is(at, "NOMKSTREAM") {
            options.no_mkstream = true;
            at += 1;
        } else if adding {
            // Whatever is no option is the id; a bad one fails before the checks below.
            StreamId::parse_partial(ctx.key(at), 0).ok_or(INVALID_ID)?;
            break;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    Ok((options, at))
}

fn parse_threshold(ctx: &Ctx<'_, '_>, mut at: usize, options: &mut Options) -> Result<usize, CommandError> {
    if options.trim_to.is_some() {
        let text = "syntax error, MAXLEN and MINID options at the same time are not compatible";
        return Err(CommandError::err(text));
    }
    let by_length = ctx.is(at, "MAXLEN");
    at += 1;
    options.approximate = false;
    if at + 1 < ctx.args.len() && matches!(ctx.key(at), b"~" | b"=") {
        options.approximate = ctx.key(at) == b"~";
        at += 1;
    }
    options.trim_to = Some(if by_length {
        let length = u64::try_from(ctx.int(at)?);
        TrimTo::MaxLen(length.map_err(|_| CommandError::err("The MAXLEN argument must be >= 0."))?)
    } else {
        TrimTo::MinId(parse_id(ctx.key(at))?)
    });
    Ok(at + 1)
}

impl Options {
    /// Checks the options against each other and returns the trim they order.
    fn trim(&self, ctx: &Ctx<'_, '_>) -> Result<Option<Trim>, CommandError> {
        let Some(to) = self.trim_to else {
            return match self.limit {
                None | Some(0) => Ok(None),
                Some(_) => Err(CommandError::err(
                    "syntax error, LIMIT cannot be used without specifying a trimming strategy",
                )),
            };
        };
        let limit = match (self.limit, self.approximate) {
            (Some(_), false) => {
                let text = "syntax error, LIMIT cannot be used without the special ~ option";
                return Err(CommandError::err(text));
            }
            (Some(limit), true) => limit,
            (None, false) => 0,
            (None, true) => match ctx.limits().stream_node_max_entries as u64 {
                0 => TRIM_LIMIT_DEFAULT,
                entries => entries.saturating_mul(TRIM_BLOCKS).min(TRIM_LIMIT_MAX),
            },
        };
        Ok(Some(Trim {
            to,
            approximate: self.approximate,
            limit,
        }))
    }
}

/// Trims a stream; returns how many entries went and, if anything did, the exact trim that does the same.
///
/// An approximate trim depends on where blocks end. It removes whole ones, which is all that lies before
/// the first block left. Blocks whose entries were all deleted may go without any entry going.
fn trim_stream(stream: &mut Stream, order: &Trim) -> (u64, Option<TrimTo>) {
    let blocks = stream.node_count();
    let removed = stream.trim(order);
    let done = match order.to {
        _ if removed == 0 && stream.node_count() == blocks => None,
        _ if order.approximate => Some(TrimTo::MinId(stream.first_block_id().unwrap_or(StreamId::MAX))),
        exact => Some(exact),
    };
    (removed, done)
}

/// Tells the effect of a command that added or trimmed or both.
fn tell(db: &mut Db<'_>, head: [&[u8]; 2], trim: Option<TrimTo>, added: Option<(StreamId, Args<'_>)>) {
    if !db.tells_effects() || (trim.is_none() && added.is_none()) {
        return;
    }
    let (mut number, threshold_id);
    let trim: Option<[&[u8]; 3]> = match trim {
        None => None,
        Some(TrimTo::MaxLen(length)) => {
            number = itoa::Buffer::new();
            Some([b"MAXLEN", b"=", number.format(length).as_bytes()])
        }
        Some(TrimTo::MinId(id)) => {
            threshold_id = IdText::new(id);
            Some([b"MINID", b"=", threshold_id.as_bytes()])
        }
    };
    let id = added.map(|(id, _)| IdText::new(id));
    let pairs = added.map_or(Args::from_slices(&[]), |(_, pairs)| pairs);
    let args = head
        .into_iter()
        .chain(trim.into_iter().flatten())
        .chain(id.as_ref().map(IdText::as_bytes))
        .chain(pairs);
    db.effect_iter(args.clone().count(), args);
}

/// XTRIM key MAXLEN | MINID [= | ~] threshold [LIMIT count]
pub(super) fn xtrim(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    let (options, _) = parse_options(ctx, false)?;
    let Some(order) = options.trim(ctx)? else {
        return Err(CommandError::err(
            "syntax error, XTRIM must be called with a trimming strategy",
        ));
    };
    let (removed, done) = match ctx.db.write::<Stream>(key)? {
        None => (0, None),
        Some(stream) => trim_stream(stream, &order),
    };
    if removed > 0 {
        ctx.db.notify(Events::STREAM, "xtrim", key);
        ctx.db.modified(key);
    }
    tell(ctx.db, [b"XTRIM", key], done, None);
    ctx.out.int(removed as i64);
    Ok(())
}

/// XDEL key id [id ...]
pub(super) fn xdel(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    let Some(stream) = ctx.db.write::<Stream>(key)? else {
        ctx.out.int(0);
        return Ok(());
    };
    let ids = ctx
        .args
        .iter()
        .skip(2)
        .map(parse_id)
        .collect::<Result<Vec<_>, _>>()?;
    let removed = ids.into_iter().filter(|&id| stream.delete(id)).count();
    if removed > 0 {
        ctx.db.notify(Events::STREAM, "xdel", key);
        ctx.db.modified(key);
    }
    ctx.out.int(removed as i64);
    Ok(())
}

/// XLEN key
pub(super) fn xlen(ctx: &mut Ctx<'_, '_>) -> Reply {
    let len = ctx.db.read::<Stream>(ctx.key(1))?.map_or(0, Stream::len);
    ctx.out.int(len as i64);
    Ok(())
}

/// XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]
pub(super) fn xsetid(ctx: &mut Ctx<'_, '_>) -> Reply {
    let key = ctx.key(1);
    let id = parse_id(ctx.key(2))?;
    let (mut added, mut max_deleted) = (None, StreamId::MIN);
    let mut at = 3;
    while at < ctx.args.len() {
        let more = at + 1 < ctx.args.len();
        if ctx.is(at, "ENTRIESADDED") && more {
            let count = u64::try_from(ctx.int(at + 1)?);
            added = Some(count.map_err(|_| CommandError::err("entries_added must be positive"))?);
        } else if ctx.is(at, "MAXDELETEDID") && more {
            max_deleted = parse_id(ctx.key(at + 1))?;
            if id < max_deleted {
                let text = "The ID specified in XSETID is smaller than the provided max_deleted_entry_id";
                return Err(CommandError::err(text));
            }
        } else {
            return Err(CommandError::Syntax);
        }
        at += 2;
    }
    let stream = ctx.db.write::<Stream>(key)?.ok_or(CommandError::NoSuchKey)?;
    if let Some(last) = stream.last_entry() {
        if id < last.id {
            let text = "The ID specified in XSETID is smaller than the target stream top item";
            return Err(CommandError::err(text));
        }
        if added.is_some_and(|added| added < stream.len()) {
            let text = "The entries_added specified in XSETID is smaller than the target stream length";
            return Err(CommandError::err(text));
        }
    }
    stream.set_last_id(id);
    if let Some(added) = added {
        stream.set_entries_added(added);
    }
    if max_deleted != StreamId::MIN {
        stream.set_max_deleted_id(max_deleted);
    }
    ctx.db.dirty += 1;
    ctx.db.notify(Events::STREAM, "xsetid", key);
    ctx.out.ok();
    Ok(())
}
