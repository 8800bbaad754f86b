//! Lua patterns, matched with a bounded amount of work.
//!
//! Lua's own matcher can be made to run for years (`a*a*a*...b`) or to overflow the C stack (a pattern of a million
//! `?`), and nothing can interrupt it. This one counts its steps, asks now and then whether to continue, and refuses
//! patterns that nest too deep. Otherwise it follows Lua 5.1, including that a zero byte ends a pattern.

/// Captures a pattern may have.
const CAPTURES_MAX: usize = 32;
/// Nested repetitions and captures that may be open at once. Each takes a few frames of the thread's stack.
const DEPTH_MAX: u32 = 400;
/// Steps between two questions whether to continue; about a millisecond.
const STEPS_PER_TICK: u32 = 200_000;

/// Why a match was given up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The pattern is wrong, or too complex.
    Pattern(&'static str),
    /// The matcher was told to stop.
    Stopped,
}

/// A capture's place in the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    Text { start: usize, len: usize },
    Position(usize),
    Unfinished { start: usize },
}

/// One subject and pattern. `keep_going` is called at regular intervals of steps.
pub(crate) struct Matcher<'a, F> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: [Capture; CAPTURES_MAX],
    level: usize,
    depth: u32,
    steps: u32,
    keep_going: F,
}

type Outcome = Result<Option<usize>, Failure>;

impl<'a, F: FnMut() -> bool> Matcher<'a, F> {
    pub(crate) fn new(subject: &'a [u8], pattern: &'a [u8], keep_going: F) -> Self {
        let end = pattern
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(pattern.len());
        let captures = [Capture::Position(0); CAPTURES_MAX];
        Matcher {
            subject,
            pattern: &pattern[..end],
            captures,
            level: 0,
            depth: 0,
            steps: 0,
            keep_going,
        }
    }

    /// Matches the pattern from byte `at_pattern` on at exactly `at`; gives the end of the match.
    pub(crate) fn match_at(&mut self, at: usize, at_pattern: usize) -> Outcome {
        self.level = 0;
        self.depth = 0;
        self.run(at, at_pattern)
    }

    /// Returns the captures of the last match.
    pub(crate) fn captures(&self) -> &[Capture] {
        &self.captures[..self.level]
    }

    /// Pattern byte, zero past the end.
    fn p(&self, at: usize) -> u8 {
        self.pattern.get(at).copied().unwrap_or(0)
    }

    /// Subject byte, zero past the end.
    fn s(&self, at: usize) -> u8 {
        self.subject.get(at).copied().unwrap_or(0)
    }

    fn count_step(&mut self) -> Result<(), Failure> {
        self.steps += 1;
        if self.steps >= STEPS_PER_TICK {
            self.steps = 0;
            if !(self.keep_going)() {
                return Err(Failure::Stopped);
            }
        }
        Ok(())
    }

