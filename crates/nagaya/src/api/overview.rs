//! `GET /v1/house`.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::{AdminState, services};
use crate::app::banner::local_url;
use crate::app::readiness::{Component, Readiness};
use crate::app::up::VERSION;

pub(super) fn routes() -> Router<Arc<AdminState>> {
    Router::new().route("/v1/house", get(overview))
}

async fn overview(State(state): State<Arc<AdminState>>) -> Json<Value> {
    let components = state.readiness.snapshot();
    let now = state.now().await;
    let (room, jobs, ids) = tokio::join!(
        state.room.stats(&now),
        services::jobs(&state, &now),
        services::ids(&state, &now),
    );
    let described = |name: &str, address: Option<String>, stats: Option<Value>| {
        let component = components.iter().find(|component| component.name == name)?;
        Some(describe(component, address, stats?))
    };
    let http = local_url(state.http_scheme, state.http);
    let address = |address: Option<std::net::SocketAddr>| address.map(|address| address.to_string());
    let room_address = Some(state.room.address().to_string());
    let ids_address = address(state.ids.as_ref().map(|(_, address)| *address));
    let fanout_address = state
        .fanout
        .as_ref()
        .map(|(_, address)| local_url(state.fanout_scheme, *address));
    Json(json!({
        "version": VERSION,
        "uptime_seconds": (state.clock.now() - state.started).as_secs(),
        "state": Readiness::overall(&components),
        "url": http,
        "services": {
            "room": described("room", room_address, Some(room)),
            "jobs": described("jobs", Some(http.clone()), jobs),
            "fanout": described("fanout", fanout_address, services::fanout(&state, &now)),
            "ids": described("ids", ids_address, ids),
            "fleet": described("fleet", Some(http.clone()), services::fleet(&state)),
            "http": described("http", Some(http.clone()), Some(services::http(&now))),
        },
    }))
}

/// Adds the fields that every service has.
fn describe(component: &Component, address: Option<String>, mut stats: Value) -> Value {
    stats["state"] = json!(component.state);
    stats["detail"] = json!(component.detail);
    stats["address"] = json!(address);
    stats
}
