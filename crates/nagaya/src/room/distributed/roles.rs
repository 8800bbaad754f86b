//! `nagaya room serve`, `collect` and `task`: one role each, without the other services.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use nagaya_clock::{Clock, SystemClock};
use nagaya_config::{Flag, Listen};
use nagaya_telemetry::metrics::Metrics;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{Backends, Roles, TieredRoom};
use crate::app::readiness::Readiness;
use crate::app::service::Service;
use crate::app::settings::{self, Settings};
use crate::app::supervisor::Supervisor;
use crate::app::up;
use crate::cli::GlobalArgs;
use crate::http::{HttpConfig, HttpServer, HttpState};

/// Where collectors listen unless told otherwise.
const COLLECTOR_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6390);

const SERVE_EXAMPLES: &str = "\
Examples:
  nagaya room serve --redis redis+cluster://10.0.0.1,10.0.0.2 \\
      --postgres postgres://room@10.0.0.9/room
  nagaya room serve --collector 10.0.0.5:6390 --listen 10.0.0.4:6380 ...
  nagaya room serve --redis-conf /etc/redis/redis.conf --port 6390

Clients see one Redis. Any number of servers may run; somebody must run
`nagaya room task` beside them, or changes are not saved. With --redis-conf an
engine in this process serves instead, as redis-server would; what a directive
cannot mean here is refused with its line, or listed as without effect.";

const COLLECT_EXAMPLES: &str = "\
Examples:
  nagaya room collect --listen 10.0.0.5:6390 --redis ... --postgres ...

Takes from servers which tags are used and writes it to PostgreSQL, for the
choice of what to evict and for statistics. What it loses costs accuracy only.";

const TASK_EXAMPLES: &str = "\
Examples:
  nagaya room task --redis ... --postgres ...
  nagaya room task --set room.idle_after=1h --set room.max_staleness=2s ...

Saves changed tags and evicts idle ones. Any number may run: they share the
work, and take over from one that died.";

#[derive(Subcommand)]
pub(crate) enum RoleArgs {
    /// Serve Redis clients from Redis and PostgreSQL
    #[command(after_long_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Take from servers which tags are used
    #[command(after_long_help = COLLECT_EXAMPLES)]
    Collect(CollectArgs),
    /// Save changed tags and evict idle ones
    #[command(after_long_help = TASK_EXAMPLES)]
    Task(TaskArgs),
}

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Serve Redis clients here [default: 127.0.0.1:6380]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// Send which tags are used to this collector [default: write it ourselves]
    #[arg(long, value_name = "ADDR:PORT")]
    collector: Option<String>,
    /// Start an engine alone, as redis-server starts with this file; directives
    /// such as `--port 6390` may follow it, or stand in its place
    #[arg(long, value_name = "FILE", num_args = 1.., allow_hyphen_values = true)]
    redis_conf: Option<Vec<String>>,
    #[command(flatten)]
    shared: SharedArgs,
}

#[derive(Args)]
pub(crate) struct CollectArgs {
    /// Listen for servers here [default: 127.0.0.1:6390]
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen)]
    listen: Option<Listen>,
    #[command(flatten)]
    shared: SharedArgs,
}

#[derive(Args)]
pub(crate) struct TaskArgs {
    #[command(flatten)]
    shared: SharedArgs,
}

#[derive(Args)]
struct SharedArgs {
    /// The Redis, Sentinel or Cluster with the tags in use
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// The PostgreSQL with the tags that rest
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// Serve health and metrics here [default: not at all]
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen)]
    http_listen: Option<Listen>,
    /// Let other machines in without credentials
    #[arg(long)]
    insecure: bool,
    /// Set any setting (may be given several times)
    #[arg(long, value_name = "KEY=VALUE", value_parser = crate::cli::key_and_value)]
    set: Vec<(String, String)>,
}

impl RoleArgs {
    /// Returns what redis-server would be given, when an engine alone is to start.
    pub(crate) fn redis_conf(&self) -> Option<&[String]> {
        match self {
            RoleArgs::Serve(args) => args.redis_conf.as_deref(),
            RoleArgs::Collect(_) | RoleArgs::Task(_) => None,
        }
    }
}

fn listen(text: &str) -> Result<Listen, String> {
    text.parse()
        .map(Listen)
        .map_err(|_| "must look like 127.0.0.1:6390".to_owned())
}

