//! The server's version, for everybody who has a token.

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::Api;
use crate::auth::Permission;
use crate::call::{Call, ok};
use crate::problem::Problem;

/// The version of this server.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a client needs to know of the server before it uses what is new.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Version {
    /// Of the server, as three numbers with dots.
    version: &'static str,
}

pub(super) async fn version(State(api): State<Api>, call: Call) -> Result<Response, Problem> {
    call.principal(&api, Permission::Any).await?;
    Ok(ok(&Version { version: VERSION }))
}
