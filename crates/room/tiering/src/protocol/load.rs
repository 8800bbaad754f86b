//! What loaders do: bring a tag from the cold tier.

use super::state::{Meta, Run, State, TagState, Token};
use crate::cold::Version;

/// How the beginning of a load ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoadStart {
    /// The tag is the loader's until another one begins.
    Begun,
    /// The tag is resident already.
    Resident,
}

/// Where a chunk of rows comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// The generation that the claim gave.
    pub generation: u64,
    /// The version of the last commit that the claim found.
    pub saved: Version,
    pub is_last: bool,
}

/// What must happen to the keys for one chunk, in the same step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Install<K> {
    /// Another loader has replaced this load: nothing was installed.
    Lost,
    /// The copy in memory is as new as the cold one: nothing, and the remaining chunks are not needed.
    Kept,
    /// First unlink these names, then put the chunk's rows and unlink its tombstones.
    Put { unlink: Vec<K> },
}

/// Begins a load. The base generation was read from the cold tier before.
pub fn begin<K>(tag: &mut TagState<K>, run: Run, token: Token) -> LoadStart {
    let Some(meta) = &mut tag.meta else {
        let state = State::Loading(token);
        tag.meta = Some(Meta {
            run,
            generation: 0,
            snap: 0,
            state,
            keep: false,
        });
        return LoadStart::Begun;
    };
    let is_suspect = meta.run != run;
    match meta.state {
        // The loader may be dead. Its token is replaced, so its claim and chunks will fail.
        State::Loading(_) => (),
        // Keys, dirty names, generation and snap stay until the cold copy was compared with them.
        State::Hot | State::Evicting(_) if is_suspect => meta.keep = true,
        State::Hot | State::Evicting(_) => return LoadStart::Resident,
    }
    meta.run = run;
    meta.state = State::Loading(token);
    LoadStart::Begun
}

/// Installs one chunk of what the claim read.
pub fn install<K>(tag: &mut TagState<K>, run: Run, token: Token, part: Part) -> Install<K> {
    let Some(meta) = tag.meta.as_mut().filter(|meta| meta.run == run) else {
        return Install::Lost;
    };
    if meta.state != State::Loading(token) {
        return Install::Lost;
    }
    let mut unlink = Vec::new();
    if meta.keep {
        meta.keep = false;
        if part.saved <= meta.version() {
            become_hot(meta, part.generation);
            return Install::Kept;
        }
        // Memory is behind its own backup. A key that is not dirty equals its row or has a newer one; the
        // dirty ones belong to a history that the cold copy has overtaken.
        unlink.extend(std::mem::take(&mut tag.dirty).into_keys());
        tag.in_index = false;
    }
    if part.is_last {
        become_hot(meta, part.generation);
    }
    Install::Put { unlink }
}

fn become_hot(meta: &mut Meta, generation: u64) {
    meta.state = State::Hot;
    meta.generation = generation;
    meta.snap = 0;
}

#[cfg(test)]
mod tests {
    use super::super::{register, snapshot, touch};
    use super::*;
    use crate::protocol::Touched;

    const RUN: Run = Run(1);
    const NEXT_RUN: Run = Run(2);

    fn part(generation: u64, saved: (u64, u64), is_last: bool) -> Part {
        let saved = Version {
            generation: saved.0,
            snap: saved.1,
        };
        Part {
            generation,
            saved,
            is_last,
        }
    }

    fn hot_tag() -> TagState<u8> {
        let mut tag = TagState::default();
        begin(&mut tag, RUN, Token(1));
        install(&mut tag, RUN, Token(1), part(2, (1, 1), true));
        tag
    }

    #[test]
    fn a_tag_is_hot_after_its_last_chunk_and_not_before() {
        let mut tag = TagState::<u8>::default();
        assert_eq!(begin(&mut tag, RUN, Token(1)), LoadStart::Begun);
        assert_eq!(
            install(&mut tag, RUN, Token(1), part(4, (3, 9), false)),
            Install::Put { unlink: vec![] }
        );
        assert_eq!(touch(&mut tag, RUN), Touched::Wait);
        install(&mut tag, RUN, Token(1), part(4, (3, 9), true));
        assert_eq!(touch(&mut tag, RUN), Touched::Granted);
        assert_eq!(
            tag.meta.unwrap().version(),
            Version {
                generation: 4,
                snap: 0
            }
        );
        assert_eq!(begin(&mut tag, RUN, Token(2)), LoadStart::Resident);
    }

    #[test]
    fn a_replaced_loader_installs_nothing() {
        let mut tag = TagState::<u8>::default();
        begin(&mut tag, RUN, Token(1));
        assert_eq!(begin(&mut tag, RUN, Token(2)), LoadStart::Begun);
        assert_eq!(
            install(&mut tag, RUN, Token(1), part(2, (1, 1), true)),
            Install::Lost
        );
        assert_eq!(tag.meta.unwrap().state, State::Loading(Token(2)));
    }

    #[test]
    fn a_chunk_from_an_earlier_life_of_the_node_is_lost() {
        let mut tag = TagState::<u8>::default();
        begin(&mut tag, RUN, Token(1));
        assert_eq!(
            install(&mut tag, NEXT_RUN, Token(1), part(2, (1, 1), true)),
            Install::Lost
        );
    }

    #[test]
    fn a_suspect_tag_keeps_its_keys_when_nothing_newer_was_saved() {
        let mut tag = hot_tag();
        register(&mut tag, 5, Token(3));
        snapshot(&mut tag, RUN).unwrap();
        begin(&mut tag, NEXT_RUN, Token(4));
        assert_eq!(
            install(&mut tag, NEXT_RUN, Token(4), part(3, (2, 1), false)),
            Install::Kept
        );
        assert!(tag.dirty.contains_key(&5) && tag.in_index);
        let meta = tag.meta.unwrap();
        assert_eq!(
            (meta.state, meta.generation, meta.snap, meta.keep),
            (State::Hot, 3, 0, false)
        );
    }

    #[test]
    fn a_suspect_tag_behind_its_backup_is_replaced() {
        let mut tag = hot_tag();
        register(&mut tag, 5, Token(3));
        begin(&mut tag, NEXT_RUN, Token(4));
        let first = install(&mut tag, NEXT_RUN, Token(4), part(3, (2, 1), false));
        assert_eq!(first, Install::Put { unlink: vec![5] });
        assert!(tag.dirty.is_empty() && !tag.in_index);
        let last = install(&mut tag, NEXT_RUN, Token(4), part(3, (2, 1), true));
        assert_eq!(last, Install::Put { unlink: vec![] });
        assert_eq!(tag.meta.unwrap().state, State::Hot);
    }

    #[test]
    fn a_second_loader_of_a_suspect_tag_still_compares() {
        let mut tag = hot_tag();
        begin(&mut tag, NEXT_RUN, Token(4));
        begin(&mut tag, NEXT_RUN, Token(5));
        assert!(tag.meta.unwrap().keep);
        assert_eq!(
            install(&mut tag, NEXT_RUN, Token(5), part(3, (1, 1), false)),
            Install::Kept
        );
    }
}
