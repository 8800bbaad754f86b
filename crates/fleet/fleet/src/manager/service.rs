//! The manager's loop.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nagaya_redis_client::{Event, Subscriber, Topics};
use tokio_util::sync::CancellationToken;

use super::reconcile::difference;
use super::source::{Listing, SourceError};
use super::{HealthCounts, ManagerHandle, ManagerOptions};
use crate::agent::BoxFuture;
use crate::name::WorkerId;
use crate::protocol::{AVOID_FOR, Care, Watch, decide};
use crate::store::{Error, FleetSnapshot, InstanceState, Place, PlaceState, Store};
use nagaya_clock::{BootTime, Clock, SystemClock, boot_now};

/// Heartbeat interval of a manager. Its key is shown for 20 s, so three may be missed.
const BEAT_EVERY: Duration = Duration::from_secs(5);
/// Messages arrive in bursts; one read of the fleet answers all that arrive within this time.
const COALESCE_WINDOW: Duration = Duration::from_millis(10);

/// For how long the brake remembers what lists have stopped.
const BRAKE_WINDOW: Duration = Duration::from_secs(600);
/// How often what the workers are kept from is read again.
const CARE_EVERY: Duration = Duration::from_secs(30);

type List = Result<Listing, SourceError>;

pub(super) struct Service {
    store: Store,
    options: ManagerOptions,
    handle: ManagerHandle,
    watch: Watch,
    /// The placement of the last version read.
    places: BTreeMap<WorkerId, Place>,
    unreadable: BTreeSet<String>,
    version: Option<u64>,
    care: Care,
    health_version: Option<u64>,
    /// When what the workers are kept from is read again, because it ends with time.
    next_care: BootTime,
    run: String,
    birth: String,
    next_beat: BootTime,
    next_poll: BootTime,
    next_sync: BootTime,
    /// Waiting workers are counted as dark up to this time.
    dark_until: Option<BootTime>,
    /// A list that was read and not applied yet.
    list: Option<Listing>,
}

impl Service {
    pub(super) fn new(store: Store, options: ManagerOptions, handle: ManagerHandle) -> Service {
        Service {
            store,
            options,
            handle,
            watch: Watch::default(),
            places: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            version: None,
            care: Care::default(),
            health_version: None,
            next_care: BootTime::ZERO,
            run: String::new(),
            birth: String::new(),
            next_beat: BootTime::ZERO,
            next_poll: BootTime::ZERO,
            next_sync: BootTime::ZERO,
            dark_until: None,
            list: None,
        }
    }

