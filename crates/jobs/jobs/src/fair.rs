//! Fair shares of a queue between the tenants that have jobs in it.
//!
//! Deficit round robin, counted in jobs. Each tenant with jobs gets its weight as credit in each round and
//! spends it as its jobs are taken. A tenant without ready jobs loses its credit. So a tenant with a million
//! jobs and one with three each get their turn, whatever the sizes of the claims.

use std::collections::HashMap;
use std::hash::Hash;

/// The round of one queue. Kept in memory: losing it costs at most one round's order.
#[derive(Debug)]
pub struct FairRound<T> {
    credits: HashMap<T, u64>,
    /// The tenant that was served last; the next one in order begins.
    last: Option<T>,
}

impl<T> Default for FairRound<T> {
    fn default() -> FairRound<T> {
        FairRound {
            credits: HashMap::new(),
            last: None,
        }
    }
}

/// A tenant with jobs that can start now.
#[derive(Clone, Copy, Debug)]
pub struct ReadyTenant<T> {
    pub tenant: T,
    pub weight: u32,
    /// How many jobs it has, or at least as many as are wanted.
    pub ready: usize,
}

impl<T: Copy + Eq + Hash + Ord> FairRound<T> {
    /// Divides `wanted` jobs between the tenants, which are in order. Returns how many each may start; tenants
    /// with none are left out.
    pub fn split(&mut self, tenants: &[ReadyTenant<T>], wanted: usize) -> Vec<(T, usize)> {
        if let [only] = tenants {
            // The usual case: a single tenant.
            self.credits.clear();
            return match only.ready.min(wanted) {
                0 => Vec::new(),
                jobs => vec![(only.tenant, jobs)],
            };
        }
        self.credits
            .retain(|tenant, _| tenants.iter().any(|ready| ready.tenant == *tenant));
        let mut taken = vec![0; tenants.len()];
        let mut left = wanted.min(tenants.iter().map(|tenant| tenant.ready).sum());
        let mut at = self.first(tenants);
        while left > 0 {
            let tenant = &tenants[at];
            let open = tenant.ready - taken[at];
            if open == 0 {
                self.credits.remove(&tenant.tenant);
            } else {
                let credit = self.credits.entry(tenant.tenant).or_insert(0);
                if *credit == 0 {
                    *credit = u64::from(tenant.weight.max(1));
                }
                let turn = usize::try_from(*credit).unwrap_or(usize::MAX).min(open).min(left);
                *credit -= turn as u64;
                taken[at] += turn;
                left -= turn;
                if *credit > 0 && taken[at] < tenant.ready {
                    // The claim is full in the middle of this tenant's turn; the next claim continues it.
                    break;
                }
                self.last = Some(tenant.tenant);
            }
            at = (at + 1) % tenants.len();
        }
        let shares = tenants.iter().zip(taken).filter(|(_, jobs)| *jobs > 0);
        shares.map(|(tenant, jobs)| (tenant.tenant, jobs)).collect()
    }

    fn first(&self, tenants: &[ReadyTenant<T>]) -> usize {
        let after = |last: &T| tenants.iter().position(|tenant| tenant.tenant > *last);
        self.last.as_ref().and_then(after).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenants(ready: &[(u8, u32, usize)]) -> Vec<ReadyTenant<u8>> {
        let tenant = |&(tenant, weight, ready)| ReadyTenant {
            tenant,
            weight,
            ready,
        };
        ready.iter().map(tenant).collect()
    }

    #[test]
    fn one_tenant_gets_all() {
        let mut round = FairRound::default();
        assert_eq!(round.split(&tenants(&[(1, 1, 9)]), 5), [(1, 5)]);
        assert_eq!(round.split(&tenants(&[(1, 1, 0)]), 5), []);
    }

    #[test]
    fn a_small_tenant_is_not_starved_by_a_large_one() {
        let mut round = FairRound::default();
        let shares = round.split(&tenants(&[(1, 1, 1_000_000), (2, 1, 3)]), 10);
        assert_eq!(shares, [(1, 7), (2, 3)]);
    }

    #[test]
    fn claims_of_one_job_take_turns() {
        let mut round = FairRound::default();
        let mut served = Vec::new();
        for _ in 0..6 {
            served.extend(round.split(&tenants(&[(1, 1, 9), (2, 1, 9), (3, 1, 9)]), 1));
        }
        assert_eq!(served, [(1, 1), (2, 1), (3, 1), (1, 1), (2, 1), (3, 1)]);
    }

    #[test]
    fn weights_are_kept_over_claims_of_any_size() {
        for wanted in 1..=7 {
            let mut round = FairRound::default();
            let mut sums = [0; 3];
            for _ in 0..1_000 {
                for (tenant, jobs) in round.split(&tenants(&[(0, 1, 99), (1, 2, 99), (2, 5, 99)]), wanted) {
                    sums[usize::from(tenant)] += jobs;
                }
            }
            let all = 1_000 * wanted;
            for (sum, weight) in sums.iter().zip([1, 2, 5]) {
                assert!(sum.abs_diff(all * weight / 8) <= 8, "{wanted}: {sums:?}");
            }
        }
    }
}
