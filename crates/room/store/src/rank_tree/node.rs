//! Nodes of the counted tree: searching, splitting, lending and merging.

use super::RankItem;

/// Returns whether the pair (score, item) orders before (other, bytes).
pub(super) fn is_before<P: RankItem>(score: f64, item: &P, other: f64, bytes: &[u8]) -> bool {
    score < other || (score == other && item.bytes() < bytes)
}

/// Which ends of the whole tree a node lies on.
#[derive(Clone, Copy)]
pub(super) struct TreeSide {
    first: bool,
    last: bool,
}

impl TreeSide {
    pub(super) const BOTH: TreeSide = TreeSide {
        first: true,
        last: true,
    };

    fn of_child(self, at: usize, len: usize) -> TreeSide {
        TreeSide {
            first: self.first && at == 0,
            last: self.last && at + 1 == len,
        }
    }
}

#[derive(Clone)]
pub(super) enum Node<P: RankItem, const L: usize, const N: usize> {
    Leaf(Box<Leaf<P, L>>),
    Inner(Box<Inner<P, L, N>>),
}

/// Items in order. Slots from `len` on hold stale copies that are never read.
#[derive(Clone)]
pub(super) struct Leaf<P: RankItem, const L: usize> {
    pub(super) len: usize,
    pub(super) scores: [f64; L],
    pub(super) items: [P; L],
}

/// Children in order, with the first item and the number of items of each.
#[derive(Clone)]
pub(super) struct Inner<P: RankItem, const L: usize, const N: usize> {
    scores: [f64; N],
    items: [P; N],
    counts: [usize; N],
    nodes: Vec<Node<P, L, N>>,
}

/// Opens a gap at `at` in the first `len` slots.
fn open<T: Copy>(slots: &mut [T], len: usize, at: usize, value: T) {
    slots.copy_within(at..len, at + 1);
    slots[at] = value;
}

impl<P: RankItem, const L: usize> Leaf<P, L> {
    /// Leaves below this many items look for a neighbour to join or borrow from.
    const LOW: usize = if L / 4 > 2 { L / 4 } else { 2 };

    pub(super) fn one(score: f64, item: P) -> Self {
        Leaf {
            len: 1,
            scores: [score; L],
            items: [item; L],
        }
    }

    fn partition(&self, before: &impl Fn(f64, &P) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = (low + high) / 2;
            if before(self.scores[middle], &self.items[middle]) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn put(&mut self, at: usize, score: f64, item: P) {
        open(&mut self.scores, self.len, at, score);
        open(&mut self.items, self.len, at, item);
        self.len += 1;
    }

    /// Moves the items from `at` on to the front of `right`.
    fn move_tail(&mut self, at: usize, right: &mut Self) {
        let moved = self.len - at;
        right.scores.copy_within(..right.len, moved);
        right.items.copy_within(..right.len, moved);
        right.scores[..moved].copy_from_slice(&self.scores[at..self.len]);
        right.items[..moved].copy_from_slice(&self.items[at..self.len]);
        right.len += moved;
        self.len = at;
    }

    /// Moves the first `count` items of `right` to the end of this leaf.
    fn take_head(&mut self, right: &mut Self, count: usize) {
        self.scores[self.len..self.len + count].copy_from_slice(&right.scores[..count]);
        self.items[self.len..self.len + count].copy_from_slice(&right.items[..count]);
        self.len += count;
        right.cut(0, count);
    }

    fn cut(&mut self, at: usize, count: usize) {
        self.scores.copy_within(at + count..self.len, at);
        self.items.copy_within(at + count..self.len, at);
        self.len -= count;
    }

    fn insert<const N: usize>(&mut self, score: f64, item: P, side: TreeSide) -> Option<Node<P, L, N>> {
        let at = self.partition(&|s, other: &P| is_before(s, other, score, item.bytes()));
        if self.len < L {
            self.put(at, score, item);
            return None;
        }
        if at == L && side.last {
            return Some(Node::Leaf(Box::new(Leaf::one(score, item))));
        }
        let half = if at == 0 && side.first { 0 } else { L / 2 };
        let mut right = Box::new(Leaf {
            len: 0,
            scores: self.scores,
            items: self.items,
        });
        self.move_tail(half, &mut right);
        if at <= half {
            self.put(at, score, item);
        } else {
            right.put(at - half, score, item);
        }
        Some(Node::Leaf(right))
    }

    fn rescore(&mut self, score: f64, bytes: &[u8], new_score: f64, side: TreeSide) -> bool {
        let at = self.partition(&|s, item: &P| is_before(s, item, score, bytes));
        if at >= self.len || self.scores[at] != score || self.items[at].bytes() != bytes {
            return false;
        }
        let after_previous = match at.checked_sub(1) {
            Some(previous) => is_before(self.scores[previous], &self.items[previous], new_score, bytes),
            None => side.first,
        };
        let before_next = if at + 1 < self.len {
            !is_before(self.scores[at + 1], &self.items[at + 1], new_score, bytes)
        } else {
            side.last
        };
        if after_previous && before_next {
            self.scores[at] = new_score;
        }
        after_previous && before_next
    }
}

impl<P: RankItem, const L: usize, const N: usize> Node<P, L, N> {
    pub(super) fn parent_of(left: Self, right: Self) -> Self {
        let (score, item) = left.first();
        let mut nodes = Vec::with_capacity(N);
        nodes.push(left);
        nodes.push(right);
        let mut inner = Inner {
            scores: [score; N],
            items: [item; N],
            counts: [0; N],
            nodes,
        };
        inner.refresh(0);
        inner.refresh(1);
        Node::Inner(Box::new(inner))
    }

