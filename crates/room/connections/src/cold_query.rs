//! Questions of a client to the cold tier, and the answers.
//!
//! A request may run again before its answer is there, and ask again: what comes for it
//! later must not be taken for the answer to a later request.

use nagaya_tiering::cold::{KeyRow, TagRow};

/// What a command wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColdQuery {
    /// Some keys, after a place.
    Page {
        after: Option<(Vec<u8>, Vec<u8>)>,
        limit: usize,
    },
    /// All keys that match a pattern.
    Matching(Vec<u8>),
    /// The row of a tag.
    Tag(Vec<u8>),
    /// Tags whose names begin with something, in the order of their names, after a tag.
    Tags {
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

/// What the cold tier says.
#[derive(Debug)]
pub enum ColdAnswer {
    Keys(Vec<KeyRow>),
    Tag(Option<TagRow>),
    Tags(Vec<TagRow>),
    Survey { known: Vec<TagRow>, page: Vec<TagRow> },
    Saved,
}

/// A question on its way, with its number among those of its client.
#[derive(Debug)]
pub struct NumberedQuery {
    pub number: u64,
    pub query: ColdQuery,
}

/// What a client has asked and was told.
#[derive(Debug, Default)]
pub struct Answers {
    /// The number of the latest question.
    latest: u64,
    /// The first question of the request at hand, while it has no answer.
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

    /// Takes the answer to the request at hand; one to a request before it is dropped.
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
