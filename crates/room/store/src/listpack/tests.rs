use super::*;
use crate::rng::Rng;

fn pack(items: &[&str]) -> Listpack {
    let mut pack = Listpack::new();
    for item in items {
        pack.push_back(item.as_bytes());
    }
    pack
}

fn texts(pack: &Listpack) -> Vec<Vec<u8>> {
    pack.iter().map(|item| item.to_vec()).collect()
}

/// Returns an element of a random kind, so that every encoding turns up.
fn element(rng: &mut Rng) -> Vec<u8> {
    match rng.below(10) {
        0..4 => (rng.next_u64() as i64 >> rng.below(64)).to_string().into_bytes(),
        4 => vec![b'x'; 64 + rng.below(200)],
        5 if rng.below(20) == 0 => vec![b'y'; 4090 + rng.below(20_000)],
        _ => (0..rng.below(20)).map(|_| rng.next_u64() as u8).collect(),
    }
}

fn check_whole(pack: &Listpack, model: &[Vec<u8>]) {
    assert_eq!(pack.len(), model.len());
    assert_eq!(texts(pack), model);
    let mut back: Vec<_> = pack.iter_rev().map(|item| item.to_vec()).collect();
    back.reverse();
    assert_eq!(back, model);
    assert_eq!(
        Listpack::from_bytes(pack.as_bytes().to_vec()).as_ref(),
        Some(pack)
    );
}

#[test]
fn the_bytes_are_those_redis_writes() {
    // DUMP of a list holding a, 127, 128, -1, 1024: node bytes of redis-server 7.0.15.
    let pack = pack(&["a", "127", "128", "-1", "1024"]);
    let expected = b"\x15\0\0\0\x05\0\x81a\x02\x7f\x01\xc0\x80\x02\xdf\xff\x02\xc4\0\x02\xff";
    assert_eq!(pack.as_bytes(), expected);
}

#[test]
fn every_integer_width_comes_back() {
    let mut expected = vec![0];
    for bits in 1..64 {
        for near in [-1, 0, 1] {
            let edge = (1i64 << (bits - 1)).wrapping_add(near);
            expected.extend([edge, edge.wrapping_neg()]);
        }
    }
    expected.extend([i64::MAX, i64::MIN]);
    let mut by_int = Listpack::new();
    let mut by_text = Listpack::new();
    for &int in &expected {
        by_int.push_back_int(int);
        by_text.push_back(int.to_string().as_bytes());
    }
    assert_eq!(by_int, by_text);
    assert_eq!(
        by_int.iter().map(|item| item.int().unwrap()).collect::<Vec<_>>(),
        expected
    );
    assert!(by_int.iter().all(|item| matches!(item, Item::Int(_))));
}

#[test]
fn random_edits_match_a_vector() {
    for seed in 0..60 {
        let mut rng = Rng::seeded(seed);
        let (mut pack, mut model) = (Listpack::new(), Vec::<Vec<u8>>::new());
        for step in 0..400 {
            let bytes = element(&mut rng);
            let index = rng.below(model.len().max(1));
            let pos = pack.seek(index as isize);
            assert_eq!(pos.is_some(), index < model.len());
            match (rng.below(8), pos) {
                (0..2, _) => {
                    pack.push_back(&bytes);
                    model.push(bytes);
                }
                (2, _) => {
                    pack.push_front(&bytes);
                    model.insert(0, bytes);
                }
                (3, Some(pos)) => {
                    pack.insert(pos, &bytes);
                    model.insert(index, bytes);
                }
                (4 | 5, Some(pos)) => {
                    assert_eq!(pack.replace(pos, &bytes), pos);
                    model[index] = bytes;
                }
                (6, Some(pos)) => {
                    let next = pack.remove(pos);
                    model.remove(index);
                    assert_eq!(next.map(|pos| pack.get(pos).to_vec()), model.get(index).cloned());
                }
                (7, Some(_)) => {
                    let n = rng.below(6);
                    pack.remove_range(index, n);
                    model.drain(index..(index + n).min(model.len()));
                }
                _ => (),
            }
            if step % 40 == 0 {
                check_whole(&pack, &model);
            }
        }
        check_whole(&pack, &model);
        for (index, bytes) in model.iter().enumerate() {
            let back = index as isize - model.len() as isize;
            assert_eq!(pack.seek(back), pack.seek(index as isize));
            let found = pack.find(pack.first().unwrap(), bytes, 0).unwrap();
            assert!(found <= pack.seek(index as isize).unwrap());
            assert!(pack.get(found).eq_bytes(bytes));
        }
        assert_eq!(pack.seek(model.len() as isize), None);
        assert_eq!(pack.seek(-1 - model.len() as isize), None);
    }
}

