//! The programs that are compared, as child processes that end with this one.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use nagaya_process::spawn_child;
use serde::Serialize;
use serde_json::json;

use super::options::Plan;
use crate::servers::Server;
use crate::{proc, progress};

/// In seconds. Short enough that Redis does not fill up, and longer than a run with its evaluation.
const EXPIRE_SECONDS: u64 = 30;
const START_ATTEMPTS: usize = 600;
const START_PAUSE: Duration = Duration::from_millis(50);

/// The program that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Ours,
    /// Ours, with a write for each answer.
    Plain,
    Serinin,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Ours => "nagaya",
            Kind::Plain => "nagaya, plain writes",
            Kind::Serinin => "serinin",
        }
    }
}

/// A running fan-out. Dropping it ends it.
pub(super) struct Competitor {
    pub(super) address: SocketAddr,
    child: Child,
}

impl Competitor {
    /// Starts one with these endpoints.
    pub(super) fn start(
        kind: Kind,
        plan: &Plan,
        folder: &Path,
        redis: &Server,
        endpoints: &[(String, String)],
    ) -> anyhow::Result<Competitor> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
        let address = listener.local_addr()?;
        drop(listener);
        let mut command = match (kind, &plan.serinin) {
            (Kind::Serinin, Some(program)) => {
                let file = folder.join("serinin_config.json");
                fs::write(&file, serinin_config(address, redis, endpoints))?;
                let mut command = Command::new(program);
                command.arg("-config").arg(file);
                command
            }
            (Kind::Serinin, None) => bail!("serinin is not there"),
            (Kind::Ours | Kind::Plain, _) => {
                let file = folder.join("fanout.toml");
                fs::write(&file, our_config(kind, address, redis, endpoints))?;
                let mut command = Command::new(&plan.programs.nagaya.path);
                command
                    .arg("--config")
                    .arg(file)
                    .args(["--log-level", "error", "fanout", "serve"]);
                command
            }
        };
        let log = folder.join("contender.log");
        let output = File::create(&log)?;
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let child = spawn_child(command).with_context(|| format!("cannot start {}", kind.name()))?;
        let mut competitor = Competitor { address, child };
        competitor.wait_until_it_listens(&log)?;
        Ok(competitor)
    }

    fn wait_until_it_listens(&mut self, log: &Path) -> anyhow::Result<()> {
        for _ in 0..START_ATTEMPTS {
            if let Some(status) = self.child.try_wait()? {
                let said = fs::read_to_string(log).unwrap_or_default();
                bail!("it ended at its start ({status}); it said:\n{said}");
            }
            if TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            std::thread::sleep(START_PAUSE);
        }
        progress("it does not listen");
        bail!("nothing listens on {}", self.address)
    }

    pub(super) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        proc::cpu_seconds(self.child.id())
    }

    pub(super) fn resident_bytes(&self) -> anyhow::Result<u64> {
        proc::resident_bytes(self.child.id())
    }
}

impl Drop for Competitor {
    fn drop(&mut self) {
        // Its data is not needed.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn our_config(kind: Kind, address: SocketAddr, redis: &Server, endpoints: &[(String, String)]) -> String {
    let window = match kind {
        Kind::Plain => "0ms",
        Kind::Ours | Kind::Serinin => "2ms",
    };
    let mut text = format!(
        "[fanout]\nlisten = \"{address}\"\nstore = \"redis\"\nredis = \"redis://{}\"\n\
         expire_in = \"{EXPIRE_SECONDS}s\"\njoin_window = \"{window}\"\n[fanout.endpoints]\n",
        redis.address
    );
    for (name, url) in endpoints {
        text.push_str(&format!("{name} = \"{url}\"\n"));
    }
    text
}

/// With as many handlers as its connections to endpoints need, and no limit that would hold it back.
fn serinin_config(address: SocketAddr, redis: &Server, endpoints: &[(String, String)]) -> String {
    let endpoints: serde_json::Map<_, _> = endpoints
        .iter()
        .map(|(name, url)| (name.clone(), json!({"url": url})))
        .collect();
    json!({
        "addr": address.to_string(),
        "shutdown_timeout": "1s",
        "max_handlers": 256,
        "worker_num": 1024,
        "http_client_timeout": "0.2s",
        "endpoints": endpoints,
        "store_type": "redis",
        "redis": {"addr": redis.address.to_string(), "expire_in": format!("{EXPIRE_SECONDS}s"), "pool_size": 100},
    })
    .to_string()
}
