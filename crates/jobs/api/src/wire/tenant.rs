//! Tenants and their tokens.

use nagaya_jobs::tenant::{ApiToken, Scopes, Tenant};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::scalar::Time;

/// What a token allows.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// Register jobs, cancel and retry its tenant's.
    Enqueue,
    /// Claim jobs and report on them.
    Work,
    /// See jobs, queues and events.
    Read,
    /// Read the metrics of the server, and nothing else.
    Metrics,
    /// Everything, for all tenants.
    Admin,
}

/// Converts a list of scopes to the domain's set.
pub(crate) fn scopes(list: &[Scope]) -> Scopes {
    Scopes {
        enqueue: list.contains(&Scope::Enqueue),
        work: list.contains(&Scope::Work),
        read: list.contains(&Scope::Read),
        metrics: list.contains(&Scope::Metrics),
        admin: list.contains(&Scope::Admin),
    }
}

pub(crate) fn scope_list(scopes: Scopes) -> Vec<Scope> {
    let all = [
        (scopes.enqueue, Scope::Enqueue),
        (scopes.work, Scope::Work),
        (scopes.read, Scope::Read),
        (scopes.metrics, Scope::Metrics),
        (scopes.admin, Scope::Admin),
    ];
    all.into_iter()
        .filter(|(has, _)| *has)
        .map(|(_, scope)| scope)
        .collect()
}

/// Whose a token is, and what it allows.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WhoAmI<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) scopes: Vec<Scope>,
    /// Only these queues; all when empty.
    pub(crate) queues: Vec<&'a str>,
    /// It speaks for the server itself.
    pub(crate) is_house: bool,
}

/// A token to be made. One of the same tenant and name is replaced.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    #[schema(min_length = 1, max_length = 128, pattern = "^(?!\\.+$)[A-Za-z0-9._:-]+$")]
    pub(crate) tenant: String,
    /// A name for people.
    #[schema(min_length = 1, max_length = 128, pattern = "^(?!\\.+$)[A-Za-z0-9._:-]+$")]
    pub(crate) name: String,
    #[schema(min_items = 1, max_items = 4)]
    pub(crate) scopes: Vec<Scope>,
    /// Only these queues; all when left out.
    #[schema(max_items = 1000)]
    pub(crate) queues: Option<Vec<String>>,
    pub(crate) expires_at: Option<Time>,
}

/// A token that was just made. It is shown this once: the store knows only its hash.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MadeToken<'a> {
    pub(crate) token: &'a str,
    #[serde(flatten)]
    pub(crate) line: TokenLine<'a>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenLine<'a> {
    tenant: &'a str,
    name: &'a str,
    scopes: Vec<Scope>,
    queues: &'a [String],
    #[schema(inline)]
    created_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Time>,
}

impl<'a> From<&'a ApiToken> for TokenLine<'a> {
    fn from(token: &'a ApiToken) -> TokenLine<'a> {
        TokenLine {
            tenant: token.tenant.as_str(),
            name: &token.name,
            scopes: scope_list(token.scopes),
            queues: &token.queues,
            created_at: Time(token.created_at_ms),
            expires_at: token.expires_at_ms.map(Time),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Tokens<'a> {
    pub(crate) tokens: Vec<TokenLine<'a>>,
}

/// A tenant's share of queues that others use, too.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TenantSettings {
    /// Twice the weight, twice the jobs.
    #[schema(minimum = 1, maximum = 1000000)]
    pub(crate) weight: u32,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TenantLine {
    id: String,
    weight: u32,
    #[schema(inline)]
    created_at: Time,
}

impl From<&Tenant> for TenantLine {
    fn from(tenant: &Tenant) -> TenantLine {
        TenantLine {
            id: tenant.id.to_string(),
            weight: tenant.weight,
            created_at: Time(tenant.created_at_ms),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Tenants {
    pub(crate) tenants: Vec<TenantLine>,
}
