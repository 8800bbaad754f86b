//! Three agents share the workers, one is killed with -9, and its workers appear elsewhere.
//!
//! A manager and the agents are child processes of this binary, with an app of their own in the room, or in the
//! server's Redis where the room is on real engines. They end with the demo, however it ends.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use nagaya_fleet::commands::StoreOptions;
use nagaya_fleet::name::AppName;
use nagaya_fleet::status::Status;
use nagaya_fleet::store::Store;
use nagaya_process::spawn_child;
use nagaya_redis_client::{Client as Redis, RedisUrl};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use super::part::{End, Part, count};
use super::target::{Target, connect_to, erase};

/// The app; all its keys have this tag.
const APP: &str = "demo";
const WORKERS: usize = 12;
const MANAGER: &str = "demo-manager";
const AGENTS: [&str; 3] = ["demo-a", "demo-b", "demo-c"];
/// The one that is killed.
const VICTIM: usize = 1;
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long placing may take, and how long the move after the death, beyond the end of the demo.
const MOVE_LIMIT: Duration = Duration::from_secs(15);
/// How long processes may take to end by themselves.
const END_LIMIT: Duration = Duration::from_secs(2);

pub(super) struct FleetPart {
    redis: Arc<Redis>,
    store: Store,
    /// With its password, so it is handed on in the environment.
    url: String,
    lease: Duration,
    length: Duration,
    seen: RefCell<Seen>,
    children: RefCell<BTreeMap<&'static str, Child>>,
}

#[derive(Default)]
struct Seen {
    /// Which worker is where, of those that have a place.
    places: BTreeMap<String, String>,
    placed_after: Option<Duration>,
    /// How many workers the victim had when it was killed.
    orphans: usize,
    killed: bool,
    moved_after: Option<Duration>,
    back: bool,
}

impl Seen {
    fn of(&self, agent: &str) -> usize {
        self.places.values().filter(|place| *place == agent).count()
    }
}

impl FleetPart {
    pub(super) fn new(target: &Target, length: Duration) -> anyhow::Result<FleetPart> {
        let app = AppName::new(APP).context("the demo's app cannot be named")?;
        let url: RedisUrl = target.fleet().parse().context("`house.redis` cannot be used")?;
        let options = StoreOptions {
            reply_limit: Duration::from_secs(5),
            ..StoreOptions::new(url.clone(), app)
        };
        Ok(FleetPart {
            redis: connect_to(url)?,
            store: options.open()?,
            url: target.fleet().to_owned(),
            // Long enough for a busy machine, short enough for a death and a move within the demo.
            lease: (length / 25).clamp(Duration::from_secs(1), Duration::from_secs(3)),
            length,
            seen: RefCell::default(),
            children: RefCell::default(),
        })
    }

    /// Starts `nagaya fleet WORDS`; its words go to a file, of which the end is told when it fails.
    fn start(&self, folder: &Path, name: &'static str, words: &[&str]) -> anyhow::Result<()> {
        let log = std::fs::File::create(log_of(folder, name))?;
        let binary = std::env::current_exe().context("this program cannot be found")?;
        let mut command = Command::new(binary);
        command
            .arg("fleet")
            .args(words)
            .args(["--app", APP, "--lease", &format!("{}ms", self.lease.as_millis())])
            .env("NAGAYA_FLEET__REDIS", &self.url)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let child = spawn_child(command).with_context(|| format!("{name} cannot be started"))?;
        self.children.borrow_mut().insert(name, child);
        Ok(())
    }

    fn start_agent(&self, folder: &Path, agent: usize) -> anyhow::Result<()> {
        let name = AGENTS[agent];
        self.start(folder, name, &["agent", "--name", name, "--exec", "sleep 86400"])
    }

    async fn snapshot(&self) -> anyhow::Result<()> {
        let snapshot = self.store.snapshot(None).await;
        let snapshot = snapshot.map_err(|error| anyhow::anyhow!("{}", error.chain()))?;
        let status = Status::new(snapshot).to_json();
        let assigned = status["workers"].as_array().into_iter().flatten();
        let places = assigned
            .filter(|worker| worker["state"] == "assigned")
            .filter_map(|worker| {
                Some((
                    worker["id"].as_str()?.to_owned(),
                    worker["instance"].as_str()?.to_owned(),
                ))
            });
        self.seen.borrow_mut().places = places.collect();
        Ok(())
    }

