//! The parts of the `string` library that Lua's own version cannot bound: patterns and `rep`.

use crate::pattern::{Capture, Failure, Matcher};
use crate::raw::{Kind, Lua, Raise, Slice, function, guards};

const SPECIAL: &[u8] = b"^$*+?.([%-";

/// Replaces functions in the `string` table on top.
pub(crate) fn fill(lua: Lua<'_>) {
    lua.set_function(-1, "rep", function!(rep));
    lua.set_function(-1, "find", function!(find));
    lua.set_function(-1, "match", function!(match_first));
    lua.set_function(-1, "gmatch", function!(gmatch));
    lua.set_function(-1, "gfind", function!(gmatch));
    lua.set_function(-1, "gsub", guards::gsub);
}

/// string.rep(text, count)
fn rep(lua: Lua<'_>) -> Result<i32, Raise> {
    let text = lua.check_bytes(1)?;
    let count = usize::try_from(lua.check_integer(2)? as i32).unwrap_or(0);
    let bytes = text.len().saturating_mul(count);
    lua.context().check_room(bytes)?;
    lua.push_bytes(&text.repeat(if text.is_empty() { 0 } else { count }));
    Ok(1)
}

fn find(lua: Lua<'_>) -> Result<i32, Raise> {
    search(lua, true)
}

fn match_first(lua: Lua<'_>) -> Result<i32, Raise> {
    search(lua, false)
}

/// string.find(text, pattern [, init [, plain]]) and string.match(text, pattern [, init])
fn search(lua: Lua<'_>, find: bool) -> Result<i32, Raise> {
    let (text, pattern) = (lua.check_bytes(1)?, lua.check_bytes(2)?);
    let init = start_of(lua.optional_integer(3, 1)?, text.len());
    let is_plain = || before_zero(pattern).iter().all(|byte| !SPECIAL.contains(byte));
    if find && (lua.boolean(4) || is_plain()) {
        match find_plain(&text[init..], pattern) {
            Some(at) => {
                lua.push_number((init + at + 1) as f64);
                lua.push_number((init + at + pattern.len()) as f64);
                return Ok(2);
            }
            None => lua.push_nil(),
        }
        return Ok(1);
    }
    let anchored = pattern.first() == Some(&b'^');
    let mut matcher = Matcher::new(text, pattern, || lua.context().tick().is_ok());
    let last = if anchored { init } else { text.len() };
    for at in init..=last {
        let Some(end) = matcher.match_at(at, usize::from(anchored)).map_err(raise)? else {
            continue;
        };
        if !find {
            return push_captures(lua, text, matcher.captures(), Some(at..end));
        }
        lua.push_number((at + 1) as f64);
        lua.push_number(end as f64);
        return Ok(push_captures(lua, text, matcher.captures(), None)? + 2);
    }
    lua.push_nil();
    Ok(1)
}

/// Returns the byte offset of a 1-based position that may count from the end.
fn start_of(position: i64, len: usize) -> usize {
    let len = len as i64;
    let position = if position < 0 {
        position.saturating_add(len + 1).max(0)
    } else {
        position
    };
    position.saturating_sub(1).clamp(0, len) as usize
}

