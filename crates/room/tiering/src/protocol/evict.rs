//! What evictors do: take a tag out of memory that is whole in the cold tier.

use super::state::{Run, State, TagState, Token};

/// Marks a tag for eviction; returns whether it is marked. The list of names is read after this.
pub fn mark<K>(tag: &mut TagState<K>, run: Run, token: Token) -> bool {
    if !tag.dirty.is_empty() {
        return false;
    }
    let Some(meta) = tag.meta_of(run) else {
        return false;
    };
    if let State::Loading(_) = meta.state {
        return false;
    }
    // Also over another evictor's mark: that one may be dead.
    meta.state = State::Evicting(token);
    true
}

/// Ends the residency of a marked tag, when the wait is over; returns whether the keys must go, in the same
/// step.
pub fn confirm<K>(tag: &mut TagState<K>, run: Run, token: Token) -> bool {
    if !tag.dirty.is_empty() {
        return false;
    }
    let Some(meta) = tag.meta_of(run) else {
        return false;
    };
    if meta.state != State::Evicting(token) {
        return false;
    }
    tag.meta = None;
    true
}

#[cfg(test)]
mod tests {
    use super::super::{Part, begin, install, register};
    use super::*;
    use crate::cold::Version;

    const RUN: Run = Run(1);

    fn hot_tag() -> TagState<u8> {
        let mut tag = TagState::default();
        begin(&mut tag, RUN, Token(1));
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
    fn a_marked_tag_goes_when_nothing_happened_since() {
        let mut tag = hot_tag();
        assert!(mark(&mut tag, RUN, Token(7)));
        assert!(confirm(&mut tag, RUN, Token(7)));
        assert_eq!(tag.meta, None);
        assert!(!confirm(&mut tag, RUN, Token(7)));
    }

    #[test]
    fn a_dirty_tag_is_neither_marked_nor_confirmed() {
        let mut tag = hot_tag();
        assert!(mark(&mut tag, RUN, Token(7)));
        register(&mut tag, 5, Token(3));
        assert!(!confirm(&mut tag, RUN, Token(7)));
        assert!(!mark(&mut tag, RUN, Token(8)));
    }

    #[test]
    fn a_mark_takes_over_from_a_dead_evictor() {
        let mut tag = hot_tag();
        assert!(mark(&mut tag, RUN, Token(7)));
        assert!(mark(&mut tag, RUN, Token(8)));
        assert!(!confirm(&mut tag, RUN, Token(7)));
        assert!(confirm(&mut tag, RUN, Token(8)));
    }

    #[test]
    fn a_missing_loading_or_suspect_tag_is_not_marked() {
        let mut loading = TagState::<u8>::default();
        assert!(!mark(&mut loading, RUN, Token(7)));
        begin(&mut loading, RUN, Token(1));
        assert!(!mark(&mut loading, RUN, Token(7)));
        assert!(!mark(&mut hot_tag(), Run(2), Token(7)));
    }

    #[test]
    fn a_tag_of_an_earlier_life_is_not_confirmed() {
        let mut tag = hot_tag();
        assert!(mark(&mut tag, RUN, Token(7)));
        assert!(!confirm(&mut tag, Run(2), Token(7)));
    }
}
