//! The commands of `nagaya fleet` as functions with typed options.

use std::sync::Arc;
use std::time::Duration;

use nagaya_redis_client::{Client, Options, RedisUrl};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::agent::{
    self, AgentError, AgentHandle, AgentOptions, ExecOptions, ExecRunner, HttpOptions, HttpRunner, Runner,
};
use crate::ask::{Answers, ask};
use crate::manager::{self, HeldStops, ManagerHandle, ManagerOptions};
use crate::name::{AppName, InstanceName, WorkerId};
use crate::plan::{SeedRules, relocate_all_as_seed};
use crate::protocol::Rebalance;
use crate::status::{PlanReport, Status};
use crate::store::{Error, InstanceState, Place, PlaceState, Store};

/// `--redis URL --app NAME`.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    pub redis: RedisUrl,
    pub app: AppName,
    /// How long one call may take; at most a heartbeat interval for an agent.
    pub reply_limit: Duration,
}

impl StoreOptions {
    pub fn new(redis: RedisUrl, app: AppName) -> StoreOptions {
        StoreOptions {
            redis,
            app,
            reply_limit: Duration::from_secs(1),
        }
    }

    /// Opens the store. Connects on the first call.
    pub fn open(self) -> Result<Store, Error> {
        let options = Options {
            connect_limit: self.reply_limit,
            reply_limit: self.reply_limit,
            client_name: format!("nagaya-fleet-{}", self.app),
        };
        let client = Client::new(self.redis, options)?;
        Ok(Store::new(Arc::new(client), self.app))
    }
}

/// How an agent runs its workers.
#[derive(Clone, Debug)]
pub enum RunnerOptions {
    /// `--exec 'cmd {}'`
    Exec(ExecOptions),
    /// `--http URL`, and the token that the application asks for.
    Http { url: String, token: Option<String> },
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error(transparent)]
    Store(#[from] Error),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error("workers cannot be run: {0}")]
    Runner(#[source] std::io::Error),
}

/// `fleet agent`: runs until `shutdown` is cancelled and the workers are handed over.
pub async fn run_agent(
    store: StoreOptions,
    options: AgentOptions,
    runner: RunnerOptions,
    shutdown: CancellationToken,
) -> Result<(), CommandError> {
    let timing = options.timing;
    let runner: Arc<dyn Runner> = match runner {
        RunnerOptions::Exec(exec) => Arc::new(ExecRunner::new(exec, timing).map_err(CommandError::Runner)?),
        RunnerOptions::Http { url, token } => {
            let http = HttpOptions {
                url,
                token,
                app: store.app.clone(),
                instance: options.name.clone(),
                timing,
            };
            Arc::new(HttpRunner::new(http).map_err(CommandError::Runner)?)
        }
    };
    let handle = AgentHandle::default();
    Ok(agent::run(store.open()?, options, runner, handle, shutdown).await?)
}

/// `fleet manager`: runs until `shutdown` is cancelled. The handle serves `--wait-ready`, the webhook and the
/// API.
pub async fn run_manager(
    store: StoreOptions,
    options: ManagerOptions,
    handle: ManagerHandle,
    shutdown: CancellationToken,
) -> Result<(), CommandError> {
    manager::run(store.open()?, options, handle, shutdown).await;
    Ok(())
}

/// `fleet list`.
pub async fn list(store: StoreOptions) -> Result<Status, CommandError> {
    Ok(Status::new(store.open()?.snapshot(None).await?))
}

/// `fleet plan`.
pub async fn plan(store: StoreOptions, rebalance: Rebalance) -> Result<PlanReport, CommandError> {
    Ok(list(store).await?.plan(rebalance))
}

/// `fleet relocate WORKER [--force]`. Returns the instance that the worker moves to.
pub async fn relocate(
    store: StoreOptions,
    worker: &WorkerId,
    force: bool,
) -> Result<InstanceName, CommandError> {
    Ok(store.open()?.relocate(worker, force).await?)
}

/// The algorithm that relocates all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Ends even, with the fewest possible moves.
    Even,
    /// The algorithm of document 000, for comparison.
    Seed(SeedRules),
}

/// `fleet relocate --all`. Returns how many workers were asked to move.
pub async fn relocate_all(store: StoreOptions, policy: Policy) -> Result<u64, CommandError> {
    Ok(relocate_all_in(&store.open()?, policy).await?)
}

