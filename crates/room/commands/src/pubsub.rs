//! Publish and subscribe.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{
    FAST, Flags, KeySpec, LOADING, MAY_REPLICATE, NOSCRIPT, NOT_KEY, PUBSUB, STALE, key, keys_to,
};
pub use nagaya_connections::pubsub::{Kind, Relayed};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};
use nagaya_exec::subscriptions;

#[cfg(test)]
mod tests;

const LISTEN: Flags = PUBSUB.and(NOSCRIPT).and(LOADING).and(STALE);
const PUBLISH: Flags = PUBSUB.and(LOADING).and(STALE).and(FAST).and(MAY_REPLICATE);
const LOOK: Flags = PUBSUB.and(LOADING).and(STALE);
const SHARD_CHANNELS: &[KeySpec] = &[keys_to(1, -1, 1, NOT_KEY)];

pub(crate) const COMMANDS: &[Entry] = &[
    cmd("PSUBSCRIBE", -2, psubscribe)
        .flags(LISTEN)
        .group("pubsub")
        .since("2.0.0")
        .about(
            "Listens to all channels whose names match these patterns.",
            "O(N) for N patterns",
        ),
    cmd("PUBLISH", 3, publish)
        .flags(PUBLISH)
        .group("pubsub")
        .since("2.0.0")
        .about(
            "Sends a message to all who listen to a channel.",
            "O(N+M) for N listeners and M patterns",
        ),
    cmd("PUBSUB", -2, unknown_subcommand)
        .group("pubsub")
        .since("2.8.0")
        .about("Tells who listens to what.", "Depends on the subcommand")
        .subcommands(SUBCOMMANDS),
    cmd("PUNSUBSCRIBE", -1, punsubscribe)
        .flags(LISTEN)
        .group("pubsub")
        .since("2.0.0")
        .about(
            "Stops listening to patterns, to all of them when none is named.",
            "O(N) for N patterns",
        ),
    cmd("SPUBLISH", 3, spublish)
        .flags(PUBLISH)
        .group("pubsub")
        .keys(&[key(1, NOT_KEY)])
        .since("7.0.0")
        .about(
            "Sends a message to all who listen to a shard channel.",
            "O(N) for N listeners",
        ),
    cmd("SSUBSCRIBE", -2, ssubscribe)
        .flags(LISTEN)
        .group("pubsub")
        .keys(SHARD_CHANNELS)
        .since("7.0.0")
        .about("Listens to shard channels.", "O(N) for N channels"),
    cmd("SUBSCRIBE", -2, subscribe)
        .flags(LISTEN)
        .group("pubsub")
        .since("2.0.0")
        .about("Listens to channels.", "O(N) for N channels"),
    cmd("SUNSUBSCRIBE", -1, sunsubscribe)
        .flags(LISTEN)
        .group("pubsub")
        .keys(SHARD_CHANNELS)
        .since("7.0.0")
        .about(
            "Stops listening to shard channels, to all of them when none is named.",
            "O(N) for N channels",
        ),
    cmd("UNSUBSCRIBE", -1, unsubscribe)
        .flags(LISTEN)
        .group("pubsub")
        .since("2.0.0")
        .about(
            "Stops listening to channels, to all of them when none is named.",
            "O(N) for N channels",
        ),
];

const SUBCOMMANDS: &[Entry] = &[
    cmd("CHANNELS", -2, channels)
        .flags(LOOK)
        .group("pubsub")
        .since("2.8.0")
        .about(
            "Lists the channels that somebody listens to.",
            "O(N) for N channels",
        ),
    cmd("HELP", 2, help)
        .flags(LOADING.and(STALE))
        .group("pubsub")
        .since("6.2.0")
        .about("Lists the subcommands.", "O(1)"),
    cmd("NUMPAT", 2, numpat)
        .flags(LOOK)
        .group("pubsub")
        .since("2.8.0")
        .about("Counts the patterns that somebody listens to.", "O(1)"),
    cmd("NUMSUB", -2, numsub)
        .flags(LOOK)
        .group("pubsub")
        .since("2.8.0")
        .about("Counts the listeners of channels.", "O(N) for N channels"),
    cmd("SHARDCHANNELS", -2, shardchannels)
        .flags(LOOK)
        .group("pubsub")
        .since("7.0.0")
        .about(
            "Lists the shard channels that somebody listens to.",
            "O(N) for N channels",
        ),
    cmd("SHARDNUMSUB", -2, shardnumsub)
        .flags(LOOK)
        .group("pubsub")
        .since("7.0.0")
        .about("Counts the listeners of shard channels.", "O(N) for N channels"),
];

type Reply = Result<(), CommandError>;

/// SUBSCRIBE channel [channel ...]
fn subscribe(ctx: &mut Ctx<'_, '_>) -> Reply {
    listen(ctx, Kind::Channel, "subscribe")
}

/// PSUBSCRIBE pattern [pattern ...]
fn psubscribe(ctx: &mut Ctx<'_, '_>) -> Reply {
    listen(ctx, Kind::Pattern, "psubscribe")
}

/// SSUBSCRIBE channel [channel ...]
fn ssubscribe(ctx: &mut Ctx<'_, '_>) -> Reply {
    listen(ctx, Kind::ShardChannel, "ssubscribe")
}

fn listen(ctx: &mut Ctx<'_, '_>, kind: Kind, word: &str) -> Reply {
    for name in ctx.args.iter().skip(1) {
        subscriptions::subscribe(&ctx.server().subscribers.pubsub, ctx.session, kind, name);
        confirm(ctx, kind, word, Some(name));
    }
    Ok(())
}

