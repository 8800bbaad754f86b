//! Keyspace notifications: which channels they come on, and which of them are told to clients.
//!
//! A node tells of every change, also of our own names and of keys that a load or an eviction moves between
//! the tiers. The scripts that move keys do it between two changes of a name of their own
//! ([`crate::hot_tier::keys::quiet`]), and a node tells of changes in their order, so that what is between
//! the two is known to be no change at all.

use crate::hot_tier::keys::{is_quiet_mark, is_reserved};

const KEYSPACE: &[u8] = b"__keyspace@";
const KEYEVENT: &[u8] = b"__keyevent@";
/// The pattern that a node is asked for. It differs from what clients use, and matches nothing else.
pub(crate) const ALL_EVENTS: &[u8] = b"__key[es]*@*__:*";

/// Returns whether messages on a channel are notifications.
pub(crate) fn is_event_channel(channel: &[u8]) -> bool {
    channel.starts_with(KEYSPACE) || channel.starts_with(KEYEVENT)
}

/// Returns whether a pattern may match channels of notifications.
pub(crate) fn may_match_events(pattern: &[u8]) -> bool {
    let is_special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
    let literal = &pattern[..pattern.iter().position(is_special).unwrap_or(pattern.len())];
    let fits = |prefix: &[u8]| literal.starts_with(prefix) || prefix.starts_with(literal);
    fits(KEYSPACE) || fits(KEYEVENT)
}

/// A notification, with the channel as clients know it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeyEvent {
    pub(crate) channel: Vec<u8>,
}

/// What one node has told so far, as far as later notifications depend on it.
#[derive(Debug, Default)]
pub(crate) struct EventFilter {
    /// Keys are being moved between the tiers.
    is_quiet: bool,
}

impl EventFilter {
    /// Returns the notification that clients are told, if they are told of it. `db` is the database of the
    /// node that clients see as number 0.
    pub(crate) fn accept(
        &mut self,
        db: u32,
        hidden: &[Vec<u8>],
        channel: &[u8],
        payload: &[u8],
    ) -> Option<KeyEvent> {
        let is_keyspace = channel.starts_with(KEYSPACE);
        let kind = if is_keyspace { KEYSPACE } else { KEYEVENT };
        let rest = channel.strip_prefix(kind)?;
        let digits = rest.iter().position(|byte| *byte == b'_')?;
        let subject = rest[digits..].strip_prefix(b"__:")?;
        if rest[..digits] != *db.to_string().as_bytes() {
            return None;
        }
        let (key, event) = if is_keyspace {
            (subject, payload)
        } else {
            (payload, subject)
        };
        if is_quiet_mark(key) {
            self.is_quiet = event != b"del" && event != b"expired";
            return None;
        }
        if self.is_quiet || is_reserved(key) || hidden.iter().any(|prefix| key.starts_with(prefix)) {
            return None;
        }
        let channel = [kind, b"0__:", subject].concat();
        Some(KeyEvent { channel })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hot_tier::keys;

    fn told(filter: &mut EventFilter, channel: &str, payload: &str) -> Option<String> {
        let hidden = [b"ids:".to_vec()];
        let event = filter.accept(3, &hidden, channel.as_bytes(), payload.as_bytes());
        event.map(|event| String::from_utf8(event.channel).unwrap())
    }

    #[test]
    fn clients_hear_of_their_own_keys_in_database_0() {
        let mut filter = EventFilter::default();
        let heard = told(&mut filter, "__keyspace@3__:a__:b", "set");
        assert_eq!(heard.as_deref(), Some("__keyspace@0__:a__:b"));
        let heard = told(&mut filter, "__keyevent@3__:set", "a");
        assert_eq!(heard.as_deref(), Some("__keyevent@0__:set"));
        for (channel, payload) in [
            ("__keyevent@0__:set", "a"),
            ("__keyevent@33__:set", "a"),
            ("__keyevent@3__:hset", "_room:{a}:meta"),
            ("__keyspace@3__:ids:1", "set"),
            ("__keyspace@3", "set"),
            ("__keyspace@", "set"),
            ("other", "set"),
        ] {
            assert_eq!(told(&mut filter, channel, payload), None, "{channel} {payload}");
        }
    }

    #[test]
    fn what_is_between_the_marks_is_not_told() {
        let mark = String::from_utf8(keys::quiet(7)).unwrap();
        for (begin, end) in [
            (
                ("__keyevent@3__:expire".to_owned(), mark.clone()),
                ("__keyevent@3__:del".to_owned(), mark.clone()),
            ),
            (
                (format!("__keyspace@3__:{mark}"), "expire".to_owned()),
                (format!("__keyspace@3__:{mark}"), "del".to_owned()),
            ),
            (
                ("__keyevent@3__:set".to_owned(), mark.clone()),
                ("__keyevent@3__:expired".to_owned(), mark.clone()),
            ),
        ] {
            let mut filter = EventFilter::default();
            assert_eq!(told(&mut filter, &begin.0, &begin.1), None);
            assert_eq!(told(&mut filter, "__keyevent@3__:restore", "a"), None);
            assert_eq!(told(&mut filter, &end.0, &end.1), None);
            assert!(told(&mut filter, "__keyevent@3__:set", "a").is_some());
        }
    }

    #[test]
    fn patterns_that_may_match_are_known() {
        for pattern in [
            "*",
            "__key*__:*",
            "__keyevent@*:expired",
            "[_]*",
            "__keyspace@0__:user*",
            "__keyevent@0__:del",
        ] {
            assert!(may_match_events(pattern.as_bytes()), "{pattern}");
        }
        for pattern in ["user:*", "__keys", "_", "__keyspacex*"] {
            let expected = "__keyspace@".starts_with(pattern);
            assert_eq!(may_match_events(pattern.as_bytes()), expected, "{pattern}");
        }
    }
}
