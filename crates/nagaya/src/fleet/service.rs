//! The manager as a component: keeps the fleet as the outside list says, and serves its API.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use axum::Router;
use nagaya_config::Secret;
use nagaya_fleet::commands::StoreOptions;
use nagaya_fleet::manager::{self, ManagerHandle, ManagerOptions, ManagerStatus};
use nagaya_fleet::metrics::FleetStats;
use nagaya_fleet::store::Store;
use nagaya_fleet_api::FleetApi;
use nagaya_fleet_api::webhook::Guard;
use nagaya_telemetry::metrics::Metrics;
use nagaya_threads::panic_point;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::target::house_url;
use crate::app::readiness::{Readiness, Ready};
use crate::app::service::{Running, Service, Shutdown};
use crate::app::settings::Settings;

/// A manager that does not run yet.
#[derive(Clone)]
pub(crate) struct FleetService {
    store: Store,
    options: ManagerOptions,
    handle: ManagerHandle,
    webhook: Guard,
    /// The readiness to wait for, if the fleet is in the built-in engine.
    backroom: Option<Readiness>,
}

impl FleetService {
    pub(super) fn new(store: Store, options: ManagerOptions, webhook: Guard) -> FleetService {
        FleetService {
            store,
            options,
            handle: ManagerHandle::default(),
            webhook,
            backroom: None,
        }
    }

    /// The manager of a server: over the configured Redis, else over the built-in engine.
    pub(crate) fn of_house(
        settings: &Settings,
        data: &Path,
        readiness: &Readiness,
    ) -> anyhow::Result<FleetService> {
        let config = &settings.fleet;
        let app = config.app_name()?;
        let shared = settings.house.redis.as_ref().map(|text| text.reveal().parse());
        let shared = shared.transpose().context("`house.redis` cannot be used")?;
        let configured = config.redis_url()?.or(shared);
        let backroom = configured.is_none().then(|| readiness.clone());
        let url = configured.unwrap_or_else(|| house_url(data));
        let store = StoreOptions::new(url, app).open()?;
        let webhook = guard(&config.webhook_secret, &settings.http.token);
        Ok(FleetService {
            backroom,
            ..FleetService::new(store, config.manager(None)?, webhook)
        })
    }

    /// Returns a handle to the manager.
    pub(crate) fn handle(&self) -> ManagerHandle {
        self.handle.clone()
    }

    /// Returns the API routes. The HTTP listener serves them.
    pub(crate) fn routes(&self) -> Router {
        nagaya_fleet_api::router(FleetApi {
            store: self.store.clone(),
            manager: self.handle.clone(),
            rebalance: self.options.rebalance,
            bounds: self.options.timing.bounds(),
            webhook: self.webhook.clone(),
        })
    }

    pub(crate) fn register(&self, metrics: &Metrics) {
        let status = self.handle.status();
        metrics.register(move || stats(&status.borrow()));
    }
}

/// Returns the credentials that the webhook accepts.
pub(super) fn guard(webhook_secret: &Option<Secret>, token: &Option<Secret>) -> Guard {
    Guard::new(webhook_secret.iter().chain(token).cloned())
}

impl Service for FleetService {
    fn name(&self) -> &'static str {
        "fleet"
    }

    fn run(self: Box<Self>, shutdown: Shutdown, ready: Ready) -> Running {
        Box::pin(async move {
            if let Some(readiness) = &self.backroom {
                tokio::select! {
                    () = readiness.is_ready("backroom") => (),
                    () = shutdown.stopped() => return Ok(Vec::new()),
                }
            }
            let stop = CancellationToken::new();
            let managing = manager::run(self.store, self.options, self.handle.clone(), stop.clone());
            let mut managing = AbortOnDropHandle::new(tokio::spawn(managing));
            tokio::select! {
                () = shutdown.draining() => (),
                () = tell(&self.handle, &ready) => (),
                ended = &mut managing => {
                    ended.context("the manager failed")?;
                    bail!("the manager ended by itself");
                }
            }
            stop.cancel();
            managing.await.context("the manager failed")?;
            Ok(Vec::new())
        })
    }

    fn again(&self) -> Option<Box<dyn Service>> {
        Some(Box::new(self.clone()))
    }
}

/// Publishes the state of the fleet. Never returns.
async fn tell(handle: &ManagerHandle, ready: &Ready) {
    let mut status = handle.status();
    loop {
        {
            let status = status.borrow_and_update();
            if status.is_first_manager.is_some() {
                ready.ready();
                panic_point("fleet");
            }
            ready.set_detail(describe(&status));
        }
        // The sender lives in the handle.
        if status.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

fn describe(status: &ManagerStatus) -> String {
    let mut text = format!(
        "{} workers on {} instances",
        status.workers, status.live_instances
    );
    if status.unplaced > 0 {
        text.push_str(&format!(", {} fit nowhere", status.unplaced));
    }
    let failing = status.health.failing + status.health.quarantined;
    if failing > 0 {
        text.push_str(&format!(", {failing} failing"));
    }
    for name in &status.cordoned {
        text.push_str(&format!(", {name} cordoned"));
    }
    if let Some(held) = &status.held {
        text.push_str(&format!(", {} stops held until confirmed", held.stops));
    }
    text
}

fn stats(status: &ManagerStatus) -> FleetStats {
    FleetStats {
        workers: status.workers as u64,
        live_instances: status.live_instances as u64,
        unplaced: status.unplaced as u64,
        spread: status.cost.spread_before as u64,
        healthy: status.health.healthy as u64,
        failing: status.health.failing as u64,
        quarantined: status.health.quarantined as u64,
        cordoned: status.cordoned.iter().map(ToString::to_string).collect(),
        held_stops: status.held.as_ref().map_or(0, |held| held.stops as u64),
        placed: status.assigned_total,
        moves: status.revoked_total,
        deaths: status.deaths_total,
        left_out: status.left_out as u64,
        syncs: status.syncs,
        sync_failures: status.sync_failures,
        dark: status.dark,
        double_run: status.double_run,
    }
}

/// Returns metrics, readiness and the API for the HTTP listener.
pub(super) fn http_parts(service: &FleetService, metrics: &Arc<Metrics>) -> Router {
    service.register(metrics);
    service.routes()
}
