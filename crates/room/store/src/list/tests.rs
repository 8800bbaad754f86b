use super::*;
use crate::rng::Rng;

fn limits(size: i32) -> EncodingLimits {
    EncodingLimits {
        list_max_listpack_size: size,
        ..EncodingLimits::default()
    }
}

fn list(items: &[&str]) -> List {
    let mut list = List::new();
    items
        .iter()
        .for_each(|item| list.push_back(item.as_bytes(), &limits(-2)));
    list
}

fn texts(list: &List) -> Vec<Vec<u8>> {
    list.iter().map(|item| item.to_vec()).collect()
}

fn check_whole(list: &List, model: &VecDeque<Vec<u8>>) {
    assert_eq!(list.len(), model.len());
    assert_eq!(*model, texts(list));
    let back: Vec<_> = list.iter_rev().map(|item| item.to_vec()).collect();
    assert!(back.iter().eq(model.iter().rev()));
    let counted: usize = list.nodes.iter().map(Node::count).sum();
    assert_eq!(counted, model.len());
    for node in &list.nodes {
        assert!(node.count() > 0, "no empty node stays");
        if let Body::Packed(pack) = node.body() {
            assert_eq!(pack.len(), node.count());
            assert!(Listpack::from_bytes(pack.as_bytes().to_vec()).is_some());
        }
    }
}

fn element(rng: &mut Rng) -> Vec<u8> {
    match rng.below(6) {
        0..3 => rng.below(9).to_string().into_bytes(),
        3 => vec![b'a' + rng.below(4) as u8; rng.below(30)],
        4 => vec![b'm'; 100 + rng.below(400)],
        _ if rng.below(30) == 0 => vec![b'L'; 9000],
        _ => rng.next_u64().to_string().into_bytes(),
    }
}

/// Makes one random change to the list and to the model.
fn change(list: &mut List, model: &mut VecDeque<Vec<u8>>, rng: &mut Rng, limits: NodeLimits) {
    let bytes = element(rng);
    let index = rng.below(model.len().max(1));
    match rng.below(12) {
        0..3 => {
            list.push_within(End::Tail, &bytes, limits);
            model.push_back(bytes);
        }
        3..5 => {
            list.push_within(End::Head, &bytes, limits);
            model.push_front(bytes);
        }
        5 => assert_eq!(list.pop_front(), model.pop_front()),
        6 => assert_eq!(list.pop_back(), model.pop_back()),
        7 => {
            let signed = if rng.below(2) == 0 {
                index as i64
            } else {
                index as i64 - model.len() as i64
            };
            assert_eq!(list.set_within(signed, &bytes, limits), index < model.len());
            if let Some(slot) = model.get_mut(index) {
                *slot = bytes;
            }
        }
        8..11 => {
            let after = rng.below(2) == 0;
            if let Some(place) = list.locate(index) {
                list.insert_at(place, after, &bytes, limits);
                model.insert(index + usize::from(after), bytes);
            }
        }
        _ => {
            let n = rng.below(8);
            let gone = list.remove_range(index, n);
            assert_eq!(gone, model.drain(index..(index + n).min(model.len())).count());
        }
    }
}

#[test]
fn random_changes_match_a_deque() {
    for (seed, size) in [-1, -2, -5, 1, 2, 5, 100, 0, -9].into_iter().enumerate() {
        for plain_bytes_min in [1 << 30, 200, 12] {
            let mut limits = NodeLimits::from(&limits(size));
            limits.plain_bytes_min = plain_bytes_min;
            let mut rng = Rng::seeded(seed as u64);
            let (mut list, mut model) = (List::new(), VecDeque::new());
            for step in 0..1500 {
                change(&mut list, &mut model, &mut rng, limits);
                if step % 100 == 0 {
                    check_whole(&list, &model);
                }
            }
            check_whole(&list, &model);
            for index in 0..model.len() {
                assert!(list.get(index as i64).unwrap().eq_bytes(&model[index]));
                assert!(
                    list.get(index as i64 - model.len() as i64)
                        .unwrap()
                        .eq_bytes(&model[index])
                );
                assert!(
                    list.iter_from(index)
                        .map(|item| item.to_vec())
                        .eq(model.range(index..).cloned())
                );
            }
            assert_eq!(list.get(model.len() as i64), None);
            assert_eq!(list.get(-1 - model.len() as i64), None);
            assert_eq!(list.get(i64::MIN), None);
        }
    }
}

