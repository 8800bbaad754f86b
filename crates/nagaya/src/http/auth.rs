//! Who may use the house's own routes.
//!
//! Where jobs are kept there are tokens, and the jobs' API answers who a request is from: the house's own token and
//! the scope `admin` may do everything, `read` may look. A house without jobs knows only its own token.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use nagaya_config::Secret;
use nagaya_http_kit::bearer;
use nagaya_jobs::TenantId;
use nagaya_jobs_api::{Api, Permission, PrincipalInfo};

use super::problem::Problem;
use super::routes::HttpState;

/// Paths that need no token: probes seldom have one, and webhooks have a check of their own.
const OPEN_PATHS: [&str; 3] = ["/healthz", "/readyz", nagaya_fleet_api::WEBHOOK_PATH];

/// Lets a request pass if it may, else answers 401 or 403.
pub(super) async fn require_token(
    State(state): State<Arc<HttpState>>,
    request: Request,
    next: Next,
) -> Response {
    if OPEN_PATHS.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let refused = match &state.tokens {
        Some(tokens) => refuse_principal(tokens, request.headers(), request.method()).await,
        None => refuse_stranger(state.config.token.as_ref(), request.headers()),
    };
    match refused {
        None => next.run(request).await,
        Some(response) => response,
    }
}

/// Asks the jobs' API, in whose store the tokens are, and returns the answer for those who may not.
///
/// The room and the fan-out know no tenants, so a token that is bound to one, or to some queues, shows nothing of them.
async fn refuse_principal(tokens: &Api, headers: &HeaderMap, method: &Method) -> Option<Response> {
    let permission = match *method {
        Method::GET | Method::HEAD => Permission::Read,
        _ => Permission::Admin,
    };
    match tokens.admit(headers, permission).await {
        Ok(principal) if sees_the_house(&principal) => None,
        Ok(_) => {
            let detail = "the token is for one tenant or for some queues; the whole house is shown to tokens of the \
                          tenant default that are not bound to queues, and to those with the scope admin";
            Some(Problem::new(StatusCode::FORBIDDEN, detail).into_response())
        }
        Err(response) => Some(response),
    }
}

fn sees_the_house(principal: &PrincipalInfo) -> bool {
    principal.is_admin || (principal.tenant == TenantId::default_tenant() && principal.queues.is_empty())
}

/// Returns the answer for those who do not have the house's own token, if it has one.
fn refuse_stranger(token: Option<&Secret>, headers: &HeaderMap) -> Option<Response> {
    let token = token?;
    if bearer::matches(headers, token.reveal().as_bytes()) {
        return None;
    }
    let detail = "this needs the header `Authorization: Bearer TOKEN` with the token of `http.token`";
    let problem = Problem::new(StatusCode::UNAUTHORIZED, detail).challenge();
    Some(problem.into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unbound_tokens_and_administrators_see_the_whole_house() {
        let sees = |tenant: &str, is_admin: bool, queues: &[&str]| {
            sees_the_house(&PrincipalInfo {
                tenant: TenantId::new(tenant).unwrap(),
                is_admin,
                queues: queues.iter().map(|queue| queue.to_string()).collect(),
            })
        };
        assert!(sees("default", false, &[]) && sees("shop", true, &["mail"]));
        assert!(!sees("shop", false, &[]) && !sees("default", false, &["mail"]));
    }
}
