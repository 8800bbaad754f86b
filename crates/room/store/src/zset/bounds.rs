//! The two kinds of range a sorted set is asked for.

/// A range of scores; either end may be left out of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreRange {
    pub min: f64,
    pub min_excluded: bool,
    pub max: f64,
    pub max_excluded: bool,
}

impl ScoreRange {
    /// Returns the range from `min` to `max`, both included.
    pub fn including(min: f64, max: f64) -> ScoreRange {
        ScoreRange {
            min,
            min_excluded: false,
            max,
            max_excluded: false,
        }
    }

    /// Returns whether a score lies before the whole range.
    pub fn is_above(&self, score: f64) -> bool {
        if self.min_excluded {
            score <= self.min
        } else {
            score < self.min
        }
    }

    /// Returns whether a score lies after the whole range.
    pub fn is_below(&self, score: f64) -> bool {
        if self.max_excluded {
            score >= self.max
        } else {
            score > self.max
        }
    }
}

/// One end of a range of members compared as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// Before every member (`-`).
    Lowest,
    /// After every member (`+`).
    Highest,
    /// At a member that is part of the range (`[member`).
    Included(&'a [u8]),
    /// At a member that is not part of the range (`(member`).
    Excluded(&'a [u8]),
}

impl<'a> LexBound<'a> {
    /// Reads `-`, `+`, `[member` or `(member`.
    pub fn parse(text: &'a [u8]) -> Option<LexBound<'a>> {
        let (&kind, rest) = text.split_first()?;
        match kind {
            b'[' => Some(LexBound::Included(rest)),
            b'(' => Some(LexBound::Excluded(rest)),
            // Redis reads these as C strings, so whatever follows a zero byte goes unseen.
            b'-' if rest.first().is_none_or(|&byte| byte == 0) => Some(LexBound::Lowest),
            b'+' if rest.first().is_none_or(|&byte| byte == 0) => Some(LexBound::Highest),
            _ => None,
        }
    }
}

/// A range of members compared as bytes; meant for sets whose scores are all equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LexRange<'a> {
    pub min: LexBound<'a>,
    pub max: LexBound<'a>,
}

impl LexRange<'_> {
    /// Returns whether a member lies before the whole range.
    pub fn is_above(&self, member: &[u8]) -> bool {
        match self.min {
            LexBound::Lowest => false,
            LexBound::Highest => true,
            LexBound::Included(min) => member < min,
            LexBound::Excluded(min) => member <= min,
        }
    }

    /// Returns whether a member lies after the whole range.
    pub fn is_below(&self, member: &[u8]) -> bool {
        match self.max {
            LexBound::Lowest => true,
            LexBound::Highest => false,
            LexBound::Included(max) => member > max,
            LexBound::Excluded(max) => member >= max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lex_bounds_need_a_bracket_or_a_lone_sign() {
        assert_eq!(LexBound::parse(b"[a"), Some(LexBound::Included(b"a")));
        assert_eq!(LexBound::parse(b"("), Some(LexBound::Excluded(b"")));
        assert_eq!(LexBound::parse(b"+"), Some(LexBound::Highest));
        assert_eq!(LexBound::parse(b"-"), Some(LexBound::Lowest));
        for bad in [&b""[..], b"a", b"+a", b"-x", b"1"] {
            assert_eq!(LexBound::parse(bad), None);
        }
    }
}
