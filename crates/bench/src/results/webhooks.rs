//! Webhooks: how many, and whether a dead target is in the way of others.

use std::sync::Arc;
use std::time::Duration;

use nagaya_client::Client;
use nagaya_clock::{Clock, SystemClock};

use super::NagayaServers;
use super::ledger::{Ledger, percentile};
use super::report::{Speed, Waits};
use super::target::{self, Targets};
use super::work;
use crate::progress;

/// Targets of the second part.
const TARGETS: u8 = 100;
/// How long deliveries may take after the last registration.
const LATE: Duration = Duration::from_secs(120);

/// Deliveries a second to one target that answers at once.
pub(super) fn speed(servers: &mut NagayaServers<'_>) -> anyhow::Result<Speed> {
    let server = servers.start(&[target::ALLOW.to_owned()])?;
    let count = servers.plan.deliveries;
    let ledger = Arc::new(Ledger::new(count));
    let seconds = servers.runtime.block_on(async {
        let client = work::connect(&server)?;
        let target = Targets::open(1, false, &ledger).await?;
        work::at_once(&client, &ledger, &target.url(0), count).await?;
        let from = SystemClock.now();
        let _workers = work::workers(&client);
        ledger.wait_for(count, LATE).await?;
        anyhow::Ok((SystemClock.now() - from).as_secs_f64())
    })?;
    let speed = Speed {
        deliveries: count,
        per_second: count as f64 / seconds,
    };
    progress(&format!("  {:.0} deliveries/s", speed.per_second));
    Ok(speed)
}

/// Waits of the others with all targets well, and with one that takes connections and never answers.
pub(super) fn dead_target(servers: &mut NagayaServers<'_>) -> anyhow::Result<Vec<Waits>> {
    let mut both = Vec::new();
    for one_is_dead in [false, true] {
        let name = if one_is_dead {
            "one of 100 is dead"
        } else {
            "all 100 are well"
        };
        let waits = others(servers, name, one_is_dead)?;
        progress(&format!("  {waits}"));
        both.push(waits);
    }
    Ok(both)
}

fn others(servers: &mut NagayaServers<'_>, name: &str, one_is_dead: bool) -> anyhow::Result<Waits> {
    let server = servers.start(&[target::ALLOW.to_owned()])?;
    let (rate, duration) = (servers.plan.targets_rate, servers.plan.duration);
    let all = usize::from(TARGETS);
    // Whole rounds, so that the last target has its share.
    let rounds = ((rate * duration.as_secs_f64()) as usize / all).max(1);
    let ledger = Arc::new(Ledger::new(rounds * all));
    let is_other = |job: usize| job % all != all - 1;
    let seconds = servers.runtime.block_on(async {
        let client = work::connect(&server)?;
        let targets = Targets::open(TARGETS, one_is_dead, &ledger).await?;
        let _workers = work::workers(&client);
        let from = SystemClock.now();
        let nothing = |_: Client, _: Arc<Ledger>, _: usize, _: String| async { anyhow::Ok(()) };
        let url = |job| Some(targets.url(job));
        work::at_rate(&client, &ledger, 0..rounds * all, rate, url, nothing).await?;
        let seconds = (SystemClock.now() - from).as_secs_f64();
        let expected = if one_is_dead {
            rounds * (all - 1)
        } else {
            rounds * all
        };
        ledger.wait_for(expected, LATE).await?;
        anyhow::Ok(seconds)
    })?;
    let waits = ledger.waits_ms(is_other);
    Ok(Waits {
        name: name.to_owned(),
        jobs: waits.len(),
        per_second: (rounds * all) as f64 / seconds,
        p50_ms: percentile(&waits, 0.5),
        p99_ms: percentile(&waits, 0.99),
    })
}
