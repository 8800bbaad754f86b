//! ROOM.TAGS: which tags there are.

use nagaya_command_spec::error::CommandError;
use nagaya_connections::cold_query::{ColdAnswer, ColdQuery};
use nagaya_exec::cold_ask::ask;
use nagaya_exec::ctx::Ctx;
use nagaya_exec::scripts::traits::busy_error;
use nagaya_keyspace::databases::{split_name, tag_name};
use nagaya_keyspace::hash_tag::hash_tag;
use nagaya_keyspace::residency::survey;
use nagaya_keyspace::residency::{TagFigures, TagOrder, WalkPlace};
use nagaya_keyspace::shard::{Busy, LongScript};
use nagaya_tiering::cold::TagRow;

type Reply = Result<(), CommandError>;

const LIMIT_DEFAULT: usize = 20;
const LIMIT_MAX: i64 = 1_000;
/// Keys that one call of PREFIX walks over without a cold tier.
const KEYS_PER_CALL: usize = 20_000;
/// Rows of the cold tier that are looked at for BIGGEST at a time.
const COLD_PAGE: usize = 5_000;

struct Options<'a> {
    limit: usize,
    cursor: Option<&'a [u8]>,
}

/// ROOM.TAGS HOTTEST | BIGGEST | PREFIX prefix [LIMIT count] [CURSOR cursor]
///
/// Replies a cursor, nil at the end, and a map for each tag.
pub(super) fn tags(ctx: &mut Ctx<'_, '_>) -> Reply {
    if ctx.is(1, "PREFIX") {
        let prefix = ctx.arg(2)?.to_vec();
        let options = options(ctx, 3)?;
        return match ctx.db.tiering {
            Some(_) => with_prefix(ctx, prefix, &options),
            None => with_prefix_in_memory(ctx, &prefix, &options),
        };
    }
    let order = match () {
        () if ctx.is(1, "HOTTEST") => TagOrder::Hottest,
        () if ctx.is(1, "BIGGEST") => TagOrder::Biggest,
        () => return Err(CommandError::Syntax),
    };
    let options = options(ctx, 2)?;
    if options.cursor.is_some() {
        return Err(CommandError::Syntax);
    }
    let (server, space) = (ctx.server(), ctx.db.space());
    let mut rows = Vec::new();
    if order == TagOrder::Biggest && ctx.db.tiering.is_some() {
        let (known, after) = server.keyspace.tag_statistics.next_page();
        let limit = COLD_PAGE;
        match ask(ctx, ColdQuery::Survey { known, after, limit })? {
            None => return Ok(()),
            Some(ColdAnswer::Survey { known, page }) => {
                rows = server.keyspace.tag_statistics.note_page(known, page)
            }
            Some(_) => return Err(another_question()),
        }
    }
    let mut figures = told(ctx, server.keyspace.top_tags(space, order, options.limit))?;
    for row in still_there(ctx, rows) {
        if figures.iter().all(|found| found.tag != row.tag) {
            figures.extend(told(ctx, server.keyspace.figures_or(&row))?);
        }
    }
    survey::sort(&mut figures, order);
    figures.truncate(options.limit);
    show(ctx, None, &figures);
    Ok(())
}

/// Lists tags in the order of their names. Those that are too new for the cold tier come on the first page.
fn with_prefix(ctx: &mut Ctx<'_, '_>, prefix: Vec<u8>, options: &Options<'_>) -> Reply {
    let space = ctx.db.space();
    let query = ColdQuery::Tags {
        space,
        prefix: prefix.clone(),
        after: options.cursor.map(<[u8]>::to_vec),
        limit: options.limit,
    };
    let rows = match ask(ctx, query)? {
        None => return Ok(()),
        Some(ColdAnswer::Tags(rows)) => rows,
        Some(_) => return Err(another_question()),
    };
    let server = ctx.server();
    let mut figures = match options.cursor {
        None => told(
            ctx,
            server
                .keyspace
                .new_tags(space, &prefix, options.limit.div_ceil(2)),
        )?,
        Some(_) => Vec::new(),
    };
    let is_full = rows.len() >= options.limit;
    let fits = options.limit - figures.len();
    let cursor = match rows.get(..fits).unwrap_or(&rows).last() {
        Some(last) if is_full || rows.len() > fits => Some(split_name(&last.tag).1.to_vec()),
        _ => None,
    };
    let rows: Vec<TagRow> = rows.into_iter().take(fits).collect();
    for row in still_there(ctx, rows) {
        if figures.iter().all(|found| found.tag != row.tag) {
            figures.extend(told(ctx, server.keyspace.figures_or(&row))?);
        }
    }
    figures.sort_by(|a, b| a.tag.cmp(&b.tag));
    show(ctx, cursor.as_deref(), &figures);
    Ok(())
}