    fn run(&mut self, s: usize, p: usize) -> Outcome {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Failure::Pattern("pattern too complex"));
        }
        let outcome = self.run_items(s, p);
        self.depth -= 1;
        outcome
    }

    /// Works along the pattern; only repetitions and captures recurse.
    fn run_items(&mut self, mut s: usize, mut p: usize) -> Outcome {
        loop {
            self.count_step()?;
            match self.p(p) {
                0 => return Ok(Some(s)),
                b'(' if self.p(p + 1) == b')' => return self.start_capture(s, p + 2, Capture::Position(s)),
                b'(' => return self.start_capture(s, p + 1, Capture::Unfinished { start: s }),
                b')' => return self.end_capture(s, p + 1),
                b'$' if p + 1 == self.pattern.len() => return Ok((s == self.subject.len()).then_some(s)),
                b'%' => match self.p(p + 1) {
                    b'b' => match self.match_balance(s, p + 2)? {
                        Some(end) => (s, p) = (end, p + 4),
                        None => return Ok(None),
                    },
                    b'f' => match self.match_frontier(s, p + 2)? {
                        Some(end) => p = end,
                        None => return Ok(None),
                    },
                    digit @ b'0'..=b'9' => match self.match_capture(s, digit)? {
                        Some(end) => (s, p) = (end, p + 2),
                        None => return Ok(None),
                    },
                    _ => match self.single_item(s, p)? {
                        Next::At(next_s, next_p) => (s, p) = (next_s, next_p),
                        Next::Done(outcome) => return Ok(outcome),
                    },
                },
                _ => match self.single_item(s, p)? {
                    Next::At(next_s, next_p) => (s, p) = (next_s, next_p),
                    Next::Done(outcome) => return Ok(outcome),
                },
            }
        }
    }

    /// One character class with the repetition that may follow it.
    fn single_item(&mut self, s: usize, p: usize) -> Result<Next, Failure> {
        let end = self.class_end(p)?;
        let matches = s < self.subject.len() && self.single_match(self.s(s), p, end);
        match self.p(end) {
            b'?' => {
                if matches && let Some(found) = self.run(s + 1, end + 1)? {
                    return Ok(Next::Done(Some(found)));
                }
                Ok(Next::At(s, end + 1))
            }
            b'*' => self.max_expand(s, p, end).map(Next::Done),
            b'+' if matches => self.max_expand(s + 1, p, end).map(Next::Done),
            b'-' => self.min_expand(s, p, end).map(Next::Done),
            b'+' => Ok(Next::Done(None)),
            _ if matches => Ok(Next::At(s + 1, end)),
            _ => Ok(Next::Done(None)),
        }
    }

    fn max_expand(&mut self, s: usize, p: usize, end: usize) -> Outcome {
        let mut count = 0;
        while s + count < self.subject.len() && self.single_match(self.s(s + count), p, end) {
            count += 1;
            self.count_step()?;
        }
        for taken in (0..=count).rev() {
            if let Some(found) = self.run(s + taken, end + 1)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn min_expand(&mut self, mut s: usize, p: usize, end: usize) -> Outcome {
        loop {
            if let Some(found) = self.run(s, end + 1)? {
                return Ok(Some(found));
            }
            if s >= self.subject.len() || !self.single_match(self.s(s), p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn start_capture(&mut self, s: usize, p: usize, capture: Capture) -> Outcome {
        if self.level >= CAPTURES_MAX {
            return Err(Failure::Pattern("too many captures"));
        }
        self.captures[self.level] = capture;
        self.level += 1;
        let outcome = self.run(s, p)?;
        if outcome.is_none() {
            self.level -= 1;
        }
        Ok(outcome)
    }

    fn end_capture(&mut self, s: usize, p: usize) -> Outcome {
        let open = (0..self.level)
            .rev()
            .find_map(|index| match self.captures[index] {
                Capture::Unfinished { start } => Some((index, start)),
                _ => None,
            });
        let Some((index, start)) = open else {
            return Err(Failure::Pattern("invalid pattern capture"));
        };
        self.captures[index] = Capture::Text {
            start,
            len: s - start,
        };
        let outcome = self.run(s, p)?;
        if outcome.is_none() {
            self.captures[index] = Capture::Unfinished { start };
        }
        Ok(outcome)
    }

    fn match_capture(&mut self, s: usize, digit: u8) -> Outcome {
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        match self.captures().get(index) {
            None | Some(Capture::Unfinished { .. }) => Err(Failure::Pattern("invalid capture index")),
            Some(Capture::Position(_)) => Ok(None),
            Some(Capture::Text { start, len }) => {
                let text = &self.subject[*start..start + len];
                Ok(self.subject[s..].starts_with(text).then_some(s + len))
            }
        }
    }

    /// `%bxy`: text that opens with x and closes with the matching y.
    fn match_balance(&mut self, s: usize, p: usize) -> Outcome {
        let (open, close) = (self.p(p), self.p(p + 1));
        if open == 0 || close == 0 {
            return Err(Failure::Pattern("unbalanced pattern"));
        }
        if self.s(s) != open {
            return Ok(None);
        }
        let mut nested = 1;
        for at in s + 1..self.subject.len() {
            self.count_step()?;
            if self.s(at) == close {
                nested -= 1;
                if nested == 0 {
                    return Ok(Some(at + 1));
                }
            } else if self.s(at) == open {
                nested += 1;
            }
        }
        Ok(None)
    }

    /// `%f[set]`: a place where the byte before is outside the set and the next inside. Gives the pattern's end.
    fn match_frontier(&mut self, s: usize, p: usize) -> Outcome {
        if self.p(p) != b'[' {
            return Err(Failure::Pattern("missing '[' after '%f' in pattern"));
        }
        let end = self.class_end(p)?;
        let previous = if s == 0 { 0 } else { self.s(s - 1) };
        let at_frontier = !self.set_match(previous, p, end - 1) && self.set_match(self.s(s), p, end - 1);
        Ok(at_frontier.then_some(end))
    }

    fn class_end(&self, p: usize) -> Result<usize, Failure> {
        match self.p(p) {
            b'%' if self.p(p + 1) == 0 => Err(Failure::Pattern("malformed pattern (ends with '%')")),
            b'%' => Ok(p + 2),
            b'[' => {
                let mut at = p + 1;
                if self.p(at) == b'^' {
                    at += 1;
                }
                loop {
                    let byte = self.p(at);
                    if byte == 0 {
                        return Err(Failure::Pattern("malformed pattern (missing ']')"));
                    }
                    at += 1;
                    if byte == b'%' && self.p(at) != 0 {
                        at += 1;
                    }
                    if self.p(at) == b']' {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    fn single_match(&self, byte: u8, p: usize, end: usize) -> bool {
        match self.p(p) {
            b'.' => true,
            b'%' => class_match(byte, self.p(p + 1)),
            b'[' => self.set_match(byte, p, end - 1),
            literal => literal == byte,
        }
    }

    /// `[set]` from the bracket at `p` to the one at `close`.
    fn set_match(&self, byte: u8, p: usize, close: usize) -> bool {
        let negated = self.p(p + 1) == b'^';
        let mut at = if negated { p + 2 } else { p + 1 };
        while at < close {
            if self.p(at) == b'%' {
                at += 1;
                if class_match(byte, self.p(at)) {
                    return !negated;
                }
            } else if self.p(at + 1) == b'-' && at + 2 < close {
                if (self.p(at)..=self.p(at + 2)).contains(&byte) {
                    return !negated;
                }
                at += 2;
            } else if self.p(at) == byte {
                return !negated;
            }
            at += 1;
        }
        negated
    }
}

/// Where matching goes on after one item.
enum Next {
    At(usize, usize),
    Done(Option<usize>),
}

/// `%a` and its kin; an upper-case letter means the opposite, any other byte itself.
fn class_match(byte: u8, class: u8) -> bool {
    let matches = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 11,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    matches != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(subject: &str, pattern: &str, expected: Result<Option<usize>, Failure>) {
        let mut matcher = Matcher::new(subject.as_bytes(), pattern.as_bytes(), || true);
        assert_eq!(
            matcher.match_at(0, 0),
            expected,
            "{subject:?} against {pattern:?}"
        );
    }

    #[test]
    fn matches_end_where_lua_ends_them() {
        check("hello", "h.l*", Ok(Some(4)));
        check("aaa", "a-b", Ok(None));
        check("aaab", "a-b", Ok(Some(4)));
        check("f(a(b)c)d", "f%b()", Ok(Some(8)));
        check("abab", "(ab)%1", Ok(Some(4)));
        check("THE (quick)", "%f[%a]%a+", Ok(Some(3)));
        check("x]", "[]x]+", Ok(Some(2)));
        check("a-", "[a%-]+$", Ok(Some(2)));
        check("", "", Ok(Some(0)));
    }

    #[test]
    fn wrong_patterns_are_named() {
        check(
            "a",
            "%",
            Err(Failure::Pattern("malformed pattern (ends with '%')")),
        );
        check(
            "a",
            "[a",
            Err(Failure::Pattern("malformed pattern (missing ']')")),
        );
        check("a", "%1", Err(Failure::Pattern("invalid capture index")));
        check("a", ")", Err(Failure::Pattern("invalid pattern capture")));
        check("a", &"()".repeat(33), Err(Failure::Pattern("too many captures")));
    }

    #[test]
    fn an_explosive_match_can_be_stopped() {
        let subject = "a".repeat(40);
        let pattern = "a*".repeat(30) + "b";
        let mut asked = 0;
        let mut matcher = Matcher::new(subject.as_bytes(), pattern.as_bytes(), || {
            asked += 1;
            asked < 3
        });
        assert_eq!(matcher.match_at(0, 0), Err(Failure::Stopped));
    }

    #[test]
    fn a_deep_pattern_is_refused_instead_of_overflowing_the_stack() {
        let subject = "a".repeat(300_000);
        check(
            &subject,
            &"a?".repeat(300_000),
            Err(Failure::Pattern("pattern too complex")),
        );
    }
}
