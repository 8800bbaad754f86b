use std::collections::HashMap;

use super::*;

type Model = HashMap<Vec<u8>, Vec<u8>>;

fn contents(hash: &Hash) -> Model {
    hash.iter()
        .map(|(field, value)| (field.to_vec(), value.to_vec()))
        .collect()
}

fn small(pairs: &[(&str, &str)]) -> Hash {
    let mut hash = Hash::new();
    for (field, value) in pairs {
        hash.set(field.as_bytes(), value.as_bytes(), &EncodingLimits::default());
    }
    hash
}

#[test]
fn a_small_hash_keeps_the_order_of_arrival() {
    let mut hash = small(&[("b", "1"), ("a", "x"), ("10", "20"), ("c", "")]);
    assert!(!hash.set(b"b", b"longer value", &EncodingLimits::default()));
    assert!(hash.remove(b"a") && !hash.remove(b"a"));
    let fields: Vec<Vec<u8>> = hash.iter().map(|(field, _)| field.to_vec()).collect();
    assert_eq!(fields, [&b"b"[..], b"10", b"c"]);
    assert_eq!(hash.get(b"10"), Some(Item::Int(20)));
    assert_eq!(hash.encoding(), "listpack");
}

#[test]
fn a_value_is_never_mistaken_for_a_field() {
    let hash = small(&[("a", "b"), ("b", "a")]);
    assert_eq!(hash.get(b"b"), Some(Item::Str(b"a")));
    assert!(!small(&[("a", "b")]).contains(b"b"));
}

#[test]
fn limits_on_entries_and_lengths_make_a_table() {
    let limits = EncodingLimits {
        hash_max_listpack_entries: 2,
        hash_max_listpack_value: 4,
        ..EncodingLimits::default()
    };
    let encoding_after = |pairs: &[(&[u8], &[u8])]| {
        let mut hash = Hash::new();
        for (field, value) in pairs {
            hash.set(field, value, &limits);
        }
        hash.encoding()
    };
    assert_eq!(encoding_after(&[(b"a", b"1234"), (b"b", b"2")]), "listpack");
    assert_eq!(
        encoding_after(&[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]),
        "hashtable"
    );
    assert_eq!(encoding_after(&[(b"a", b"12345")]), "hashtable");
    assert_eq!(encoding_after(&[(b"abcde", b"1")]), "hashtable");
}

#[test]
fn behaves_as_a_std_map_across_the_conversion() {
    for seed in 0..20usize {
        let mut rng = Rng::seeded(seed as u64);
        let limits = EncodingLimits {
            hash_max_listpack_entries: 20,
            ..EncodingLimits::default()
        };
        let (mut hash, mut model) = (Hash::new(), Model::new());
        for _ in 0..2_000 {
            let n = rng.below(10 + seed * 15);
            let field = if n.is_multiple_of(2) {
                n.to_string()
            } else {
                format!("field:{n}")
            }
            .into_bytes();
            let value = "v".repeat(rng.below(60)).into_bytes();
            if rng.below(3) > 0 {
                assert_eq!(hash.set(&field, &value, &limits), !model.contains_key(&field));
                model.insert(field, value);
            } else {
                assert_eq!(hash.remove(&field), model.remove(&field).is_some());
            }
            assert_eq!(hash.len(), model.len());
        }
        assert_eq!(contents(&hash), model);
        assert_eq!(contents(&hash.clone()), model);
        for (field, value) in &model {
            assert!(hash.contains(field) && hash.get(field).is_some_and(|item| item.eq_bytes(value)));
            assert_eq!(hash.value_len(field), value.len());
        }
        let (field, value) = hash.random(&mut rng).expect("not empty");
        assert_eq!(model.get(&field.to_vec()), Some(&value.to_vec()));
    }
}

#[test]
fn a_scan_returns_every_field_and_a_listpack_in_one_go() {
    let hash = small(&[("a", "1"), ("b", "2")]);
    let mut seen = 0;
    assert_eq!(hash.scan(0, |_, _| seen += 1), 0);
    assert_eq!(seen, 2);
    let mut large = Hash::new();
    for n in 0..500 {
        large.set(format!("field:{n}").as_bytes(), b"v", &EncodingLimits::default());
    }
    let (mut cursor, mut seen) = (0, Model::new());
    loop {
        cursor = large.scan(cursor, |field, value| {
            seen.insert(field.to_vec(), value.to_vec());
        });
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen, contents(&large));
}

#[test]
fn a_listpack_from_outside_is_checked() {
    let pack = |items: &[&str]| {
        let mut pack = Listpack::new();
        items.iter().for_each(|item| pack.push_back(item.as_bytes()));
        pack
    };
    let limits = EncodingLimits::default();
    assert!(Hash::from_listpack(pack(&[]), &limits).is_none());
    assert!(Hash::from_listpack(pack(&["a"]), &limits).is_none());
    assert!(Hash::from_listpack(pack(&["a", "1", "a", "2"]), &limits).is_none());
    let hash = Hash::from_listpack(pack(&["a", "1", "b", "1"]), &limits).expect("well formed");
    assert_eq!((hash.len(), hash.encoding()), (2, "listpack"));
    let long = "x".repeat(65);
    let hash = Hash::from_listpack(pack(&["a", &long]), &limits).expect("well formed");
    assert_eq!((hash.len(), hash.encoding()), (1, "hashtable"));
}

#[test]
fn a_five_field_hash_is_one_block_with_little_slack() {
    let mut hash = Hash::new();
    for n in 0..5 {
        hash.set(
            format!("field{n}").as_bytes(),
            format!("value{n}").as_bytes(),
            &EncodingLimits::default(),
        );
    }
    let bytes = hash.as_listpack().expect("small").bytes_len();
    assert_eq!(size_of::<Hash>(), 16);
    assert!(
        hash.mem_bytes() <= 16 + bytes + 16,
        "{} for {bytes}",
        hash.mem_bytes()
    );
}
