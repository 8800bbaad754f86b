//! A counted B+ tree: items ordered by (score, bytes), each found by key or by rank.
//!
//! Leaves hold scores and items in two arrays, so a search reads mostly scores
//! and touches an item's bytes only between equal scores. An inner node knows,
//! for each child, its first item and how many items it holds. Every question
//! is one of two descents: "how many items satisfy this prefix property"
//! ([`RankTree::partition`]) and "which item has this rank". A range by score,
//! by bytes or by rank is therefore always a range of ranks.
//!
//! Separators are real items, refreshed on the way back up from each change, so
//! a run of equal scores may span any number of leaves and a removed item is
//! never compared again.
//!
//! Full leaves first lend to a neighbour and split only when that one is full
//! too; appending at either end splits off a single item instead of a half. So
//! random inserts leave the leaves about four fifths full, ordered ones full.

mod node;

use node::{Leaf, Node};
use std::ops::Range;

/// What the tree orders between equal scores: a cheap handle to some bytes.
pub trait RankItem: Copy {
    /// Returns the bytes that break ties between equal scores.
    fn bytes(&self) -> &[u8];
}

/// Items of one leaf; with its length word a leaf of pointers fills 1 KiB.
const LEAF_ITEMS: usize = 63;
/// Children of one inner node.
const INNER_CHILDREN: usize = 31;

/// The ordered side of a large sorted set. See the module text.
///
/// The two sizes are parameters so that tests can build deep trees from few items.
#[derive(Clone)]
pub struct RankTree<P: RankItem, const L: usize = LEAF_ITEMS, const N: usize = INNER_CHILDREN> {
    root: Option<Node<P, L, N>>,
    len: usize,
}

impl<P: RankItem, const L: usize, const N: usize> Default for RankTree<P, L, N> {
    fn default() -> Self {
        RankTree { root: None, len: 0 }
    }
}

impl<P: RankItem, const L: usize, const N: usize> RankTree<P, L, N> {
    /// Returns an empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an item that is not in the tree yet.
    pub fn insert(&mut self, score: f64, item: P) {
        debug_assert!(!score.is_nan(), "a score is never NaN");
        self.len += 1;
        match &mut self.root {
            None => self.root = Some(Node::Leaf(Box::new(Leaf::one(score, item)))),
            Some(root) => {
                if let Some(right) = root.insert(score, item, node::TreeSide::BOTH) {
                    let left = self.root.take().expect("the root was matched just above");
                    self.root = Some(Node::parent_of(left, right));
                }
            }
        }
    }

    /// Removes the item with this score and these bytes; false when there is none.
    pub fn remove(&mut self, score: f64, bytes: &[u8]) -> bool {
        let rank = self.rank_of(score, bytes);
        match self.get(rank) {
            Some((found, item)) if found == score && item.bytes() == bytes => {
                self.remove_range(rank..rank + 1, |_, _| ());
                true
            }
            _ => false,
        }
    }

    /// Removes the items of a range of ranks, showing each to `seen` in order; returns how many.
    ///
    /// The bytes of a removed item are not looked at again, so they may be freed once this returns.
    pub fn remove_range(&mut self, ranks: Range<usize>, mut seen: impl FnMut(f64, P)) -> usize {
        let end = ranks.end.min(self.len);
        let mut left = end.saturating_sub(ranks.start);
        let wanted = left;
        while left > 0 {
            let root = self.root.as_mut().expect("a tree with items has a root");
            let removed = root.remove_run(ranks.start, left, &mut seen);
            left -= removed;
            self.len -= removed;
            self.shrink_root();
        }
        wanted
    }

    /// Gives an item a new score in place, if its rank stays the same; false when it would move.
    pub fn rescore_in_place(&mut self, score: f64, bytes: &[u8], new_score: f64) -> bool {
        match &mut self.root {
            None => false,
            Some(root) => root.rescore(score, bytes, new_score, node::TreeSide::BOTH),
        }
    }

    /// Returns how many items come first that satisfy `before`, which must hold
    /// for a prefix of the order and for nothing after it.
    pub fn partition(&self, before: impl Fn(f64, &P) -> bool) -> usize {
        self.root.as_ref().map_or(0, |root| root.partition(&before))
    }

    /// Returns the rank the pair has, or would have once added.
    pub fn rank_of(&self, score: f64, bytes: &[u8]) -> usize {
        self.partition(|s, item| node::is_before(s, item, score, bytes))
    }

