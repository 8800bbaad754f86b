use std::collections::{HashMap, HashSet};

use super::*;

/// A boxed key, the smallest pointer-sized item.
#[derive(Clone, Debug, PartialEq)]
struct Key(Box<(Vec<u8>, u64)>);

impl Keyed for Key {
    fn key(&self) -> &[u8] {
        &self.0.0
    }
}

fn bytes(n: u64) -> Vec<u8> {
    format!("key:{n}").into_bytes()
}

fn insert(table: &mut Table<Key>, n: u64) {
    let key = bytes(n);
    table.insert_unique(hash_bytes(&key), Key(Box::new((key, n))));
}

fn remove(table: &mut Table<Key>, n: u64) -> bool {
    let key = bytes(n);
    table
        .remove(hash_bytes(&key), &key)
        .is_some_and(|item| item.0.1 == n)
}

fn contains(table: &Table<Key>, n: u64) -> bool {
    let key = bytes(n);
    table.find(hash_bytes(&key), &key).is_some()
}

fn filled(items: u64) -> Table<Key> {
    let mut table = Table::new();
    for n in 0..items {
        insert(&mut table, n);
    }
    table
}

#[test]
fn an_empty_table_allocates_nothing_and_is_small() {
    let table = Table::<Key>::new();
    assert_eq!((table.mem_bytes(), table.buckets(), table.len()), (0, 0, 0));
    assert_eq!(size_of::<Table<Key>>(), 32);
    assert_eq!(table.scan(0, |_| panic!("nothing to see")), 0);
    assert!(table.random(&mut Rng::seeded(1)).is_none());
}

#[test]
fn behaves_as_a_std_map_under_random_changes() {
    for seed in 0..40 {
        let mut rng = Rng::seeded(seed);
        let mut table = Table::new();
        let mut model = HashMap::new();
        let universe = 1 << (3 + seed % 10);
        for step in 0..6_000 {
            let n = rng.below(universe) as u64;
            // Long runs of mostly inserts, then of mostly removals, force growth and shrinking.
            let inserting = rng.below(8) < if (step / 1_500) % 2 == 0 { 6 } else { 1 };
            if inserting && model.insert(n, ()).is_none() {
                insert(&mut table, n);
            } else if !inserting {
                assert_eq!(remove(&mut table, n), model.remove(&n).is_some(), "seed {seed}");
            }
            assert_eq!(table.len(), model.len());
            let probe = rng.below(universe) as u64;
            assert_eq!(contains(&table, probe), model.contains_key(&probe), "seed {seed}");
        }
        let seen: HashSet<u64> = table.iter().map(|item| item.0.1).collect();
        assert_eq!((seen.len(), table.iter().len()), (model.len(), model.len()));
        assert!(seen.iter().all(|n| model.contains_key(n)));
        let copy = table.clone();
        assert_eq!(copy.len(), model.len());
        let owned: HashSet<u64> = table.into_iter().map(|item| item.0.1).collect();
        assert_eq!(owned, seen);
    }
}

/// Sends every key to one of two buckets, so chains grow long and lose their middles.
#[test]
fn long_chains_keep_their_items_through_removals() {
    let mut table = Table::new();
    let hash = |n: u64| (n % 2) | ((n % 5) << 56);
    struct Colliding(Box<(Vec<u8>, u64)>);
    impl Keyed for Colliding {
        fn key(&self) -> &[u8] {
            &self.0.0
        }
        fn hash(&self) -> u64 {
            (self.0.1 % 2) | ((self.0.1 % 5) << 56)
        }
    }
    for n in 0..100 {
        table.insert_unique(hash(n), Colliding(Box::new((bytes(n), n))));
    }
    let mut left: Vec<u64> = (0..100).collect();
    let mut rng = Rng::seeded(3);
    while !left.is_empty() {
        let n = left.swap_remove(rng.below(left.len()));
        assert_eq!(table.remove(hash(n), &bytes(n)).map(|item| item.0.1), Some(n));
        for &n in &left {
            assert!(table.find(hash(n), &bytes(n)).is_some(), "{n} lost");
        }
    }
    assert_eq!(table.mem_bytes(), 0);
}

