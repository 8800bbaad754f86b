use super::*;
use crate::rng::Rng;

type Pair<'a> = (&'a [u8], &'a [u8]);

fn limits(entries: usize) -> EncodingLimits {
    EncodingLimits {
        stream_node_max_entries: entries,
        ..EncodingLimits::default()
    }
}

fn id(ms: u64) -> StreamId {
    StreamId::new(ms, 0)
}

/// Returns a stream of entries 1-0, 2-0, ... with one field.
fn numbered(count: u64, per_node: usize) -> Stream {
    let mut stream = Stream::new();
    for ms in 1..=count {
        let value = ms.to_string();
        stream
            .add(
                NewId::Exact(id(ms)),
                [(&b"n"[..], value.as_bytes())].into_iter(),
                &limits(per_node),
            )
            .unwrap();
    }
    stream
}

fn all_ids(stream: &Stream) -> Vec<u64> {
    let forward: Vec<u64> = stream
        .range(StreamId::MIN, StreamId::MAX)
        .map(|entry| entry.id.ms)
        .collect();
    let mut backward: Vec<u64> = stream
        .range_rev(StreamId::MIN, StreamId::MAX)
        .map(|entry| entry.id.ms)
        .collect();
    backward.reverse();
    assert_eq!(forward, backward);
    assert_eq!(forward.len() as u64, stream.len());
    assert_eq!(stream.first_id().ms, forward.first().copied().unwrap_or_default());
    forward
}

fn exact(to: TrimTo) -> Trim {
    Trim {
        to,
        approximate: false,
        limit: 0,
    }
}

#[test]
fn automatic_ids_never_go_back() {
    let mut stream = Stream::new();
    let mut add = |id| {
        stream.add(
            id,
            [(&b"f"[..], &b"v"[..])].into_iter(),
            &EncodingLimits::default(),
        )
    };
    assert_eq!(add(NewId::Auto { now_ms: 100 }), Ok(StreamId::new(100, 0)));
    assert_eq!(add(NewId::Auto { now_ms: 90 }), Ok(StreamId::new(100, 1)));
    assert_eq!(add(NewId::InMs(100)), Ok(StreamId::new(100, 2)));
    assert_eq!(add(NewId::InMs(101)), Ok(StreamId::new(101, 0)));
    assert_eq!(add(NewId::InMs(100)), Err(AddError::NotAbove));
    assert_eq!(add(NewId::Exact(StreamId::new(101, 0))), Err(AddError::NotAbove));
    assert_eq!(
        add(NewId::Exact(StreamId::new(101, u64::MAX))),
        Ok(StreamId::new(101, u64::MAX))
    );
    assert_eq!(add(NewId::InMs(101)), Err(AddError::SequenceUsedUp));
    assert_eq!(add(NewId::Auto { now_ms: 0 }), Ok(StreamId::new(102, 0)));
}

#[test]
fn an_entry_with_other_fields_keeps_its_own() {
    let mut stream = Stream::new();
    let entries: [&[Pair<'_>]; 4] = [
        &[(b"a", b"1"), (b"b", b"x")],
        &[(b"a", b"2"), (b"b", b"y")],
        &[(b"c", b"3")],
        &[(b"a", b"4"), (b"c", b"")],
    ];
    for pairs in entries {
        stream
            .add(
                NewId::Auto { now_ms: 1 },
                pairs.iter().copied(),
                &EncodingLimits::default(),
            )
            .unwrap();
    }
    let read: Vec<Vec<_>> = stream
        .range(StreamId::MIN, StreamId::MAX)
        .map(|entry| {
            entry
                .fields()
                .map(|(field, value)| (field.to_vec(), value.to_vec()))
                .collect()
        })
        .collect();
    for (read, pairs) in read.iter().zip(entries) {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(field, value)| (field.to_vec(), value.to_vec()))
            .collect();
        assert_eq!(*read, pairs);
    }
    assert_eq!(stream.node_count(), 1);
}