    /// Returns the item with this rank.
    pub fn get(&self, rank: usize) -> Option<(f64, P)> {
        let (leaf, at) = self.leaf_at(rank)?;
        Some((leaf.scores[at], leaf.items[at]))
    }

    /// Walks a range of ranks, from its low end upwards or from its high end downwards.
    pub fn iter(&self, ranks: Range<usize>, reverse: bool) -> Iter<'_, P, L, N> {
        let end = ranks.end.min(self.len);
        let left = end.saturating_sub(ranks.start);
        let rank = if reverse {
            end.saturating_sub(1)
        } else {
            ranks.start
        };
        Iter {
            tree: self,
            leaf: None,
            at: 0,
            rank,
            left,
            reverse,
        }
    }

    /// Returns the heap bytes of the nodes.
    pub fn mem_bytes(&self) -> usize {
        self.root.as_ref().map_or(0, Node::mem_bytes)
    }

    fn leaf_at(&self, rank: usize) -> Option<(&Leaf<P, L>, usize)> {
        if rank >= self.len {
            return None;
        }
        Some(self.root.as_ref()?.leaf_at(rank))
    }

    fn shrink_root(&mut self) {
        if self.len == 0 {
            self.root = None;
            return;
        }
        while let Some(only) = self.root.as_mut().and_then(Node::take_only_child) {
            self.root = Some(only);
        }
    }
}

/// Walks items in one direction; see [`RankTree::iter`].
///
/// Leaves are not linked: stepping to the next one is a descent by rank, paid
/// once per leaf.
pub struct Iter<'a, P: RankItem, const L: usize = LEAF_ITEMS, const N: usize = INNER_CHILDREN> {
    tree: &'a RankTree<P, L, N>,
    leaf: Option<&'a Leaf<P, L>>,
    at: usize,
    rank: usize,
    left: usize,
    reverse: bool,
}

