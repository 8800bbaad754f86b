//! The servers behind the proxies and the proxies themselves, as child processes that end with this one.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use nagaya_process::spawn_child;

use super::options::Plan;
use crate::connection::{Connection, Reply};
use crate::servers::free_address;
use crate::{proc, progress};

const ATTEMPTS: usize = 600;
const PAUSE: Duration = Duration::from_millis(50);
const SLOTS: usize = 16_384;

/// A running program that listens. Dropping it ends it.
pub(super) struct Running {
    pub(super) address: SocketAddr,
    name: String,
    log: PathBuf,
    child: Child,
}

impl Running {
    fn start(
        mut command: Command,
        name: &str,
        address: SocketAddr,
        folder: &Path,
    ) -> anyhow::Result<Running> {
        let log = folder.join(format!("{name}-{}.log", address.port()));
        let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        command.current_dir(folder).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        let child = spawn_child(command).with_context(|| format!("cannot start {name}"))?;
        progress(&format!("{name} runs on {address}, pid {}", child.id()));
        Ok(Running {
            address,
            name: name.to_owned(),
            log,
            child,
        })
    }

    /// Waits until it answers a command without an error.
    fn wait_for(&mut self, command: &[&[u8]]) -> anyhow::Result<()> {
        let said = |log: &Path| fs::read_to_string(log).unwrap_or_default();
        for _ in 0..ATTEMPTS {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended ({status}); it said:\n{}", self.name, said(&self.log));
            }
            let asked = Connection::open(self.address).and_then(|mut connection| connection.ask(command));
            if asked.is_ok_and(|reply| !matches!(reply, Reply::Error(_))) {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
        bail!("{} does not answer; it said:\n{}", self.name, said(&self.log))
    }

    pub(super) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        proc::cpu_seconds(self.child.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Starts Redis servers that keep nothing and know nothing of each other.
pub(super) fn single_servers(plan: &Plan, count: u16, folder: &Path) -> anyhow::Result<Vec<Running>> {
    (0..count).map(|_| redis(plan, folder, &[])).collect()
}

fn redis(plan: &Plan, folder: &Path, more: &[&str]) -> anyhow::Result<Running> {
    let address = free_address()?;
    let mut command = Command::new(&plan.programs.redis_server);
    command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string()]);
    command.args(["--save", "", "--appendonly", "no"]).args(more);
    let mut server = Running::start(command, "redis-server", address, folder)?;
    server.wait_for(&[b"PING"])?;
    Ok(server)
}

/// Starts a Cluster of primaries without replicas.
pub(super) fn cluster(plan: &Plan, count: u16, folder: &Path) -> anyhow::Result<Vec<Running>> {
    let mut nodes = Vec::new();
    for number in 0..count {
        let file = format!("nodes-{number}.conf");
        let more = ["--cluster-enabled", "yes", "--cluster-config-file", &file];
        nodes.push(redis(plan, folder, &more)?);
    }
    let first = nodes[0].address;
    for (number, node) in nodes.iter().enumerate() {
        let (number, count) = (number, usize::from(count));
        let from = (SLOTS * number / count).to_string();
        let to = (SLOTS * (number + 1) / count - 1).to_string();
        must(
            node.address,
            &["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()],
        )?;
        must(node.address, &["CLUSTER", "ADDSLOTSRANGE", &from, &to])?;
        if node.address != first {
            must(
                first,
                &["CLUSTER", "MEET", "127.0.0.1", &node.address.port().to_string()],
            )?;
        }
    }
    for node in &nodes {
        wait_until_whole(node.address, nodes.len())?;
    }
    Ok(nodes)
}

fn wait_until_whole(address: SocketAddr, count: usize) -> anyhow::Result<()> {
    let known = format!("cluster_known_nodes:{count}\r\n");
    for _ in 0..ATTEMPTS {
        let Reply::Bytes(info) = Connection::open(address)?.ask(&[b"CLUSTER", b"INFO"])? else {
            bail!("CLUSTER INFO was not answered with text");
        };
        let info = String::from_utf8_lossy(&info);
        if info.contains("cluster_state:ok") && info.contains(&known) {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    bail!("the cluster does not come together")
}

fn must(address: SocketAddr, words: &[&str]) -> anyhow::Result<()> {
    let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    match Connection::open(address)?.ask(&bytes)? {
        Reply::Error(error) => bail!("{} failed: {error}", words.join(" ")),
        _ => Ok(()),
    }
}

/// Starts twemproxy in front of servers.
pub(super) fn twemproxy(plan: &Plan, servers: &[Running], folder: &Path) -> anyhow::Result<Running> {
    let program = plan.twemproxy.as_deref().context("twemproxy is not there")?;
    let (address, stats) = (free_address()?, free_address()?);
    let mut config = format!(
        "bench:\n  listen: {address}\n  hash: fnv1a_64\n  distribution: ketama\n  auto_eject_hosts: false\n  \
         redis: true\n  backlog: 1024\n  servers:\n"
    );
    for server in servers {
        config.push_str(&format!("   - {}:1\n", server.address));
    }
    let file = folder.join(format!("twemproxy-{}.yml", address.port()));
    fs::write(&file, config).with_context(|| format!("cannot write {}", file.display()))?;
    let mut command = Command::new(program);
    command
        .arg("-c")
        .arg(&file)
        .args(["-a", "127.0.0.1", "-s", &stats.port().to_string()]);
    let mut proxy = Running::start(command, "twemproxy", address, folder)?;
    proxy.wait_for(&[b"GET", b"any"])?;
    Ok(proxy)
}

/// The URL of a Cluster.
pub(super) fn url_of(nodes: &[Running]) -> String {
    let addresses: Vec<String> = nodes.iter().map(|node| node.address.to_string()).collect();
    format!("redis+cluster://{}", addresses.join(","))
}

/// Starts `nagaya room serve` with one thread, as twemproxy has; the second address is its HTTP.
pub(super) fn our_proxy(
    plan: &Plan,
    redis: &str,
    postgres: &str,
    folder: &Path,
) -> anyhow::Result<(Running, SocketAddr)> {
    let (address, http) = (free_address()?, free_address()?);
    let mut command = our_role(plan, "serve", redis, postgres, http);
    command.args(["--listen", &address.to_string(), "--set", "room.io_threads=1"]);
    let mut proxy = Running::start(command, "nagaya-room-serve", address, folder)?;
    proxy.wait_for(&[b"GET", b"any"])?;
    Ok((proxy, http))
}

/// Starts `nagaya room task`; its address is that of its HTTP.
pub(super) fn our_task(plan: &Plan, redis: &str, postgres: &str, folder: &Path) -> anyhow::Result<Running> {
    let http = free_address()?;
    let command = our_role(plan, "task", redis, postgres, http);
    Running::start(command, "nagaya-room-task", http, folder)
}

fn our_role(plan: &Plan, role: &str, redis: &str, postgres: &str, http: SocketAddr) -> Command {
    let mut command = Command::new(&plan.programs.nagaya.path);
    command.args(["room", role, "--redis", redis, "--postgres", postgres]);
    command.args(["--http-listen", &http.to_string()]);
    command
}
