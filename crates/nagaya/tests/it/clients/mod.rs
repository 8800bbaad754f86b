//! Third-party clients, used as their users do.
//!
//! Every scenario runs on the embedded engine, in a server of its own, and on a Cluster with PostgreSQL, one
//! after the other in the same server.
//!
//! The Python and Node clients live in `target/clients`, where `scripts/clients` puts them.

mod ioredis;
mod redis_benchmark;
mod redis_cli;
mod redis_py;

use super::*;
use nagaya_testkit::{Postgres, RedisCluster};
use std::path::{Path, PathBuf};

/// Longer than any scenario takes on a loaded machine.
const SCENARIO_LIMIT: Duration = Duration::from_secs(120);

/// A running server and a client program to point at it.
pub(super) struct Scenario {
    pub(super) house: Nagaya,
    folder: Folder,
    /// What the server keeps its data on, unless it does so itself.
    engines: Option<(RedisCluster, Postgres)>,
}

impl Scenario {
    /// What INFO tells: the engine's own level, or that of servers which may be older.
    fn redis_version(&self) -> &'static str {
        match self.engines {
            Some(_) => "redis_version:7.0.15",
            None => "redis_version:7.4.0",
        }
    }

    pub(super) fn new() -> Scenario {
        Scenario::with(house())
    }

    /// The same with a server that was started in another way.
    pub(super) fn with(house: NagayaBuilder) -> Scenario {
        Scenario {
            house: house.start(),
            folder: Folder::new("client"),
            engines: None,
        }
    }

    /// A server on a Cluster of three primaries with a replica each, and on PostgreSQL.
    #[track_caller]
    fn on_cluster() -> Scenario {
        // A machine that is busy with other tests must not be taken for one with faults.
        let cluster = RedisCluster::with_config(&["cluster-node-timeout 15000"]);
        let postgres = Postgres::start();
        let addresses: Vec<String> = cluster.addresses().iter().map(SocketAddr::to_string).collect();
        let redis = format!("redis+cluster://{}", addresses.join(","));
        let house = house()
            .args(["--redis", &redis, "--postgres", &postgres.create_database()])
            .args(["--set", "tiers.allowance=10s"]);
        Scenario {
            house: house.start(),
            folder: Folder::new("client"),
            engines: Some((cluster, postgres)),
        }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn port(&self) -> String {
        self.house.address("room").port().to_string()
    }

    /// Runs a client program to its end, which must be a good one, and returns what it printed.
    #[track_caller]
    pub(super) fn run(&self, launch: Launch) -> String {
        // A folder of its own: what an earlier program printed stays out of it.
        let folder = Folder::new("run");
        let process = match Process::start(launch, folder.path()) {
            Ok(process) => process,
            Err(error) => panic!("{error}; scripts/test installs what is missing"),
        };
        let status = process.wait(SCENARIO_LIMIT).unwrap();
        assert!(status.success(), "{status}:\n{}", process.output());
        assert!(
            self.house.process().is_running(),
            "the server has ended:\n{}",
            self.house.process().output()
        );
        process.stdout()
    }
}

/// A script beside this file.
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/clients")
        .join(name)
}

/// A folder that `scripts/clients` has filled.
#[track_caller]
pub(super) fn installed(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/clients")
        .join(name);
    assert!(
        folder.is_dir(),
        "{} is missing; run scripts/clients",
        folder.display()
    );
    folder
}
