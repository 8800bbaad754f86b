//! Authentication and authorization of requests.
//!
//! A request carries the server's own token (`http.token`), a tenant's token (whose hash is in the store), or
//! none. A server that requires no token lets a request without one do everything as the default tenant. A
//! web page of another origin is the exception: otherwise any page in a browser could control a server on
//! loopback.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, header};
use nagaya_http_kit::bearer;
use nagaya_jobs::store::Tenants;
use nagaya_jobs::tenant::Scopes;
use nagaya_jobs::{Error, QueueName, TenantId, Visibility};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::time::Instant;

use crate::problem::{Problem, ProblemKind};

/// How long after its revocation or expiry a token may still be accepted, by any server, on calls and on streams
/// that were opened before.
pub const REVOCATION_BOUND: Duration = Duration::from_secs(5);
/// How long a token lookup is cached, and how often the token of an open stream is looked up. Together with the
/// lookup itself they stay below the bound.
const TOKEN_CACHE_TTL: Duration = Duration::from_secs(2);
const STREAM_CHECK: Duration = Duration::from_secs(2);
/// Cached lookups at most; the cache is cleared when it is full.
const CACHED_TOKENS_MAX: usize = 10_000;

/// The permission that a call requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Any token will do.
    Any,
    Enqueue,
    Work,
    Read,
    /// The metrics of the server alone; `read` includes it.
    Metrics,
    Admin,
}

impl Permission {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Permission::Any => "any",
            Permission::Enqueue => "enqueue",
            Permission::Work => "work",
            Permission::Read => "read",
            Permission::Metrics => "metrics",
            Permission::Admin => "admin",
        }
    }
}

/// The authenticated caller, for routes of other crates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrincipalInfo {
    pub tenant: TenantId,
    /// May act for all tenants.
    pub is_admin: bool,
    /// The allowed queues; all when empty.
    pub queues: Vec<String>,
}

impl From<&Principal> for PrincipalInfo {
    fn from(principal: &Principal) -> PrincipalInfo {
        PrincipalInfo {
            tenant: principal.tenant.clone(),
            is_admin: principal.scopes.admin,
            queues: principal.queues.iter().map(ToString::to_string).collect(),
        }
    }
}

/// The authenticated caller.
#[derive(Debug)]
pub(crate) struct Principal {
    tenant: TenantId,
    scopes: Scopes,
    /// The allowed queues; all when empty.
    queues: Vec<QueueName>,
    expires_at_ms: Option<i64>,
    /// The hash of the token, by which it is looked up again; `None` for the server's own.
    hash: Option<[u8; 32]>,
}

const ALL_SCOPES: Scopes = Scopes {
    enqueue: true,
    work: true,
    read: true,
    metrics: true,
    admin: true,
};

impl Principal {
    fn operator() -> Arc<Principal> {
        Arc::new(Principal {
            tenant: TenantId::default_tenant(),
            scopes: ALL_SCOPES,
            queues: Vec::new(),
            expires_at_ms: None,
            hash: None,
        })
    }

    /// Returns what callers may learn about themselves.
    pub(crate) fn describe(&self) -> (&TenantId, Scopes, &[QueueName]) {
        (&self.tenant, self.scopes, &self.queues)
    }

    fn may(&self, permission: Permission) -> bool {
        self.scopes.admin
            || match permission {
                Permission::Any => true,
                Permission::Enqueue => self.scopes.enqueue,
                Permission::Work => self.scopes.work,
                Permission::Read => self.scopes.read,
                Permission::Metrics => self.scopes.metrics || self.scopes.read,
                Permission::Admin => false,
            }
    }

    pub(crate) fn check(&self, permission: Permission) -> Result<(), Problem> {
        if self.may(permission) {
            Ok(())
        } else {
            Err(Problem::new(
                ProblemKind::Forbidden,
                format!("the token lacks the scope {}", permission.name()),
            ))
        }
    }

    /// Returns the tenant to act for: the caller's own, or the requested one for administrators.
    pub(crate) fn acting_for(&self, asked: Option<&str>) -> Result<TenantId, Problem> {
        match asked {
            None => Ok(self.tenant.clone()),
            Some(asked) if asked == self.tenant.as_str() => Ok(self.tenant.clone()),
            Some(asked) if self.scopes.admin => Ok(TenantId::new(asked)?),
            Some(_) => Err(Problem::new(
                ProblemKind::Forbidden,
                "the token speaks for another tenant",
            )),
        }
    }

    /// Returns the tenant whose data may be read; `None` (all tenants) for administrators that name none.
    pub(crate) fn seeing(&self, asked: Option<&str>) -> Result<Option<TenantId>, Problem> {
        match (asked, self.scopes.admin) {
            (None, true) => Ok(None),
            (asked, _) => self.acting_for(asked).map(Some),
        }
    }

