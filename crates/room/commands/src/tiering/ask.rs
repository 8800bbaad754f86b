//! Questions to the cold tier that a command cannot wait for under its locks.
//!
//! A handler that needs an answer calls [`ask`]. The first time there is none:
//! the handler returns without a reply, somebody asks the cold tier, and the
//! request runs again, now with the answer. Inside a script or transaction, where
//! nobody can wait, the cold tier is asked in place.
//!
//! A request may run again before its answer is there, and ask again: what comes for it
//! later must not be taken for the answer to a later request.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nagaya_tiering::cold::{ColdError, ColdTier, KeyRow, TagRow};

use super::Tiering;
use crate::client::{Client, ClientShared, Message};
use crate::ctx::Ctx;
use crate::error::CommandError;
use crate::glob;
use crate::server::Server;

/// Keys read from the cold tier at a time.
const PAGE: usize = 10_000;
/// Keys read at a time when only their tags matter.
const TAG_PAGE: usize = 64;

/// What a command wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
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
pub(crate) enum Answer {
    Keys(Vec<KeyRow>),
    Tag(Option<TagRow>),
    Tags(Vec<TagRow>),
    Survey { known: Vec<TagRow>, page: Vec<TagRow> },
    Saved,
}

/// A question on its way, with its number among those of its client.
#[derive(Debug)]
pub struct Asked {
    number: u64,
    question: Question,
}

/// What a client has asked and was told.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// The number of the latest question.
    latest: u64,
    /// The first question of the request at hand, while it has no answer.
    first: Option<u64>,
    got: Option<(u64, Answer)>,
}

impl Answers {
    fn number(&mut self) -> u64 {
        self.latest += 1;
        self.first.get_or_insert(self.latest);
        self.latest
    }

    /// Takes the answer to the request at hand; one to a request before it is dropped.
    fn take(&mut self) -> Option<Answer> {
        let (number, answer) = self.got.take()?;
        if number < self.first? {
            return None;
        }
        self.first = None;
        Some(answer)
    }

    fn forget(&mut self) {
        self.first = None;
    }
}

/// Asks the cold tier. Nothing means: not yet, return at once, the request will run again.
pub(crate) fn ask(ctx: &mut Ctx<'_, '_>, question: Question) -> Result<Option<Answer>, CommandError> {
    let Some(tiering) = ctx.db.tiering else {
        return Ok(None);
    };
    if let Some(answer) = ctx.client.shared.answers.lock().take() {
        return Ok(Some(answer));
    }
    if ctx.client.nesting > 0 {
        let answer = reply_to(&*tiering.cold, &question);
        let answer = answer.map_err(|error| CommandError::coded(format!("TRYAGAIN {error}")))?;
        return Ok(Some(answer));
    }
    ctx.client.question = Some(question);
    Ok(None)
}

impl Client {
    /// The request at hand has ended: whatever comes for it now is for nobody.
    pub(crate) fn ends_asking(&mut self) {
        if std::mem::take(&mut self.asks) {
            self.shared.answers.lock().forget();
        }
    }

    /// Tells whether everything that was written before this request is saved (SAVE); if not, the request
    /// has to run again once the saver has gone round.
    pub(crate) fn is_saved(&mut self, tiering: &Tiering) -> bool {
        let wanted = *self.save_up_to.get_or_insert_with(|| tiering.log_end());
        if tiering.checkpoint() >= wanted {
            self.save_up_to = None;
            return true;
        }
        (tiering.save_soon)();
        self.question = Some(Question::Saved);
        false
    }
}

impl Tiering {
    /// Passes a question on to whoever asks the cold tier.
    pub(crate) fn pass_on(&self, question: Question, client: &Arc<ClientShared>) {
        if question == Question::Saved {
            self.wait_for_save(client);
        } else {
            let number = client.answers.lock().number();
            let asked = Asked { number, question };
            let client = Arc::clone(client);
            // When nobody takes orders any more, the engine is ending and so are its clients.
            self.loads.send(super::Order::Ask(asked, client)).ok();
        }
    }
}

impl Server {
    /// Asks the cold tier and lets the client that wants to know go on.
    pub fn answer(&self, asked: &Asked, client: &ClientShared) {
        let Some(tiering) = self.tiering.get() else { return };
        let refusal = match reply_to(&*tiering.cold, &asked.question) {
            Ok(answer) => {
                client.answers.lock().got = Some((asked.number, answer));
                None
            }
            Err(error) => {
                tiering.counters.loads_failed.fetch_add(1, Ordering::Relaxed);
                Some(format!("TRYAGAIN {error}").into())
            }
        };
        client.deliver(Message::GoOn(refusal));
    }
}

fn reply_to(cold: &dyn ColdTier, question: &Question) -> Result<Answer, ColdError> {
    Ok(match question {
        Question::Page { after, limit } => {
            let after = after.as_ref().map(|(tag, key)| (tag.as_slice(), key.as_slice()));
            Answer::Keys(cold.keys_after(after, *limit)?)
        }
        Question::Matching(pattern) => Answer::Keys(matching(cold, pattern)?),
        Question::Tag(tag) => Answer::Tag(cold.tag(tag)?),
        Question::Tags { prefix, after, limit } => {
            Answer::Tags(tags_with_prefix(cold, prefix, after.as_deref(), *limit)?)
        }
        Question::Survey { known, after, limit } => {
            let known = known.iter().map(|tag| cold.tag(tag));
            let known: Vec<Option<TagRow>> = known.collect::<Result<_, _>>()?;
            Answer::Survey {
                known: known.into_iter().flatten().collect(),
                page: cold.tags_after(after.as_deref(), *limit)?,
            }
        }
        Question::Saved => Answer::Saved,
    })
}

fn matching(cold: &dyn ColdTier, pattern: &[u8]) -> Result<Vec<KeyRow>, ColdError> {
    let mut found = Vec::new();
    let mut last: Option<(Vec<u8>, Vec<u8>)> = None;
    loop {
        let after = last.as_ref().map(|(tag, key)| (tag.as_slice(), key.as_slice()));
        let page = cold.keys_after(after, PAGE)?;
        let Some(end) = page.last() else {
            return Ok(found);
        };
        last = Some((end.tag.clone(), end.key.clone()));
        found.extend(page.into_iter().filter(|row| glob::matches(pattern, &row.key)));
    }
}

/// Lists tags by the order of their keys, which is that of their names. The keys of a tag but for the first
/// ones are skipped: what comes after all of them begins behind the tag and a zero byte.
fn tags_with_prefix(
    cold: &dyn ColdTier,
    prefix: &[u8],
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Vec<TagRow>, ColdError> {
    let behind = |tag: &[u8]| [tag, b"\0"].concat();
    let mut found = Vec::new();
    let mut place = match after {
        Some(tag) => Some(behind(tag)),
        None => (!prefix.is_empty()).then(|| prefix.to_vec()),
    };
    loop {
        let from = place.as_deref().map(|tag| (tag, &b""[..]));
        let mut page = cold.keys_after(from, TAG_PAGE)?;
        let Some(last) = page.last() else {
            return Ok(found);
        };
        place = Some(behind(&last.tag));
        page.dedup_by(|a, b| a.tag == b.tag);
        for key in page {
            if !key.tag.starts_with(prefix) {
                return Ok(found);
            }
            found.extend(cold.tag(&key.tag)?);
            if found.len() >= limit {
                return Ok(found);
            }
        }
    }
}
