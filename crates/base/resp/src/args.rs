//! The arguments of one request: borrowed from a buffer, or kept as one owned copy.

use std::fmt;
use std::ops::{Index, Range};

/// Start and end of one argument inside its base slice. Four bytes each keep a request of many small
/// arguments small; the parser refuses requests that would not fit.
pub(crate) type Span = (u32, u32);

/// The largest offset a [`Span`] can name.
pub(crate) const SPAN_MAX: usize = u32::MAX as usize;

/// A view of the arguments of one request, the command name first.
///
/// Two pointers wide and `Copy`; the slices handed out live as long as the buffer, not the view.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    source: Source<'a>,
}

#[derive(Clone, Copy)]
enum Source<'a> {
    Spans { base: &'a [u8], spans: &'a [Span] },
    Slices(&'a [&'a [u8]]),
}

impl<'a> Args<'a> {
    #[inline]
    pub(crate) fn from_spans(base: &'a [u8], spans: &'a [Span]) -> Self {
        Args {
            source: Source::Spans { base, spans },
        }
    }

    /// Views arguments that already are separate slices.
    #[inline]
    pub fn from_slices(slices: &'a [&'a [u8]]) -> Self {
        Args {
            source: Source::Slices(slices),
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        match self.source {
            Source::Spans { spans, .. } => spans.len(),
            Source::Slices(slices) => slices.len(),
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub fn get(&self, at: usize) -> Option<&'a [u8]> {
        match self.source {
            Source::Spans { base, spans } => spans
                .get(at)
                .map(|&(start, end)| &base[start as usize..end as usize]),
            Source::Slices(slices) => slices.get(at).copied(),
        }
    }

    /// Returns the arguments from `first` on; an empty view when there are not that many.
    #[inline]
    pub fn skip(&self, first: usize) -> Args<'a> {
        self.range(first..self.len())
    }

    /// Returns the arguments of `range`, cut to those that exist.
    #[inline]
    pub fn range(&self, range: Range<usize>) -> Args<'a> {
        let end = range.end.min(self.len());
        let start = range.start.min(end);
        let source = match self.source {
            Source::Spans { base, spans } => Source::Spans {
                base,
                spans: &spans[start..end],
            },
            Source::Slices(slices) => Source::Slices(&slices[start..end]),
        };
        Args { source }
    }

    #[inline]
    pub fn iter(&self) -> ArgsIter<'a> {
        ArgsIter {
            args: *self,
            left: 0..self.len(),
        }
    }

    /// Returns how many bytes the arguments hold together, framing left out.
    pub fn bytes_len(&self) -> usize {
        self.iter().map(<[u8]>::len).sum()
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    /// Panics when there is no such argument: use it after the arity check, `get` before.
    #[inline]
    fn index(&self, at: usize) -> &[u8] {
        match self.source {
            Source::Spans { base, spans } => {
                let (start, end) = spans[at];
                &base[start as usize..end as usize]
            }
            Source::Slices(slices) => slices[at],
        }
    }
}

impl<'a> IntoIterator for Args<'a> {
    type Item = &'a [u8];
    type IntoIter = ArgsIter<'a>;

    #[inline]
    fn into_iter(self) -> ArgsIter<'a> {
        self.iter()
    }
}

impl PartialEq for Args<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Args<'_> {}

impl fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|arg| arg.escape_ascii().to_string()))
            .finish()
    }
}

/// Walks the arguments of a request, from either end.
#[derive(Clone, Debug)]
pub struct ArgsIter<'a> {
    args: Args<'a>,
    left: Range<usize>,
}

impl<'a> Iterator for ArgsIter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.left.next().and_then(|at| self.args.get(at))
    }

    #[inline]
    fn nth(&mut self, n: usize) -> Option<&'a [u8]> {
        self.left.nth(n).and_then(|at| self.args.get(at))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl DoubleEndedIterator for ArgsIter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.left.next_back().and_then(|at| self.args.get(at))
    }
}

