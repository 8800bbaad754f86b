//! FLUSHALL and FLUSHDB: all keys of both tiers are listed page by page and deleted as clients delete them.
//!
//! Each tag keeps its own protocol: a tag that is not in memory is loaded, and its deleted keys are saved as
//! tombstones, so that no older copy brings one back. This takes time in proportion to the keys, and requests of
//! others run between its pages. A key that is written meanwhile may stay or go.

use nagaya_reactor::Key;

use super::tag_commands::{self, Page};
use crate::proxy::env::Env;
use crate::proxy::model::Map;
use crate::proxy::model::sessions::Sessions;
use crate::proxy::tag_admin::KeyPlace;

/// The flushes that are under way.
#[derive(Default)]
pub(crate) struct Flushes {
    /// What follows the page that is being deleted; nothing behind the last one.
    next: Map<Key, Option<KeyPlace>>,
}

/// How a flush goes on.
pub(crate) enum FlushStep {
    /// These keys are to be deleted.
    Delete(Vec<Vec<u8>>),
    /// The next page was asked for.
    Asked,
    /// It is done.
    Done,
}

impl Flushes {
    /// Takes a page of keys; those of other services on the same nodes stay.
    pub(crate) fn on_page(&mut self, env: &Env<'_>, sessions: &mut Sessions, page: Page) -> FlushStep {
        let Page {
            client,
            mut names,
            next,
        } = page;
        let hidden = &env.shared.config.hidden;
        names.retain(|name| !hidden.iter().any(|prefix| name.starts_with(prefix)));
        self.next.insert(client, next);
        if names.is_empty() {
            self.go_on(env, sessions, client)
        } else {
            FlushStep::Delete(names)
        }
    }

    /// Returns whether a client's keys are deleted for a flush.
    pub(crate) fn has(&self, client: Key) -> bool {
        self.next.contains_key(&client)
    }

    /// Goes on behind a page that is deleted.
    pub(crate) fn go_on(&mut self, env: &Env<'_>, sessions: &mut Sessions, client: Key) -> FlushStep {
        let next = self.next.remove(&client).flatten();
        let is_asked = next.is_some_and(|next| tag_commands::go_on(env, sessions, client, next));
        if is_asked {
            FlushStep::Asked
        } else {
            FlushStep::Done
        }
    }

    /// Forgets the flush of a client that is gone, or whose keys could not be deleted.
    pub(crate) fn forget(&mut self, client: Key) {
        self.next.remove(&client);
    }
}