/// Walks through the keys, in no order. A tag whose keys are met in two calls is shown by both.
fn with_prefix_in_memory(ctx: &mut Ctx<'_, '_>, prefix: &[u8], options: &Options<'_>) -> Reply {
    let server = ctx.server();
    let start = WalkPlace {
        space: ctx.db.space(),
        ..WalkPlace::default()
    };
    let mut place = match options.cursor {
        None => start,
        Some(cursor) => parse_place(start, cursor).ok_or_else(|| CommandError::err("invalid cursor"))?,
    };
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut met = 0;
    let is_over = loop {
        let walked = server.keyspace.walk_some(&mut place, |_, entry| {
            let tag = hash_tag(nagaya_store::table::Keyed::key(entry));
            if tag.starts_with(prefix) && !found.iter().any(|known| known == tag) {
                found.push(tag.to_vec());
            }
        });
        met += told(ctx, walked)?.max(1);
        if (place.shard, place.cursor) == (0, 0) {
            break true;
        }
        if found.len() >= options.limit || met >= KEYS_PER_CALL {
            break false;
        }
    };
    let mut figures = Vec::new();
    for tag in &found {
        let name = tag_name(start.space, tag);
        figures.extend(told(ctx, server.keyspace.tag_in_memory(&name))?);
    }
    figures.sort_by(|a, b| a.tag.cmp(&b.tag));
    let cursor = (!is_over).then(|| format!("{}:{}", place.shard, place.cursor).into_bytes());
    show(ctx, cursor.as_deref(), &figures);
    Ok(())
}

fn parse_place(start: WalkPlace, cursor: &[u8]) -> Option<WalkPlace> {
    let (shard, cursor) = std::str::from_utf8(cursor).ok()?.split_once(':')?;
    Some(WalkPlace {
        space: start.space,
        shard: shard.parse().ok()?,
        cursor: cursor.parse().ok()?,
    })
}

fn options<'c>(ctx: &Ctx<'c, '_>, from: usize) -> Result<Options<'c>, CommandError> {
    let mut options = Options {
        limit: LIMIT_DEFAULT,
        cursor: None,
    };
    for at in (from..ctx.args.len()).step_by(2) {
        match () {
            () if at + 1 >= ctx.args.len() => return Err(CommandError::Syntax),
            () if ctx.is(at, "LIMIT") => {
                let limit = ctx.int(at + 1)?;
                if limit < 1 {
                    return Err(CommandError::MustBePositive);
                }
                options.limit = limit.min(LIMIT_MAX) as usize;
            }
            () if ctx.is(at, "CURSOR") => options.cursor = Some(ctx.arg(at + 1)?),
            () => return Err(CommandError::Syntax),
        }
    }
    Ok(options)
}

/// Leaves out tags of other databases, and what was there before a FLUSHALL that the cold tier has not followed yet.
fn still_there(ctx: &Ctx<'_, '_>, rows: Vec<TagRow>) -> Vec<TagRow> {
    let space = ctx.db.space();
    let is_void = |row: &TagRow| {
        let tiering = ctx.db.tiering;
        tiering.is_some_and(|tiering| tiering.is_void(space, row.saved))
    };
    let is_there = |row: &TagRow| split_name(&row.tag).0 == space && !is_void(row);
    rows.into_iter().filter(is_there).collect()
}

fn told<T>(ctx: &Ctx<'_, '_>, result: Result<T, Busy>) -> Result<T, CommandError> {
    let slow = ctx
        .server()
        .keyspace
        .shards
        .long_script()
        .unwrap_or(LongScript::Script);
    result.map_err(|Busy| busy_error(slow))
}

fn another_question() -> CommandError {
    CommandError::err("the answer is to another question")
}

