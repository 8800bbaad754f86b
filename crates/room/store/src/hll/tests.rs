use super::*;
use crate::rng::Rng;

fn filled(elements: impl Iterator<Item = u64>, bytes_max: usize) -> Vec<u8> {
    let mut value = empty();
    for element in elements {
        add(&mut value, element.to_string().as_bytes(), bytes_max).expect("the value is ours");
    }
    value
}

#[test]
fn an_empty_value_is_eighteen_bytes_and_counts_zero() {
    let value = empty();
    assert_eq!(value, b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff");
    assert_eq!(count(&value), Ok(0));
    assert_eq!(cached_count(&value), Some(0));
}

#[test]
fn sparse_runs_match_those_of_redis() {
    let mut value = empty();
    for element in ["a", "b", "c", "d", "e"] {
        add(&mut value, element.as_bytes(), 3000).expect("the value is ours");
    }
    assert_eq!(count(&value), Ok(5));
    assert!(sparse_text(&value).starts_with("Z:"), "{}", sparse_text(&value));
}

#[test]
fn dense_and_sparse_agree_at_every_size() {
    for n in [0, 1, 5, 50, 400, 1_500] {
        let sparse = filled(0..n, usize::MAX);
        let dense = filled(0..n, 0);
        assert_eq!(count(&sparse), count(&dense));
        let mut promoted = sparse.clone();
        make_dense(&mut promoted).expect("the value is ours");
        assert_eq!(promoted[HEADER_BYTES..].len(), DENSE_BYTES - HEADER_BYTES);
        if n > 0 {
            assert_eq!(promoted[HEADER_BYTES..], dense[HEADER_BYTES..]);
        }
    }
}

#[test]
fn a_sparse_value_turns_dense_past_its_byte_limit() {
    let mut value = empty();
    let mut n = 0u64;
    while !is_dense(&value) {
        assert!(value.len() <= 3000);
        add(&mut value, &n.to_le_bytes(), 3000).expect("the value is ours");
        n += 1;
    }
    assert!(n > 1_000 && is_valid(&value));
}

#[test]
fn a_union_counts_as_the_whole() {
    let whole = filled(0..3_000, 3000);
    let mut union = Union::default();
    union.add(&filled(0..2_000, 3000)).expect("ours");
    union.add(&filled(1_000..3_000, 10_000)).expect("ours");
    assert_eq!(Ok(union.count()), count(&whole));
    let mut merged = empty();
    raise_all(&mut merged, &union, 3000).expect("ours");
    assert_eq!(count(&merged), count(&whole));
}

#[test]
fn corrupt_runs_are_noticed_and_never_panic() {
    let mut rng = Rng::seeded(2);
    for _ in 0..3_000 {
        let mut value = filled(0..rng.below(60) as u64, 3000);
        for _ in 0..=rng.below(3) {
            let at = HEADER_BYTES + rng.below(value.len() - HEADER_BYTES);
            value[at] = rng.next_u64() as u8;
        }
        value.truncate(HEADER_BYTES + rng.below(value.len() - HEADER_BYTES + 1));
        let _ = count(&value);
        let _ = Union::default().add(&value);
        let _ = add(&mut value.clone(), b"x", 3000);
        let _ = make_dense(&mut value);
    }
    let mut short = empty();
    short.truncate(HEADER_BYTES);
    assert_eq!(count(&short), Err(Corrupt));
    assert_eq!(add(&mut short, b"x", 3000), Err(Corrupt));
}

#[test]
fn a_cut_off_opcode_is_split_as_redis_splits_it() {
    let mut value = empty();
    value.truncate(HEADER_BYTES);
    value.extend_from_slice(&[0x43, 0xcd, 0x43]);
    let index = 0x3cd + 1 + 0x2ff;
    assert!(matches!(
        raise_sparse(&mut value, index, 4, 3000),
        Ok(Raised::Changed)
    ));
    assert_eq!(value[HEADER_BYTES..], [0x43, 0xcd, 0x42, 0xfe, 0x8c]);
}

#[test]
fn the_self_test_passes() {
    assert_eq!(self_test(1, 3000), Ok(()));
}