impl<P: RankItem, const L: usize, const N: usize> Iterator for Iter<'_, P, L, N> {
    type Item = (f64, P);

    fn next(&mut self) -> Option<(f64, P)> {
        if self.left == 0 {
            return None;
        }
        let leaf = match self.leaf {
            Some(leaf) => leaf,
            None => {
                let (leaf, at) = self.tree.leaf_at(self.rank)?;
                self.leaf = Some(leaf);
                self.at = at;
                leaf
            }
        };
        let found = (leaf.scores[self.at], leaf.items[self.at]);
        self.left -= 1;
        if self.reverse {
            self.rank = self.rank.wrapping_sub(1);
            self.at = self.at.wrapping_sub(1);
        } else {
            self.rank += 1;
            self.at += 1;
        }
        if self.at >= leaf.len {
            self.leaf = None;
        }
        Some(found)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<P: RankItem, const L: usize, const N: usize> ExactSizeIterator for Iter<'_, P, L, N> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use std::collections::BTreeSet;

    #[derive(Clone, Copy, Debug)]
    struct Word([u8; 4]);

    impl RankItem for Word {
        fn bytes(&self) -> &[u8] {
            &self.0
        }
    }

    /// The slow version: an ordered set of (score as integer, bytes).
    type Model = BTreeSet<(i64, [u8; 4])>;

    fn check_equal<const L: usize, const N: usize>(tree: &RankTree<Word, L, N>, model: &Model) {
        if let Some(root) = &tree.root {
            root.check();
        }
        assert_eq!(tree.len(), model.len());
        let up: Vec<_> = tree
            .iter(0..usize::MAX, false)
            .map(|(s, w)| (s as i64, w.0))
            .collect();
        assert!(up.iter().eq(model.iter()));
        let down: Vec<_> = tree
            .iter(0..usize::MAX, true)
            .map(|(s, w)| (s as i64, w.0))
            .collect();
        assert!(down.iter().eq(model.iter().rev()));
    }

    fn random_run<const L: usize, const N: usize>(seed: u64, steps: usize, scores: usize, words: usize) {
        let mut rng = Rng::seeded(seed);
        let mut tree: RankTree<Word, L, N> = RankTree::new();
        let mut model = Model::new();
        for step in 0..steps {
            let pair = (rng.below(scores) as i64, (rng.below(words) as u32).to_be_bytes());
            let shrinking = (step / 700) % 2 == 1;
            match rng.below(10) {
                0..=5 if !shrinking => {
                    if model.insert(pair) {
                        tree.insert(pair.0 as f64, Word(pair.1));
                    }
                }
                6 => {
                    let from = rng.below(model.len() + 1);
                    let count = if shrinking { rng.below(40) } else { rng.below(3) };
                    let gone: Vec<_> = model.iter().skip(from).take(count).copied().collect();
                    let mut seen = Vec::new();
                    tree.remove_range(from..from + count, |s, w| seen.push((s as i64, w.0)));
                    assert_eq!(seen, gone);
                    gone.iter().for_each(|pair| assert!(model.remove(pair)));
                }
                7 => {
                    let Some((score, word)) = tree.get(rng.below(model.len())) else {
                        continue;
                    };
                    let new = rng.below(scores) as f64;
                    if model.contains(&(new as i64, word.0)) {
                        continue;
                    }
                    model.remove(&(score as i64, word.0));
                    model.insert((new as i64, word.0));
                    if !tree.rescore_in_place(score, &word.0, new) {
                        assert!(tree.remove(score, &word.0));
                        tree.insert(new, word);
                    }
                }
                _ => assert_eq!(tree.remove(pair.0 as f64, &pair.1), model.remove(&pair)),
            }
            assert_eq!(
                tree.rank_of(pair.0 as f64, &pair.1),
                model.range(..pair).count(),
                "seed {seed}"
            );
            if step % 97 == 0 {
                check_equal(&tree, &model);
            }
        }
        check_equal(&tree, &model);
        tree.remove_range(0..tree.len(), |_, _| ());
        assert!(tree.is_empty() && tree.root.is_none());
    }

    #[test]
    fn small_nodes_agree_with_an_ordered_set() {
        for seed in 0..12 {
            random_run::<4, 4>(seed, 3_000, 40, 60);
            random_run::<5, 3>(seed, 3_000, 1 << 20, 4);
        }
    }

    #[test]
    fn real_nodes_agree_with_an_ordered_set() {
        random_run::<LEAF_ITEMS, INNER_CHILDREN>(7, 20_000, 1 << 30, 1 << 30);
        random_run::<LEAF_ITEMS, INNER_CHILDREN>(8, 20_000, 3, 1 << 30);
    }

    #[test]
    fn equal_scores_spanning_many_leaves_keep_exact_ranks() {
        let mut tree: RankTree<Word> = RankTree::new();
        let mut rng = Rng::seeded(3);
        let mut order: Vec<u32> = (0..5_000).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, rng.below(i + 1));
        }
        for &n in &order {
            tree.insert(1.0, Word(n.to_be_bytes()));
        }
        tree.insert(0.5, Word(*b"low!"));
        tree.insert(1.5, Word(*b"high"));
        for n in (0..5_000u32).step_by(7) {
            assert_eq!(tree.rank_of(1.0, &n.to_be_bytes()), n as usize + 1);
        }
        assert_eq!(tree.partition(|score, _| score < 1.0), 1);
        assert_eq!(tree.partition(|score, _| score <= 1.0), 5_001);
    }

    #[test]
    fn ordered_inserts_fill_the_leaves() {
        let leaf_bytes = size_of::<Leaf<Word, LEAF_ITEMS>>();
        for descending in [false, true] {
            let mut tree: RankTree<Word> = RankTree::new();
            for n in 0..100_000u32 {
                let score = if descending { -f64::from(n) } else { f64::from(n) };
                tree.insert(score, Word(n.to_be_bytes()));
            }
            let full = 100_000 / LEAF_ITEMS * leaf_bytes;
            assert!(
                tree.mem_bytes() < full + full / 8,
                "{} of {full}",
                tree.mem_bytes()
            );
        }
    }

    #[test]
    fn random_inserts_keep_the_leaves_three_quarters_full() {
        let leaf_bytes = size_of::<Leaf<Word, LEAF_ITEMS>>();
        let mut tree: RankTree<Word> = RankTree::new();
        let mut rng = Rng::seeded(11);
        for n in 0..100_000u32 {
            tree.insert(rng.next_u64() as f64, Word(n.to_be_bytes()));
        }
        let full = 100_000 / LEAF_ITEMS * leaf_bytes;
        assert!(tree.mem_bytes() < full * 4 / 3, "{} of {full}", tree.mem_bytes());
    }
}
