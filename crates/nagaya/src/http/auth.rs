//! Who may use the server's own routes.
//!
//! Where jobs are kept there are tokens, and the jobs' API answers who a request is from: the server's own token and
//! the scope `admin` may do everything, `read` may look, `metrics` may read the metrics alone. A server without jobs
//! knows only its own token. What a route needs is in the table of [`rights`](super::rights).

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use nagaya_config::Secret;
use nagaya_http_kit::bearer;
use nagaya_http_kit::server::BodyControl;
use nagaya_jobs::TenantId;
use nagaya_jobs_api::{Api, Permission, PrincipalInfo};

use super::problem::Problem;
use super::rights::Needs;
use super::routes::HttpState;

/// Refuses routes that the table of rights does not have.
pub(super) async fn require_right(
    State(state): State<Arc<HttpState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(path) = request.extensions().get::<MatchedPath>() else {
        return next.run(request).await;
    };
    match state.rights.needs(request.method(), path.as_str()) {
        Some(needs) => {
            request.extensions_mut().insert(needs);
            next.run(request).await
        }
        None => {
            tracing::error!(route = path.as_str(), "the route is not in the table of rights");
            let detail = "this route has no rights, which is a defect of the program";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail).into_response()
        }
    }
}

/// Lets a request pass if it may, else answers 401 or 403.
pub(super) async fn require_token(
    State(state): State<Arc<HttpState>>,
    request: Request,
    next: Next,
) -> Response {
    let needs = request.extensions().get::<Needs>().copied();
    let permission = match needs {
        Some(Needs::Nothing | Needs::OwnSecret) => return next.run(request).await,
        Some(Needs::Metrics) => Permission::Metrics,
        Some(Needs::Read) => Permission::Read,
        Some(_) => Permission::Admin,
        None => permission_of(request.method()),
    };
    let refused = match &state.tokens {
        Some(tokens) => refuse_principal(tokens, request.headers(), permission).await,
        None => refuse_stranger(state.config.token.as_ref(), request.headers()),
    };
    if let Some(response) = refused {
        return response;
    }
    if let Some(refused) = refuse_anonymous(&state, request.headers()).await {
        return refused;
    }
    if let Some(control) = request.extensions().get::<BodyControl>()
        && state.config.token.is_some()
    {
        control.signed_in();
    }
    next.run(request).await
}

/// What a path without a route needs.
fn permission_of(method: &Method) -> Permission {
    match *method {
        Method::GET | Method::HEAD => Permission::Read,
        _ => Permission::Admin,
    }
}

/// For routes that check tokens themselves: where tokens exist, one is needed, even if the server has none of its own.
pub(super) async fn require_some_token(
    State(state): State<Arc<HttpState>>,
    request: Request,
    next: Next,
) -> Response {
    if state.config.token.is_none() && makes_token(&request) {
        let detail = "without `http.token` every client may do everything, so another token would protect nothing; \
                      set `http.token` first (`nagaya token random` makes one) and start again";
        return Problem::new(StatusCode::CONFLICT, detail)
            .kind("no-server-token")
            .into_response();
    }
    if let Some(refused) = refuse_anonymous(&state, request.headers()).await {
        return refused;
    }
    // Before the body is read: some handlers have to read it before they check who sent it.
    if let (Some(tokens), Some(control)) = (&state.tokens, request.extensions().get::<BodyControl>())
        && state.config.token.is_some()
    {
        let control = control.clone();
        if tokens.knows(request.headers()).await {
            control.signed_in();
        }
    }
    next.run(request).await
}

fn makes_token(request: &Request) -> bool {
    request.method() == Method::POST && request.uri().path() == "/v1/tokens"
}

/// Refuses callers without a token in a server that has no token of its own, but in whose store tokens exist: who made
/// them relies on them.
async fn refuse_anonymous(state: &HttpState, headers: &HeaderMap) -> Option<Response> {
    let tokens = state.tokens.as_ref()?;
    if state.config.token.is_some()
        || headers.contains_key(header::AUTHORIZATION)
        || !tokens.has_tokens().await
    {
        return None;
    }
    let detail = "tokens exist, so one is needed: `Authorization: Bearer TOKEN`; who runs this server sets \
                  `http.token`, which may do everything";
    let problem = Problem::new(StatusCode::UNAUTHORIZED, detail);
    Some(problem.kind("no-server-token").challenge().into_response())
}

/// Asks the jobs' API, in whose store the tokens are, and returns the answer for those who may not.
///
/// The room and the fan-out know no tenants, so a token that is bound to one, or to some queues, shows nothing of them.
async fn refuse_principal(tokens: &Api, headers: &HeaderMap, permission: Permission) -> Option<Response> {
    match tokens.admit(headers, permission).await {
        Ok(principal) if sees_the_house(&principal) => None,
        Ok(_) => {
            let detail = "the token is for one tenant or for some queues; the other services are shown to tokens that are \
                          not bound to queues, of the tenant default or with the scope admin";
            Some(Problem::new(StatusCode::FORBIDDEN, detail).into_response())
        }
        Err(response) => Some(response),
    }
}
fn sees_the_house(principal: &PrincipalInfo) -> bool {
    principal.queues.is_empty() && (principal.is_admin || principal.tenant == TenantId::default_tenant())
}

/// Returns the answer for those who do not have the server's own token, if it has one.
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
        assert!(sees("default", false, &[]) && sees("shop", true, &[]));
        assert!(!sees("shop", false, &[]) && !sees("default", false, &["mail"]));
        assert!(!sees("shop", true, &["mail"]) && !sees("default", true, &["mail"]));
    }
}
