//! Keyspace notifications: which events are published, and the letters that choose them.

/// A set of event classes, as `notify-keyspace-events` spells them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events(pub u32);

impl Events {
    pub const NONE: Events = Events(0);
    pub const KEYSPACE: Events = Events(1); // K
    pub const KEYEVENT: Events = Events(1 << 1); // E
    pub const GENERIC: Events = Events(1 << 2); // g
    pub const STRING: Events = Events(1 << 3); // $
    pub const LIST: Events = Events(1 << 4); // l
    pub const SET: Events = Events(1 << 5); // s
    pub const HASH: Events = Events(1 << 6); // h
    pub const ZSET: Events = Events(1 << 7); // z
    pub const EXPIRED: Events = Events(1 << 8); // x
    pub const EVICTED: Events = Events(1 << 9); // e
    pub const STREAM: Events = Events(1 << 10); // t
    pub const MISS: Events = Events(1 << 11); // m
    pub const MODULE: Events = Events(1 << 13); // d
    pub const NEW: Events = Events(1 << 14); // n
    /// What `A` stands for: everything but misses and new keys.
    pub const ALL: Events = Events(0x7fc | (1 << 13));

    /// Tells whether any class of `other` is in this set.
    pub const fn has(self, other: Events) -> bool {
        self.0 & other.0 != 0
    }

    /// Reads the letters of the setting; nothing on an unknown one.
    pub fn parse(letters: &[u8]) -> Option<Events> {
        let mut events = Events(0);
        for letter in letters {
            if *letter == b'A' {
                events.0 |= Events::ALL.0;
                continue;
            }
            events.0 |= LETTERS.iter().find(|(known, _)| known == letter)?.1.0;
        }
        Some(events)
    }

    /// Writes the letters as CONFIG GET shows them.
    pub fn letters(self) -> String {
        let mut text = String::new();
        let all = self.0 & Events::ALL.0 == Events::ALL.0;
        if all {
            text.push('A');
        }
        for (letter, class) in LETTERS {
            // Redis does not print new keys next to "A" either, though it does not cover them.
            let shown_by_all = all && (Events::ALL.has(*class) || *class == Events::NEW);
            if self.has(*class) && !shown_by_all {
                text.push(*letter as char);
            }
        }
        text
    }
}

const LETTERS: &[(u8, Events)] = &[
    (b'g', Events::GENERIC),
    (b'$', Events::STRING),
    (b'l', Events::LIST),
    (b's', Events::SET),
    (b'h', Events::HASH),
    (b'z', Events::ZSET),
    (b'x', Events::EXPIRED),
    (b'e', Events::EVICTED),
    (b't', Events::STREAM),
    (b'd', Events::MODULE),
    (b'n', Events::NEW),
    (b'K', Events::KEYSPACE),
    (b'E', Events::KEYEVENT),
    (b'm', Events::MISS),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_read_and_print_as_redis_prints_them() {
        for (given, shown) in [
            ("KEA", "AKE"),
            ("K$lszxeg", "g$lszxeK"),
            ("KElshz", "lshzKE"),
            ("", ""),
            ("Knm", "nKm"),
            ("KAn", "AK"),
            ("gKE", "gKE"),
            ("$lshzxeKE", "$lshzxeKE"),
        ] {
            assert_eq!(Events::parse(given.as_bytes()).unwrap().letters(), shown);
        }
        assert_eq!(Events::parse(b"q"), None);
    }
}
