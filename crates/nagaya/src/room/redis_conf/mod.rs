//! The engine alone, started as redis-server is: `nagaya room serve --redis-conf FILE --port 6390 ...`.

mod directives;
mod plan;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use nagaya_clock::{Clock, SystemClock};
use nagaya_config::Flag;
use nagaya_exec::settings::Setting;
use nagaya_telemetry::metrics::Metrics;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::app::data_dir::DataDir;
use crate::app::readiness::Readiness;
use crate::app::settings::{self, Settings};
use crate::app::supervisor::Supervisor;
use crate::app::{access, ground_watch, up};
use crate::cli::GlobalArgs;
use crate::room::embedded::RoomService;
use plan::Plan;

/// Serves Redis clients from an engine in this process, as a `redis.conf` and directives say.
///
/// `words` are what redis-server takes: a file, then directives. Settings of our own override them.
pub(crate) fn serve(global: &GlobalArgs, base: Vec<Flag>, words: &[String]) -> anyhow::Result<ExitCode> {
    let plan = Plan::of(&directives::read(words)?)?;
    let flags = plan.flags.into_iter().chain(base).collect();
    let settings = Settings::new(&settings::load(global, flags)?)?;
    let (later, ignored) = (plan.later, plan.ignored);
    up::until_second_signal(settings.telemetry.clone(), move |stop| {
        run(settings, later, ignored, stop)
    })
}

async fn run(
    settings: Settings,
    later: Vec<(&'static Setting, String)>,
    ignored: Vec<String>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    for line in settings.warnings() {
        warn!("{line}");
    }
    for line in ignored {
        info!("{line}");
    }
    access::raise_descriptor_limit(&settings);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let metrics = Arc::new(Metrics::new(up::VERSION, clock));
    let mut data = DataDir::claim(&settings.house.data)?;
    let room = RoomService::bind(settings.room.clone(), metrics, &data)?.with_settings(later);
    let address = room.address();
    data.keep();
    data.announce(address)
        .context("cannot write to the data folder")?;
    let readiness = Readiness::new(&["room"]);
    let keepers = if settings.room.persist {
        vec!["room"]
    } else {
        Vec::new()
    };
    let watched = ground_watch::watch(data.ground().clone(), readiness.clone(), keepers);
    let supervisor = Supervisor::new(vec![Box::new(room)], readiness, settings.house.drain_timeout);
    tokio::select! {
        ended = supervisor.run(stop, || info!(room = %address, "ready")) => ended,
        () = watched => unreachable!("it never ends"),
    }
}
