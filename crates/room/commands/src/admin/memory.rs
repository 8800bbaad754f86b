//! MEMORY: what takes how much of it.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{ALL_SHARDS, LOADING, READONLY, RO, STALE, key};
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};
use nagaya_exec::help::{container, help};
use nagaya_keyspace::memory::resident_bytes;

use crate::admin::info::client_bytes;

type Reply = Result<(), CommandError>;

pub(crate) const COMMANDS: &[Entry] = &[cmd("MEMORY", -2, container)
    .group("server")
    .since("4.0.0")
    .about("Shows what takes memory.", "Depends on the subcommand")
    .subcommands(&[
        cmd("DOCTOR", 2, doctor)
            .group("server")
            .since("4.0.0")
            .about("Says in words how memory is used.", "O(1)"),
        cmd("HELP", 2, help_command)
            .flags(LOADING.and(STALE))
            .group("server")
            .since("4.0.0")
            .about("Lists the subcommands.", "O(1)"),
        cmd("MALLOC-STATS", 2, malloc_stats)
            .group("server")
            .since("4.0.0")
            .about("Says that the allocator keeps no statistics.", "O(1)"),
        cmd("PURGE", 2, purge)
            .group("server")
            .since("4.0.0")
            .about("Does nothing: the allocator gives memory back by itself.", "O(1)"),
        cmd("STATS", 2, stats)
            .flags(ALL_SHARDS)
            .group("server")
            .since("4.0.0")
            .about("Returns how much memory what takes.", "O(1)"),
        cmd("USAGE", -3, usage)
            .flags(READONLY)
            .group("server")
            .keys(&[key(2, RO)])
            .since("4.0.0")
            .about(
                "Returns how many bytes a key and its value take.",
                "O(N) for N elements at worst",
            ),
    ])];

/// MEMORY USAGE key [SAMPLES count]
///
/// Sizes are known or counted in full, so that the number of samples changes nothing.
fn usage(ctx: &mut Ctx<'_, '_>) -> Reply {
    let mut at = 3;
    while at < ctx.args.len() {
        if !ctx.is(at, "SAMPLES") || at + 1 == ctx.args.len() {
            return Err(CommandError::Syntax);
        }
        if ctx.int(at + 1)? < 0 {
            return Err(CommandError::Syntax);
        }
        at += 2;
    }
    match ctx.db.peek(ctx.key(2)) {
        None => ctx.out.nil(),
        // The table's slot points to the entry.
        Some(entry) => ctx.out.int((entry.mem_bytes() + size_of::<usize>()) as i64),
    }
    Ok(())
}

/// MEMORY STATS
fn stats(ctx: &mut Ctx<'_, '_>) -> Reply {
    let server = ctx.server();
    let (used, peak) = server.keyspace.memory.used_and_peak();
    let resident = resident_bytes();
    let (keys, overhead) = (ctx.db.keys_in_memory(), ctx.db.overhead_bytes());
    let clients = client_bytes(server);
    let databases = 0..ctx.db.data().databases.count();
    let databases = databases.map(|number| (number, ctx.db.figures_of(number)));
    let databases: Vec<_> = databases.filter(|(_, figures)| figures.keys > 0).collect();
    let dataset = used.saturating_sub(overhead + clients);
    let ratio = resident as f64 / used.max(1) as f64;
    let excess = resident as i64 - used as i64;
    let out = &mut *ctx.out;
    out.map(27 + databases.len());
    let mut int = |name: &str, value: i64| {
        out.bulk_str(name);
        out.int(value);
    };
    int("peak.allocated", peak as i64);
    int("total.allocated", used as i64);
    for name in ["startup.allocated", "replication.backlog", "clients.slaves"] {
        int(name, 0);
    }
    int("clients.normal", clients as i64);
    for name in ["cluster.links", "aof.buffer", "lua.caches", "functions.caches"] {
        int(name, 0);
    }
    for (number, figures) in databases {
        out.bulk_str(&format!("db.{number}"));
        out.map(3);
        out.bulk_str("overhead.hashtable.main");
        out.int(figures.overhead_bytes as i64);
        out.bulk_str("overhead.hashtable.expires");
        out.int(0);
        out.bulk_str("overhead.hashtable.slot-to-keys");
        out.int(0);
    }
    let mut int = |name: &str, value: i64| {
        out.bulk_str(name);
        out.int(value);
    };
    int("overhead.total", (overhead + clients) as i64);
    int("keys.count", keys as i64);
    int("keys.bytes-per-key", (used / keys.max(1)) as i64);
    int("dataset.bytes", dataset as i64);
    out.bulk_str("dataset.percentage");
    out.double(dataset as f64 * 100.0 / used.max(1) as f64);
    out.bulk_str("peak.percentage");
    out.double(used as f64 * 100.0 / peak.max(1) as f64);
    for (name, value) in [
        ("allocator.allocated", used),
        ("allocator.active", used),
        ("allocator.resident", resident),
    ] {
        out.bulk_str(name);
        out.int(value as i64);
    }
    for (name, ratio, bytes_name, bytes) in [
        (
            "allocator-fragmentation.ratio",
            1.0,
            "allocator-fragmentation.bytes",
            0,
        ),
        ("allocator-rss.ratio", ratio, "allocator-rss.bytes", excess),
        ("rss-overhead.ratio", 1.0, "rss-overhead.bytes", 0),
        ("fragmentation", ratio, "fragmentation.bytes", excess),
    ] {
        out.bulk_str(name);
        out.double(ratio);
        out.bulk_str(bytes_name);
        out.int(bytes);
    }
    Ok(())
}

