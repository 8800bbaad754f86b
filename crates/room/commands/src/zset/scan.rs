//! ZSCAN.

use nagaya_exec::ctx::Ctx;
use nagaya_resp::format_double;
use nagaya_store::listpack::Item;
use nagaya_store::zset::Zset;

use super::result::Reply;
use crate::collection::{ScanOptions, ScanReply, empty_scan, parse_cursor};

/// ZSCAN key cursor [MATCH pattern] [COUNT count]
pub(super) fn zscan(ctx: &mut Ctx<'_, '_>) -> Reply {
    let cursor = parse_cursor(ctx.key(2))?;
    let Some(set) = ctx.db.read::<Zset>(ctx.key(1))? else {
        empty_scan(ctx.out);
        return Ok(());
    };
    let reply = ScanReply::new(ScanOptions::parse(&ctx.args)?, ctx.out);
    let mut score = Vec::with_capacity(24);
    reply.run(cursor, ctx.out, |reply, cursor| {
        set.scan(cursor, |entry| {
            score.clear();
            format_double(entry.score, &mut score);
            reply.add(entry.member, Some(Item::Str(&score)));
        })
    });
    Ok(())
}
