//! What savers do: copy changed keys to the cold tier.

use super::state::{Run, State, TagState, Token};
use crate::cold::Version;

/// The changed keys of a tag at one instant. The caller adds their values in the same step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Taken<K> {
    pub version: Version,
    /// Each changed key with the token of its last registration.
    pub keys: Vec<(K, Token)>,
}

/// Takes a snapshot; `None` when the tag is not resident or suspect.
pub fn snapshot<K: Clone>(tag: &mut TagState<K>, run: Run) -> Option<Taken<K>> {
    let meta = tag.meta_of(run)?;
    if let State::Loading(_) = meta.state {
        return None;
    }
    // A key that was made after the evictor read its list is known to this snapshot only: the eviction is
    // off, or the key would be left behind.
    meta.state = State::Hot;
    meta.snap += 1;
    let version = meta.version();
    let keys = tag
        .dirty
        .iter()
        .map(|(key, token)| (key.clone(), *token))
        .collect();
    Some(Taken { version, keys })
}

/// Takes keys off the dirty list whose snapshot was committed and whose token was seen long enough before it.
/// Returns whether the tag has no dirty key left.
pub fn remove<K: Ord>(tag: &mut TagState<K>, run: Run, generation: u64, settled: &[(K, Token)]) -> bool {
    let Some(meta) = tag.meta_of(run) else {
        return false;
    };
    if let State::Loading(_) = meta.state {
        return false;
    }
    if meta.generation != generation {
        return false;
    }
    for (key, token) in settled {
        if tag.dirty.get(key) == Some(token) {
            tag.dirty.remove(key);
        }
    }
    if tag.dirty.is_empty() {
        tag.in_index = false;
    }
    tag.dirty.is_empty()
}

#[cfg(test)]
mod tests {
    use super::super::{Part, begin, confirm, install, mark, register};
    use super::*;

    const RUN: Run = Run(1);

    fn loading_tag() -> TagState<u8> {
        let mut tag = TagState::default();
        begin(&mut tag, RUN, Token(1));
        tag
    }

    fn hot_tag() -> TagState<u8> {
        let mut tag = loading_tag();
        install(
            &mut tag,
            RUN,
            Token(1),
            Part {
                generation: 2,
                saved: Version::default(),
                is_last: true,
            },
        );
        tag
    }

    #[test]
    fn snapshots_are_numbered_within_their_residency() {
        let mut tag = hot_tag();
        register(&mut tag, 5, Token(3));
        for snap in 1..4 {
            let taken = snapshot(&mut tag, RUN).unwrap();
            assert_eq!(taken.version, Version { generation: 2, snap });
            assert_eq!(taken.keys, [(5, Token(3))]);
        }
    }

    #[test]
    fn no_snapshot_of_a_tag_that_is_missing_loading_or_suspect() {
        assert_eq!(snapshot(&mut TagState::<u8>::default(), RUN), None);
        assert_eq!(snapshot(&mut loading_tag(), RUN), None);
        assert_eq!(snapshot(&mut hot_tag(), Run(2)), None);
    }

    #[test]
    fn a_snapshot_calls_an_eviction_off() {
        let mut tag = hot_tag();
        assert!(mark(&mut tag, RUN, Token(9)));
        snapshot(&mut tag, RUN).unwrap();
        assert!(!confirm(&mut tag, RUN, Token(9)));
    }

    #[test]
    fn a_key_that_was_registered_again_stays_dirty() {
        let mut tag = hot_tag();
        register(&mut tag, 5, Token(3));
        register(&mut tag, 6, Token(4));
        let taken = snapshot(&mut tag, RUN).unwrap();
        register(&mut tag, 5, Token(5));
        assert!(!remove(&mut tag, RUN, 2, &taken.keys));
        assert_eq!(tag.dirty.iter().collect::<Vec<_>>(), [(&5, &Token(5))]);
        assert!(tag.in_index);
        assert!(remove(&mut tag, RUN, 2, &[(5, Token(5))]));
        assert!(!tag.in_index);
    }

    #[test]
    fn nothing_is_removed_for_another_residency_or_run() {
        let mut tag = hot_tag();
        register(&mut tag, 5, Token(3));
        assert!(!remove(&mut tag, RUN, 1, &[(5, Token(3))]));
        assert!(!remove(&mut tag, Run(2), 2, &[(5, Token(3))]));
        assert_eq!(tag.dirty.len(), 1);
    }
}
