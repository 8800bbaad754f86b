//! Questions of a client to the cold tier, and the answers.
//!
//! A request may run again before its answer is there, and ask again: what comes for it
//! later must not be taken for the answer to a later request.

use nagaya_tiering::cold::{KeyRow, TagRow};

/// What a command asks the cold tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColdQuery {
    /// Some keys of a space, after a place.
    Page {
        space: usize,
        after: Option<(Vec<u8>, Vec<u8>)>,
        limit: usize,
    },
    /// All keys of a space that match a pattern.
    Matching { space: usize, pattern: Vec<u8> },
    /// The row of a tag, given its name.
    Tag(Vec<u8>),
    /// Tags of a space that begin with something, in their order, after a tag.
    Tags {
        space: usize,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        limit: usize,
    },
    /// These tags, and some that come after a tag in the cold tier's own order.
    Survey {
        known: Vec<Vec<u8>>,
        after: Option<Vec<u8>>,
        limit: usize,
    },
    /// Whether something has been saved since.
    Saved,
}

/// The cold tier's answer.
#[derive(Debug)]
pub enum ColdAnswer {
    Keys(Vec<KeyRow>),
    Tag(Option<TagRow>),
    Tags(Vec<TagRow>),
    Survey { known: Vec<TagRow>, page: Vec<TagRow> },
    Saved,
}

/// A query on its way, with its number among those of its client.
#[derive(Debug)]
pub struct NumberedQuery {
    pub number: u64,
    pub query: ColdQuery,
}

/// The queries of a client and their answers.
#[derive(Debug, Default)]
pub struct Answers {
    /// The number of the latest question.
    latest: u64,
    /// The first query of the current request, while it has no answer.
    first: Option<u64>,
    got: Option<(u64, ColdAnswer)>,
}

impl Answers {
    /// Numbers a question.
    pub fn number(&mut self) -> u64 {
        self.latest += 1;
        self.first.get_or_insert(self.latest);
        self.latest
    }

    /// Returns whether the current request has asked and has no answer yet.
    pub fn is_awaited(&self) -> bool {
        let first = self.first;
        first.is_some_and(|first| self.got.as_ref().is_none_or(|(number, _)| *number < first))
    }

    /// Takes the answer to the current request; one to an earlier request is dropped.
    pub fn take(&mut self) -> Option<ColdAnswer> {
        let (number, answer) = self.got.take()?;
        if number < self.first? {
            return None;
        }
        self.first = None;
        Some(answer)
    }

    /// Ends the request: an answer that comes later is for none.
    pub fn forget(&mut self) {
        self.first = None;
    }

    /// Keeps the answer to a question.
    pub fn put(&mut self, number: u64, answer: ColdAnswer) {
        self.got = Some((number, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_awaited_from_the_question_to_the_answer_or_the_end_of_the_request() {
        let mut answers = Answers::default();
        assert!(!answers.is_awaited());
        let first = answers.number();
        assert!(answers.is_awaited());
        answers.forget();
        assert!(!answers.is_awaited());
        let second = answers.number();
        answers.put(first, ColdAnswer::Saved);
        assert!(answers.is_awaited(), "that was for an earlier request");
        answers.put(second, ColdAnswer::Saved);
        assert!(!answers.is_awaited());
        assert!(answers.take().is_some());
        assert!(!answers.is_awaited());
    }
}