#[test]
fn removing_values_matches_a_deque_from_both_ends() {
    for (seed, size) in [-1, 1, 3, 20].into_iter().enumerate() {
        let limits = limits(size);
        let mut rng = Rng::seeded(seed as u64);
        for _ in 0..60 {
            let (mut list, mut model) = (List::new(), VecDeque::new());
            for _ in 0..rng.below(200) {
                let bytes = element(&mut rng);
                list.push_back(&bytes, &limits);
                model.push_back(bytes);
            }
            let (bytes, max) = (element(&mut rng), rng.below(30));
            let from = if rng.below(2) == 0 { End::Head } else { End::Tail };
            let mut gone = 0;
            let mut keep = |item: &Vec<u8>| {
                let hit = *item == bytes && gone < max;
                gone += usize::from(hit);
                !hit
            };
            match from {
                End::Head => model.retain(|item| keep(item)),
                End::Tail => {
                    model = model
                        .into_iter()
                        .rev()
                        .filter(|item| keep(item))
                        .collect::<Vec<_>>()
                        .into_iter()
                        .rev()
                        .collect()
                }
            }
            assert_eq!(list.remove(&bytes, from, max, &limits), gone);
            check_whole(&list, &model);
        }
    }
}

#[test]
fn keeping_a_range_removes_both_sides() {
    let limits = limits(7);
    for start in 0..25 {
        for n in 0..25 {
            let (mut list, mut model) = (List::new(), VecDeque::new());
            for index in 0..20 {
                list.push_back(index.to_string().as_bytes(), &limits);
                model.push_back(index.to_string().into_bytes());
            }
            list.keep_range(start, n);
            check_whole(&list, &model.into_iter().skip(start).take(n).collect());
        }
    }
}

#[test]
fn inserts_beside_a_pivot() {
    let mut list = list(&["a", "b", "c"]);
    assert!(list.insert_before(b"b", b"1", &limits(-2)));
    assert!(list.insert_after(b"c", b"2", &limits(-2)));
    assert!(!list.insert_after(b"x", b"3", &limits(-2)));
    assert_eq!(texts(&list), [b"a", b"1", b"b", b"c", b"2"]);
}

#[test]
fn positions_count_from_the_asked_end() {
    let list = list(&["a", "b", "a", "3", "a"]);
    let found = |from, max| list.positions(b"a", from, max).collect::<Vec<_>>();
    assert_eq!(found(End::Head, usize::MAX), [0, 2, 4]);
    assert_eq!(found(End::Tail, usize::MAX), [4, 2, 0]);
    assert_eq!(found(End::Head, 2), [0]);
    assert_eq!(found(End::Tail, 3), [4, 2]);
    assert_eq!(list.positions(b"3", End::Head, 9).next(), Some(3));
}

#[test]
fn nodes_are_bounded_and_survive_a_round_trip() {
    let mut list = List::new();
    for index in 0..20_000 {
        list.push_back(format!("element:{index}").as_bytes(), &limits(-2));
    }
    assert!(list.nodes().len() > 1);
    let copy = List::from_nodes(list.nodes().map(|node| match node {
        NodeRef::Packed(pack) => {
            assert!(pack.bytes_len() <= 8192);
            OwnedNode::Packed(pack.clone())
        }
        NodeRef::Plain(bytes) => OwnedNode::Plain(bytes.to_vec()),
    }));
    assert_eq!(copy, list);
    assert!(List::from_nodes([OwnedNode::Packed(Listpack::new())]).is_empty());
}

#[test]
fn memory_stays_near_the_bytes_stored() {
    let mut list = List::new();
    let mut stored = 0;
    for index in 0..100_000 {
        let text = format!("value:{index:06}");
        stored += text.len() + 2;
        list.push_back(text.as_bytes(), &limits(-2));
    }
    assert!(
        list.mem_bytes() < stored + stored / 50,
        "{} for {stored}",
        list.mem_bytes()
    );
    let one = self::list(&["a"]);
    assert!(one.mem_bytes() <= 40 + 32 + 16, "{}", one.mem_bytes());
}

#[test]
fn draining_a_long_list_gives_its_row_back() {
    let mut list = List::new();
    (0..5000).for_each(|_| list.push_back(&[b'x'; 4000], &limits(-2)));
    while list.len() > 10 {
        list.drop_end(End::Head);
    }
    assert!(list.nodes.capacity() <= 64);
    while list.pop_back().is_some() {}
    assert!(list.is_empty() && list.nodes.is_empty());
    list.drop_end(End::Head);
    assert_eq!(list.peek(End::Tail), None);
}