    /// Returns what the caller sees: of the tenant that it asks for, in the queues that its token is for.
    pub(crate) fn visibility(&self, asked: Option<&str>) -> Result<Visibility, Problem> {
        let seen = match self.seeing(asked)? {
            None => Visibility::everything(),
            Some(tenant) => Visibility::of_tenant(tenant),
        };
        Ok(match &self.queues[..] {
            [] => seen,
            queues => seen.within(queues.to_vec()),
        })
    }

    /// Returns all that the caller sees.
    pub(crate) fn sees_all(&self) -> Visibility {
        let seen = if self.scopes.admin {
            Visibility::everything()
        } else {
            Visibility::of_tenant(self.tenant.clone())
        };
        match &self.queues[..] {
            [] => seen,
            queues => seen.within(queues.to_vec()),
        }
    }

    /// Returns whether the caller may change queues, and so may see all of their settings.
    pub(crate) fn may_change_queues(&self) -> bool {
        self.may(Permission::Admin)
    }

    pub(crate) fn check_queue(&self, queue: &QueueName) -> Result<(), Problem> {
        if self.may_use(queue) {
            Ok(())
        } else {
            Err(Problem::new(
                ProblemKind::Forbidden,
                format!("the token is not for the queue {queue}"),
            ))
        }
    }

    pub(crate) fn may_use(&self, queue: &QueueName) -> bool {
        self.queues.is_empty() || self.queues.contains(queue)
    }

    /// What is not of one queue needs a token that is not bound to queues.
    pub(crate) fn check_all_queues(&self) -> Result<(), Problem> {
        if self.queues.is_empty() {
            Ok(())
        } else {
            Err(Problem::new(
                ProblemKind::Forbidden,
                "the token is for some queues only: name one",
            ))
        }
    }
}

/// Configuration of authentication.
#[derive(Clone, Debug, Default)]
pub struct AuthConfig {
    /// The server's own token, which grants everything.
    pub server_token: Option<String>,
    /// Accepts requests without a token, as the default tenant with all scopes.
    pub open: bool,
}

/// The principal of a token, if the token exists, and when the entry expires.
type CachedToken = (Option<Arc<Principal>>, Instant);

/// Authenticates requests.
pub(crate) struct Auth {
    store: Arc<dyn Tenants>,
    server_token: Option<[u8; 32]>,
    operator: Arc<Principal>,
    open: bool,
    cached: Mutex<HashMap<[u8; 32], CachedToken>>,
    /// Whether any token exists, and until when that is believed.
    any: Mutex<Option<(bool, Instant)>>,
}

impl Auth {
    pub(crate) fn new(store: Arc<dyn Tenants>, config: AuthConfig) -> Auth {
        Auth {
            store,
            server_token: config.server_token.as_deref().map(hash),
            operator: Principal::operator(),
            open: config.open,
            cached: Mutex::default(),
            any: Mutex::default(),
        }
    }

    /// Returns whether a request carries a token that somebody has.
    pub(crate) async fn knows(&self, headers: &HeaderMap) -> bool {
        match headers.get(header::AUTHORIZATION) {
            Some(value) => self.of_header(value).await.is_ok(),
            None => false,
        }
    }

    /// Authenticates a request and checks its permission.
    pub(crate) async fn principal(
        &self,
        headers: &HeaderMap,
        permission: Permission,
    ) -> Result<Arc<Principal>, Problem> {
        let principal = match headers.get(header::AUTHORIZATION) {
            Some(value) => self.of_header(value).await?,
            None => self.anonymous(headers)?,
        };
        principal.check(permission)?;
        Ok(principal)
    }

    /// Returns whether the caller used the server's own token.
    pub(crate) fn is_operator(&self, principal: &Arc<Principal>) -> bool {
        Arc::ptr_eq(principal, &self.operator)
    }

    async fn of_header(&self, value: &HeaderValue) -> Result<Arc<Principal>, Problem> {
        let token = bearer::token_of(value.as_bytes()).and_then(|token| std::str::from_utf8(token).ok());
        match token {
            Some(token) => self.of_token(token).await,
            None => Err(unauthorized("the header must be `Authorization: Bearer TOKEN`")),
        }
    }

    /// Returns the principal of a token.
    pub(crate) async fn of_token(&self, token: &str) -> Result<Arc<Principal>, Problem> {
        let hash = hash(token);
        if self
            .server_token
            .is_some_and(|operator| bool::from(operator.ct_eq(&hash)))
        {
            return Ok(Arc::clone(&self.operator));
        }
        self.of_hash(hash).await
    }

    async fn of_hash(&self, hash: [u8; 32]) -> Result<Arc<Principal>, Problem> {
        let principal = match self.cached_principal(&hash) {
            Some(principal) => principal,
            None => self.look_up(hash).await?,
        };
        let Some(principal) = principal else {
            return Err(unauthorized("nobody has this token"));
        };
        if let Some(expires_at_ms) = principal.expires_at_ms
            && expires_at_ms <= self.store.now_ms().await?
        {
            return Err(unauthorized("the token has expired"));
        }
        Ok(principal)
    }

