//! `doAllRelocate` of document 000, step by step, for comparison. It often ends uneven;
//! [`Fleet::plan`](super::Fleet::plan) does not.

/// Where the document and the code it describes differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeedRules {
    /// The average is rounded; at most half as many rounds as instances.
    Document,
    /// The average is truncated; as many rounds as instances.
    Code,
}

/// Moves workers between the instances' lists. Returns how many were moved.
///
/// Lists keep their order: the first of the longest list go to the end of the shortest. Of lists of equal
/// length, the first counts as the longest and the last as the shortest.
pub fn relocate_all<W>(lists: &mut [Vec<W>], rules: SeedRules) -> usize {
    let instances = lists.len();
    if instances == 0 {
        return 0;
    }
    let total: usize = lists.iter().map(Vec::len).sum();
    let (share, rounds) = match rules {
        SeedRules::Document => ((total * 2 + instances) / (instances * 2), instances.div_ceil(2)),
        SeedRules::Code => (total / instances, instances),
    };
    let mut moved = 0;
    for _ in 0..rounds {
        let mut order: Vec<usize> = (0..instances).collect();
        order.sort_by_key(|at| std::cmp::Reverse(lists[*at].len()));
        let (most, least) = (order[0], order[instances - 1]);
        if lists[least].len() == share {
            break;
        }
        let count = ((lists[most].len() - lists[least].len()) / 2).min(share);
        let movers: Vec<W> = lists[most].drain(..count).collect();
        lists[least].extend(movers);
        moved += count;
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(counts: &[usize], rules: SeedRules) -> (Vec<usize>, usize) {
        let mut lists: Vec<Vec<u8>> = counts.iter().map(|count| vec![0; *count]).collect();
        let moved = relocate_all(&mut lists, rules);
        let mut after: Vec<usize> = lists.iter().map(Vec::len).collect();
        after.sort_unstable();
        (after, moved)
    }

    #[test]
    fn the_code_rules_give_what_the_script_gave_on_a_live_redis() {
        assert_eq!(run(&[3, 0, 0, 0], SeedRules::Code), (vec![0, 0, 0, 3], 0));
        assert_eq!(run(&[5, 2, 2, 2], SeedRules::Code), (vec![2, 2, 2, 5], 0));
        assert_eq!(run(&[10, 10, 0], SeedRules::Code), (vec![6, 7, 7], 8));
        let mut uneven = vec![99; 100];
        uneven[0] = 198;
        assert_eq!(run(&uneven, SeedRules::Code).1, 0);
    }

    #[test]
    fn the_document_rules_can_leave_a_spread_of_over_a_hundred() {
        let mut uneven = vec![0; 12];
        uneven[0] = 197;
        let (after, _) = run(&uneven, SeedRules::Document);
        assert_eq!(after[11] - after[0], 101);
    }
}
