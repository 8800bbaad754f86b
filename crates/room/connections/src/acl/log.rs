//! What was refused lately, for ACL LOG.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::acl::check::Reason;

/// Where a refused request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    Toplevel,
    Multi,
    Lua,
}

impl Context {
    pub fn name(self) -> &'static str {
        match self {
            Context::Toplevel => "toplevel",
            Context::Multi => "multi",
            Context::Lua => "lua",
        }
    }
}

impl Reason {
    pub fn name(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Auth => "auth",
            Reason::Channel => "channel",
        }
    }
}

/// One kind of refusal and how often it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub count: u64,
    pub reason: Reason,
    pub context: Context,
    pub object: Vec<u8>,
    pub user: Vec<u8>,
    /// When it happened last, in Unix milliseconds.
    pub at_ms: i64,
    /// The connection that it happened to last.
    pub client_info: String,
}

/// Refusals no further apart than this are one entry.
const GROUPING_MS: i64 = 60_000;
/// How many of the latest entries are searched for one to join.
const GROUPING_DEPTH: usize = 10;

/// The latest refusals.
#[derive(Default)]
pub struct Log {
    entries: Mutex<VecDeque<Entry>>,
}

impl Log {
    /// Adds a refusal: to an entry of its kind, or as a new one, at the cost of the oldest.
    pub fn add(&self, entry: Entry, max_len: usize) {
        let mut entries = self.entries.lock();
        let same_kind = |known: &Entry| {
            known.reason == entry.reason
                && known.context == entry.context
                && (known.at_ms - entry.at_ms).abs() <= GROUPING_MS
                && known.object == entry.object
                && known.user == entry.user
        };
        let known = entries.iter().take(GROUPING_DEPTH).position(same_kind);
        let joined = match known.and_then(|at| entries.remove(at)) {
            Some(known) => Entry {
                count: known.count + 1,
                ..entry
            },
            None => entry,
        };
        entries.push_front(joined);
        if known.is_none() {
            entries.truncate(max_len);
        }
    }

    /// Returns the latest entries, newest first.
    pub fn latest(&self, count: usize) -> Vec<Entry> {
        self.entries.lock().iter().take(count).cloned().collect()
    }

    pub fn clear(&self) {
        self.entries.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(object: &str, at_ms: i64) -> Entry {
        Entry {
            count: 1,
            reason: Reason::Key,
            context: Context::Toplevel,
            object: object.into(),
            user: b"u".to_vec(),
            at_ms,
            client_info: String::new(),
        }
    }

    #[test]
    fn refusals_of_one_kind_within_a_minute_are_one_entry() {
        let log = Log::default();
        log.add(entry("a", 0), 128);
        log.add(entry("b", 10), 128);
        log.add(entry("a", 60_000), 128);
        log.add(entry("a", 120_001), 128);
        let counts: Vec<(u64, Vec<u8>)> = log.latest(10).into_iter().map(|e| (e.count, e.object)).collect();
        assert_eq!(
            counts,
            [(1, b"a".to_vec()), (2, b"a".to_vec()), (1, b"b".to_vec())]
        );
    }

    #[test]
    fn the_oldest_entries_make_room() {
        let log = Log::default();
        (0..10).for_each(|n| log.add(entry(&format!("k{n}"), n), 5));
        assert_eq!(log.latest(100).len(), 5);
        assert_eq!(log.latest(1)[0].object, b"k9");
        log.clear();
        assert!(log.latest(1).is_empty());
    }
}
