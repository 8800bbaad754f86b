//! Placing many workers, reading a list that has not changed, and planning after a death.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use nagaya_clock::boot_now;
use nagaya_fleet::manager::difference;
use nagaya_fleet::name::{AppName, InstanceName, WorkerId};
use nagaya_fleet::plan::{Fleet, Instance, Worker};
use nagaya_fleet::protocol::{Care, Rebalance, decide};
use nagaya_fleet::store::{Capabilities, Install, Store};
use nagaya_fleet::timing::Timing;
use nagaya_redis_client::{Client, Options, RedisUrl};

use super::{Plan, Row};
use crate::servers::{Server, Side};

/// How long one call may take; populating a Redis takes a while.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) async fn measure(plan: &Plan, folder: &Path) -> anyhow::Result<Vec<Row>> {
    let arguments = ["--enable-debug-command", "yes"];
    let server = Server::start_with(Side::Redis, &plan.programs, folder, &arguments)?;
    let url = RedisUrl::single(server.address.ip().to_string(), server.address.port());
    let options = Options {
        connect_limit: PATIENCE,
        reply_limit: PATIENCE,
        client_name: "nagaya-bench".to_owned(),
    };
    let client = Arc::new(Client::new(url, options)?);
    let (workers, instances) = (plan.workers, plan.instances);
    let mut rows = Vec::new();
    let (placed, unchanged) = place(&client, "alone", plan).await?;
    rows.push(Row::new(
        format!("{workers} workers placed on {instances} instances"),
        "9.0 s",
        placed,
        "< 0.5 s",
    ));
    rows.push(Row::new(
        "a full sync of them without changes (3 round trips)",
        "32 s, extrapolated",
        unchanged,
        "3 round trips",
    ));
    let keys = plan.unrelated_keys.to_string();
    client.call(b"", &["DEBUG", "POPULATE", &keys]).await?;
    let (placed, _) = place(&client, "crowded", plan).await?;
    rows.push(Row::new(
        format!("the same beside {keys} keys of others"),
        "6030 s, extrapolated",
        placed,
        "not slower",
    ));
    rows.push(plan_after_a_death(plan));
    Ok(rows)
}

fn installs(count: usize) -> anyhow::Result<Vec<Install>> {
    let install = |at: usize| {
        let id = format!("worker-{at:07}");
        Ok(Install {
            worker: WorkerId::new(&id)?,
            config: format!("{{\"id\":\"{id}\",\"url\":\"https://example.com/{at}\"}}").into_bytes(),
            constraints: Default::default(),
        })
    };
    (0..count).map(install).collect()
}

/// Does what a manager does with a list that is all new, then with the same list again.
async fn place(client: &Arc<Client>, app: &str, plan: &Plan) -> anyhow::Result<(Duration, Duration)> {
    let store = Store::new(client.clone(), AppName::new(app)?);
    for at in 0..plan.instances {
        let name = InstanceName::new(&format!("instance-{at:05}"))?;
        store
            .join(&name, "bench", &Capabilities::default(), &Timing::default())
            .await?;
    }
    let list = installs(plan.workers)?;
    let begun = boot_now();
    store.put(&list).await?;
    let snapshot = store.snapshot(None).await?;
    let places = snapshot.places.context("the workers were asked for")?;
    let decision = decide(
        &snapshot.instances,
        &places,
        &Care::default(),
        Rebalance::default(),
    );
    let mut placed = 0;
    for (name, (inc, workers)) in &decision.assigns {
        placed += store.assign(name, *inc, "place", workers).await?.unwrap_or(0);
    }
    let took = boot_now().since(begun);
    ensure!(placed == list.len() as u64, "only {placed} workers were placed");
    let known = store.snapshot(None).await?;
    let (version, places) = (known.version, known.places.unwrap_or_default());
    let begun = boot_now();
    let snapshot = store.snapshot(Some(version)).await?;
    ensure!(snapshot.places.is_none(), "the placement changed by itself");
    let found = difference(&list, &places, &snapshot.unreadable);
    store.held_stops().await?;
    store.run().await?;
    ensure!(
        found.puts.is_empty() && found.stops.is_empty(),
        "the list changed by itself"
    );
    Ok((took, boot_now().since(begun)))
}

fn plan_after_a_death(plan: &Plan) -> Row {
    let (workers, instances) = plan.planned;
    let mut fleet = Fleet::default();
    for at in 0..instances {
        fleet.instances.push(Instance::new(format!("instance-{at:05}")));
    }
    // The first instance is gone; its workers wait.
    fleet.instances.remove(0);
    let place = |at: usize| (at % instances).checked_sub(1);
    fleet.workers = (0..workers).map(|at| Worker::at(place(at))).collect();
    let begun = boot_now();
    let answer = fleet.plan();
    let took = boot_now().since(begun);
    let what = format!(
        "plan for one death, {workers} workers on {instances} instances ({} placed, {} moved)",
        answer.steps.len() - answer.cost.moves,
        answer.cost.moves
    );
    Row::new(what, "-", took, "< 1 s")
}
