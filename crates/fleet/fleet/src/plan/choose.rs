//! Chooses an instance for a single worker.

use super::Instance;

/// Returns the accepting instance with free capacity and the fewest workers for its weight, excluding
/// `except`. Ties go to the first name.
pub fn least_busy(instances: &[Instance], counts: &[usize], except: Option<usize>) -> Option<usize> {
    let fits = |at: usize, instance: &Instance| {
        let room = instance
            .capacity
            .is_none_or(|capacity| counts[at] < capacity as usize);
        instance.accepts && room && Some(at) != except
    };
    let candidates = instances
        .iter()
        .enumerate()
        .filter(|(at, instance)| fits(*at, instance));
    let best = candidates.min_by(|(a, left), (b, right)| {
        // Compares counts / weight without a division.
        let left_load = counts[*a] as u128 * u128::from(right.weight.max(1));
        let right_load = counts[*b] as u128 * u128::from(left.weight.max(1));
        left_load
            .cmp(&right_load)
            .then_with(|| left.name.cmp(&right.name))
    });
    best.map(|(at, _)| at)
}