    /// Polls until a condition holds; returns false on timeout.
    async fn look_until(
        &self,
        limit: Instant,
        end: &End,
        is_so: impl Fn(&Seen) -> bool,
    ) -> anyhow::Result<bool> {
        loop {
            self.snapshot().await?;
            if is_so(&self.seen.borrow()) {
                return Ok(true);
            }
            if Instant::now() >= limit {
                return Ok(false);
            }
            tokio::select! {
                () = end.interrupted.cancelled() => return Ok(false),
                () = tokio::time::sleep(LOOK_EVERY) => (),
            }
        }
    }

    async fn play(&self, folder: &Path, end: &End) -> anyhow::Result<()> {
        let began = Instant::now();
        let list: Vec<Value> = (1..=WORKERS)
            .map(|camera| json!({ "id": format!("camera-{camera}") }))
            .collect();
        std::fs::write(folder.join("list.json"), Value::Array(list).to_string())?;
        let manager = [
            "manager",
            "--source",
            "file:list.json",
            "--source-interval",
            "1s",
            "--name",
            MANAGER,
        ];
        self.start(folder, "manager", &manager)?;
        for agent in 0..AGENTS.len() {
            self.start_agent(folder, agent)?;
        }
        let is_shared = |seen: &Seen| {
            seen.places.len() == WORKERS
                && AGENTS
                    .iter()
                    .all(|agent| seen.of(agent) == WORKERS / AGENTS.len())
        };
        if !self.look_until(began + MOVE_LIMIT, end, is_shared).await? {
            return self.unless_interrupted(end, folder, "the workers found no place");
        }
        self.seen.borrow_mut().placed_after = Some(began.elapsed());
        // Something to see first.
        self.rest_until(began + self.length / 3, end).await?;
        self.kill_victim(end, folder).await?;
        self.rest_until(began + self.length * 2 / 3, end).await?;
        if !end.time_is_up.is_cancelled() {
            self.start_agent(folder, VICTIM)?;
            let has_work = |seen: &Seen| seen.of(AGENTS[VICTIM]) > 0;
            self.seen.borrow_mut().back = self.look_until(began + self.length, end, has_work).await?;
        }
        self.rest_until(began + self.length, end).await
    }

    async fn kill_victim(&self, end: &End, folder: &Path) -> anyhow::Result<()> {
        if end.interrupted.is_cancelled() {
            return Ok(());
        }
        let victim = self.children.borrow_mut().remove(AGENTS[VICTIM]);
        if let Some(mut victim) = victim {
            victim.kill()?;
            victim.wait()?;
        }
        let killed = Instant::now();
        {
            let mut seen = self.seen.borrow_mut();
            seen.orphans = seen.of(AGENTS[VICTIM]);
            seen.killed = true;
        }
        let is_over = |seen: &Seen| seen.places.len() == WORKERS && seen.of(AGENTS[VICTIM]) == 0;
        if !self.look_until(killed + MOVE_LIMIT, end, is_over).await? {
            return self.unless_interrupted(end, folder, "the workers of the dead agent found no place");
        }
        self.seen.borrow_mut().moved_after = Some(killed.elapsed());
        Ok(())
    }

    /// Looks on until a moment, or until the time is up.
    async fn rest_until(&self, until: Instant, end: &End) -> anyhow::Result<()> {
        while Instant::now() < until && !end.time_is_up.is_cancelled() {
            self.snapshot().await?;
            tokio::select! {
                () = end.time_is_up.cancelled() => (),
                () = tokio::time::sleep(LOOK_EVERY) => (),
            }
        }
        Ok(())
    }

