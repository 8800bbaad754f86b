//! What is left on the disk of a tag that was erased.

use nagaya_tiering::cold::ColdTier;

use crate::support::{Place, assert_sound, gone, put, save};

fn has_bytes(place: &Place, needle: &[u8]) -> bool {
    let path = place.path();
    let wal = path.with_file_name("cold.db-wal");
    [path, wal].iter().any(|path| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(needle.len()).any(|window| window == needle)
    })
}

#[test]
fn a_tag_without_keys_is_forgotten_once_the_checkpoint_has_passed_it() {
    let place = Place::new();
    let cold = place.open();
    save(&cold, b"t", 5, vec![put(b"k", b"v")]);
    assert!(cold.forget(b"t", 9).unwrap(), "it has a key");
    save(&cold, b"t", 7, vec![gone(b"k")]);
    assert!(cold.forget(b"t", 6).unwrap(), "the log would be replayed on it");
    assert!(!cold.forget(b"t", 7).unwrap());
    assert_eq!(cold.tag(b"t").unwrap(), None);
    assert!(!cold.forget(b"never", 7).unwrap());
    assert_sound(&cold);
}

#[test]
fn nothing_of_an_erased_tag_is_in_the_files() {
    let place = Place::new();
    let cold = place.open();
    let noise = |seed: u32| -> Vec<u8> {
        let mut state = seed;
        let bytes = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        bytes.take(30_000).collect()
    };
    let large = noise(1);
    save(
        &cold,
        b"t",
        1,
        vec![put(b"small", b"very secret"), put(b"large", &large)],
    );
    save(&cold, b"other", 1, vec![put(b"k", &noise(2))]);
    assert!(has_bytes(&place, b"very secret") && has_bytes(&place, &large[9_000..9_100]));
    save(&cold, b"t", 2, vec![gone(b"small"), gone(b"large")]);
    assert!(!cold.forget(b"t", 2).unwrap());
    cold.empty_wal().unwrap();
    assert!(!has_bytes(&place, b"very secret") && !has_bytes(&place, b"small"));
    for at in [0, 9_000, 20_000, 29_000] {
        assert!(!has_bytes(&place, &large[at..at + 100]), "{at}");
    }
    assert_sound(&cold);
}
