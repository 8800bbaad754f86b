//! Authorization of requests.

use axum::response::Response;
use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use nagaya_jobs::{QueueName, TenantId};

use super::problem::Problem;

/// The permission that a call requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    Read,
    Enqueue,
    Admin,
}

/// The authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub tenant: TenantId,
    /// May act for all tenants.
    pub is_admin: bool,
    /// The allowed queues; all when empty.
    pub queues: Vec<String>,
}

/// Authenticates requests. Returns the caller, or the response that rejects the request.
pub trait Authorize: Send + Sync + 'static {
    fn authorize<'a>(
        &'a self,
        headers: &'a HeaderMap,
        permission: Permission,
    ) -> BoxFuture<'a, Result<Principal, Response>>;
}

impl Principal {
    /// Returns the tenant to act for: the caller's own, or the requested one for administrators.
    pub(super) fn acting_for(&self, asked: Option<&str>) -> Result<TenantId, Problem> {
        match asked {
            None => Ok(self.tenant.clone()),
            Some(asked) if asked == self.tenant.as_str() => Ok(self.tenant.clone()),
            Some(asked) if self.is_admin => Ok(TenantId::new(asked)?),
            Some(_) => Err(Problem::new(
                StatusCode::FORBIDDEN,
                "the token speaks for another tenant",
            )),
        }
    }

    /// Returns the tenant whose data may be read; `None` (all tenants) for administrators that name none.
    pub(super) fn seeing(&self, asked: Option<&str>) -> Result<Option<TenantId>, Problem> {
        match (asked, self.is_admin) {
            (None, true) => Ok(None),
            (asked, _) => self.acting_for(asked).map(Some),
        }
    }

    pub(super) fn sees(&self, tenant: &TenantId, queue: &QueueName) -> bool {
        (self.is_admin || self.tenant == *tenant)
            && (self.queues.is_empty() || self.queues.iter().any(|one| one == queue.as_str()))
    }

    /// What is not of one queue needs a token that is not bound to queues.
    pub(super) fn check_all_queues(&self) -> Result<(), Problem> {
        self.queue(None).map(drop)
    }

    /// Parses the name of a queue that the caller may use. A token bound to queues must name one.
    pub(super) fn queue(&self, asked: Option<&str>) -> Result<Option<QueueName>, Problem> {
        let forbidden = |detail: String| Err(Problem::new(StatusCode::FORBIDDEN, detail));
        let Some(asked) = asked else {
            return if self.queues.is_empty() {
                Ok(None)
            } else {
                forbidden("the token is for some queues only: name one".into())
            };
        };
        let queue = QueueName::new(asked)?;
        if self.queues.is_empty() || self.queues.iter().any(|one| one == asked) {
            Ok(Some(queue))
        } else {
            forbidden(format!("the token is not for the queue {queue}"))
        }
    }
}
