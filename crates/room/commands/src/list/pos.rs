//! LPOS.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_resp::parse_i64;
use nagaya_store::list::{End, List};

use super::Reply;

/// The options of LPOS.
struct Search {
    from: End,
    /// Matches to pass over.
    skip: usize,
    /// Most matches to return; set when an array is wanted.
    count: Option<usize>,
    scan_max: usize,
}

/// LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]
pub(super) fn lpos(ctx: &mut Ctx<'_, '_>) -> Reply {
    let search = parse(ctx)?;
    let list = ctx.db.read::<List>(ctx.key(1))?;
    let matches = list.map(|list| list.positions(ctx.key(2), search.from, search.scan_max));
    let mut matches = matches.into_iter().flatten().skip(search.skip);
    match search.count {
        None => match matches.next() {
            Some(index) => ctx.out.int(index as i64),
            None => ctx.out.nil(),
        },
        Some(count) => {
            let mark = ctx.out.defer();
            let mut found = 0;
            for index in matches.take(count) {
                ctx.out.int(index as i64);
                found += 1;
            }
            ctx.out.finish_array(mark, found);
        }
    }
    Ok(())
}

fn parse(ctx: &Ctx<'_, '_>) -> Result<Search, CommandError> {
    let (mut rank, mut count, mut scan_max) = (1, None, 0);
    let mut at = 3;
    while at < ctx.args.len() {
        let value = ctx.args.get(at + 1).ok_or(CommandError::Syntax);
        if ctx.is(at, "RANK") {
            rank = parse_i64(value?).ok_or(CommandError::NotInteger)?;
            if rank == 0 {
                return Err(CommandError::err(
                    "RANK can't be zero: use 1 to start from the first match, 2 from the second ... \
                     or use negative to start from the end of the list",
                ));
            }
        } else if ctx.is(at, "COUNT") {
            count = Some(not_negative(value?, "COUNT can't be negative")?);
        } else if ctx.is(at, "MAXLEN") {
            scan_max = not_negative(value?, "MAXLEN can't be negative")?;
        } else {
            return Err(CommandError::Syntax);
        }
        at += 2;
    }
    // Zero stands for "no limit".
    let unlimited = |number: usize| if number == 0 { usize::MAX } else { number };
    Ok(Search {
        from: if rank < 0 { End::Tail } else { End::Head },
        skip: (rank.unsigned_abs() - 1) as usize,
        count: count.map(unlimited),
        scan_max: unlimited(scan_max),
    })
}

fn not_negative(text: &[u8], otherwise: &'static str) -> Result<usize, CommandError> {
    let number = parse_i64(text).and_then(|number| usize::try_from(number).ok());
    number.ok_or(CommandError::err(otherwise))
}
