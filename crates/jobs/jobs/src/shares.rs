//! Shares of what is sent: between tenants, and between the targets of each.
//!
//! A tenant may have at most half under way of what the others leave free. So one whose targets all hang holds half
//! of the places, a second such one a quarter, and there is always a place for the next.

use std::collections::HashMap;
use std::time::Duration;

use crate::name::TenantId;

/// A target of one tenant. Two tenants that send to one address do not share a fate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TenantTarget {
    pub tenant: TenantId,
    /// Scheme, host and port.
    pub target: String,
}

/// Returns how many more of a tenant may be under way, of `places` in all, when it has `own` and all others together
/// have `others`.
pub fn tenant_room(places: usize, own: usize, others: usize) -> usize {
    let free = places.saturating_sub(others);
    let share = (free / 2).max(usize::from(free > 0));
    share.saturating_sub(own)
}

/// A claim of deliveries: how many, and how many of whom.
#[derive(Clone, Debug)]
pub struct DeliveryClaim {
    /// Most in all.
    pub limit: usize,
    /// Most of a tenant that is not in `tenants`.
    pub per_tenant: usize,
    /// Most for a target that is not in `targets`.
    pub per_target: usize,
    /// Tenants that have something under way, and how many more of each.
    pub tenants: HashMap<TenantId, usize>,
    /// Targets that have something under way or rest, and how many more for each.
    pub targets: HashMap<TenantTarget, usize>,
    /// How long a delivery belongs to the caller.
    pub lease: Duration,
}

impl DeliveryClaim {
    /// A claim without shares, for tests and tools.
    pub fn of(limit: usize, lease: Duration) -> DeliveryClaim {
        DeliveryClaim {
            limit,
            per_tenant: limit,
            per_target: limit,
            tenants: HashMap::new(),
            targets: HashMap::new(),
            lease,
        }
    }

    /// Divides the claim between targets with due deliveries, in their order. Returns how many each may get; targets
    /// with none are left out.
    pub fn allot<'a>(&self, due: &'a [TenantTarget]) -> Vec<(&'a TenantTarget, usize)> {
        let mut left = self.limit;
        let mut tenants: HashMap<&TenantId, usize> = HashMap::new();
        let mut allotted = Vec::new();
        for target in due {
            let room = tenants.entry(&target.tenant).or_insert_with(|| {
                let room = self.tenants.get(&target.tenant).copied();
                // Those that come after it get something, too.
                room.unwrap_or(self.per_tenant).min(left.div_ceil(2))
            });
            let of_target = self.targets.get(target).copied().unwrap_or(self.per_target);
            let jobs = of_target.min(*room).min(left);
            if jobs > 0 {
                *room -= jobs;
                left -= jobs;
                allotted.push((target, jobs));
            }
        }
        allotted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(tenant: &str, target: &str) -> TenantTarget {
        TenantTarget {
            tenant: TenantId::new(tenant).unwrap(),
            target: target.into(),
        }
    }

    #[test]
    fn there_is_always_a_place_for_the_next_tenant() {
        let (mut held, mut shares) = (0, Vec::new());
        for _ in 0..7 {
            let room = tenant_room(64, 0, held);
            held += room;
            shares.push(room);
        }
        assert_eq!(shares, [32, 16, 8, 4, 2, 1, 1]);
        assert_eq!(tenant_room(64, 0, 64), 0, "all places are taken");
        assert_eq!(tenant_room(64, 32, 0), 0, "it has its share");
        assert_eq!(tenant_room(64, 30, 10), 0);
        assert_eq!(tenant_room(1, 0, 0), 1);
    }

    #[test]
    fn a_claim_is_divided_between_tenants_and_targets() {
        let due = [
            target("a", "1"),
            target("a", "2"),
            target("a", "3"),
            target("b", "1"),
            target("c", "1"),
        ];
        let mut claim = DeliveryClaim::of(8, Duration::ZERO);
        claim.per_target = 2;
        claim.targets.insert(target("a", "2"), 0);
        let of = |claim: &DeliveryClaim| {
            let allotted = claim.allot(&due).into_iter();
            allotted
                .map(|(one, jobs)| (format!("{}{}", one.tenant, one.target), jobs))
                .collect::<Vec<_>>()
        };
        let expected = [("a1", 2), ("a3", 2), ("b1", 2), ("c1", 1)];
        assert_eq!(of(&claim), expected.map(|(name, jobs)| (name.to_owned(), jobs)));
        claim.tenants.insert(TenantId::new("a").unwrap(), 0);
        assert_eq!(of(&claim)[0].0, "b1", "a tenant without room is passed over");
    }
}