/// Runs one role until told to stop.
pub(crate) fn run(global: &GlobalArgs, base: Vec<Flag>, args: RoleArgs) -> anyhow::Result<ExitCode> {
    let mut own: Vec<(&str, &str, Option<String>)> = Vec::new();
    let (shared, role) = match args {
        RoleArgs::Serve(args) => {
            own.push(("--listen", "room.listen", args.listen));
            own.push(("--collector", "tiers.collector", args.collector));
            (args.shared, Role::Serve)
        }
        RoleArgs::Collect(args) => {
            let listen = args.listen.unwrap_or(Listen(COLLECTOR_LISTEN));
            (args.shared, Role::Collect(listen))
        }
        RoleArgs::Task(args) => (args.shared, Role::Task),
    };
    own.push(("--redis", "house.redis", shared.redis));
    own.push(("--postgres", "house.postgres", shared.postgres));
    own.push((
        "--insecure",
        "house.insecure",
        shared.insecure.then(|| "true".to_owned()),
    ));
    let flag = |name: &str, key: &str, value: String| Flag {
        name: name.to_owned(),
        key: key.to_owned(),
        value,
    };
    let mut flags = base;
    flags.extend(
        shared
            .set
            .iter()
            .map(|(key, value)| flag("--set", key, value.clone())),
    );
    flags.extend(
        own.into_iter()
            .filter_map(|(name, key, value)| Some(flag(name, key, value?))),
    );
    let settings = Settings::new(&settings::load(global, flags)?)?;
    let Some(backends) = Backends::of(&settings)? else {
        bail!("this role needs --redis and --postgres (or house.redis and house.postgres in the settings)");
    };
    let roles = role.roles(&settings)?;
    let http = match shared.http_listen {
        None => None,
        Some(listen)
            if !listen.is_loopback() && settings.http.token.is_none() && !settings.house.insecure =>
        {
            bail!(
                "--http-listen is {listen}, which other machines can reach, and `http.token` is not set; set it, \
                 listen on 127.0.0.1, or pass --insecure"
            )
        }
        Some(listen) => Some(HttpConfig {
            listen,
            ..settings.http.clone()
        }),
    };
    let plan = Plan {
        settings,
        backends,
        roles,
        http,
    };
    up::until_second_signal(plan.settings.telemetry.clone(), move |stop| plan.run(stop))
}

enum Role {
    Serve,
    Collect(Listen),
    Task,
}

impl Role {
    fn roles(&self, settings: &Settings) -> anyhow::Result<Roles> {
        let none = Roles {
            serves: false,
            collects_at: None,
            keeps: false,
        };
        Ok(match self {
            Role::Serve => Roles { serves: true, ..none },
            Role::Task => Roles { keeps: true, ..none },
            Role::Collect(listen) => {
                let is_open = !listen.is_loopback() && settings.room.password.is_none();
                if is_open && !settings.house.insecure {
                    bail!(
                        "--listen is {listen}, which other machines can reach, and `room.password` is not set; set \
                         it for collectors and servers alike, listen on 127.0.0.1, or pass --insecure"
                    );
                }
                Roles {
                    collects_at: Some(listen.0),
                    ..none
                }
            }
        })
    }
}

/// The effective configuration from flags and settings.
struct Plan {
    settings: Settings,
    backends: Backends,
    roles: Roles,
    http: Option<HttpConfig>,
}

impl Plan {
    async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let metrics = Arc::new(Metrics::new(up::VERSION, Arc::clone(&clock)));
        let room = TieredRoom::open(self.backends, self.roles, Arc::clone(&metrics)).await?;
        let (address, collector) = (room.address(), room.collector_address());
        let names: &[&str] = match self.http {
            Some(_) => &["room", "http"],
            None => &["room"],
        };
        let readiness = Readiness::new(names);
        let mut services: Vec<Box<dyn Service>> = vec![Box::new(room)];
        let mut http_address = None;
        if let Some(config) = self.http {
            let state = HttpState {
                config,
                readiness: readiness.clone(),
                metrics,
                started: clock.now(),
                clock,
                routes: axum::Router::new(),
                self_guarded: axum::Router::new(),
                tokens: None,
                rights: Default::default(),
            };
            let http = HttpServer::bind(Arc::new(state)).await?;
            http_address = Some(http.address().context("cannot tell the HTTP address")?);
            services.push(Box::new(http));
        }
        let supervisor = Supervisor::new(services, readiness, self.settings.house.drain_timeout);
        let on_ready = || {
            info!(
                room = address.map(tracing::field::display),
                collector = collector.map(tracing::field::display),
                http = http_address.map(tracing::field::display),
                tasks = self.roles.keeps,
                "ready"
            );
        };
        supervisor.run(stop, on_ready).await
    }
}
