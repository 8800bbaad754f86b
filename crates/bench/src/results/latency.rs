//! Registration to result, at an even rate.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use nagaya_client::Client;
use nagaya_clock::{Clock, SystemClock};
use tokio::task::JoinSet;

use super::NagayaServers;
use super::ledger::{Ledger, percentile};
use super::report::Waits;
use super::target::{self, Targets};
use super::ways::{self, Way};
use super::work;
use crate::jobs::nagaya_server::NagayaServer;
use crate::progress;

/// How long results may take after the last registration.
const LATE: Duration = Duration::from_secs(60);
/// Jobs before the measured ones, so that connections are open and statements are prepared.
const WARM_UP: usize = 50;

pub(super) fn run(servers: &mut NagayaServers<'_>, way: Way) -> anyhow::Result<Waits> {
    let server = servers.start(&[target::ALLOW.to_owned()])?;
    let plan = servers.plan;
    let jobs = WARM_UP + ((plan.rate * plan.duration.as_secs_f64()) as usize).max(20);
    let ledger = Arc::new(Ledger::new(jobs));
    let seconds = servers
        .runtime
        .block_on(drive(&server, way, &ledger, jobs, plan.rate))?;
    let waits = ledger.waits_ms(|job| job >= WARM_UP);
    let waits = Waits {
        name: way.name().to_owned(),
        jobs: waits.len(),
        per_second: waits.len() as f64 / seconds,
        p50_ms: percentile(&waits, 0.5),
        p99_ms: percentile(&waits, 0.99),
    };
    progress(&format!("  {waits}"));
    Ok(waits)
}

/// Returns how long registering the measured jobs took, in seconds.
async fn drive(
    server: &NagayaServer,
    way: Way,
    ledger: &Arc<Ledger>,
    jobs: usize,
    rate: f64,
) -> anyhow::Result<f64> {
    let client = work::connect(server)?;
    let targets = Targets::open(1, false, ledger).await?;
    let webhook = |job| (way == Way::Webhook).then(|| targets.url(job));
    let mut tasks = work::workers(&client);
    listen(server, way, ledger, &mut tasks).await?;
    let then = move |client: Client, ledger: Arc<Ledger>, job, id: String| async move {
        if way == Way::LongPoll && client.wait(&id, LATE).await?.state.is_over() {
            ledger.arrive(job);
        }
        anyhow::Ok(())
    };
    let all = async {
        work::at_rate(&client, ledger, 0..WARM_UP, rate, &webhook, then).await?;
        ledger.wait_for(WARM_UP, LATE).await?;
        let from = SystemClock.now();
        work::at_rate(&client, ledger, WARM_UP..jobs, rate, &webhook, then).await?;
        let seconds = (SystemClock.now() - from).as_secs_f64();
        ledger.wait_for(jobs, LATE).await?;
        Ok(seconds)
    };
    tokio::select! {
        seconds = all => seconds,
        ended = tasks.join_next() => {
            ended.context("there are no workers")?.context("a worker ended badly")??;
            unreachable!("workers and readers end with errors only")
        }
    }
}

/// Starts the reader of a way that has one.
async fn listen(
    server: &NagayaServer,
    way: Way,
    ledger: &Arc<Ledger>,
    tasks: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let ledger = Arc::clone(ledger);
    match way {
        Way::LongPoll | Way::Webhook => (),
        Way::Sse => {
            let stream = ways::open_stream(server).await?;
            tasks.spawn(ways::read_stream(stream, ledger));
        }
        Way::Websocket => {
            tasks.spawn(ways::socket(server, ledger).await?);
        }
        Way::Grpc => {
            tasks.spawn(ways::watch(server, ledger).await?);
        }
    }
    Ok(())
}
