//! Reads the answers to clients' questions from the cold tier.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nagaya_tiering::cold::{ColdError, ColdTier, KeyRow, TagRow};

use super::Tiering;
use crate::client_shared::{ClientShared, Message};
use crate::cold_query::{Answer, Asked, Question};
use crate::glob;
use crate::keyspace::Keyspace;

/// Keys read from the cold tier at a time.
const PAGE: usize = 10_000;
/// Keys read at a time when only their tags matter.
const TAG_PAGE: usize = 64;

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

impl Keyspace {
    /// Asks the cold tier and lets the client that wants to know go on.
    pub fn answer(&self, asked: &Asked, client: &ClientShared) {
        let Some(tiering) = self.tiering.get() else { return };
        let refusal = match reply_to(&*tiering.cold, &asked.question) {
            Ok(answer) => {
                client.answers.lock().put(asked.number, answer);
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

/// Asks the cold tier and waits for its answer.
pub(crate) fn reply_to(cold: &dyn ColdTier, question: &Question) -> Result<Answer, ColdError> {
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