impl ExactSizeIterator for ArgsIter<'_> {}

/// An owned request: the argument bytes end to end, and where each one lies.
///
/// Two allocations however many arguments there are. Used where a request outlives the read buffer:
/// queued by MULTI, blocked, built by a script.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct ArgVec {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl ArgVec {
    pub fn new() -> Self {
        ArgVec::default()
    }

    /// Appends one argument.
    ///
    /// Panics past 4 GiB of argument bytes, four times what a connection may send in one request.
    #[inline]
    pub fn push(&mut self, arg: &[u8]) {
        let start = self.bytes.len();
        let end = start + arg.len();
        assert!(end <= SPAN_MAX, "one request holds at most 4 GiB of arguments");
        self.bytes.extend_from_slice(arg);
        self.spans.push((start as u32, end as u32));
    }

    /// Removes every argument and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
    }

    #[inline]
    pub fn as_args(&self) -> Args<'_> {
        Args::from_spans(&self.bytes, &self.spans)
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns how many bytes the arguments hold together, framing left out.
    pub fn bytes_len(&self) -> usize {
        self.bytes.len()
    }
}

impl From<&Args<'_>> for ArgVec {
    fn from(args: &Args<'_>) -> Self {
        let mut owned = ArgVec {
            bytes: Vec::with_capacity(args.bytes_len()),
            spans: Vec::with_capacity(args.len()),
        };
        owned.extend(args.iter());
        owned
    }
}

impl From<Args<'_>> for ArgVec {
    fn from(args: Args<'_>) -> Self {
        ArgVec::from(&args)
    }
}

impl<T: AsRef<[u8]>> Extend<T> for ArgVec {
    fn extend<I: IntoIterator<Item = T>>(&mut self, args: I) {
        for arg in args {
            self.push(arg.as_ref());
        }
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for ArgVec {
    fn from_iter<I: IntoIterator<Item = T>>(args: I) -> Self {
        let mut owned = ArgVec::new();
        owned.extend(args);
        owned
    }
}

impl fmt::Debug for ArgVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_args().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sources_answer_alike() {
        let slices: [&[u8]; 3] = [b"SET", b"", b"value"];
        let owned = ArgVec::from_iter(slices);
        for args in [Args::from_slices(&slices), owned.as_args()] {
            assert_eq!(args.len(), 3);
            assert_eq!(&args[0], b"SET");
            assert_eq!(args.get(1), Some(&b""[..]));
            assert_eq!(args.get(3), None);
            assert_eq!(
                args.iter().rev().collect::<Vec<_>>(),
                [&b"value"[..], b"", b"SET"]
            );
            assert_eq!(args.bytes_len(), 8);
            assert_eq!(args.into_iter().len(), 3);
        }
        assert_eq!(Args::from_slices(&slices), owned.as_args());
    }

    #[test]
    fn a_range_past_the_end_is_cut() {
        let owned = ArgVec::from_iter(["a", "b", "c"]);
        let args = owned.as_args();
        assert_eq!(args.skip(1), ArgVec::from_iter(["b", "c"]).as_args());
        assert!(args.skip(4).is_empty());
        assert_eq!(args.range(1..2), ArgVec::from_iter(["b"]).as_args());
        assert_eq!(args.range(2..9), ArgVec::from_iter(["c"]).as_args());
    }

    #[test]
    fn a_slice_outlives_the_view_it_came_from() {
        let owned = ArgVec::from_iter(["GET", "key"]);
        let key = {
            let args = owned.as_args();
            args.iter().nth(1).unwrap()
        };
        assert_eq!(key, b"key");
    }

    #[test]
    fn an_owned_copy_of_a_part_holds_only_that_part() {
        let owned = ArgVec::from_iter(["EVAL", "a long script", "0"]);
        let part = ArgVec::from(&owned.as_args().skip(2));
        assert_eq!((part.len(), part.bytes_len()), (1, 1));
    }
}
