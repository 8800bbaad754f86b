//! HRANDFIELD.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_resp::{Out, Proto};
use nagaya_store::hash::Hash;
use nagaya_store::listpack::Item;
use nagaya_store::rng::{Rng, with_thread_rng};

use crate::collection::{Drawn, bulk_item, choose, random_count};

/// A hash larger than this many times the wish is drawn from; a smaller one is walked.
const DRAW_FACTOR: usize = 3;

/// HRANDFIELD key [count [WITHVALUES]]
pub(super) fn hrandfield(ctx: &mut Ctx<'_, '_>) -> Result<(), CommandError> {
    if ctx.args.len() == 2 {
        ctx.db.expire_fields(ctx.key(1));
        let hash: Option<&Hash> = ctx.db.read(ctx.key(1))?;
        match hash.and_then(|hash| with_thread_rng(|rng| hash.random(rng))) {
            None => ctx.out.nil(),
            Some((field, _)) => bulk_item(ctx.out, field),
        }
        return Ok(());
    }
    let count = random_count(ctx.key(2))?;
    let with_values = ctx.args.len() == 4 && ctx.is(3, "WITHVALUES");
    if ctx.args.len() > 3 && !with_values {
        return Err(CommandError::Syntax);
    }
    if with_values && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
        return Err(CommandError::OutOfRange);
    }
    ctx.db.expire_fields(ctx.key(1));
    let Some(hash) = ctx.db.read::<Hash>(ctx.key(1))? else {
        ctx.out.array(0);
        return Ok(());
    };
    let wanted = count.unsigned_abs() as usize;
    let len = if count < 0 { wanted } else { wanted.min(hash.len()) };
    let mut reply = Fields {
        with_values,
        out: ctx.out,
    };
    reply.head(len);
    with_thread_rng(|rng| {
        if count < 0 {
            with_repeats(hash, rng, len, &mut reply);
        } else {
            distinct(hash, rng, len, &mut reply);
        }
    });
    Ok(())
}

fn with_repeats(hash: &Hash, rng: &mut Rng, wanted: usize, reply: &mut Fields<'_>) {
    if hash.as_listpack().is_none() {
        for (field, value) in (0..wanted).map_while(|_| hash.random(rng)) {
            reply.add(field, value);
        }
        return;
    }
    // Finding one entry of a listpack means walking it, so walk it once.
    let all: Vec<(Item<'_>, Item<'_>)> = hash.iter().collect();
    for _ in 0..wanted {
        let (field, value) = all[rng.below(all.len())];
        reply.add(field, value);
    }
}

fn distinct(hash: &Hash, rng: &mut Rng, wanted: usize, reply: &mut Fields<'_>) {
    if hash.as_listpack().is_some() || wanted.saturating_mul(DRAW_FACTOR) > hash.len() {
        choose(rng, hash.iter(), hash.len(), wanted, |(field, value)| {
            reply.add(field, value)
        });
        return;
    }
    let mut drawn = Drawn::default();
    let mut left = wanted;
    while left > 0 {
        let Some((field, value)) = hash.random(rng) else {
            return;
        };
        if drawn.insert(field) {
            reply.add(field, value);
            left -= 1;
        }
    }
}

/// The reply: names, or names with values, which RESP3 nests in pairs.
struct Fields<'o> {
    with_values: bool,
    out: &'o mut Out,
}

impl Fields<'_> {
    fn head(&mut self, fields: usize) {
        let flat = self.with_values && self.out.proto == Proto::Resp2;
        self.out.array(if flat { 2 * fields } else { fields });
    }

    fn add(&mut self, field: Item<'_>, value: Item<'_>) {
        if self.with_values && self.out.proto == Proto::Resp3 {
            self.out.array(2);
        }
        bulk_item(self.out, field);
        if self.with_values {
            bulk_item(self.out, value);
        }
    }
}
