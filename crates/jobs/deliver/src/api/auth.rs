//! Who asks, and what they may.

use axum::response::Response;
use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use nagaya_jobs::{QueueName, TenantId};

use super::problem::Problem;

/// What a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    Read,
    Enqueue,
    Admin,
}

/// Whoever asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub tenant: TenantId,
    /// Speaks for all tenants.
    pub is_admin: bool,
    /// Only these queues; all when empty.
    pub queues: Vec<String>,
}

/// Answers who a request is from, or with what it is refused.
pub trait Authorize: Send + Sync + 'static {
    fn authorize<'a>(
        &'a self,
        headers: &'a HeaderMap,
        permission: Permission,
    ) -> BoxFuture<'a, Result<Principal, Response>>;
}

impl Principal {
    /// The tenant to act for: the caller's own, or another one for those who speak for all.
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

    /// The tenant whose things may be seen; nothing for those who see all and name none.
    pub(super) fn seeing(&self, asked: Option<&str>) -> Result<Option<TenantId>, Problem> {
        match (asked, self.is_admin) {
            (None, true) => Ok(None),
            (asked, _) => self.acting_for(asked).map(Some),
        }
    }

    /// Reads the name of a queue that the caller may use. A token for some queues must name one.
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
