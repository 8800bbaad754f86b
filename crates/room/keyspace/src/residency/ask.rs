//! Reads the answers to clients' questions from the cold tier.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nagaya_command_spec::glob;
use nagaya_connections::client::{Client, Message};
use nagaya_connections::cold_query::{ColdAnswer, ColdQuery, NumberedQuery};
use nagaya_tiering::cold::{ColdError, ColdTier, KeyRow, TagRow};

use crate::databases::{before_names_of, behind_names_of, split_name, tag_name};
use crate::keyspace::Keyspace;
use crate::residency::cursors::ColdPlace;
use crate::residency::tiering::Tiering;

/// Keys read from the cold tier at a time.
const PAGE: usize = 10_000;
/// Keys read at a time when only their tags matter.
const TAG_PAGE: usize = 64;

impl Tiering {
    /// Passes a query on to the threads that read the cold tier.
    pub fn pass_on(&self, query: ColdQuery, client: &Arc<Client>) {
        if query == ColdQuery::Saved {
            self.wait_for_save(client);
        } else {
            let number = {
                let mut answers = client.answers.lock();
                if answers.is_awaited() {
                    // The request has run again before its answer is there.
                    return;
                }
                answers.number()
            };
            let asked = NumberedQuery { number, query };
            let client = Arc::clone(client);
            // When the receiver is gone, the engine is ending and so are its clients.
            self.loads
                .send(crate::residency::tiering::ColdRequest::Ask(asked, client))
                .ok();
        }
    }
}

impl Keyspace {
    /// Asks the cold tier and lets the client that wants to know go on.
    pub fn answer(&self, asked: &NumberedQuery, client: &Client) {
        let Some(tiering) = self.tiering.get() else { return };
        let answer = reply_to(&*tiering.cold, &asked.query);
        self.pass_answer(asked.number, answer.map_err(|error| error.to_string()), client);
    }

    /// Gives a client the answer to its question, or the reason why there is none, and lets it go on.
    pub fn pass_answer(&self, number: u64, answer: Result<ColdAnswer, String>, client: &Client) {
        let refusal = match answer {
            Ok(answer) => {
                client.answers.lock().put(number, answer);
                None
            }
            Err(reason) => {
                if let Some(tiering) = self.tiering.get() {
                    tiering.counters.loads_failed.fetch_add(1, Ordering::Relaxed);
                }
                client.answers.lock().forget();
                Some(format!("TRYAGAIN {reason}").into())
            }
        };
        client.deliver(Message::Resume(refusal));
    }
}

/// Asks the cold tier and waits for its answer.
pub fn reply_to(cold: &dyn ColdTier, query: &ColdQuery) -> Result<ColdAnswer, ColdError> {
    Ok(match query {
        ColdQuery::Page { space, after, limit } => {
            ColdAnswer::Keys(keys_of_space(cold, *space, after.clone(), *limit)?)
        }
        ColdQuery::Matching { space, pattern } => ColdAnswer::Keys(matching(cold, *space, pattern)?),
        ColdQuery::Tag(tag) => ColdAnswer::Tag(cold.tag(tag)?),
        ColdQuery::Tags {
            space,
            prefix,
            after,
            limit,
        } => ColdAnswer::Tags(tags_with_prefix(
            cold,
            (*space, prefix),
            after.as_deref(),
            *limit,
        )?),
        ColdQuery::Survey { known, after, limit } => {
            let known = known.iter().map(|tag| cold.tag(tag));
            let known: Vec<Option<TagRow>> = known.collect::<Result<_, _>>()?;
            ColdAnswer::Survey {
                known: known.into_iter().flatten().collect(),
                page: cold.tags_after(after.as_deref(), *limit)?,
            }
        }
        ColdQuery::Saved => ColdAnswer::Saved,
    })
}

/// Lists up to `limit` keys of a space after a place. Fewer mean that there are no more.
fn keys_of_space(
    cold: &dyn ColdTier,
    space: usize,
    after: Option<ColdPlace>,
    limit: usize,
) -> Result<Vec<KeyRow>, ColdError> {
    let mut place = after.or_else(|| before_names_of(space).map(|name| (name, Vec::new())));
    let mut found: Vec<KeyRow> = Vec::new();
    loop {
        let from = place.as_ref().map(|(tag, key)| (tag.as_slice(), key.as_slice()));
        let page = cold.keys_after(from, limit)?;
        let Some(last) = page.last() else {
            return Ok(found);
        };
        let (last_space, is_whole) = (split_name(&last.tag).0, page.len() >= limit);
        place = Some(match last_space {
            other if other != space && other > 0 => (behind_names_of(other), Vec::new()),
            _ => (last.tag.clone(), last.key.clone()),
        });
        let is_behind = space > 0 && last.tag >= behind_names_of(space);
        let own = page.into_iter().filter(|row| split_name(&row.tag).0 == space);
        found.extend(own);
        if found.len() >= limit || !is_whole || is_behind {
            found.truncate(limit);
            return Ok(found);
        }
    }
}

fn matching(cold: &dyn ColdTier, space: usize, pattern: &[u8]) -> Result<Vec<KeyRow>, ColdError> {
    let mut found = Vec::new();
    let mut last = None;
    loop {
        let page = keys_of_space(cold, space, last.take(), PAGE)?;
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
    (space, prefix): (usize, &[u8]),
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Vec<TagRow>, ColdError> {
    let prefix = &*tag_name(space, prefix);
    let behind = |tag: &[u8]| [tag, b"\0"].concat();
    let mut found = Vec::new();
    let mut place = match after {
        Some(tag) => Some(behind(&tag_name(space, tag))),
        None => (!prefix.is_empty()).then(|| prefix.to_vec()),
    };
    loop {
        let from = place.as_deref().map(|tag| (tag, &b""[..]));
        let mut page = cold.keys_after(from, TAG_PAGE)?;
        let Some(last) = page.last() else {
            return Ok(found);
        };
        place = Some(match split_name(&last.tag).0 {
            other if other != space && other > 0 => behind_names_of(other),
            _ => behind(&last.tag),
        });
        page.dedup_by(|a, b| a.tag == b.tag);
        for key in page {
            if !key.tag.starts_with(prefix) {
                return Ok(found);
            }
            // The names of other spaces lie between those of space 0.
            if split_name(&key.tag).0 != space {
                continue;
            }
            found.extend(cold.tag(&key.tag)?);
            if found.len() >= limit {
                return Ok(found);
            }
        }
    }
}
