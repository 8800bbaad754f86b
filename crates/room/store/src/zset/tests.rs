use super::*;
use crate::rng::Rng;
use std::collections::BTreeMap;

/// Keeps sets small or large by limits alone, so both forms run the same cases.
fn limits(large: bool) -> EncodingLimits {
    EncodingLimits {
        zset_max_listpack_entries: if large { 0 } else { 1 << 20 },
        ..EncodingLimits::default()
    }
}

const PLAIN: AddFlags = AddFlags {
    nx: false,
    xx: false,
    gt: false,
    lt: false,
    incr: false,
};

fn filled(pairs: &[(f64, &str)], large: bool) -> Zset {
    let mut set = Zset::new();
    for &(score, member) in pairs {
        set.add(score, member.as_bytes(), PLAIN, &limits(large));
    }
    set
}

fn members(set: &Zset, ranks: Range<usize>, reverse: bool) -> Vec<String> {
    set.range(ranks, reverse)
        .map(|entry| String::from_utf8(entry.member.to_vec()).expect("tests use text"))
        .collect()
}

/// The slow version: a map, sorted again for each question.
#[derive(Default)]
struct Model(BTreeMap<Vec<u8>, f64>);

impl Model {
    fn sorted(&self) -> Vec<(Vec<u8>, f64)> {
        let mut pairs: Vec<_> = self
            .0
            .iter()
            .map(|(member, &score)| (member.clone(), score))
            .collect();
        pairs.sort_by(|a, b| a.1.partial_cmp(&b.1).expect("no NaN").then_with(|| a.0.cmp(&b.0)));
        pairs
    }
}

fn random_run(seed: u64, steps: usize, members: usize, scores: usize, limits: &EncodingLimits) {
    let mut rng = Rng::seeded(seed);
    let (mut set, mut model) = (Zset::new(), Model::default());
    for step in 0..steps {
        let member = rng.below(members).to_string().into_bytes();
        let score = rng.below(scores) as f64 / 4.0 - 3.0;
        match rng.below(10) {
            0..=4 => {
                let flags = AddFlags {
                    gt: rng.below(4) == 0,
                    incr: rng.below(4) == 0,
                    ..PLAIN
                };
                let current = model.0.get(&member).copied();
                let wanted =
                    current.map_or(score, |current| if flags.incr { current + score } else { score });
                let outcome = match current {
                    None => AddOutcome::Added(wanted),
                    Some(current) if flags.gt && wanted <= current => AddOutcome::Skipped,
                    Some(current) if wanted == current => AddOutcome::Unchanged(wanted),
                    Some(_) => AddOutcome::Updated(wanted),
                };
                assert_eq!(
                    set.add(score, &member, flags, limits),
                    outcome,
                    "seed {seed} step {step}"
                );
                if outcome != AddOutcome::Skipped {
                    model.0.insert(member.clone(), wanted);
                }
            }
            5 | 6 => assert_eq!(set.remove(&member), model.0.remove(&member).is_some()),
            7 if rng.below(20) == 0 => {
                let start = rng.below(set.len() + 1);
                let end = start + rng.below(set.len() - start + 1).min(30);
                let gone = model.sorted()[start..end].to_vec();
                assert_eq!(set.remove_ranks(start..end), gone.len());
                gone.iter()
                    .for_each(|(member, score)| assert_eq!(model.0.remove(member), Some(*score)));
            }
            8 if rng.below(10) == 0 => {
                let popped = if rng.below(2) == 0 {
                    set.pop_min()
                } else {
                    set.pop_max()
                };
                assert_eq!(popped.is_some(), !model.0.is_empty());
                popped
                    .into_iter()
                    .for_each(|(member, score)| assert_eq!(model.0.remove(&member), Some(score)));
            }
            _ => check_questions(&set, &model, &member, score, rng.below(scores) as f64 / 4.0 - 3.0),
        }
        assert_eq!(set.len(), model.0.len());
    }
    assert!(
        set.iter()
            .map(|e| (e.member.to_vec(), e.score))
            .eq(model.sorted())
    );
    let copy = set.clone();
    assert!(
        copy.iter()
            .map(|e| (e.member.to_vec(), e.score))
            .eq(model.sorted())
    );
    assert_eq!(copy.encoding(), set.encoding());
}

fn check_questions(set: &Zset, model: &Model, member: &[u8], low: f64, high: f64) {
    let sorted = model.sorted();
    assert_eq!(set.score(member), model.0.get(member).copied());
    let rank = sorted.iter().position(|(other, _)| other == member);
    assert_eq!(set.rank(member, false), rank);
    assert_eq!(set.rank(member, true), rank.map(|rank| sorted.len() - 1 - rank));
    let range = ScoreRange {
        min: low,
        min_excluded: high < 0.0,
        max: high,
        max_excluded: low < 0.0,
    };
    let inside = |score: f64| !range.is_above(score) && !range.is_below(score);
    let wanted: Vec<_> = sorted
        .iter()
        .filter(|(_, score)| inside(*score))
        .cloned()
        .collect();
    let ranks = set.score_ranks(&range);
    let up: Vec<_> = set
        .range(ranks.clone(), false)
        .map(|e| (e.member.to_vec(), e.score))
        .collect();
    assert_eq!(up, wanted);
    let down: Vec<_> = set
        .range(ranks, true)
        .map(|e| (e.member.to_vec(), e.score))
        .collect();
    assert!(down.iter().eq(wanted.iter().rev()));
}

#[test]
fn both_forms_agree_with_a_sorted_map() {
    for seed in 0..4 {
        random_run(seed, 3_000, 60, 200, &limits(false));
        random_run(seed, 3_000, 60, 4, &limits(true));
        random_run(seed, 3_000, 400, 40, &EncodingLimits::default());
    }
    random_run(99, 8_000, 1_200, 7, &limits(true));
}

