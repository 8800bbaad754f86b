//! Tenants and their tokens, for administrators.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use nagaya_jobs::tenant::ApiToken;
use nagaya_jobs::{Error, QueueName, TenantId};

use crate::api::Api;
use crate::auth::{Permission, draw_token};
use crate::call::{Call, answer, ok, parse};
use crate::handlers::check_name;
use crate::problem::Problem;
use crate::wire::tenant::{
    MadeToken, NewToken, TenantLine, TenantSettings, Tenants, TokenLine, Tokens, WhoAmI, scope_list, scopes,
};

/// Queues per token at most.
const QUEUES_MAX: usize = 1_000;

pub(super) async fn who_am_i(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Read).await?;
    let (tenant, scopes, queues) = principal.describe();
    Ok(ok(&WhoAmI {
        tenant: tenant.as_str(),
        scopes: scope_list(scopes),
        queues: queues.iter().map(QueueName::as_str).collect(),
        is_house: api.auth.is_operator(&principal),
    }))
}

pub(super) async fn tokens(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Admin).await?;
    let tokens = api.handlers.administer(&principal)?.tokens(None).await?;
    Ok(ok(&Tokens {
        tokens: tokens.iter().map(TokenLine::from).collect(),
    }))
}

pub(super) async fn make_token(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Admin).await?;
    let store = api.handlers.administer(&principal)?;
    let body = call.json(&api).await?;
    let form: NewToken = parse(&body)?;
    if !(1..=4).contains(&form.scopes.len()) {
        return Err(Problem::bad_request("scopes must be 1 to 4"));
    }
    check_name(&form.name)?;
    let queues = form.queues.unwrap_or_default();
    if queues.len() > QUEUES_MAX {
        return Err(Problem::bad_request("queues must be 1000 at most"));
    }
    queues
        .iter()
        .try_for_each(|queue| QueueName::new(queue).map(drop))?;
    let (text, hash) = draw_token();
    let token = ApiToken {
        name: form.name,
        tenant: TenantId::new(&form.tenant)?,
        hash,
        scopes: scopes(&form.scopes),
        queues,
        created_at_ms: store.now_ms().await?,
        expires_at_ms: form.expires_at.map(|time| time.0),
    };
    store.put_token(token.clone()).await?;
    api.auth.clear_cache();
    let made = MadeToken {
        token: &text,
        line: TokenLine::from(&token),
    };
    Ok(answer(StatusCode::CREATED, &made))
}

pub(super) async fn revoke_token(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Admin).await?;
    let store = api.handlers.administer(&principal)?;
    let tenant = TenantId::new(call.part("tenant"))?;
    let name = call.part("name").to_owned();
    let was_there = store.revoke_token(tenant, name.clone()).await?;
    api.auth.clear_cache();
    if was_there {
        Ok(StatusCode::NO_CONTENT.into_response())
    } else {
        Err(Error::no_such("token", name).into())
    }
}

pub(super) async fn tenants(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Admin).await?;
    let tenants = api.handlers.administer(&principal)?.tenants().await?;
    Ok(ok(&Tenants {
        tenants: tenants.iter().map(TenantLine::from).collect(),
    }))
}

pub(super) async fn put_tenant(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    let principal = call.principal(&api, Permission::Admin).await?;
    let store = api.handlers.administer(&principal)?;
    let tenant = TenantId::new(call.part("tenant"))?;
    let body = call.json(&api).await?;
    let TenantSettings { weight } = parse(&body)?;
    if !(1..=1_000_000).contains(&weight) {
        return Err(Problem::bad_request("weight must lie between 1 and 1000000"));
    }
    store.put_tenant(tenant, weight).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