#[test]
fn split_and_append_are_each_others_inverse() {
    let mut rng = Rng::seeded(3);
    let model: Vec<_> = (0..200).map(|_| element(&mut rng)).collect();
    let mut whole = Listpack::new();
    model.iter().for_each(|bytes| whole.push_back(bytes));
    for index in 0..200 {
        let mut head = whole.clone();
        let tail = head.split_off(head.seek(index).unwrap());
        check_whole(&head, &model[..index as usize]);
        check_whole(&tail, &model[index as usize..]);
        head.append(&tail);
        assert_eq!(head, whole);
    }
}

#[test]
fn find_skips_the_values_of_pairs() {
    let pack = pack(&["b", "a", "a", "1", "1", "x"]);
    let first = pack.first().unwrap();
    assert_eq!(pack.find(first, b"a", 1), pack.seek(2));
    assert_eq!(pack.find(first, b"1", 1), pack.seek(4));
    assert_eq!(pack.find(first, b"x", 1), None);
    assert_eq!(pack.find(first, b"01", 0), None);
}

#[test]
fn counts_past_the_header_are_walked_and_recover() {
    let mut pack = Listpack::new();
    (0..65_600).for_each(|_| pack.push_back(b"1"));
    assert_eq!(pack.len(), 65_600);
    assert_eq!(pack.as_bytes()[4..6], [0xff, 0xff]);
    assert!(Listpack::from_bytes(pack.as_bytes().to_vec()).is_some());
    assert!(pack.seek(65_599).is_some());
    assert!(pack.seek(65_600).is_none());
    pack.remove_range(10, 600);
    assert_eq!(pack.len(), 65_000);
    assert_eq!(pack.as_bytes()[4..6], 65_000u16.to_le_bytes());
    pack.clear();
    assert!(pack.is_empty());
    assert_eq!(pack.len(), 0);
}

#[test]
fn damaged_bytes_are_refused_or_safe_to_walk() {
    let mut rng = Rng::seeded(11);
    let good = pack(&[
        "hello",
        "1",
        "-500",
        "70000",
        "-9000000",
        "5000000000",
        &"z".repeat(300),
        "",
        &"w".repeat(5000),
    ]);
    for cut in 0..good.bytes_len() {
        assert_eq!(Listpack::from_bytes(good.as_bytes()[..cut].to_vec()), None);
    }
    for _ in 0..40_000 {
        let mut bytes = good.as_bytes().to_vec();
        for _ in 0..1 + rng.below(3) {
            let at = if rng.below(2) == 0 {
                rng.below(60)
            } else {
                rng.below(bytes.len())
            };
            bytes[at] = rng.next_u64() as u8;
        }
        if let Some(pack) = Listpack::from_bytes(bytes) {
            let forward = texts(&pack);
            let mut back: Vec<_> = pack.iter_rev().map(|item| item.to_vec()).collect();
            back.reverse();
            assert_eq!(forward, back);
            assert_eq!(forward.len(), pack.len());
        }
    }
}

#[test]
fn removal_gives_memory_back() {
    let mut pack = Listpack::new();
    (0..1000).for_each(|_| pack.push_back(b"some longer element"));
    assert!(pack.mem_bytes() < pack.bytes_len() + pack.bytes_len() / 8 + 16);
    pack.remove_range(5, 990);
    assert!(pack.mem_bytes() <= 2 * pack.bytes_len());
}