/// [`relocate_all`] in a store that is already open.
pub async fn relocate_all_in(store: &Store, policy: Policy) -> Result<u64, Error> {
    loop {
        let snapshot = store.snapshot(None).await?;
        let version = snapshot.version;
        let moves = match policy {
            Policy::Seed(rules) => {
                let places = snapshot.places.unwrap_or_default();
                let live = snapshot
                    .instances
                    .iter()
                    .filter(|(_, record)| record.state == InstanceState::Live);
                seed_moves(live.map(|(name, _)| name), &places, rules)
            }
            Policy::Even => {
                let places = snapshot.places.clone().unwrap_or_default();
                let plan = Status::new(snapshot).plan(Rebalance::default());
                let moves = plan.steps.into_iter().filter(|(_, from, _)| from.is_some());
                moves
                    .map(|(worker, _, to)| {
                        let epoch = places[&worker].epoch;
                        (worker, epoch, Some(to))
                    })
                    .collect()
            }
        };
        if let Some(revoked) = store.revoke(version, "relocate", &moves).await? {
            store.announce().await;
            return Ok(revoked);
        }
    }
}

/// Returns the moves of document 000's algorithm, with instances and workers in the order of their names.
fn seed_moves<'a>(
    live: impl Iterator<Item = &'a InstanceName>,
    places: &std::collections::BTreeMap<WorkerId, Place>,
    rules: SeedRules,
) -> Vec<(WorkerId, u64, Option<InstanceName>)> {
    let names: Vec<&InstanceName> = live.collect();
    let mut lists: Vec<Vec<&WorkerId>> = names
        .iter()
        .map(|name| {
            let own = places.iter().filter(|(_, place)| {
                place.owner.as_ref() == Some(*name) && place.state == PlaceState::Assigned
            });
            own.map(|(worker, _)| worker).collect()
        })
        .collect();
    relocate_all_as_seed(&mut lists, rules);
    let mut moves = Vec::new();
    for (name, list) in names.iter().zip(lists) {
        for worker in list {
            let place = &places[worker];
            if place.owner.as_ref() != Some(*name) {
                moves.push((worker.clone(), place.epoch, Some((*name).clone())));
            }
        }
    }
    moves
}

/// `fleet drain INSTANCE`, or its undoing. Returns how many workers the instance has.
pub async fn drain(store: StoreOptions, name: &InstanceName, on: bool) -> Result<u64, CommandError> {
    Ok(store.open()?.drain(name, on).await?)
}

/// `fleet ask KEY [--worker W]`.
pub async fn run_ask(
    store: StoreOptions,
    key: &str,
    worker: Option<&WorkerId>,
    limit: Duration,
) -> Result<Answers, CommandError> {
    Ok(ask(&store.open()?, key, worker, limit).await?)
}

/// `fleet confirm`: releases the held stops, or only those with this digest. Returns them, or `None` if
/// nothing that matches is held.
pub async fn confirm(store: StoreOptions, digest: Option<&str>) -> Result<Option<HeldStops>, CommandError> {
    Ok(confirm_in(&store.open()?, digest).await?)
}

/// [`confirm`] in a store that is already open.
pub async fn confirm_in(store: &Store, digest: Option<&str>) -> Result<Option<HeldStops>, Error> {
    let held = store.held_stops().await?;
    let Some(held) = held.filter(|held| digest.is_none_or(|digest| digest == held.digest)) else {
        return Ok(None);
    };
    store.confirm_stops(&held.digest).await?;
    store.announce().await;
    Ok(Some(held))
}

/// `fleet events`: the last entries of the history, as JSON objects.
pub async fn events(
    store: StoreOptions,
    after: Option<&str>,
    count: usize,
) -> Result<Vec<Value>, CommandError> {
    Ok(events_in(&store.open()?, after, count).await?)
}

/// [`events`] in a store that is already open.
pub async fn events_in(store: &Store, after: Option<&str>, count: usize) -> Result<Vec<Value>, Error> {
    let history = store.history(after, count).await?;
    let lines = history.into_iter().map(|event| {
        serde_json::json!({
            "id": event.id, "what": event.what, "worker": event.worker,
            "instance": event.instance, "epoch": event.epoch, "why": event.why,
        })
    });
    Ok(lines.collect())
}