    /// Resolves when the caller's token has been revoked or has expired, at most [`REVOCATION_BOUND`] later. What
    /// is open for the caller then ends with the problem.
    pub(crate) async fn until_invalid(&self, principal: &Principal) -> Problem {
        let Some(hash) = principal.hash else {
            // The server's own token stays as it is.
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(STREAM_CHECK).await;
            match self.of_hash(hash).await {
                Err(problem) if problem.kind == ProblemKind::Unauthorized => return problem,
                // While the store cannot be asked, streams have nothing to send either.
                Ok(_) | Err(_) => (),
            }
        }
    }

    fn anonymous(&self, headers: &HeaderMap) -> Result<Arc<Principal>, Problem> {
        if !self.open {
            return Err(unauthorized(
                "this needs the header `Authorization: Bearer TOKEN`",
            ));
        }
        if is_foreign_page(headers) {
            let detail = "a page of another origin needs a token";
            return Err(Problem::new(ProblemKind::Forbidden, detail));
        }
        Ok(Arc::clone(&self.operator))
    }

    fn cached_principal(&self, hash: &[u8; 32]) -> Option<Option<Arc<Principal>>> {
        let cached = self.cached.lock();
        let (principal, until) = cached.get(hash)?;
        (*until > Instant::now()).then(|| principal.clone())
    }

    async fn look_up(&self, hash: [u8; 32]) -> Result<Option<Arc<Principal>>, Error> {
        let principal = match self.store.token(hash).await? {
            None => None,
            Some(token) => Some(Arc::new(Principal {
                tenant: token.tenant,
                scopes: token.scopes,
                queues: token
                    .queues
                    .iter()
                    .map(|name| QueueName::new(name))
                    .collect::<Result<_, _>>()?,
                expires_at_ms: token.expires_at_ms,
                hash: Some(hash),
            })),
        };
        let mut cached = self.cached.lock();
        if cached.len() >= CACHED_TOKENS_MAX {
            cached.clear();
        }
        cached.insert(hash, (principal.clone(), Instant::now() + TOKEN_CACHE_TTL));
        Ok(principal)
    }

    /// Returns whether any token exists; a store that does not answer is taken for one that has some.
    pub(crate) async fn has_tokens(&self) -> bool {
        let known = *self.any.lock();
        if let Some((any, until)) = known
            && until > Instant::now()
        {
            return any;
        }
        let Ok(tokens) = self.store.tokens(None).await else {
            return true;
        };
        let any = !tokens.is_empty();
        *self.any.lock() = Some((any, Instant::now() + TOKEN_CACHE_TTL));
        any
    }

    /// Clears cached lookups after tokens have changed.
    pub(crate) fn clear_cache(&self) {
        *self.any.lock() = None;
        self.cached.lock().clear();
    }
}

/// Generates a token and returns it with its hash.
pub(crate) fn draw_token() -> (String, [u8; 32]) {
    use base64::Engine;
    let secret: [u8; 32] = rand::random();
    let text = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(secret);
    let token = format!("nagaya_{text}");
    let hash = hash(&token);
    (token, hash)
}

/// Tokens are random, so a fast hash protects them as well as a slow one.
fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn unauthorized(detail: &str) -> Problem {
    Problem::new(ProblemKind::Unauthorized, detail)
}

/// Returns whether a browser sends this for a page that this server did not serve.
fn is_foreign_page(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else {
        return false;
    };
    let authority = |value: &HeaderValue| {
        let text = value.to_str().ok()?;
        Some(text.split_once("://").map_or(text, |(_, rest)| rest).to_owned())
    };
    headers.get(header::HOST).and_then(authority) != authority(origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_another_origin_is_foreign() {
        let foreign = |host: &'static str, origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            }
            is_foreign_page(&headers)
        };
        assert!(!foreign("127.0.0.1:7400", None));
        assert!(!foreign("127.0.0.1:7400", Some("http://127.0.0.1:7400")));
        assert!(foreign("127.0.0.1:7400", Some("http://evil.test")));
        assert!(foreign("127.0.0.1:7400", Some("null")));
    }

    #[test]
    fn a_bound_token_is_for_its_queues_and_tenant_only() {
        let principal = Principal {
            tenant: TenantId::new("shop").unwrap(),
            scopes: Scopes {
                read: true,
                ..Scopes::default()
            },
            queues: vec![QueueName::new("mail").unwrap()],
            expires_at_ms: None,
            hash: None,
        };
        assert!(principal.check_queue(&QueueName::new("mail").unwrap()).is_ok());
        assert!(principal.check_queue(&QueueName::new("post").unwrap()).is_err());
        assert!(principal.acting_for(Some("shop")).is_ok() && principal.acting_for(Some("bank")).is_err());
        assert_eq!(principal.seeing(None).unwrap().unwrap().as_str(), "shop");
        assert!(!principal.may(Permission::Work) && !principal.may(Permission::Admin));
    }
}
