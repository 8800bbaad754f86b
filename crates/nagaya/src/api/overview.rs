//! `GET /v1/house`.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::{House, services};
use crate::app::banner::local_url;
use crate::app::readiness::{Component, Readiness};
use crate::app::up::VERSION;

pub(super) fn routes() -> Router<Arc<House>> {
    Router::new().route("/v1/house", get(overview))
}

async fn overview(State(house): State<Arc<House>>) -> Json<Value> {
    let components = house.readiness.snapshot();
    let now = house.now().await;
    let (room, jobs, ids) = tokio::join!(
        house.room.figures(&now),
        services::jobs(&house, &now),
        services::ids(&house, &now),
    );
    let described = |name: &str, address: Option<String>, figures: Option<Value>| {
        let component = components.iter().find(|component| component.name == name)?;
        Some(describe(component, address, figures?))
    };
    let http = local_url(house.http);
    let address = |address: Option<std::net::SocketAddr>| address.map(|address| address.to_string());
    let room_address = Some(house.room.address().to_string());
    let ids_address = address(house.ids.as_ref().map(|(_, address)| *address));
    let fanout_address = house.fanout.as_ref().map(|(_, address)| local_url(*address));
    Json(json!({
        "version": VERSION,
        "uptime_seconds": (house.clock.now() - house.started).as_secs(),
        "state": Readiness::overall(&components),
        "url": http,
        "services": {
            "room": described("room", room_address, Some(room)),
            "jobs": described("jobs", Some(http.clone()), jobs),
            "fanout": described("fanout", fanout_address, services::fanout(&house, &now)),
            "ids": described("ids", ids_address, ids),
            "fleet": described("fleet", Some(http.clone()), services::fleet(&house)),
            "http": described("http", Some(http.clone()), Some(services::http(&now))),
        },
    }))
}

/// Figures with what every service has.
fn describe(component: &Component, address: Option<String>, mut figures: Value) -> Value {
    figures["state"] = json!(component.state);
    figures["detail"] = json!(component.detail);
    figures["address"] = json!(address);
    figures
}
