//! `nagaya-bench results`: how long a submitter waits for a result, and what waiting costs the server.
//!
//! [`latency`] registers jobs at an even rate, lets a few workers end them at once, and measures from before the
//! registration until the submitter has the result, once for each [`ways`] of being told. [`idle`] opens many
//! streams on which nothing happens. [`webhooks`] sends as many as a fast target takes, and asks whether one dead
//! target among many changes anything for the others.

mod options;

mod idle;
mod latency;
mod webhooks;

mod ledger;
mod report;
mod target;
mod ways;
mod work;

use std::path::Path;

use anyhow::Context;
use tokio::runtime::Runtime;

use options::Part;
pub(super) use options::Plan;
pub(crate) use options::ResultsArgs;
pub(super) use report::Report;

use super::jobs::nagaya_server::{NagayaServer, Store};
use super::jobs::postgres::Postgres;
use super::progress;

/// The queue that is measured.
const QUEUE: &str = "bench";

/// Measures the parts of the plan, one after the other.
pub(super) fn measure(plan: &Plan, folder: &Path) -> anyhow::Result<Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let postgres = match plan.store {
        Store::Postgres => Some(Postgres::start(None, folder)?),
        Store::Sqlite => None,
    };
    let mut servers = NagayaServers {
        plan,
        folder,
        postgres: postgres.as_ref(),
        runtime: &runtime,
        started: 0,
    };
    let mut report = Report::new(plan, postgres.as_ref());
    for &part in &plan.parts {
        match part {
            Part::Latency => {
                for &way in &plan.ways {
                    progress(&format!("latency by {}", way.name()));
                    report.ways.push(latency::run(&mut servers, way)?);
                }
            }
            Part::Idle => {
                progress(&format!("{} idle streams", plan.connections));
                report.idle = Some(idle::run(&mut servers)?);
            }
            Part::Webhooks => {
                progress("webhooks to a fast target");
                report.webhooks = Some(webhooks::speed(&mut servers)?);
            }
            Part::Dead => {
                progress("webhooks to 100 targets, one of them dead");
                report.targets = webhooks::dead_target(&mut servers)?;
            }
        }
    }
    Ok(report)
}

/// Starts a server for each measurement.
struct NagayaServers<'a> {
    plan: &'a Plan,
    folder: &'a Path,
    postgres: Option<&'a Postgres>,
    runtime: &'a Runtime,
    started: usize,
}

impl NagayaServers<'_> {
    fn start(&mut self, settings: &[String]) -> anyhow::Result<NagayaServer> {
        self.started += 1;
        let folder = self.folder.join(format!("house-{}", self.started));
        NagayaServer::start_with(
            &self.plan.nagaya,
            self.plan.store,
            &folder,
            self.postgres,
            settings,
        )
    }
}
