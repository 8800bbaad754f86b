//! LCS: the longest common subsequence of two strings.

use nagaya_command_spec::error::CommandError;
use nagaya_exec::ctx::Ctx;
use nagaya_store::value::StrRef;

use super::Reply;

/// Most bytes of the table of partial lengths; the same order as the largest string.
const TABLE_BYTES_MAX: usize = 512 * 1024 * 1024;

struct Options {
    length_only: bool,
    index: bool,
    with_match_length: bool,
    min_match_length: i64,
}

/// LCS key1 key2 [LEN] [IDX] [MINMATCHLEN length] [WITHMATCHLEN]
pub(super) fn lcs(ctx: &mut Ctx<'_, '_>) -> Reply {
    let wrong_type = || CommandError::err("The specified keys must contain string values");
    let read = |key: &[u8]| match ctx.db.entry(key) {
        None => Ok(Vec::new()),
        Some(entry) => entry
            .string()
            .map(|text: StrRef<'_>| text.to_vec())
            .ok_or_else(wrong_type),
    };
    let (a, b) = (read(ctx.key(1))?, read(ctx.key(2))?);
    let options = parse(ctx)?;
    if options.index && options.length_only {
        return Err(CommandError::err(
            "If you want both the length and indexes, please just use IDX.",
        ));
    }
    if a.len() >= u32::MAX as usize - 1 || b.len() >= u32::MAX as usize - 1 {
        return Err(CommandError::err("String too long for LCS"));
    }
    let cells = (a.len() + 1) as u128 * (b.len() + 1) as u128;
    if cells * 4 > TABLE_BYTES_MAX as u128 {
        return Err(CommandError::err(
            "Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        ));
    }
    let table = lengths(&a, &b);
    let total = table[a.len() * (b.len() + 1) + b.len()];
    if options.length_only {
        ctx.out.int(i64::from(total));
    } else if options.index {
        write_index(ctx, &a, &b, &table, &options);
    } else {
        ctx.out.bulk(&subsequence(&a, &b, &table));
    }
    Ok(())
}

fn parse(ctx: &Ctx<'_, '_>) -> Result<Options, CommandError> {
    let mut options = Options {
        length_only: false,
        index: false,
        with_match_length: false,
        min_match_length: 0,
    };
    let mut at = 3;
    while at < ctx.args.len() {
        if ctx.is(at, "IDX") {
            options.index = true;
        } else if ctx.is(at, "LEN") {
            options.length_only = true;
        } else if ctx.is(at, "WITHMATCHLEN") {
            options.with_match_length = true;
        } else if ctx.is(at, "MINMATCHLEN") && at + 1 < ctx.args.len() {
            options.min_match_length = ctx.int(at + 1)?.max(0);
            at += 1;
        } else {
            return Err(CommandError::Syntax);
        }
        at += 1;
    }
    Ok(options)
}

/// Fills the table of common lengths of all pairs of prefixes.
fn lengths(a: &[u8], b: &[u8]) -> Vec<u32> {
    let width = b.len() + 1;
    let mut table = vec![0u32; (a.len() + 1) * width];
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            table[i * width + j] = if a[i - 1] == b[j - 1] {
                table[(i - 1) * width + j - 1] + 1
            } else {
                table[(i - 1) * width + j].max(table[i * width + j - 1])
            };
        }
    }
    table
}

/// Walks the table from its end; calls `matched` with each pair of positions on the path and
/// `skipped` between them.
fn walk(a: &[u8], b: &[u8], table: &[u32], mut matched: impl FnMut(usize, usize), mut skipped: impl FnMut()) {
    let width = b.len() + 1;
    let (mut i, mut j) = (a.len(), b.len());
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            matched(i - 1, j - 1);
            i -= 1;
            j -= 1;
        } else {
            skipped();
            if table[(i - 1) * width + j] > table[i * width + j - 1] {
                i -= 1;
            } else {
                j -= 1;
            }
        }
    }
}

fn subsequence(a: &[u8], b: &[u8], table: &[u32]) -> Vec<u8> {
    let mut text = Vec::new();
    walk(a, b, table, |i, _| text.push(a[i]), || ());
    text.reverse();
    text
}

/// A run of equal bytes: where it starts and ends (inclusive) in both strings.
#[derive(Clone, Copy)]
struct Run {
    a: (usize, usize),
    b: (usize, usize),
}

fn write_index(ctx: &mut Ctx<'_, '_>, a: &[u8], b: &[u8], table: &[u32], options: &Options) {
    let mut runs: Vec<Run> = Vec::new();
    let joined = std::cell::Cell::new(false);
    walk(
        a,
        b,
        table,
        |i, j| {
            match runs.last_mut() {
                Some(run) if joined.get() && run.a.0 == i + 1 && run.b.0 == j + 1 => {
                    run.a.0 = i;
                    run.b.0 = j;
                }
                _ => runs.push(Run { a: (i, i), b: (j, j) }),
            }
            joined.set(true);
        },
        || joined.set(false),
    );
    runs.retain(|run| (run.a.1 - run.a.0 + 1) as i64 >= options.min_match_length);
    ctx.out.map(2);
    ctx.out.bulk(b"matches");
    ctx.out.array(runs.len());
    for run in &runs {
        ctx.out.array(if options.with_match_length { 3 } else { 2 });
        for (start, end) in [run.a, run.b] {
            ctx.out.array(2);
            ctx.out.int(start as i64);
            ctx.out.int(end as i64);
        }
        if options.with_match_length {
            ctx.out.int((run.a.1 - run.a.0 + 1) as i64);
        }
    }
    ctx.out.bulk(b"len");
    ctx.out.int(i64::from(table[a.len() * (b.len() + 1) + b.len()]));
}
