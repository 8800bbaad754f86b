//! The two servers, as child processes that end with this one.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use nagaya_process::spawn_child;
use serde::Serialize;

use super::plan::Programs;
use super::{proc, progress};

/// How often a starting server is asked whether it answers, and how long each wait takes: 30 s in all.
const START_ATTEMPTS: usize = 600;
const START_PAUSE: Duration = Duration::from_millis(50);
/// How long a server may take to answer a command of ours; emptying a large one takes a while.
const PATIENCE: Duration = Duration::from_secs(60);

/// The setting by which ours is like a Redis without files.
pub(super) const KEEP_NOTHING: &str = "room.persist=false";

/// Sections of the settings, besides `room`, that have a `listen`.
const OTHER_LISTENERS: [&str; 3] = ["http", "ids", "fanout"];

/// Which of the two servers it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Side {
    Ours,
    Redis,
}

impl Side {
    pub(super) fn name(self) -> &'static str {
        match self {
            Side::Ours => "nagaya",
            Side::Redis => "redis-server",
        }
    }
}

/// A running server. Dropping it ends it.
pub(super) struct Server {
    pub(super) side: Side,
    pub(super) address: SocketAddr,
    child: Child,
}

/// Our server and theirs, both running.
pub(super) struct Pair {
    pub(super) ours: Server,
    pub(super) redis: Server,
}

impl Pair {
    pub(super) fn start(programs: &Programs, folder: &Path) -> anyhow::Result<Pair> {
        Pair::start_with(programs, folder, &["--set", KEEP_NOTHING], &[])
    }

    /// Starts both with arguments of their own; see [`Server::start_with`].
    pub(super) fn start_with(
        programs: &Programs,
        folder: &Path,
        ours: &[&str],
        redis: &[&str],
    ) -> anyhow::Result<Pair> {
        Ok(Pair {
            ours: Server::start_with(Side::Ours, programs, folder, ours)?,
            redis: Server::start_with(Side::Redis, programs, folder, redis)?,
        })
    }

    /// Returns both servers in the order of this round, which alternates.
    pub(super) fn in_turn(&self, round: u32) -> [&Server; 2] {
        match round % 2 {
            0 => [&self.ours, &self.redis],
            _ => [&self.redis, &self.ours],
        }
    }
}

impl Server {
    /// Starts a server with arguments of its own; what it keeps, it keeps in the folder. Redis keeps
    /// nothing unless the arguments say so.
    pub(super) fn start_with(
        side: Side,
        programs: &Programs,
        folder: &Path,
        arguments: &[&str],
    ) -> anyhow::Result<Server> {
        let mut server = Server::launch(side, programs, folder, arguments)?;
        server.wait_until_it_answers(&log_of(side, folder))?;
        Ok(server)
    }

    /// As [`Server::start_with`], without waiting until it answers.
    pub(super) fn launch(
        side: Side,
        programs: &Programs,
        folder: &Path,
        arguments: &[&str],
    ) -> anyhow::Result<Server> {
        let name = side.name();
        let address = free_address()?;
        let mut command = match side {
            Side::Ours => our_command(&programs.nagaya.path, address, folder),
            Side::Redis => redis_command(&programs.redis_server, address),
        };
        command.args(arguments);
        let log = log_of(side, folder);
        let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        command.current_dir(folder).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        let child = spawn_child(command).with_context(|| format!("cannot start {name}"))?;
        progress(&format!("{name} runs on {address}, pid {}", child.id()));
        Ok(Server { side, address, child })
    }

    /// Ends it as a crash would.
    pub(super) fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().context("a server could not be killed")?;
        self.child.wait().context("a server did not end")?;
        Ok(())
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        proc::cpu_seconds(self.child.id())
    }

    pub(super) fn resident_bytes(&self) -> anyhow::Result<u64> {
        proc::resident_bytes(self.child.id())
    }

    pub(super) fn flush(&self) -> anyhow::Result<()> {
        let reply = ask(self.address, b"FLUSHALL\r\n").context("FLUSHALL failed")?;
        match reply.as_str() {
            "+OK" => Ok(()),
            other => bail!("{} answered FLUSHALL with {other}", self.side.name()),
        }
    }

    fn wait_until_it_answers(&mut self, log: &Path) -> anyhow::Result<()> {
        let name = self.side.name();
        let said = || fs::read_to_string(log).unwrap_or_default();
        for _ in 0..START_ATTEMPTS {
            if let Some(status) = self.child.try_wait()? {
                bail!("{name} ended at its start ({status}); it said:\n{}", said());
            }
            if ask(self.address, b"PING\r\n").is_ok_and(|reply| reply == "+PONG") {
                return Ok(());
            }
            std::thread::sleep(START_PAUSE);
        }
        bail!("{name} does not answer on {}; it said:\n{}", self.address, said());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its data is not needed, so it need not shut down cleanly.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Returns the path of a server's log file.
fn log_of(side: Side, folder: &Path) -> PathBuf {
    folder.join(format!("{}.log", side.name()))
}

/// Our engine with its defaults. The other listeners of the server get any free port.
fn our_command(program: &Path, address: SocketAddr, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("up").arg("--data").arg(folder.join("data"));
    command.args(["--log-level", "warn", "--room-listen", &address.to_string()]);
    // Its pool would be keys among those that are measured.
    command.args(["--set", "ids.enabled=false", "--set", "fleet.enabled=false"]);
    for section in OTHER_LISTENERS {
        command.args(["--set", &format!("{section}.listen=127.0.0.1:0")]);
    }
    command
}

fn redis_command(program: &Path, address: SocketAddr) -> Command {
    let mut command = Command::new(program);
    command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string()]);
    command.args(["--save", "", "--appendonly", "no"]);
    command
}

/// Sends one command and returns the first line of its reply.
fn ask(address: SocketAddr, command: &[u8]) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(command)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

pub(super) fn free_address() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listener_is_given_a_free_port() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config.md");
        let page = fs::read_to_string(page).unwrap();
        let listeners: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix("### `")?.strip_suffix(".listen`"))
            .filter(|section| *section != "room")
            .collect();
        assert_eq!(listeners, OTHER_LISTENERS);
    }
}