#[test]
fn a_scan_returns_all_that_stays_through_growth_and_shrinking() {
    for seed in 0..100 {
        let mut rng = Rng::seeded(seed);
        let stable = 1 + rng.below(400) as u64;
        let mut table = filled(stable);
        let mut churn: Vec<u64> = Vec::new();
        let mut fresh = 1_000_000;
        let (mut cursor, mut seen) = (0, HashSet::new());
        let mut growing = rng.below(2) == 0;
        if !growing {
            for _ in 0..rng.below(5_000) {
                insert(&mut table, fresh);
                churn.push(fresh);
                fresh += 1;
            }
        }
        loop {
            cursor = table.scan(cursor, |item| {
                seen.insert(item.0.1);
            });
            if cursor == 0 {
                break;
            }
            for _ in 0..rng.below(200) {
                if growing && churn.len() < 5_000 {
                    insert(&mut table, fresh);
                    churn.push(fresh);
                    fresh += 1;
                } else if let Some(n) = churn.pop() {
                    assert!(remove(&mut table, n));
                }
            }
            if rng.below(20) == 0 {
                growing = !growing;
            }
        }
        assert!((0..stable).all(|n| seen.contains(&n)), "seed {seed}");
    }
}

#[test]
fn iteration_while_a_resize_is_pending_sees_each_item_once() {
    let mut table = filled(0);
    for n in 0..5_000 {
        insert(&mut table, n);
        if table.is_resizing() && n % 7 == 0 {
            let seen: HashSet<u64> = table.iter().map(|item| item.0.1).collect();
            assert_eq!((seen.len() as u64, table.iter().count() as u64), (n + 1, n + 1));
        }
    }
}

#[test]
fn random_is_close_to_uniform_even_while_resizing() {
    for items in [1u64, 3, 40, 417, 450] {
        let table = filled(items);
        let mut rng = Rng::seeded(items);
        let mut counts = vec![0u32; items as usize];
        for _ in 0..items * 1_000 {
            counts[table.random(&mut rng).expect("not empty").0.1 as usize] += 1;
        }
        assert!(
            counts.iter().all(|&n| (700..1_400).contains(&n)),
            "{items}: {counts:?}"
        );
    }
}

#[test]
fn sample_yields_distinct_items_up_to_the_wish() {
    let table = filled(1_000);
    let mut seen = HashSet::new();
    table.sample(&mut Rng::seeded(5), 20, |item| assert!(seen.insert(item.0.1)));
    assert_eq!(seen.len(), 20);
    let mut all = 0;
    table.sample(&mut Rng::seeded(5), 5_000, |_| all += 1);
    assert_eq!(all, 1_000);
}

#[test]
fn memory_per_item_stays_near_the_design() {
    for items in [1_300u64, 10_000, 26_000, 100_000] {
        let mut table = filled(items);
        while table.migrate(100) {}
        let per_item = table.mem_bytes() as f64 / items as f64;
        assert!((9.0..23.0).contains(&per_item), "{items}: {per_item}");
    }
}

#[test]
fn removing_most_items_gives_the_memory_back() {
    let mut table = filled(20_000);
    for n in 50..20_000 {
        assert!(remove(&mut table, n));
    }
    while table.migrate(100) {}
    assert!(table.mem_bytes() <= 64 * 64, "{}", table.mem_bytes());
    assert!((0..50).all(|n| contains(&table, n)));
}

#[test]
fn find_mut_lets_a_value_change() {
    let mut table = filled(100);
    let key = bytes(42);
    table.find_mut(hash_bytes(&key), &key).expect("present").0.1 = 7;
    assert_eq!(table.find(hash_bytes(&key), &key).map(|item| item.0.1), Some(7));
}

#[test]
fn reserve_avoids_later_resizes() {
    let mut table = Table::new();
    table.reserve(10_000);
    let buckets = table.buckets();
    for n in 0..10_000 {
        insert(&mut table, n);
    }
    assert_eq!((table.buckets(), table.is_resizing()), (buckets, false));
    assert_eq!(table.drain().count(), 10_000);
    assert_eq!(table.mem_bytes(), 0);
}

#[test]
fn remove_with_takes_the_item_the_caller_recognises() {
    let mut table = filled(100);
    let hash = hash_bytes(&bytes(42));
    assert!(table.remove_with(hash, |item| item.0.1 == 1_000).is_none());
    assert_eq!(
        table
            .remove_with(hash, |item| item.0.1 == 42)
            .map(|item| item.0.1),
        Some(42)
    );
    assert!(!contains(&table, 42));
}
