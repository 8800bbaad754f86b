//! The engine as a component of the house.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use nagaya_commands::table;
use nagaya_engine::{Bound, Engine, Error, Figures, RoomConfig, used_bytes};
use nagaya_telemetry::metrics::Metrics;
use nagaya_telemetry::{CommandFigures, RoomFigures};

use crate::readiness::Ready;
use crate::service::{Running, Service, Shutdown};

/// The engine's listeners, bound; its threads start with [`Service::run`].
pub(crate) struct RoomService {
    bound: Bound,
    metrics: Arc<Metrics>,
}

impl RoomService {
    pub(crate) fn bind(config: RoomConfig, metrics: Arc<Metrics>) -> anyhow::Result<RoomService> {
        match Bound::bind(config) {
            Ok(bound) => Ok(RoomService { bound, metrics }),
            Err(Error::Bind { address, source }) => Err(anyhow!(
                "cannot listen on {address} for Redis clients: {source}; choose another address with --room-listen"
            )),
            Err(error) => Err(error).context("room"),
        }
    }

    /// Where Redis clients connect.
    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.bound.tcp_address()
    }
}

impl Service for RoomService {
    fn name(&self) -> &'static str {
        "room"
    }

    fn run(self: Box<Self>, shutdown: Shutdown, ready: Ready) -> Running {
        Box::pin(async move {
            let engine = self.bound.start().context("room")?;
            let figures = engine.figures();
            let view = figures.clone();
            self.metrics.register_room(move || read(&view));
            ready.ready();
            tokio::select! {
                () = shutdown.stopped() => {}
                () = asked_to_end(figures) => {
                    // The same way out as for everybody else: all components drain and stop in turn.
                    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM)
                        .context("SHUTDOWN could not be passed on")?;
                    shutdown.stopped().await;
                }
            }
            let open = tokio::task::spawn_blocking(|| Engine::stop(engine)).await;
            let open = open.context("the engine could not be stopped")?;
            tracing::debug!(connections = open, "room has stopped");
            Ok(Vec::new())
        })
    }
}

/// Waits for a client's SHUTDOWN.
async fn asked_to_end(figures: Figures) {
    const LOOK_EVERY: Duration = Duration::from_millis(50);
    let mut looks = tokio::time::interval(LOOK_EVERY);
    while !figures.shutdown_requested() {
        looks.tick().await;
    }
}

/// Reads the engine's counters for a scrape.
fn read(figures: &Figures) -> RoomFigures {
    let server = figures.server();
    let every = table::all()
        .iter()
        .flat_map(|command| std::iter::once(command).chain(&command.subcommands));
    RoomFigures {
        connections: figures.connections() as u64,
        connections_refused: figures.connections_refused(),
        keys: server.shards.keys() as u64,
        hits: server.sum(|stats| stats.keyspace_hits.get()),
        misses: server.sum(|stats| stats.keyspace_misses.get()),
        expired: server.sum(|stats| stats.expired_keys.get()),
        used_bytes: used_bytes() as u64,
        commands: every
            .map(|command| CommandFigures {
                name: &command.full_name,
                calls: server.sum(|stats| stats.commands[command.number].calls.get()),
                failed: server.sum(|stats| stats.commands[command.number].failed.get()),
            })
            .collect(),
    }
}