fn before_zero(pattern: &[u8]) -> &[u8] {
    pattern.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn find_plain(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let Some((first, rest)) = wanted.split_first() else {
        return Some(0);
    };
    let mut from = 0;
    loop {
        from += text[from..].iter().position(|byte| byte == first)?;
        if text[from + 1..].starts_with(rest) {
            return Some(from);
        }
        from += 1;
    }
}

fn raise(failure: Failure) -> Raise {
    match failure {
        Failure::Pattern(text) => Raise::located(text),
        Failure::Stopped => Raise::Killed,
    }
}

/// Pushes the captures; without any, the whole match if given.
fn push_captures(
    lua: Lua<'_>,
    text: Slice<'_>,
    captures: &[Capture],
    whole: Option<std::ops::Range<usize>>,
) -> Result<i32, Raise> {
    if let (Some(whole), []) = (whole, captures) {
        lua.push_bytes(&text[whole]);
        return Ok(1);
    }
    let count = captures.len() as i32;
    if !lua.reserve(count) {
        return Err(Raise::located("stack overflow (too many captures)"));
    }
    for capture in captures {
        push_capture(lua, text, capture)?;
    }
    Ok(count)
}

fn push_capture(lua: Lua<'_>, text: Slice<'_>, capture: &Capture) -> Result<(), Raise> {
    match capture {
        Capture::Text { start, len } => lua.push_bytes(&text[*start..start + len]),
        Capture::Position(at) => lua.push_number((at + 1) as f64),
        Capture::Unfinished { .. } => return Err(Raise::located("unfinished capture")),
    }
    Ok(())
}

/// string.gmatch(text, pattern)
fn gmatch(lua: Lua<'_>) -> Result<i32, Raise> {
    lua.check_string(1)?;
    lua.check_string(2)?;
    lua.set_top(2);
    lua.push_number(0.0);
    lua.push_function(function!(gmatch_next), 3);
    Ok(1)
}

/// The iterator of `gmatch`; its upvalues are text, pattern and where to continue.
fn gmatch_next(lua: Lua<'_>) -> Result<i32, Raise> {
    lua.set_top(0);
    (1..=3).for_each(|upvalue| lua.push_upvalue(upvalue));
    let (text, pattern) = (lua.check_bytes(1)?, lua.check_bytes(2)?);
    let from = lua.number(3) as usize;
    let mut matcher = Matcher::new(text, pattern, || lua.context().tick().is_ok());
    for at in from..=text.len() {
        let Some(end) = matcher.match_at(at, 0).map_err(raise)? else {
            continue;
        };
        // An empty match must not be found again.
        let next = if end == at { end + 1 } else { end };
        lua.push_number(next as f64);
        lua.replace_upvalue(3);
        return push_captures(lua, text, matcher.captures(), Some(at..end));
    }
    Ok(0)
}

/// Stack of a `gsub` with a function or table: the arguments, then these.
const PIECES: i32 = 5;
const PROGRESS: i32 = 6;

/// How far such a `gsub` has come, kept in a block on the Lua stack because the replacement may raise.
#[derive(Clone, Copy, Default)]
struct Progress {
    at: usize,
    /// Subject bytes from here to `at` are not in the pieces yet.
    copied: usize,
    pieces: i32,
    /// Bytes the pieces will make together; they may all be one string.
    bytes: usize,
    count: i64,
    /// The match whose replacement is being computed.
    start: usize,
    end: usize,
    finished: bool,
}

fn limit_of(lua: Lua<'_>, text: Slice<'_>) -> Result<i64, Raise> {
    Ok(i64::from(lua.optional_integer(4, text.len() as i64 + 1)? as i32))
}

/// string.gsub(text, pattern, replacement text [, count])
pub(crate) fn gsub_text(lua: Lua<'_>) -> Result<i32, Raise> {
    let (text, pattern) = (lua.check_bytes(1)?, lua.check_bytes(2)?);
    let limit = limit_of(lua, text)?;
    let replacement = lua.check_bytes(3)?;
    let mut out = lua.context().text.take();
    out.clear();
    let outcome = substitute(lua, text, pattern, replacement, limit, &mut out);
    if outcome.is_ok() {
        lua.push_bytes(&out);
    }
    lua.context().text.set(out);
    lua.push_number(outcome? as f64);
    Ok(2)
}

fn substitute(
    lua: Lua<'_>,
    text: Slice<'_>,
    pattern: Slice<'_>,
    replacement: Slice<'_>,
    limit: i64,
    out: &mut Vec<u8>,
) -> Result<i64, Raise> {
    let anchored = pattern.first() == Some(&b'^');
    let mut matcher = Matcher::new(text, pattern, || lua.context().tick().is_ok());
    let (mut at, mut count) = (0, 0);
    while count < limit {
        let end = matcher.match_at(at, usize::from(anchored)).map_err(raise)?;
        if let Some(end) = end {
            count += 1;
            expand(out, text, &text[at..end], matcher.captures(), replacement)?;
            lua.context().check_room(out.len())?;
        }
        match end {
            Some(end) if end > at => at = end,
            _ if at < text.len() => {
                out.push(text[at]);
                at += 1;
            }
            _ => break,
        }
        if anchored {
            break;
        }
    }
    out.extend_from_slice(&text[at..]);
    Ok(count)
}

/// Appends the replacement with `%0` to `%9` filled in.
fn expand(
    out: &mut Vec<u8>,
    text: &[u8],
    whole: &[u8],
    captures: &[Capture],
    replacement: &[u8],
) -> Result<(), Raise> {
    let mut bytes = replacement.iter();
    while let Some(byte) = bytes.next() {
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        // A lone '%' at the end stands for the zero byte that ends a C string.
        let digit = bytes.next().copied().unwrap_or(0);
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        match (digit, captures.get(index)) {
            (b'0', _) => out.extend_from_slice(whole),
            (b'1', None) if captures.is_empty() => out.extend_from_slice(whole),
            (b'1'..=b'9', None) => return Err(Raise::located("invalid capture index")),
            (b'1'..=b'9', Some(Capture::Text { start, len })) => {
                out.extend_from_slice(&text[*start..start + len])
            }
            (b'1'..=b'9', Some(Capture::Position(at))) => {
                out.extend_from_slice((at + 1).to_string().as_bytes())
            }
            (b'1'..=b'9', Some(Capture::Unfinished { .. })) => {
                return Err(Raise::located("unfinished capture"));
            }
            (other, _) => out.push(other),
        }
    }
    Ok(())
}

/// Checks the arguments of a `gsub` with a function or table and prepares its stack.
pub(crate) fn gsub_begin(lua: Lua<'_>) -> Result<i32, Raise> {
    let text = lua.check_bytes(1)?;
    lua.check_bytes(2)?;
    limit_of(lua, text)?;
    if !matches!(lua.kind(3), Kind::Function | Kind::Table) {
        return Err(Raise::Argument(3, "string/function/table expected".into()));
    }
    lua.set_top(4);
    lua.new_table(0, 0);
    lua.push_block(Progress::default());
    Ok(0)
}

/// Finds the next match and pushes what the replacement needs: the function and its arguments, or the key.
/// Gives how many values that is, 0 when there is no more to replace.
pub(crate) fn gsub_next(lua: Lua<'_>) -> Result<i32, Raise> {
    let (text, pattern) = (lua.check_bytes(1)?, lua.check_bytes(2)?);
    let mut progress: Progress = lua.block_at(PROGRESS);
    let limit = limit_of(lua, text)?;
    let anchored = pattern.first() == Some(&b'^');
    let mut matcher = Matcher::new(text, pattern, || lua.context().tick().is_ok());
    while !progress.finished && progress.count < limit {
        let at = progress.at;
        let end = matcher.match_at(at, usize::from(anchored)).map_err(raise)?;
        progress.finished = anchored;
        match end {
            Some(end) if end > at => progress.at = end,
            _ if at < text.len() => progress.at += 1,
            _ => progress.finished = true,
        }
        let Some(end) = end else { continue };
        progress.count += 1;
        (progress.start, progress.end) = (at, end);
        lua.set_block_at(PROGRESS, progress);
        return push_request(lua, text, matcher.captures(), at..end);
    }
    progress.finished = true;
    lua.set_block_at(PROGRESS, progress);
    Ok(0)
}

fn push_request(
    lua: Lua<'_>,
    text: Slice<'_>,
    captures: &[Capture],
    whole: std::ops::Range<usize>,
) -> Result<i32, Raise> {
    if lua.kind(3) == Kind::Table {
        let key = &captures[..captures.len().min(1)];
        return push_captures(lua, text, key, Some(whole));
    }
    lua.push_value(3);
    Ok(push_captures(lua, text, captures, Some(whole))? + 1)
}

/// Takes the replacement on top: text is used, false and nil keep the match.
pub(crate) fn gsub_accept(lua: Lua<'_>) -> Result<i32, Raise> {
    let text = lua.check_bytes(1)?;
    let mut progress: Progress = lua.block_at(PROGRESS);
    if !lua.boolean(-1) {
        lua.pop(1);
        return Ok(0); // The match stays part of the text that is still to be copied.
    }
    let Some(replacement_bytes) = lua.lend(|lua| lua.bytes(-1).map(<[u8]>::len)) else {
        return Err(Raise::located(format!(
            "invalid replacement value (a {})",
            lua.type_name(-1)
        )));
    };
    progress.bytes = progress.bytes.saturating_add(replacement_bytes);
    lua.context().check_room(progress.bytes)?;
    lua.push_bytes(&text[progress.copied..progress.start]);
    lua.raw_set_index(PIECES, progress.pieces + 1);
    lua.raw_set_index(PIECES, progress.pieces + 2);
    progress.pieces += 2;
    progress.copied = progress.end;
    lua.set_block_at(PROGRESS, progress);
    Ok(0)
}

/// Joins the pieces.
pub(crate) fn gsub_finish(lua: Lua<'_>) -> Result<i32, Raise> {
    let text = lua.check_bytes(1)?;
    let progress: Progress = lua.block_at(PROGRESS);
    let mut out = lua.context().text.take();
    out.clear();
    for piece in 1..=progress.pieces {
        lua.raw_get_index(PIECES, piece);
        lua.lend(|lua| out.extend_from_slice(lua.bytes(-1).unwrap_or_default()));
        lua.pop(1);
    }
    out.extend_from_slice(&text[progress.copied..]);
    let room = lua.context().check_room(out.len());
    if room.is_ok() {
        lua.push_bytes(&out);
    }
    lua.context().text.set(out);
    room?;
    lua.push_number(progress.count as f64);
    Ok(2)
}