/// UNSUBSCRIBE [channel ...]
fn unsubscribe(ctx: &mut Ctx<'_, '_>) -> Reply {
    stop_listening(ctx, Kind::Channel, "unsubscribe")
}

/// PUNSUBSCRIBE [pattern ...]
fn punsubscribe(ctx: &mut Ctx<'_, '_>) -> Reply {
    stop_listening(ctx, Kind::Pattern, "punsubscribe")
}

/// SUNSUBSCRIBE [channel ...]
fn sunsubscribe(ctx: &mut Ctx<'_, '_>) -> Reply {
    stop_listening(ctx, Kind::ShardChannel, "sunsubscribe")
}

fn stop_listening(ctx: &mut Ctx<'_, '_>, kind: Kind, word: &str) -> Reply {
    if ctx.args.len() > 1 {
        for name in ctx.args.iter().skip(1) {
            subscriptions::unsubscribe(&ctx.server().subscribers.pubsub, ctx.session, kind, name);
            confirm(ctx, kind, word, Some(name));
        }
        return Ok(());
    }
    let names = subscriptions::names(ctx.session, kind);
    if names.is_empty() {
        confirm(ctx, kind, word, None);
    }
    for name in names {
        subscriptions::unsubscribe(&ctx.server().subscribers.pubsub, ctx.session, kind, &name);
        confirm(ctx, kind, word, Some(&name));
    }
    Ok(())
}

/// Writes the push that stands for a reply to each name of the request.
fn confirm(ctx: &mut Ctx<'_, '_>, kind: Kind, word: &str, name: Option<&[u8]>) {
    ctx.out.push(3);
    ctx.out.bulk_str(word);
    match name {
        Some(name) => ctx.out.bulk(name),
        None => ctx.out.nil(),
    }
    ctx.out.int(subscriptions::confirmed_count(ctx.session, kind));
}

/// PUBLISH channel message
fn publish(ctx: &mut Ctx<'_, '_>) -> Reply {
    let receivers = ctx.server().subscribers.pubsub.publish(ctx.key(1), ctx.key(2));
    ctx.out.int(receivers as i64);
    Ok(())
}

/// SPUBLISH channel message
fn spublish(ctx: &mut Ctx<'_, '_>) -> Reply {
    let receivers = ctx
        .server()
        .subscribers
        .pubsub
        .publish_to_shard(ctx.key(1), ctx.key(2));
    ctx.out.int(receivers as i64);
    Ok(())
}

/// PUBSUB CHANNELS [pattern]
fn channels(ctx: &mut Ctx<'_, '_>) -> Reply {
    list(ctx, Kind::Channel)
}

/// PUBSUB SHARDCHANNELS [pattern]
fn shardchannels(ctx: &mut Ctx<'_, '_>) -> Reply {
    list(ctx, Kind::ShardChannel)
}

fn list(ctx: &mut Ctx<'_, '_>, kind: Kind) -> Reply {
    if ctx.args.len() > 3 {
        return unknown_subcommand(ctx);
    }
    let pattern = ctx.args.get(2);
    let (mark, mut count) = (ctx.out.defer(), 0);
    ctx.server().subscribers.pubsub.each(kind, |name, _| {
        if pattern.is_none_or(|pattern| nagaya_command_spec::glob::matches(pattern, name)) {
            ctx.out.bulk(name);
            count += 1;
        }
    });
    ctx.out.finish_array(mark, count);
    Ok(())
}

/// PUBSUB NUMSUB [channel ...]
fn numsub(ctx: &mut Ctx<'_, '_>) -> Reply {
    count(ctx, Kind::Channel)
}

/// PUBSUB SHARDNUMSUB [channel ...]
fn shardnumsub(ctx: &mut Ctx<'_, '_>) -> Reply {
    count(ctx, Kind::ShardChannel)
}

fn count(ctx: &mut Ctx<'_, '_>, kind: Kind) -> Reply {
    ctx.out.array((ctx.args.len() - 2) * 2);
    for name in ctx.args.iter().skip(2) {
        ctx.out.bulk(name);
        ctx.out
            .int(ctx.server().subscribers.pubsub.listeners(kind, name) as i64);
    }
    Ok(())
}

/// PUBSUB NUMPAT
fn numpat(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.int(ctx.server().subscribers.pubsub.patterns() as i64);
    Ok(())
}

/// PUBSUB HELP
fn help(ctx: &mut Ctx<'_, '_>) -> Reply {
    const LINES: &[&str] = &[
        "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CHANNELS [<pattern>]",
        "    Lists the channels with listeners, those that match a pattern only.",
        "NUMPAT",
        "    Counts the patterns with listeners.",
        "NUMSUB [<channel> ...]",
        "    Counts the listeners of each channel; those of patterns are not included.",
        "SHARDCHANNELS [<pattern>]",
        "    Lists the shard channels with listeners, those that match a pattern only.",
        "SHARDNUMSUB [<shardchannel> ...]",
        "    Counts the listeners of each shard channel.",
        "HELP",
        "    Prints this help.",
    ];
    ctx.out.array(LINES.len());
    LINES.iter().for_each(|line| ctx.out.simple(line));
    Ok(())
}

fn unknown_subcommand(ctx: &mut Ctx<'_, '_>) -> Reply {
    let sub = ctx.key(1);
    let sub = String::from_utf8_lossy(&sub[..sub.len().min(128)]);
    Err(CommandError::err(format!(
        "unknown subcommand or wrong number of arguments for '{sub}'. Try PUBSUB HELP."
    )))
}