    pub(super) async fn run(mut self, shutdown: CancellationToken) {
        tracing::info!(name = %self.options.name, bounds = %self.options.timing.bounds(), "manager starts");
        let topics = Topics {
            channels: vec![self.store.wakeup_channel()],
            patterns: Vec::new(),
        };
        let mut subscriber = Subscriber::start(self.store.client().clone(), topics);
        let mut reading: Option<BoxFuture<'static, List>> = None;
        loop {
            let now = boot_now();
            if reading.is_none() && now >= self.next_sync {
                reading = self
                    .options
                    .source
                    .clone()
                    .map(|source| -> BoxFuture<'static, List> {
                        Box::pin(async move { source.read().await })
                    });
                self.next_sync = now + self.options.source_interval;
            }
            if now >= self.next_poll {
                self.next_poll = now + self.options.timing.poll;
                if let Err(error) = self.run_cycle(now).await {
                    tracing::warn!(error = error.chain(), "manager cycle failed");
                }
            }
            let wake = self.next_poll.min(self.next_sync.max(now + COALESCE_WINDOW));
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                list = in_flight(&mut reading) => {
                    reading = None;
                    self.take_list(list);
                }
                () = self.handle.trigger.notified() => self.next_sync = BootTime::ZERO,
                event = subscriber.next() => {
                    if !matches!(event, Event::Ready) {
                        self.next_poll = self.next_poll.min(boot_now() + COALESCE_WINDOW);
                    }
                }
                () = tokio::time::sleep(wake.since(boot_now())) => (),
            }
        }
        if let Err(error) = self.store.manager_leave(&self.options.name).await {
            tracing::debug!(error = error.chain(), "manager's heartbeat not removed");
        }
    }

    fn take_list(&mut self, list: List) {
        match list {
            Ok(list) => {
                self.list = Some(list);
                self.next_poll = BootTime::ZERO;
            }
            Err(error) => {
                // A list that could not be read stops nothing.
                tracing::error!(%error, cause = ?std::error::Error::source(&error), "external list could not be read");
                self.next_sync = self.next_sync.min(boot_now() + self.options.source_retry);
                self.handle.status.send_modify(|status| status.sync_failures += 1);
            }
        }
    }

    /// One cycle: detects dead instances, applies the list, places waiting workers and rebalances.
    async fn run_cycle(&mut self, now: BootTime) -> Result<(), Error> {
        let mut others = None;
        if now >= self.next_beat {
            let shown_for = self.options.timing.shown_for;
            others = Some(self.store.manager_beat(&self.options.name, shown_for).await?);
            let double_run = self.store.overrun().await?;
            self.handle
                .status
                .send_modify(|status| status.double_run = double_run);
            self.next_beat = now + BEAT_EVERY;
        }
        if now >= self.next_care {
            self.health_version = None;
            self.next_care = now + CARE_EVERY;
        }
        let mut snapshot = self
            .store
            .snapshot_since(self.version, self.health_version)
            .await?;
        let received = boot_now();
        if snapshot.run != self.run || snapshot.birth != self.birth {
            self.run.clone_from(&snapshot.run);
            self.birth.clone_from(&snapshot.birth);
            if self.version.is_some() && snapshot.places.is_none() {
                // A version from another run says nothing about this run's placement.
                snapshot = self.store.snapshot(None).await?;
            }
        }
        self.watch.observe(&snapshot, received);
        self.count_dark(received);
        if let Some(places) = snapshot.places.take() {
            self.places = places;
            self.unreadable = std::mem::take(&mut snapshot.unreadable);
            self.version = Some(snapshot.version);
        }
        if let Some((health, avoided)) = snapshot.health.take() {
            self.care = Care { health, avoided };
            self.health_version = Some(snapshot.health_version);
        }
        if let Some(others) = others {
            let first = &mut |status: &mut super::ManagerStatus| {
                status.is_first_manager.get_or_insert(others == 0);
            };
            self.handle.status.send_modify(first);
        }
        self.declare_dead_and_settle(&snapshot).await?;
        self.care_for(&snapshot).await?;
        self.apply_list().await?;
        self.place(&snapshot).await?;
        self.check_confirmation().await?;
        self.remove_dead_instances(&snapshot).await
    }

    /// Triggers a new read of the list as soon as its held stops are confirmed.
    async fn check_confirmation(&mut self) -> Result<(), Error> {
        let held = self.handle.status.borrow().held.clone();
        if let Some(held) = held
            && self.store.confirmed_stops().await? == Some(held.digest)
        {
            self.next_sync = BootTime::ZERO;
        }
        Ok(())
    }

    /// Adds the time since the last cycle for every worker that waited for a place in it.
    fn count_dark(&mut self, now: BootTime) {
        let waits = |place: &&Place| place.state == PlaceState::Pending && !place.remove;
        let waiting = self.places.values().filter(waits).count();
        if let Some(until) = self.dark_until.replace(now)
            && waiting > 0
        {
            let dark = now.since(until) * u32::try_from(waiting).unwrap_or(u32::MAX);
            self.handle.status.send_modify(|status| status.dark += dark);
        }
    }

    async fn declare_dead_and_settle(&mut self, snapshot: &FleetSnapshot) -> Result<(), Error> {
        let timing = self.options.timing.waiting_for(&snapshot.timing);
        if let Some(run) = self.watch.to_settle(snapshot, boot_now(), &timing) {
            tracing::info!(run, "leases of earlier runs of redis are over");
            self.store.settle(run, &snapshot.birth).await?;
            self.store.announce().await;
        }
        for overdue in self.watch.overdue(boot_now(), &timing) {
            let name = &overdue.name;
            if let Some(workers) = self.store.declare_dead(name, overdue.inc, overdue.beat).await? {
                tracing::warn!(%name, workers, "instance is dead; reassigning its workers");
                let dark = overdue.silent_for * u32::try_from(workers).unwrap_or(u32::MAX);
                self.handle.status.send_modify(|status| {
                    status.deaths_total += 1;
                    status.dark += dark;
                });
                self.next_poll = BootTime::ZERO;
            }
        }
        Ok(())
    }

    /// Keeps workers from where they fail, and cordons instances on which many do.
    async fn care_for(&mut self, snapshot: &FleetSnapshot) -> Result<(), Error> {
        if snapshot.settled != snapshot.run {
            return Ok(());
        }
        let judgement = self.care.judge(&snapshot.instances, &self.places);
        if !judgement.avoid.is_empty() {
            tracing::warn!(
                workers = judgement.avoid.len(),
                "workers fail where they are; trying others"
            );
            self.store.avoid(&judgement.avoid, AVOID_FOR).await?;
        }
        let mut cordoned = 0;
        for (name, inc) in &judgement.cordon {
            if let Some(workers) = self.store.cordon(name, *inc).await? {
                tracing::error!(%name, workers, "instance cordoned: many different workers fail on it");
                cordoned += 1;
            }
        }
        if cordoned > 0 || !judgement.avoid.is_empty() {
            self.store.announce().await;
            self.next_poll = BootTime::ZERO;
        }
        Ok(())
    }

    async fn apply_list(&mut self) -> Result<(), Error> {
        let Some(list) = &self.list else {
            return Ok(());
        };
        for reason in &list.left_out {
            tracing::error!(reason, "object of the external list left out");
        }
        let left_out = list.left_out.len();
        let mut found = difference(&list.installs, &self.places, &self.unreadable);
        // A worker that may be meant by an object that cannot be used stays.
        found
            .stops
            .retain(|worker| !list.has_nameless && !list.kept.contains(worker));
        if !found.puts.is_empty() {
            let written = self.store.put(&found.puts).await?;
            tracing::info!(?written, "workers written");
        }
        let confirmed = self.store.confirmed_stops().await?;
        let installed = self.places.values().filter(|place| !place.remove).count();
        let now_ms = SystemClock.unix_ms().unsigned_abs();
        let recent = self.store.recent_stops(now_ms, BRAKE_WINDOW).await?;
        let guard = self.options.mass_stop_guard;
        let unasked = guard.judge(&found.stops, installed, recent, None);
        let held = guard.judge(&found.stops, installed, recent, confirmed.as_deref());
        match &held {
            None if found.stops.is_empty() => (),
            None => {
                let stops = self.store.uninstall(&found.stops).await?;
                let count = found.stops.len();
                self.store.note_stops(now_ms, count, unasked.is_some()).await?;
                tracing::info!(stops, "workers uninstalled");
            }
            Some(held) => tracing::error!(
                stops = held.stops,
                of = held.of,
                digest = held.digest,
                "the external list would stop too many workers; held until confirmed"
            ),
        }
        self.store.show_held(held.as_ref()).await?;
        if !found.puts.is_empty() || !found.stops.is_empty() {
            self.next_poll = BootTime::ZERO;
        }
        if held.is_none() && !found.stops.is_empty() {
            self.store.announce().await;
        }
        self.list = None;
        self.handle.status.send_modify(|status| {
            status.syncs += 1;
            status.left_out = left_out;
            status.held = held;
        });
        Ok(())
    }

    /// Places waiting workers and revokes those that should run elsewhere.
    async fn place(&mut self, snapshot: &FleetSnapshot) -> Result<(), Error> {
        let mut rebalance = self.options.rebalance;
        // While a failover is not settled, only workers without a running copy justify a change.
        rebalance.on &= snapshot.settled == snapshot.run;
        let decision = decide(&snapshot.instances, &self.places, &self.care, rebalance);
        let mut assigned = 0;
        for (name, (inc, workers)) in &decision.assigns {
            assigned += self
                .store
                .assign(name, *inc, "place", workers)
                .await?
                .unwrap_or(0);
        }
        let mut revoked = 0;
        // The assignments above have already outdated this placement.
        if !decision.revokes.is_empty() && decision.assigns.is_empty() {
            let items: Vec<_> = decision
                .revokes
                .iter()
                .map(|(worker, epoch)| (worker.clone(), *epoch, None))
                .collect();
            let version = self.version.unwrap_or(snapshot.version);
            revoked = self.store.revoke(version, "balance", &items).await?.unwrap_or(0);
        }
        if assigned + revoked > 0 {
            self.store.announce().await;
            self.next_poll = BootTime::ZERO;
        }
        let live = snapshot
            .instances
            .values()
            .filter(|record| record.state == InstanceState::Live);
        let (live, workers) = (live.count(), self.places.len());
        let health = HealthCounts::of(&self.care, &self.places);
        let cordoned = snapshot
            .instances
            .iter()
            .filter(|(_, record)| record.state == InstanceState::Cordoned);
        let cordoned = cordoned.map(|(name, _)| name.clone()).collect();
        self.handle.status.send_modify(|status| {
            status.workers = workers;
            status.live_instances = live;
            status.unplaced = decision.unplaced.len();
            status.cost = decision.cost;
            status.health = health;
            status.cordoned = cordoned;
            status.assigned_total += assigned;
            status.revoked_total += revoked;
        });
        Ok(())
    }

    async fn remove_dead_instances(&self, snapshot: &FleetSnapshot) -> Result<(), Error> {
        let keep_ms = u64::try_from(self.options.forget_after.as_millis()).unwrap_or(u64::MAX);
        for (name, record) in &snapshot.instances {
            let old = record.since_ms.saturating_add(keep_ms) < SystemClock.unix_ms().unsigned_abs();
            if record.state == InstanceState::Dead && old {
                self.store.forget(name, record.inc).await?;
            }
        }
        Ok(())
    }
}

async fn in_flight(reading: &mut Option<BoxFuture<'static, List>>) -> List {
    match reading {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}