#[test]
fn blocks_close_at_their_entry_count_and_size() {
    assert_eq!(numbered(100, 100).node_count(), 1);
    assert_eq!(numbered(101, 100).node_count(), 2);
    let mut stream = Stream::new();
    let big = vec![b'x'; 3000];
    for _ in 0..3 {
        let pairs = [(&b"f"[..], big.as_slice())].into_iter();
        stream
            .add(NewId::Auto { now_ms: 1 }, pairs, &EncodingLimits::default())
            .unwrap();
    }
    assert_eq!(stream.node_count(), 3);
}

#[test]
fn approximate_trims_remove_whole_blocks_only() {
    let mut stream = numbered(100, 10);
    let order = Trim {
        to: TrimTo::MaxLen(55),
        approximate: true,
        limit: 0,
    };
    assert_eq!(stream.trim(&order), 40);
    assert_eq!(
        stream.trim(&Trim {
            limit: 9,
            to: TrimTo::MaxLen(0),
            ..order
        }),
        0
    );
    assert_eq!(
        stream.trim(&Trim {
            limit: 29,
            to: TrimTo::MaxLen(0),
            ..order
        }),
        20
    );
    assert_eq!(stream.trim(&exact(TrimTo::MaxLen(15))), 25);
    assert_eq!(all_ids(&stream), (86..=100).collect::<Vec<_>>());
    assert_eq!(stream.node_count(), 2);
    assert_eq!(stream.max_deleted_id(), StreamId::MIN);
    assert_eq!(stream.trim(&exact(TrimTo::MinId(id(200)))), 15);
    assert_eq!(
        (stream.len(), stream.node_count(), stream.first_id()),
        (0, 0, StreamId::MIN)
    );
}

#[test]
fn lag_is_unknown_after_a_delete_in_the_middle() {
    let mut stream = numbered(10, 3);
    stream.create_group(b"g", id(3), ENTRIES_READ_UNKNOWN);
    let lag = |stream: &Stream| stream.lag(stream.group(b"g").unwrap());
    assert_eq!(lag(&stream), None, "the position inside the stream is not known");
    stream.group_mut(b"g").unwrap().entries_read = 3;
    assert_eq!(lag(&stream), Some(7));
    stream.delete(id(2));
    assert_eq!(lag(&stream), Some(7), "the deleted entry was read before");
    stream.delete(id(5));
    assert_eq!(lag(&stream), None);
    let group = stream.group_mut(b"g").unwrap();
    (group.last_id, group.entries_read) = (id(10), ENTRIES_READ_UNKNOWN);
    assert_eq!(lag(&stream), Some(0));
    assert_eq!(stream.entries_read_at(id(11)), None);
    assert_eq!(Stream::new().entries_read_at(id(11)), Some(0));
}

#[test]
fn random_work_agrees_with_a_sorted_list() {
    let mut rng = Rng::seeded(11);
    for _ in 0..60 {
        let per_node = 1 + rng.below(20);
        let mut stream = Stream::new();
        let mut model: Vec<u64> = Vec::new();
        let mut next = 0;
        for _ in 0..300 {
            match rng.below(10) {
                0..=5 => {
                    next += 1 + rng.below(3) as u64;
                    let value = vec![b'v'; rng.below(10)];
                    let field: &[u8] = if rng.below(4) == 0 { b"odd" } else { b"f" };
                    stream
                        .add(
                            NewId::Exact(id(next)),
                            [(field, &value[..])].into_iter(),
                            &limits(per_node),
                        )
                        .unwrap();
                    model.push(next);
                }
                6..=7 => {
                    let victim = 1 + rng.below(next as usize + 1) as u64;
                    let there = model.iter().position(|&ms| ms == victim);
                    assert_eq!(stream.delete(id(victim)), there.is_some());
                    there.map(|at| model.remove(at));
                }
                8 if rng.below(4) == 0 => {
                    let keep = rng.below(model.len() + 2);
                    let gone = model.len().saturating_sub(keep);
                    assert_eq!(stream.trim(&exact(TrimTo::MaxLen(keep as u64))), gone as u64);
                    model.drain(..gone);
                }
                9 if rng.below(4) == 0 => {
                    let least = rng.below(next as usize + 2) as u64;
                    let gone = model.iter().filter(|&&ms| ms < least).count();
                    assert_eq!(stream.trim(&exact(TrimTo::MinId(id(least)))), gone as u64);
                    model.drain(..gone);
                }
                _ => {
                    let (start, end) = (
                        rng.below(next as usize + 2) as u64,
                        rng.below(next as usize + 2) as u64,
                    );
                    let wanted: Vec<u64> = model
                        .iter()
                        .copied()
                        .filter(|ms| (start..=end).contains(ms))
                        .collect();
                    let got: Vec<u64> = stream
                        .range(id(start), id(end))
                        .map(|entry| entry.id.ms)
                        .collect();
                    assert_eq!(got, wanted);
                }
            }
            if rng.below(10) == 0 {
                assert_eq!(all_ids(&stream), model);
            }
        }
        let rebuilt = Stream::from_nodes(stream.nodes.clone(), stream.len(), stream.last_id(), None).unwrap();
        assert_eq!(all_ids(&rebuilt), model);
    }
}