    pub(super) fn insert(&mut self, score: f64, item: P, side: TreeSide) -> Option<Self> {
        match self {
            Node::Leaf(leaf) => leaf.insert(score, item, side),
            Node::Inner(inner) => inner.insert(score, item, side),
        }
    }

    /// Removes up to `count` items from one leaf, from `rank` on; returns how many went.
    pub(super) fn remove_run(&mut self, rank: usize, count: usize, seen: &mut impl FnMut(f64, P)) -> usize {
        match self {
            Node::Leaf(leaf) => {
                let count = count.min(leaf.len - rank);
                for at in rank..rank + count {
                    seen(leaf.scores[at], leaf.items[at]);
                }
                leaf.cut(rank, count);
                count
            }
            Node::Inner(inner) => inner.remove_run(rank, count, seen),
        }
    }

    pub(super) fn rescore(&mut self, score: f64, bytes: &[u8], new_score: f64, side: TreeSide) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.rescore(score, bytes, new_score, side),
            Node::Inner(inner) => {
                let at = inner.child_for(&|s, item: &P| s < score || (s == score && item.bytes() <= bytes));
                let side = side.of_child(at, inner.nodes.len());
                let done = inner.nodes[at].rescore(score, bytes, new_score, side);
                if done {
                    (inner.scores[at], inner.items[at]) = inner.nodes[at].first();
                }
                done
            }
        }
    }

    pub(super) fn partition(&self, before: &impl Fn(f64, &P) -> bool) -> usize {
        let mut passed = 0;
        let mut node = self;
        loop {
            match node {
                Node::Leaf(leaf) => return passed + leaf.partition(before),
                Node::Inner(inner) => {
                    let at = inner.child_for(before);
                    passed += inner.counts[..at].iter().sum::<usize>();
                    node = &inner.nodes[at];
                }
            }
        }
    }

    pub(super) fn leaf_at(&self, mut rank: usize) -> (&Leaf<P, L>, usize) {
        let mut node = self;
        loop {
            match node {
                Node::Leaf(leaf) => return (leaf, rank),
                Node::Inner(inner) => {
                    let (at, rest) = inner.child_at(rank);
                    rank = rest;
                    node = &inner.nodes[at];
                }
            }
        }
    }

    /// Takes the child out of an inner node that has just one, so that it can replace it.
    pub(super) fn take_only_child(&mut self) -> Option<Self> {
        match self {
            Node::Inner(inner) if inner.nodes.len() == 1 => inner.nodes.pop(),
            _ => None,
        }
    }

    pub(super) fn mem_bytes(&self) -> usize {
        match self {
            Node::Leaf(_) => size_of::<Leaf<P, L>>(),
            Node::Inner(inner) => {
                let own = size_of::<Inner<P, L, N>>() + inner.nodes.capacity() * size_of::<Self>();
                match inner.nodes.first() {
                    Some(Node::Leaf(_)) => own + inner.nodes.len() * size_of::<Leaf<P, L>>(),
                    _ => own + inner.nodes.iter().map(Node::mem_bytes).sum::<usize>(),
                }
            }
        }
    }

    fn first(&self) -> (f64, P) {
        match self {
            Node::Leaf(leaf) => (leaf.scores[0], leaf.items[0]),
            Node::Inner(inner) => (inner.scores[0], inner.items[0]),
        }
    }

    fn count(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.len,
            Node::Inner(inner) => inner.counts[..inner.nodes.len()].iter().sum(),
        }
    }

    fn is_low(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.len < Leaf::<P, L>::LOW,
            Node::Inner(inner) => inner.nodes.len() < Inner::<P, L, N>::LOW,
        }
    }

    /// Checks every invariant below this node; for tests.
    #[cfg(test)]
    pub(super) fn check(&self) -> usize {
        match self {
            Node::Leaf(leaf) => {
                assert!(leaf.len > 0 && leaf.len <= L);
                1
            }
            Node::Inner(inner) => {
                assert!(!inner.nodes.is_empty() && inner.nodes.len() <= N);
                let mut heights = inner.nodes.iter().enumerate().map(|(at, node)| {
                    let (score, item) = node.first();
                    assert_eq!(inner.counts[at], node.count());
                    assert_eq!((inner.scores[at], inner.items[at].bytes()), (score, item.bytes()));
                    node.check()
                });
                let height = heights.next().expect("checked just above");
                assert!(
                    heights.all(|other| other == height),
                    "all leaves lie equally deep"
                );
                height + 1
            }
        }
    }
}

