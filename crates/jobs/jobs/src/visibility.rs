//! Whose jobs and queues a caller sees.

use crate::event::Event;
use crate::name::{QueueName, TenantId};

/// The tenant and the queues that a caller sees.
///
/// There is no default: a call that reads for somebody has to say for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visibility {
    tenant: Option<TenantId>,
    queues: Option<Vec<QueueName>>,
}

impl Visibility {
    /// All tenants and all queues: for administrators, and for the server's own tasks.
    pub fn everything() -> Visibility {
        Visibility {
            tenant: None,
            queues: None,
        }
    }

    /// What belongs to one tenant.
    pub fn of_tenant(tenant: TenantId) -> Visibility {
        Visibility {
            tenant: Some(tenant),
            queues: None,
        }
    }

    /// The same, in these queues only.
    pub fn within(self, queues: Vec<QueueName>) -> Visibility {
        Visibility {
            queues: Some(queues),
            ..self
        }
    }

    /// The tenant; `None` for all of them.
    pub fn tenant(&self) -> Option<&TenantId> {
        self.tenant.as_ref()
    }

    pub fn sees_tenant(&self, tenant: &TenantId) -> bool {
        self.tenant.as_ref().is_none_or(|own| own == tenant)
    }

    pub fn sees_queue(&self, queue: &QueueName) -> bool {
        self.queues.as_ref().is_none_or(|queues| queues.contains(queue))
    }

    pub fn sees(&self, tenant: &TenantId, queue: &QueueName) -> bool {
        self.sees_tenant(tenant) && self.sees_queue(queue)
    }

    pub fn sees_event(&self, event: &Event) -> bool {
        self.sees(&event.tenant, &event.queue)
    }

    /// Returns whether queues are left out.
    pub fn is_bound_to_queues(&self) -> bool {
        self.queues.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_sees_itself_and_a_bound_caller_its_queues() {
        let (shop, bank) = (TenantId::new("shop").unwrap(), TenantId::new("bank").unwrap());
        let (mail, post) = (QueueName::new("mail").unwrap(), QueueName::new("post").unwrap());
        assert!(Visibility::everything().sees(&bank, &post));
        let own = Visibility::of_tenant(shop.clone());
        assert!(own.sees(&shop, &post) && !own.sees(&bank, &post));
        let bound = own.within(vec![mail.clone()]);
        assert!(bound.sees(&shop, &mail) && !bound.sees(&shop, &post));
    }
}