#[test]
fn the_129th_member_or_a_long_one_makes_a_set_large() {
    let limits = EncodingLimits::default();
    let mut set = Zset::new();
    for n in 0..128 {
        set.add(f64::from(n), n.to_string().as_bytes(), PLAIN, &limits);
    }
    assert_eq!(set.encoding(), "listpack");
    set.add(1.0, b"7", PLAIN, &limits);
    assert_eq!(set.encoding(), "listpack");
    set.add(1.0, b"x", PLAIN, &limits);
    assert_eq!((set.encoding(), set.len()), ("skiplist", 129));
    let mut set = Zset::new();
    set.add(1.0, &[b'x'; 64], PLAIN, &limits);
    assert_eq!(set.encoding(), "listpack");
    set.add(1.0, &[b'x'; 65], PLAIN, &limits);
    assert_eq!(set.encoding(), "skiplist");
}

#[test]
fn lex_ranges_honour_every_kind_of_bound() {
    for large in [false, true] {
        let set = filled(&[(0.0, "a"), (0.0, "b"), (0.0, "c"), (0.0, "d")], large);
        let check = |min: &str, max: &str, wanted: Range<usize>| {
            let range = LexRange {
                min: LexBound::parse(min.as_bytes()).expect("a bound"),
                max: LexBound::parse(max.as_bytes()).expect("a bound"),
            };
            assert_eq!(set.lex_ranks(&range).len(), wanted.len(), "{min} {max}");
            assert_eq!(
                members(&set, set.lex_ranks(&range), false),
                members(&set, wanted, false)
            );
        };
        check("-", "+", 0..4);
        check("[b", "[c", 1..3);
        check("(b", "[c", 2..3);
        check("(b", "(c", 0..0);
        check("[bb", "+", 2..4);
        check("+", "-", 0..0);
        check("+", "+", 0..0);
        check("-", "-", 0..0);
        check("[c", "[b", 0..0);
    }
}

#[test]
fn zero_and_infinite_scores_order_and_print_as_in_redis() {
    let mut set = filled(
        &[(f64::INFINITY, "high"), (f64::NEG_INFINITY, "low"), (0.0, "zero")],
        true,
    );
    assert_eq!(members(&set, 0..9, false), ["low", "zero", "high"]);
    assert_eq!(
        set.add(-0.0, b"zero", PLAIN, &limits(true)),
        AddOutcome::Unchanged(-0.0)
    );
    assert!(set.score(b"zero").expect("present").is_sign_positive());
    let incr = AddFlags { incr: true, ..PLAIN };
    assert_eq!(
        set.add(f64::NEG_INFINITY, b"high", incr, &limits(true)),
        AddOutcome::NotANumber
    );
    assert_eq!(
        set.add(f64::NAN, b"new", PLAIN, &limits(true)),
        AddOutcome::NotANumber
    );
    assert_eq!(set.len(), 3);
    set.add(-0.0, b"a", PLAIN, &limits(true));
    assert!(set.score(b"a").expect("present").is_sign_negative());
    // A listpack stores whole numbers, which know no negative zero.
    let small = filled(
        &[(-0.0, "a"), (1.5, "b"), (f64::INFINITY, "c"), (1e20, "d")],
        false,
    );
    assert!(small.score(b"a").expect("present").is_sign_positive());
    let text: Vec<_> = small
        .as_listpack()
        .expect("small")
        .iter()
        .map(|item| item.to_vec())
        .collect();
    assert_eq!(text.concat(), b"a0b1.5d1e+20cinf");
}

#[test]
fn foreign_listpacks_are_checked_and_put_in_order() {
    let pack = |items: &[&str]| {
        let mut pack = Listpack::new();
        items.iter().for_each(|item| pack.push_back(item.as_bytes()));
        pack
    };
    let limits = EncodingLimits::default();
    let good = Zset::from_listpack(pack(&["b", "1", "a", "2.5"]), &limits).expect("sorted pairs");
    assert_eq!(members(&good, 0..9, false), ["b", "a"]);
    let swapped = Zset::from_listpack(pack(&["a", "2", "b", "1"]), &limits).expect("pairs");
    assert_eq!(members(&swapped, 0..9, false), ["b", "a"]);
    for bad in [&["a"][..], &["a", "x"], &["a", "nan"], &["a", "1", "a", "2"]] {
        assert!(Zset::from_listpack(pack(bad), &limits).is_none(), "{bad:?}");
    }
}

#[test]
fn a_scan_of_a_large_set_shows_every_member() {
    let pairs: Vec<String> = (0..1_000).map(|n| n.to_string()).collect();
    let pairs: Vec<(f64, &str)> = pairs.iter().map(|member| (1.0, member.as_str())).collect();
    let set = filled(&pairs, true);
    let (mut seen, mut cursor) = (std::collections::BTreeSet::new(), 0);
    loop {
        cursor = set.scan(cursor, |entry| {
            seen.insert(entry.member.to_vec());
        });
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(seen.len(), 1_000);
}

#[test]
fn a_large_set_stays_below_seventy_bytes_per_short_member() {
    let mut rng = Rng::seeded(4);
    let mut set = Zset::new();
    for n in 0..50_000 {
        let member = format!("member:{n}");
        set.add(
            rng.next_u64() as f64,
            member.as_bytes(),
            PLAIN,
            &EncodingLimits::default(),
        );
    }
    let each = set.mem_bytes() / set.len();
    assert!(each < 70, "{each} bytes each");
}
