//! One walk through all cold keys for everybody who needs one (KEYS).
//!
//! A walk takes long where there are many keys, and what it reads is the same for all. So there is one, page by
//! page, in rounds: who joins it in the middle leaves it at the same place of the next round. Between two pages
//! others may be served, and those who are gone are forgotten.

use nagaya_command_spec::glob;
use nagaya_tiering::cold::KeyRow;

use crate::databases::split_name;
use crate::residency::cursors::ColdPlace;

/// Keys read from the cold tier at a time: few enough that a load never waits long for the tier's connection.
const PAGE: usize = 1_000;

/// The walk and those who follow it.
pub struct Walk<W> {
    /// The last key of the page before; nothing at the start of a round.
    at: Option<ColdPlace>,
    followers: Vec<Follower<W>>,
}

struct Follower<W> {
    who: W,
    /// The space whose keys it wants.
    space: usize,
    pattern: Vec<u8>,
    found: Vec<KeyRow>,
    /// Where it joined; nothing at the start of a round.
    joined_at: Option<ColdPlace>,
    /// It is in its second round, up to where it joined.
    is_back: bool,
}

impl<W> Default for Walk<W> {
    fn default() -> Self {
        Walk {
            at: None,
            followers: Vec::new(),
        }
    }
}

impl<W> Walk<W> {
    /// Collects the keys of a space that match a pattern for somebody.
    pub fn join(&mut self, who: W, space: usize, pattern: &[u8]) {
        self.followers.push(Follower {
            who,
            space,
            pattern: pattern.to_vec(),
            found: Vec::new(),
            joined_at: self.at.clone(),
            is_back: false,
        });
    }

    /// Returns whether nobody follows.
    pub fn is_idle(&self) -> bool {
        self.followers.is_empty()
    }

    /// Forgets those who are gone. When nobody is left, the next one begins at the start.
    pub fn keep(&mut self, mut is_there: impl FnMut(&W) -> bool) {
        self.followers.retain(|follower| is_there(&follower.who));
        if self.followers.is_empty() {
            self.at = None;
        }
    }

    /// Goes on by one page; returns those who have seen every key, with what they have found. After a failure,
    /// everybody has to be told, see [`Walk::end`].
    ///
    /// `read` returns at most so many keys after a place, in their order.
    pub fn step<E>(
        &mut self,
        read: impl FnOnce(Option<(&[u8], &[u8])>, usize) -> Result<Vec<KeyRow>, E>,
    ) -> Result<Vec<(W, Vec<KeyRow>)>, E> {
        let after = self
            .at
            .as_ref()
            .map(|(tag, key)| (tag.as_slice(), key.as_slice()));
        let page = read(after, PAGE)?;
        for row in &page {
            for follower in &mut self.followers {
                if follower.wants(row) {
                    follower.found.push(row.clone());
                }
            }
        }
        let Some(last) = page.last() else {
            self.at = None;
            let done = self.part_with(|follower| follower.is_back || follower.joined_at.is_none());
            self.followers.iter_mut().for_each(|one| one.is_back = true);
            return Ok(done);
        };
        let place = (last.tag.clone(), last.key.clone());
        let done = self.part_with(|one| one.is_back && one.joined_at.as_ref() <= Some(&place));
        self.at = (!self.followers.is_empty()).then_some(place);
        Ok(done)
    }

    /// Ends the walk; returns those who followed.
    pub fn end(&mut self) -> Vec<W> {
        self.at = None;
        let followers = std::mem::take(&mut self.followers).into_iter();
        followers.map(|follower| follower.who).collect()
    }

    fn part_with(&mut self, mut is_done: impl FnMut(&Follower<W>) -> bool) -> Vec<(W, Vec<KeyRow>)> {
        let done = self.followers.extract_if(.., |follower| is_done(follower));
        done.map(|follower| (follower.who, follower.found)).collect()
    }
}