fn show(ctx: &mut Ctx<'_, '_>, cursor: Option<&[u8]>, figures: &[TagFigures]) {
    let out = &mut ctx.out;
    out.array(2);
    match cursor {
        Some(cursor) => out.bulk(cursor),
        None => out.nil(),
    }
    out.array(figures.len());
    for one in figures {
        out.map(6);
        out.bulk(b"tag");
        out.bulk(split_name(&one.tag).1);
        out.bulk(b"keys");
        out.int(one.keys as i64);
        out.bulk(b"bytes");
        out.int(one.bytes as i64);
        out.bulk(b"idle");
        match one.idle_s {
            Some(idle_s) => out.int(idle_s as i64),
            None => out.nil(),
        }
        out.bulk(b"place");
        out.bulk(one.place.name().as_bytes());
        out.bulk(b"dirty");
        out.int(i64::from(one.is_dirty));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::House;
    use crate::testing::TestSession;

    /// The tags of a reply, each with its place, in their order; and the cursor.
    fn tags(reply: &str) -> (Option<String>, Vec<(String, String)>) {
        let lines: Vec<&str> = reply.split("\r\n").collect();
        assert_eq!(lines[0], "*2", "{reply}");
        let cursor = (lines[1] != "$-1").then(|| lines[2].to_owned());
        let after = |name: &str| {
            let at = lines.iter().enumerate().filter(move |(_, line)| **line == name);
            at.map(|(at, _)| lines[at + 2].to_owned()).collect::<Vec<_>>()
        };
        (cursor, after("tag").into_iter().zip(after("place")).collect())
    }

    fn names(reply: &str) -> Vec<String> {
        tags(reply).1.into_iter().map(|(tag, _)| tag).collect()
    }

    #[test]
    fn the_largest_tags_come_first_wherever_they_are() {
        let mut house = House::new();
        house.text(&format!("SET {{small}}a {}", "x".repeat(10)));
        let varied: String = (0..2000).map(|number| number.to_string()).collect();
        house.text(&format!("SET {{large}}a {varied}"));
        house.text(&format!("SET {{middle}}a {}", "x".repeat(500)));
        house.text(&format!("SET {{middle}}b {}", "x".repeat(500)));
        house.save();
        house.evict("large").unwrap();
        let (cursor, found) = tags(&house.text("ROOM.TAGS BIGGEST LIMIT 2"));
        assert_eq!(cursor, None);
        let expected = [("large", "disk"), ("middle", "both")];
        assert_eq!(
            found,
            expected.map(|(tag, place)| (tag.to_owned(), place.to_owned()))
        );
        let all = house.text("ROOM.TAGS BIGGEST");
        assert_eq!(names(&all), ["large", "middle", "small"]);
    }

    #[test]
    fn tags_used_last_are_the_hottest_and_cold_ones_are_none() {
        let mut house = House::new();
        for tag in ["a", "b", "c"] {
            house.check(&format!("SET {{{tag}}}k 1"), "+OK\r\n");
            house.session.advance_ms(2_000);
        }
        house.check("GET {a}k", "$1\r\n1\r\n");
        assert_eq!(names(&house.text("ROOM.TAGS HOTTEST LIMIT 2")), ["a", "c"]);
        house.save();
        house.evict("a").unwrap();
        assert_eq!(names(&house.text("ROOM.TAGS HOTTEST")), ["c", "b"]);
    }

    #[test]
    fn a_prefix_lists_both_tiers_page_by_page() {
        let mut house = House::new();
        for number in 0..9 {
            house.check(&format!("SET {{user:{number}}}k 1"), "+OK\r\n");
            house.check(&format!("SET {{user:{number}}}l 1"), "+OK\r\n");
        }
        house.check("SET other 1", "+OK\r\n");
        house.save();
        house.evict("user:3").unwrap();
        house.check("SET {user:new}k 1", "+OK\r\n");
        let (mut cursor, mut found) = tags(&house.text("ROOM.TAGS PREFIX user: LIMIT 4"));
        while let Some(at) = cursor {
            let (next, more) = tags(&house.text(&format!("ROOM.TAGS PREFIX user: LIMIT 4 CURSOR {at}")));
            cursor = next;
            found.extend(more);
        }
        found.sort();
        assert_eq!(found.len(), 10, "{found:?}");
        assert_eq!(found[3], ("user:3".to_owned(), "disk".to_owned()));
        assert_eq!(found[9], ("user:new".to_owned(), "memory".to_owned()));
    }

    #[test]
    fn without_a_cold_tier_tags_are_what_memory_has() {
        let mut session = TestSession::new();
        for number in 0..50 {
            session.check(&format!("SET {{u{number}}}a 1"), "+OK\r\n");
        }
        session.check("SET {u7}b 1", "+OK\r\n");
        assert_eq!(names(&session.text("ROOM.TAGS BIGGEST LIMIT 1")), ["u7"]);
        assert_eq!(names(&session.text("ROOM.TAGS PREFIX u4 LIMIT 100")).len(), 11);
        assert_eq!(
            session
                .engine
                .server
                .keyspace
                .tag_keys_in_memory(b"u7", 1)
                .unwrap()
                .1,
            2
        );
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let mut session = TestSession::new();
        let syntax = "-ERR syntax error\r\n";
        session.check("ROOM.TAGS COLDEST", syntax);
        session.check("ROOM.TAGS HOTTEST LIMIT", syntax);
        session.check("ROOM.TAGS HOTTEST CURSOR 0", syntax);
        session.check(
            "ROOM.TAGS HOTTEST LIMIT 0",
            "-ERR value is out of range, must be positive\r\n",
        );
        session.check("ROOM.TAGS PREFIX a CURSOR x", "-ERR invalid cursor\r\n");
    }

    #[test]
    fn what_was_flushed_is_not_listed_from_the_cold_tier() {
        let mut house = House::new();
        house.check("SET {u}k 1", "+OK\r\n");
        house.save();
        house.evict("u").unwrap();
        house.check("FLUSHALL", "+OK\r\n");
        assert_eq!(names(&house.text("ROOM.TAGS PREFIX u")), Vec::<String>::new());
        assert_eq!(names(&house.text("ROOM.TAGS BIGGEST")), Vec::<String>::new());
    }
}