    fn unless_interrupted(&self, end: &End, folder: &Path, what: &str) -> anyhow::Result<()> {
        if end.interrupted.is_cancelled() {
            return Ok(());
        }
        let told = std::fs::read_to_string(log_of(folder, "manager")).unwrap_or_default();
        match told.lines().last() {
            Some(last) => bail!("{what}; the manager's last word was: {last}"),
            None => bail!("{what}"),
        }
    }

    /// Ends all children, first with SIGTERM.
    async fn end_children(&self) -> anyhow::Result<()> {
        let mut children = std::mem::take(&mut *self.children.borrow_mut());
        for child in children.values() {
            if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
                // It may have ended by itself.
                kill_process(pid, Signal::TERM).ok();
            }
        }
        let limit = Instant::now() + END_LIMIT;
        for child in children.values_mut() {
            while child.try_wait()?.is_none() && Instant::now() < limit {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            // The workers of an agent that is killed die with it.
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }
}

/// All keys that a fleet with these agents has; docs/fleet.md lists them.
fn keys() -> Vec<String> {
    const SHARED: [&str; 9] = [
        "instances",
        "places",
        "configs",
        "meta",
        "events",
        "managers",
        "figures",
        "held",
        "confirmed",
    ];
    let of_app = |name: String| format!("{{{APP}}}:{name}");
    let shared = SHARED.iter().map(|name| of_app(format!("fleet:{name}")));
    let agents = AGENTS.iter().flat_map(|agent| {
        let own = [format!("workers:{agent}"), format!("slave:{agent}:heartbeat")];
        own.map(of_app)
    });
    let manager = of_app(format!("master:{MANAGER}:heartbeat"));
    shared.chain(agents).chain([manager]).collect()
}

fn log_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.log"))
}

impl Part for FleetPart {
    fn name(&self) -> &'static str {
        "fleet"
    }

    fn run<'a>(&'a self, end: &'a End) -> LocalBoxFuture<'a, anyhow::Result<()>> {
        async move {
            let folder = TempDir::with_prefix("nagaya-demo-").context("no folder for the demo's fleet")?;
            let played = self.play(folder.path(), end).await;
            self.end_children().await.and(played)
        }
        .boxed_local()
    }

    fn clean(&self) -> LocalBoxFuture<'_, anyhow::Result<()>> {
        async move {
            self.end_children().await?;
            erase(&self.redis, APP, &keys()).await
        }
        .boxed_local()
    }

    fn line(&self) -> String {
        let seen = self.seen.borrow();
        let shares = AGENTS
            .map(|agent| format!("{agent} {}", seen.of(agent)))
            .join(", ");
        let event = match (seen.killed, seen.moved_after) {
            (false, _) => String::new(),
            (true, None) => format!("; {} killed, its workers wait", AGENTS[VICTIM]),
            (true, Some(took)) => format!(
                "; {} killed, moved in {:.1} s",
                AGENTS[VICTIM],
                took.as_secs_f64()
            ),
        };
        format!(
            "{} placed: {shares}{event}",
            count(seen.places.len() as u64, "worker")
        )
    }

    fn sentence(&self) -> String {
        let seen = self.seen.borrow();
        let placed = match seen.placed_after {
            Some(took) => format!(
                "{WORKERS} workers shared out to {} agents in {:.1} s",
                AGENTS.len(),
                took.as_secs_f64()
            ),
            None => return "the workers found no place".to_owned(),
        };
        match seen.moved_after {
            Some(took) => format!(
                "{placed}; {} was killed with -9 and its {} ran elsewhere {:.1} s later{}",
                AGENTS[VICTIM],
                count(seen.orphans as u64, "worker"),
                took.as_secs_f64(),
                if seen.back {
                    ", and came back for its share"
                } else {
                    ""
                }
            ),
            None => placed,
        }
    }

    fn figures(&self) -> Value {
        let seen = self.seen.borrow();
        json!({
            "workers": WORKERS, "agents": AGENTS.len(),
            "placed_seconds": seen.placed_after.map(|took| took.as_secs_f64()),
            "killed": seen.killed, "orphans": seen.orphans,
            "moved_seconds": seen.moved_after.map(|took| took.as_secs_f64()), "came_back": seen.back,
        })
    }
}
