//! How many workers each instance should have, in closed form.
//!
//! An instance's share is `total * weight / sum of weights`, rounded down or up. An instance whose capacity
//! is below its share gets its capacity, and the rest is shared out again among the others. Rounding up goes
//! first to the instances that hold more than their share already, because that saves one move each. Hence
//! the sum of `max(0, count - target)` is the fewest moves that lead to an equally even distribution.

use super::Instance;

/// Capacity and current count of one instance.
#[derive(Clone, Copy)]
struct Bin {
    at: usize,
    weight: u128,
    capacity: u128,
    count: u128,
}

/// Returns the target count of each instance; 0 for those that do not accept. The sum is `total`, or the sum
/// of the capacities if that is smaller.
pub fn targets(instances: &[Instance], counts: &[usize], total: usize) -> Vec<usize> {
    let mut bins: Vec<Bin> = instances
        .iter()
        .enumerate()
        .filter(|(_, instance)| instance.accepts)
        .map(|(at, instance)| Bin {
            at,
            weight: u128::from(instance.weight.max(1)),
            capacity: instance.capacity.map_or(u128::MAX, u128::from),
            count: counts[at] as u128,
        })
        .collect();
    let mut targets = vec![0; instances.len()];
    let mut left = total as u128;
    left = fill_small(&mut bins, &mut targets, left);
    let weights: u128 = bins.iter().map(|bin| bin.weight).sum();
    if weights == 0 {
        return targets;
    }
    let share = |bin: &Bin| left * bin.weight / weights;
    let fraction = |bin: &Bin| left * bin.weight % weights;
    let mut extra = left - bins.iter().map(share).sum::<u128>();
    for bin in &bins {
        targets[bin.at] = to_usize(share(bin));
    }
    // Only a share with a fraction is rounded up, so that no instance is off by a whole worker.
    bins.retain(|bin| fraction(bin) > 0 && share(bin) < bin.capacity);
    bins.sort_by_key(|bin| {
        let holds = bin.count > share(bin);
        (!holds, std::cmp::Reverse((fraction(bin), bin.count)), bin.at)
    });
    for bin in bins {
        if extra == 0 {
            break;
        }
        targets[bin.at] += 1;
        extra -= 1;
    }
    targets
}

/// Fills the instances whose capacity is below their share and removes them from `bins`. Returns what is left
/// for the others.
fn fill_small(bins: &mut Vec<Bin>, targets: &mut [usize], mut left: u128) -> u128 {
    loop {
        let weights: u128 = bins.iter().map(|bin| bin.weight).sum();
        let is_small = |bin: &Bin| bin.capacity.saturating_mul(weights) <= left * bin.weight;
        let small: Vec<Bin> = bins.iter().copied().filter(is_small).collect();
        if small.is_empty() {
            return left;
        }
        bins.retain(|bin| !is_small(bin));
        for bin in small {
            targets[bin.at] = to_usize(bin.capacity);
            left -= bin.capacity;
        }
    }
}

fn to_usize(value: u128) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
