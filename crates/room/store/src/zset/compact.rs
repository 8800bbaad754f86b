//! The small form of a sorted set: a listpack of member, score, member, score.
//!
//! Pairs lie in score order. A whole score up to 2^62 is stored as an integer,
//! any other as its `%.17g` text, as Redis writes them.

use super::{LexRange, ScoreRange};
use crate::hasher::hash_bytes;
use crate::listpack::{Item, ItemBuf, Listpack, Pos};
use std::cmp::Ordering;
use std::ops::Range;

/// Whole scores beyond this, in either direction, are stored as text.
const WHOLE_MAX: f64 = (1u64 << 62) as f64;

/// Reads the score at a position.
pub(super) fn score_at(pack: &Listpack, pos: Pos) -> f64 {
    parse_score(pack.get(pos)).expect("scores were checked when the listpack came in")
}

fn parse_score(item: Item<'_>) -> Option<f64> {
    let score = match item {
        Item::Int(whole) => whole as f64,
        Item::Str(text) => std::str::from_utf8(text).ok()?.parse().ok()?,
    };
    (!score.is_nan()).then_some(score)
}

fn push_score(pack: &mut Listpack, before: Option<Pos>, score: f64) {
    let whole = score as i64;
    if (-WHOLE_MAX..=WHOLE_MAX).contains(&score) && whole as f64 == score {
        match before {
            Some(pos) => pack.insert_int(pos, whole),
            None => pack.push_back_int(whole),
        }
        return;
    }
    let mut text = Vec::with_capacity(24);
    nagaya_resp::format_double(score, &mut text);
    match before {
        Some(pos) => pack.insert(pos, &text),
        None => pack.push_back(&text),
    }
}

/// Returns the positions of a member and of its score.
pub(super) fn find(pack: &Listpack, member: &[u8]) -> Option<(Pos, Pos)> {
    let at = pack.find(pack.first()?, member, 1)?;
    Some((at, after(pack, at)))
}

fn after(pack: &Listpack, member: Pos) -> Pos {
    pack.next(member).expect("every member is followed by its score")
}

/// Compares the pair at a position with another pair.
fn compare(pack: &Listpack, at: Pos, score: f64, member: &[u8]) -> Ordering {
    let own = score_at(pack, after(pack, at));
    own.partial_cmp(&score)
        .expect("a score is never NaN")
        .then_with(|| pack.get(at).as_bytes(&mut ItemBuf::new()).cmp(member))
}

/// Adds a pair whose member is not here yet.
pub(super) fn insert(pack: &mut Listpack, score: f64, member: &[u8]) {
    let last = pack.seek(-2);
    if last.is_none_or(|last| compare(pack, last, score, member) == Ordering::Less) {
        pack.push_back(member);
        push_score(pack, None, score);
        return;
    }
    let mut at = pack.first();
    while let Some(pos) = at {
        if compare(pack, pos, score, member) == Ordering::Greater {
            push_score(pack, Some(pos), score);
            pack.insert(pos, member);
            return;
        }
        at = pack.next(after(pack, pos));
    }
    unreachable!("the last pair orders after the new one");
}

pub(super) fn rank(pack: &Listpack, member: &[u8]) -> Option<usize> {
    Iter::new(pack, 0..usize::MAX, false).position(|(item, _)| item.eq_bytes(member))
}

pub(super) fn score_ranks(pack: &Listpack, range: &ScoreRange) -> Range<usize> {
    ranks(
        pack,
        |_, score| range.is_above(score),
        |_, score| range.is_below(score),
    )
}

pub(super) fn lex_ranks(pack: &Listpack, range: &LexRange<'_>) -> Range<usize> {
    let text = |item: Item<'_>, test: &dyn Fn(&[u8]) -> bool| test(item.as_bytes(&mut ItemBuf::new()));
    ranks(
        pack,
        |item, _| text(item, &|member| range.is_above(member)),
        |item, _| text(item, &|member| range.is_below(member)),
    )
}

/// Returns the ranks of the first run of pairs that lie neither before nor after a range.
fn ranks(
    pack: &Listpack,
    is_before: impl Fn(Item<'_>, f64) -> bool,
    is_after: impl Fn(Item<'_>, f64) -> bool,
) -> Range<usize> {
    let mut start = 0;
    let mut inside = 0;
    for (item, score) in Iter::new(pack, 0..usize::MAX, false) {
        if inside == 0 && is_before(item, score) {
            start += 1;
        } else if is_after(item, score) {
            break;
        } else {
            inside += 1;
        }
    }
    start..start + inside
}

/// Checks a listpack that came from elsewhere; `None` when it is not a sorted set.
///
/// The inner flag says whether the pairs are in order.
pub(super) fn validate(pack: &Listpack) -> Option<bool> {
    if !pack.len().is_multiple_of(2) {
        return None;
    }
    let mut hashes = Vec::with_capacity(pack.len() / 2);
    let mut sorted = true;
    let mut previous: Option<Pos> = None;
    let mut at = pack.first();
    while let Some(pos) = at {
        let score_pos = pack.next(pos)?;
        let score = parse_score(pack.get(score_pos))?;
        let mut buffer = ItemBuf::new();
        let member = pack.get(pos);
        let member = member.as_bytes(&mut buffer);
        hashes.push(hash_bytes(member));
        sorted &= previous.is_none_or(|previous| compare(pack, previous, score, member) == Ordering::Less);
        previous = Some(pos);
        at = pack.next(score_pos);
    }
    // Equal hashes of different members would take 2^32 members to become likely.
    hashes.sort_unstable();
    hashes.windows(2).all(|pair| pair[0] != pair[1]).then_some(sorted)
}

/// Walks pairs in one direction.
pub(super) struct Iter<'a> {
    pack: &'a Listpack,
    member: Option<Pos>,
    left: usize,
    reverse: bool,
}

impl<'a> Iter<'a> {
    pub(super) fn new(pack: &'a Listpack, ranks: Range<usize>, reverse: bool) -> Iter<'a> {
        let end = ranks.end.min(pack.len() / 2);
        let left = end.saturating_sub(ranks.start);
        let rank = if reverse {
            end.saturating_sub(1)
        } else {
            ranks.start
        };
        let member = if left == 0 {
            None
        } else {
            pack.seek(rank as isize * 2)
        };
        Iter {
            pack,
            member,
            left,
            reverse,
        }
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = (Item<'a>, f64);

    fn next(&mut self) -> Option<(Item<'a>, f64)> {
        let member = self.member?;
        let score = after(self.pack, member);
        self.left -= 1;
        self.member = match (self.left, self.reverse) {
            (0, _) => None,
            (_, false) => self.pack.next(score),
            (_, true) => self.pack.prev(member).and_then(|score| self.pack.prev(score)),
        };
        Some((self.pack.get(member), score_at(self.pack, score)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}
