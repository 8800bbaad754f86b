//! What servers do: take leases and announce writes.

use super::state::{Run, State, TagState, Token};

/// What a server may do with a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Touched {
    /// Not resident: load it.
    Cold,
    /// Resident in an earlier run of the node: load it.
    Suspect,
    /// It is being loaded: wait.
    Wait,
    /// The server holds a lease, counted from when it sent the touch. Registrations of the lease before do
    /// not carry over.
    Granted,
}

/// Asks for a lease.
pub fn touch<K>(tag: &mut TagState<K>, run: Run) -> Touched {
    let Some(meta) = &mut tag.meta else {
        return Touched::Cold;
    };
    if meta.run != run {
        return Touched::Suspect;
    }
    if let State::Loading(_) = meta.state {
        return Touched::Wait;
    }
    // The eviction is off: the evictor's token is gone.
    meta.state = State::Hot;
    Touched::Granted
}

/// Announces writes to a key. Comes once per key and lease, ahead of the first write, on its connection.
///
/// Both entries appear in one step: a saver that finds one without the other would never come back for it.
pub fn register<K: Ord>(tag: &mut TagState<K>, key: K, fresh: Token) {
    tag.dirty.insert(key, fresh);
    tag.in_index = true;
}

#[cfg(test)]
mod tests {
    use super::super::{begin, confirm, mark};
    use super::*;

    const RUN: Run = Run(1);

    fn tag_in(state: State) -> TagState<u8> {
        let mut tag = TagState::default();
        begin(&mut tag, RUN, Token(0));
        tag.meta.as_mut().unwrap().state = state;
        tag
    }

    #[test]
    fn a_touch_is_granted_on_a_hot_tag_only() {
        assert_eq!(touch(&mut TagState::<u8>::default(), RUN), Touched::Cold);
        assert_eq!(touch(&mut tag_in(State::Loading(Token(1))), RUN), Touched::Wait);
        assert_eq!(touch(&mut tag_in(State::Hot), RUN), Touched::Granted);
        assert_eq!(touch(&mut tag_in(State::Hot), Run(2)), Touched::Suspect);
    }

    #[test]
    fn a_touch_calls_an_eviction_off() {
        let mut tag = tag_in(State::Hot);
        assert!(mark(&mut tag, RUN, Token(7)));
        assert_eq!(touch(&mut tag, RUN), Touched::Granted);
        assert!(!confirm(&mut tag, RUN, Token(7)));
        assert_eq!(tag.meta.unwrap().state, State::Hot);
    }

    #[test]
    fn a_registration_is_dirty_and_indexed_at_once() {
        let mut tag = tag_in(State::Hot);
        register(&mut tag, 3, Token(8));
        register(&mut tag, 3, Token(9));
        assert_eq!(tag.dirty.into_iter().collect::<Vec<_>>(), [(3, Token(9))]);
        assert!(tag.in_index);
    }
}