#[test]
fn blocks_from_outside_are_checked() {
    let stream = numbered(5, 3);
    let good = stream.nodes[0].clone();
    let checked = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.pack.as_bytes().to_vec();
        change(&mut bytes);
        let pack = crate::listpack::Listpack::from_bytes(bytes)?;
        Node::checked(good.id, pack)
    };
    assert!(checked(&|_| ()).is_some());
    assert!(
        checked(&|bytes| bytes[6] = 2).is_none(),
        "a live count that is not true"
    );
    assert!(
        checked(&|bytes| bytes[10] = 2).is_none(),
        "more common fields than there are"
    );
    let mut rng = Rng::seeded(5);
    for _ in 0..20_000 {
        let damaged = checked(&|bytes| {
            for _ in 0..1 + rng.clone().below(2) {
                let at = 6 + rng.clone().below(bytes.len() - 6);
                bytes[at] = rng.clone().next_u64() as u8;
            }
        });
        rng.next_u64();
        if let Some(node) = damaged {
            let len = node.head().live;
            let last_id = node.last_id();
            if let Some(mut stream) = Stream::from_nodes([node].into(), len, last_id, None) {
                let fields = stream
                    .range(StreamId::MIN, StreamId::MAX)
                    .map(|entry| entry.fields().count());
                assert_eq!(fields.count() as u64, len);
                stream.trim(&exact(TrimTo::MaxLen(1)));
                stream.delete(last_id);
            }
        }
    }
}

#[test]
fn the_radix_tree_of_redis_is_counted() {
    assert_eq!(Stream::new().radix_nodes(), 1);
    assert_eq!(numbered(1, 100).radix_nodes(), 2);
    // Ids 1-0 and 2-0: seven shared bytes, a branching, and for each a rest and an end.
    assert_eq!(numbered(2, 1).radix_nodes(), 6);
}

#[test]
fn an_id_set_back_behind_deleted_entries_leaves_them_out_of_order() {
    let mut stream = numbered(5, 100);
    assert!(stream.delete(id(4)) && stream.delete(id(5)));
    stream.set_last_id(id(3));
    stream
        .add(
            NewId::Exact(StreamId::new(3, 7)),
            [(&b"n"[..], &b"x"[..])].into_iter(),
            &limits(100),
        )
        .unwrap();
    assert_eq!(all_ids(&stream), [1, 2, 3, 3]);
    assert!(stream.get(StreamId::new(3, 7)).is_some());
    let again = Stream::from_nodes(stream.nodes.clone(), 4, stream.last_id(), None);
    assert!(again.is_some(), "such a stream can be restored");
    assert!(stream.delete(StreamId::new(3, 7)));
}

#[test]
fn a_new_block_goes_before_a_last_one_of_deleted_entries() {
    let mut stream = numbered(6, 3);
    stream.delete(id(6));
    stream.trim(&exact(TrimTo::MinId(id(6))));
    assert_eq!((stream.len(), stream.node_count()), (0, 1));
    stream.set_last_id(id(2));
    let pairs = [(&b"n"[..], &b"x"[..])];
    stream
        .add(NewId::Exact(id(3)), pairs.into_iter(), &limits(3))
        .unwrap();
    assert_eq!(all_ids(&stream), [3]);
    assert_eq!(stream.node_count(), 2);
}
