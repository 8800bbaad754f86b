use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::binaries::Binary;
use crate::resp_client::{Reply, RespClient};
use crate::{Error, Folder, Launch, Process, ports, wait};

const SERVER: Binary = Binary {
    name: "redis-server",
    package: "redis-server",
};
const START_LIMIT: Duration = Duration::from_secs(20);
const END_LIMIT: Duration = Duration::from_secs(10);
const SYNC_LIMIT: Duration = Duration::from_secs(30);

/// Nothing is kept on disk unless a test asks for it; replicas sync at once
/// instead of after the 5 s that Redis waits for more of them to come.
const CONFIG: &str = "bind 127.0.0.1\nsave \"\"\nappendonly no\nrepl-diskless-sync-delay 0\n";
const DEBUG_CONFIG: &str = "enable-debug-command yes\n";

/// A Redis server, alone or as a part of something larger.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    port: u16,
    _folder: Folder,
}

impl Redis {
    /// Starts an empty server that keeps nothing on disk.
    #[track_caller]
    pub fn start() -> Redis {
        Redis::with_config(&[])
    }

    /// Starts a server with lines for its config file, for example `appendonly yes`.
    #[track_caller]
    pub fn with_config(lines: &[&str]) -> Redis {
        let config = format!("{CONFIG}{DEBUG_CONFIG}{}\n", lines.join("\n"));
        Redis::launch("redis", &config, &[])
    }

    /// The server that watches others; its config file is its memory too.
    #[track_caller]
    pub(crate) fn sentinel(config: &str) -> Redis {
        Redis::launch("sentinel", config, &["--sentinel"])
    }

    #[track_caller]
    fn launch(name: &str, config: &str, args: &[&str]) -> Redis {
        let started = ports::retry(|| {
            let folder = Folder::new(name);
            let port = ports::free_port();
            let config = folder.write("redis.conf", &format!("port {port}\n{config}"));
            let launch = Launch::new(name, SERVER.find()?).args([config]).args(args);
            let process = Process::start(launch, folder.path())?;
            let redis = Redis {
                process,
                port,
                _folder: folder,
            };
            redis.wait_ready()?;
            Ok(redis)
        });
        match started {
            Ok(redis) => redis,
            Err(error) => panic!("{error}"),
        }
    }

    fn wait_ready(&self) -> Result<(), Error> {
        self.process.wait_ready(START_LIMIT, || {
            let reply = RespClient::connect(self.address()).and_then(|mut client| client.cmd(&["PING"]));
            match reply {
                // A server that asks for a password is ready as well.
                Ok(reply) if reply.error().is_none_or(|text| text.starts_with("NOAUTH")) => Ok(()),
                Ok(reply) => Err(format!("PING answered {reply:?}")),
                Err(error) => Err(format!("PING: {error}")),
            }
        })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// The process, for signals, output and exit status.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Opens a connection.
    #[track_caller]
    pub fn client(&self) -> RespClient {
        match RespClient::connect(self.address()) {
            Ok(client) => client,
            Err(error) => panic!("could not connect to redis on {}: {error}", self.address()),
        }
    }

    /// Runs one command on a connection of its own. An error reply is returned as
    /// a value; a failed connection panics.
    #[track_caller]
    pub fn cmd<A: AsRef<[u8]>>(&self, args: &[A]) -> Reply {
        match self.try_cmd(args) {
            Ok(reply) => reply,
            Err(error) => panic!("redis on {}: {error}", self.address()),
        }
    }

    /// As [`cmd`](Redis::cmd), for servers that may be down.
    pub fn try_cmd<A: AsRef<[u8]>>(&self, args: &[A]) -> io::Result<Reply> {
        RespClient::connect(self.address())?.cmd(args)
    }

    /// One field of `INFO`, such as `role`.
    pub fn info(&self, field: &str) -> Option<String> {
        let text = self.try_cmd(&["INFO"]).ok()?.text();
        text.lines()
            .find_map(|line| Some(line.strip_prefix(field)?.strip_prefix(':')?.to_owned()))
    }

    /// Whether the process runs and is not stopped.
    pub fn is_running(&self) -> bool {
        self.process.is_running()
    }

    /// Ends the server with SIGKILL.
    pub fn kill9(&self) {
        self.process.kill9();
    }

    /// Freezes the server with SIGSTOP.
    #[track_caller]
    pub fn stop(&self) {
        self.process.stop();
    }

    /// Lets a stopped server go on.
    #[track_caller]
    pub fn cont(&self) {
        self.process.cont();
    }

    /// Starts the server again on the same port, folder and config; one that runs
    /// is shut down first. What survives is what its config keeps on disk.
    #[track_caller]
    pub fn restart(&self) {
        self.process.end(END_LIMIT);
        if let Err(error) = self.process.start_again().and_then(|()| self.wait_ready()) {
            panic!("{error}");
        }
    }

    /// Makes a replica a primary, also for later restarts.
    #[track_caller]
    pub fn promote(&self) {
        self.must(&["REPLICAOF", "NO", "ONE"]);
        self.must(&["CONFIG", "REWRITE"]);
    }

    /// Makes the server a replica of another, also for later restarts, and waits
    /// until it has the other's data.
    #[track_caller]
    pub fn follow(&self, primary: &Redis) {
        self.must(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
        self.must(&["CONFIG", "REWRITE"]);
        self.wait_synced();
    }

    /// Waits until a replica is in step with its primary.
    #[track_caller]
    pub fn wait_synced(&self) {
        wait::until("the replica's link to its primary is up", SYNC_LIMIT, || {
            self.info("master_link_status").as_deref() == Some("up")
        });
    }

    /// Runs a command that has no reason to fail.
    #[track_caller]
    pub(crate) fn must<A: AsRef<[u8]>>(&self, args: &[A]) -> Reply {
        let reply = self.cmd(args);
        if let Some(error) = reply.error() {
            let command: Vec<_> = args
                .iter()
                .map(|arg| String::from_utf8_lossy(arg.as_ref()))
                .collect();
            panic!("{}: {error}", command.join(" "));
        }
        reply
    }
}