impl<P: RankItem, const L: usize, const N: usize> Inner<P, L, N> {
    const LOW: usize = if N / 4 > 2 { N / 4 } else { 2 };

    /// Returns the child in which `before` turns false: the last one whose first item satisfies it.
    fn child_for(&self, before: &impl Fn(f64, &P) -> bool) -> usize {
        // The first child needs no look: what is not in a later child is in this one.
        let (mut low, mut high) = (1, self.nodes.len());
        while low < high {
            let middle = (low + high) / 2;
            if before(self.scores[middle], &self.items[middle]) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low - 1
    }

    /// Returns the child holding this rank, and the rank inside it.
    fn child_at(&self, mut rank: usize) -> (usize, usize) {
        for (at, &count) in self.counts[..self.nodes.len()].iter().enumerate() {
            if rank < count {
                return (at, rank);
            }
            rank -= count;
        }
        unreachable!("the caller checked the rank against the length");
    }

    fn refresh(&mut self, at: usize) {
        (self.scores[at], self.items[at]) = self.nodes[at].first();
        self.counts[at] = self.nodes[at].count();
    }

    fn insert(&mut self, score: f64, item: P, side: TreeSide) -> Option<Node<P, L, N>> {
        let before = |s: f64, other: &P| is_before(s, other, score, item.bytes());
        let mut at = self.child_for(&before);
        if self.lend(at, side) {
            at = self.child_for(&before);
        }
        let below = side.of_child(at, self.nodes.len());
        let Some(right) = self.nodes[at].insert(score, item, below) else {
            self.counts[at] += 1;
            if is_before(score, &item, self.scores[at], self.items[at].bytes()) {
                (self.scores[at], self.items[at]) = (score, item);
            }
            return None;
        };
        self.refresh(at);
        if self.nodes.len() < N {
            self.put(at + 1, right);
            return None;
        }
        let half = if at + 1 == N && side.last { N - 1 } else { N / 2 };
        let mut sibling = self.split_off(half);
        if at < half {
            self.put(at + 1, right);
        } else {
            sibling.put(at + 1 - half, right);
        }
        Some(Node::Inner(Box::new(sibling)))
    }

    fn put(&mut self, at: usize, node: Node<P, L, N>) {
        let (len, (score, item)) = (self.nodes.len(), node.first());
        open(&mut self.scores, len, at, score);
        open(&mut self.items, len, at, item);
        open(&mut self.counts, len, at, node.count());
        self.nodes.insert(at, node);
    }

    fn split_off(&mut self, at: usize) -> Self {
        let len = self.nodes.len();
        let mut right = Inner {
            scores: self.scores,
            items: self.items,
            counts: self.counts,
            nodes: Vec::with_capacity(N),
        };
        right.scores.copy_within(at..len, 0);
        right.items.copy_within(at..len, 0);
        right.counts.copy_within(at..len, 0);
        right.nodes.extend(self.nodes.drain(at..));
        right
    }

    fn drop_child(&mut self, at: usize) -> Node<P, L, N> {
        let len = self.nodes.len();
        self.scores.copy_within(at + 1..len, at);
        self.items.copy_within(at + 1..len, at);
        self.counts.copy_within(at + 1..len, at);
        self.nodes.remove(at)
    }

    /// Before an insert into a full leaf: evens it out with a neighbour that has
    /// room. True when items moved. An end of the tree is left alone, so that
    /// ordered inserts split off new leaves and leave full ones behind.
    fn lend(&mut self, at: usize, side: TreeSide) -> bool {
        let fill = |node: Option<&Node<P, L, N>>| match node {
            Some(Node::Leaf(leaf)) => leaf.len,
            _ => L,
        };
        let below = side.of_child(at, self.nodes.len());
        if below.first || below.last || fill(self.nodes.get(at)) < L {
            return false;
        }
        // A neighbour that is nearly full is not worth the copying.
        let room = L - (L / 8).max(1);
        if fill(self.nodes.get(at + 1)) < room {
            self.even_out(at);
        } else if at > 0 && fill(self.nodes.get(at - 1)) < room {
            self.even_out(at - 1);
        } else {
            return false;
        }
        true
    }

    /// Spreads the contents of the children `at` and `at + 1` evenly over both.
    fn even_out(&mut self, at: usize) {
        let [left, right] = &mut self.nodes[at..at + 2] else {
            unreachable!("the caller names a child that has a right neighbour");
        };
        match (left, right) {
            (Node::Leaf(left), Node::Leaf(right)) => {
                let half = (left.len + right.len) / 2;
                if left.len > half {
                    left.move_tail(half, right);
                } else {
                    left.take_head(right, half - left.len);
                }
            }
            (Node::Inner(left), Node::Inner(right)) => {
                let half = (left.nodes.len() + right.nodes.len()) / 2;
                while left.nodes.len() > half {
                    right.put(0, left.drop_child(left.nodes.len() - 1));
                }
                while left.nodes.len() < half {
                    left.put(left.nodes.len(), right.drop_child(0));
                }
            }
            _ => unreachable!("siblings lie equally deep"),
        }
        self.refresh(at);
        self.refresh(at + 1);
    }

    fn remove_run(&mut self, rank: usize, count: usize, seen: &mut impl FnMut(f64, P)) -> usize {
        let (at, rest) = self.child_at(rank);
        let removed = self.nodes[at].remove_run(rest, count, seen);
        self.counts[at] -= removed;
        if self.counts[at] == 0 {
            self.drop_child(at);
            return removed;
        }
        (self.scores[at], self.items[at]) = self.nodes[at].first();
        if self.nodes[at].is_low() && self.nodes.len() > 1 {
            self.rebalance(at.min(self.nodes.len() - 2));
        }
        removed
    }

    /// Joins the children `at` and `at + 1` when they fit well below a full node, or evens them out.
    fn rebalance(&mut self, at: usize) {
        let fits = match (&self.nodes[at], &self.nodes[at + 1]) {
            (Node::Leaf(left), Node::Leaf(right)) => left.len + right.len <= L * 3 / 4,
            (Node::Inner(left), Node::Inner(right)) => left.nodes.len() + right.nodes.len() <= N * 3 / 4,
            _ => unreachable!("siblings lie equally deep"),
        };
        if !fits {
            return self.even_out(at);
        }
        let right = self.drop_child(at + 1);
        match (&mut self.nodes[at], right) {
            (Node::Leaf(left), Node::Leaf(mut right)) => {
                let count = right.len;
                left.take_head(&mut right, count);
            }
            (Node::Inner(left), Node::Inner(right)) => {
                right
                    .nodes
                    .into_iter()
                    .for_each(|child| left.put(left.nodes.len(), child));
            }
            _ => unreachable!("siblings lie equally deep"),
        }
        self.refresh(at);
    }
}