impl<W> Follower<W> {
    fn wants(&self, row: &KeyRow) -> bool {
        let is_new = !self.is_back
            || self
                .joined_at
                .as_ref()
                .is_some_and(|(tag, key)| (&row.tag, &row.key) <= (tag, key));
        is_new && split_name(&row.tag).0 == self.space && glob::matches(&self.pattern, &row.key)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use nagaya_tiering::cold::Kind;

    use super::*;

    /// So many keys, in order, two to a tag.
    fn keys(count: usize) -> Vec<KeyRow> {
        let row = |at: usize| KeyRow {
            tag: format!("{:06}", at / 2).into_bytes(),
            key: format!("{:06}:{at:06}", at / 2).into_bytes(),
            kind: Kind::String,
            expires_at_ms: None,
        };
        (0..count).map(row).collect()
    }

    fn step(walk: &mut Walk<&'static str>, rows: &[KeyRow]) -> Vec<(&'static str, usize)> {
        let read = |after: Option<(&[u8], &[u8])>, limit: usize| {
            let is_after = |row: &&KeyRow| after.is_none_or(|after| (&*row.tag, &*row.key) > after);
            Ok::<_, Infallible>(rows.iter().filter(is_after).take(limit).cloned().collect())
        };
        let Ok(done) = walk.step(read);
        let counted = done.into_iter().map(|(who, found)| {
            let mut names: Vec<_> = found.iter().map(|row| &row.key).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), found.len(), "{who} has seen a key twice");
            (who, found.len())
        });
        counted.collect()
    }

    fn steps(walk: &mut Walk<&'static str>, rows: &[KeyRow], count: usize) -> Vec<(&'static str, usize)> {
        (0..count).flat_map(|_| step(walk, rows)).collect()
    }

    #[test]
    fn who_joins_at_any_time_sees_every_key_once() {
        let rows = keys(3_500);
        let mut walk = Walk::default();
        walk.join("first", 0, b"*");
        assert_eq!(steps(&mut walk, &rows, 2), []);
        walk.join("second", 0, b"*");
        walk.join("some", 0, b"*1");
        // Two more pages and the empty one end the first round.
        assert_eq!(steps(&mut walk, &rows, 3), [("first", 3_500)]);
        assert_eq!(steps(&mut walk, &rows, 1), []);
        assert_eq!(steps(&mut walk, &rows, 1), [("second", 3_500), ("some", 350)]);
        assert!(walk.is_idle());
        walk.join("later", 0, b"*");
        assert_eq!(steps(&mut walk, &rows, 5), [("later", 3_500)]);
    }

    #[test]
    fn keys_that_vanish_at_the_place_of_joining_do_not_keep_it_from_ending() {
        let mut rows = keys(2_500);
        let mut walk = Walk::default();
        walk.join("first", 0, b"*");
        steps(&mut walk, &rows, 2);
        walk.join("second", 0, b"*");
        rows.truncate(500);
        assert_eq!(steps(&mut walk, &rows, 1), [("first", 2_000)]);
        assert_eq!(steps(&mut walk, &rows, 2), [("second", 500)]);
    }

    #[test]
    fn those_who_are_gone_are_forgotten_and_the_next_begins_at_the_start() {
        let rows = keys(2_500);
        let mut walk = Walk::default();
        walk.join("first", 0, b"*");
        steps(&mut walk, &rows, 1);
        walk.keep(|who| *who != "first");
        assert!(walk.is_idle());
        walk.join("second", 0, b"*");
        assert_eq!(steps(&mut walk, &rows, 4), [("second", 2_500)]);
        walk.join("third", 0, b"*");
        assert_eq!(walk.end(), ["third"]);
        assert!(walk.is_idle());
    }

    #[test]
    fn an_empty_tier_is_walked_at_once() {
        let mut walk = Walk::default();
        walk.join("first", 0, b"*");
        assert_eq!(step(&mut walk, &[]), [("first", 0)]);
    }
}