/// MEMORY DOCTOR
fn doctor(ctx: &mut Ctx<'_, '_>) -> Reply {
    let (used, peak) = ctx.server().keyspace.memory.used_and_peak();
    let resident = resident_bytes();
    let mut text = format!("{used} bytes are in use, {resident} resident, {peak} at the highest.\n");
    if peak > used + used / 2 {
        text.push_str(
            "Much more was in use before: the peak is past, and its pages may not all be returned yet.\n",
        );
    }
    if resident > used + used / 2 {
        text.push_str(
            "The process holds much more than is in use: the allocator keeps free pages, or is fragmented.\n",
        );
    }
    ctx.out.verbatim("txt", text.as_bytes());
    Ok(())
}

/// MEMORY MALLOC-STATS
fn malloc_stats(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.bulk_str("Stats not supported for the current allocator");
    Ok(())
}

/// MEMORY PURGE
fn purge(ctx: &mut Ctx<'_, '_>) -> Reply {
    ctx.out.ok();
    Ok(())
}

/// MEMORY HELP
fn help_command(ctx: &mut Ctx<'_, '_>) -> Reply {
    help(
        ctx,
        &[
            ("DOCTOR", &["Say in words how memory is used."]),
            ("MALLOC-STATS", &["Not available with this allocator."]),
            (
                "PURGE",
                &["Does nothing: memory is given back without being asked for."],
            ),
            ("STATS", &["Show how much memory what takes."]),
            (
                "USAGE <key> [SAMPLES <count>]",
                &["Show how many bytes a key and its value take."],
            ),
        ],
    )
}

#[cfg(test)]
mod tests {
    use crate::testing::TestSession;

    #[test]
    fn usage_grows_with_the_value() {
        let mut session = TestSession::new();
        session.check("MEMORY USAGE k", "$-1\r\n");
        session.text("SET k v");
        let short = session.text("MEMORY USAGE k SAMPLES 0");
        session.text(&format!("SET k {}", "v".repeat(5000)));
        let long = session.text("MEMORY USAGE k");
        let number = |reply: &str| reply[1..].trim().parse::<i64>().unwrap();
        assert!(number(&short) < 100 && number(&long) > 5000, "{short} {long}");
        session.check("MEMORY USAGE k SAMPLES -1", "-ERR syntax error\r\n");
        session.check("MEMORY USAGE k SAMPLES", "-ERR syntax error\r\n");
        session.check(
            "MEMORY USAGE k SAMPLES x",
            "-ERR value is not an integer or out of range\r\n",
        );
    }

    #[test]
    fn stats_is_a_whole_map() {
        let mut session = TestSession::new();
        for pairs in [27, 28] {
            session.client.set_proto(nagaya_resp::Proto::Resp3);
            let reply = session.run(&[b"MEMORY", b"STATS"]);
            let (frame, length) = nagaya_resp::parse_frame(&reply).unwrap().unwrap();
            assert_eq!(length, reply.len());
            assert!(matches!(frame, nagaya_resp::Frame::Map(map) if map.len() == pairs));
            session.text("SET k v");
        }
        assert!(session.text("MEMORY DOCTOR").contains("bytes are in use"));
    }
}
