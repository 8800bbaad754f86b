//! Numbers under the names that a pool stores them by.

use std::fmt;
use std::str::FromStr;

/// A number of the pool. Its name begins with a letter for its count of digits (`A1`, `B10`,
/// `C100`), so that names sort as their numbers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(pub u64);

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.checked_ilog10().unwrap_or(0);
        // A u64 has at most 20 digits, so the letter is at most T.
        let letter = char::from(b'A' + u8::try_from(digits).unwrap_or(0));
        write!(f, "{letter}{}", self.0)
    }
}

/// A name in the pool that is not the name of a number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of a number")]
pub struct BadMember(pub String);

impl FromStr for Member {
    type Err = BadMember;

    fn from_str(text: &str) -> Result<Member, BadMember> {
        let bad = || BadMember(text.to_owned());
        let digits = text.get(1..).ok_or_else(bad)?;
        let member = Member(digits.parse().map_err(|_| bad())?);
        if member.to_string() == text {
            Ok(member)
        } else {
            Err(bad())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_yaraus() {
        for (number, name) in [
            (0, "A0"),
            (9, "A9"),
            (10, "B10"),
            (99, "B99"),
            (100, "C100"),
            (1023, "D1023"),
            (u64::MAX, "T18446744073709551615"),
        ] {
            assert_eq!(Member(number).to_string(), name);
            assert_eq!(name.parse(), Ok(Member(number)));
        }
    }

    #[test]
    fn bad_names_are_refused() {
        for name in [
            "",
            "A",
            "1",
            "B1",
            "A10",
            "a1",
            "A-1",
            "A+1",
            "B01",
            "T99999999999999999999",
            "é1",
        ] {
            assert_eq!(name.parse::<Member>(), Err(BadMember(name.to_owned())));
        }
    }
}
