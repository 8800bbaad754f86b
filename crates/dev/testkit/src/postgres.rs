use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::Signal;

use crate::binaries::Binary;
use crate::process::User;
use crate::{Error, Folder, Launch, Process, ports, users};

const SERVER: Binary = Binary {
    name: "postgres",
    package: "postgresql",
};
const INITDB: Binary = Binary {
    name: "initdb",
    package: "postgresql",
};
const PSQL: Binary = Binary {
    name: "psql",
    package: "postgresql",
};
const START_LIMIT: Duration = Duration::from_secs(60);
const END_LIMIT: Duration = Duration::from_secs(30);

/// A PostgreSQL server with a database folder of its own and full durability.
///
/// PostgreSQL refuses to run as root; there it runs as `postgres` or `nobody`.
#[derive(Debug)]
pub struct Postgres {
    process: Process,
    port: u16,
    folder: Folder,
    databases: AtomicU32,
}

impl Postgres {
    #[track_caller]
    pub fn start() -> Postgres {
        Postgres::with_settings(&[])
    }

    /// Starts a server with settings of the form `name=value`.
    #[track_caller]
    pub fn with_settings(settings: &[&str]) -> Postgres {
        match Postgres::try_start(settings) {
            Ok(postgres) => postgres,
            Err(error) => panic!("{error}"),
        }
    }

    fn try_start(settings: &[&str]) -> Result<Postgres, Error> {
        let user = users::unprivileged(&["postgres", "nobody"]);
        let folder = Folder::new("postgres");
        users::hand_over(&folder, user)?;
        initialise(folder.path(), user)?;
        let (process, port) = ports::retry(|| {
            let port = ports::free_port();
            let process = Process::start(launch(folder.path(), port, settings, user)?, folder.path())?;
            wait_ready(&process, port)?;
            Ok((process, port))
        })?;
        Ok(Postgres {
            process,
            port,
            folder,
            databases: AtomicU32::new(0),
        })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The URL of a database; `postgres` always exists.
    pub fn url(&self, database: &str) -> String {
        url(self.port, database)
    }

    /// The folder of the Unix socket, which takes the same port.
    pub fn socket_folder(&self) -> &Path {
        self.folder.path()
    }

    /// The process, for signals, output and exit status.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Creates an empty database that no other test has, and returns its URL.
    #[track_caller]
    pub fn create_database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.psql(&self.url("postgres"), &format!("create database {name}"));
        self.url(&name)
    }

    /// Runs SQL with `psql` and returns what it prints: rows by line, columns
    /// parted by `|`. Panics when the SQL fails.
    #[track_caller]
    pub fn psql(&self, url: &str, sql: &str) -> String {
        match psql(url, sql) {
            Ok(text) => text,
            Err(error) => panic!("{sql}: {error}"),
        }
    }

    /// As [`psql`](Postgres::psql), for servers that may be down; the error is
    /// what psql printed.
    pub fn try_psql(&self, url: &str, sql: &str) -> Result<String, String> {
        psql(url, sql)
    }

    /// Ends the server and all its backends with SIGKILL, as a power cut would.
    pub fn kill9(&self) {
        self.process.kill9();
    }

    /// Freezes the server and all its backends with SIGSTOP.
    #[track_caller]
    pub fn stop(&self) {
        self.process.stop();
    }

    /// Lets a stopped server go on.
    #[track_caller]
    pub fn cont(&self) {
        self.process.cont();
    }

    /// Starts the server again on the same port and data, after `kill9` with
    /// crash recovery; one that runs is shut down first.
    #[track_caller]
    pub fn restart(&self) {
        // SIGINT ends open sessions; SIGTERM would wait for them.
        self.process.signal(Signal::INT);
        self.process.end(END_LIMIT);
        let started = self
            .process
            .start_again()
            .and_then(|()| wait_ready(&self.process, self.port));
        if let Err(error) = started {
            panic!("{error}");
        }
    }
}

impl Drop for Postgres {
    /// SIGKILL would leave a shared memory segment behind, of which a machine has
    /// a limited number; so an immediate shutdown is asked for first.
    fn drop(&mut self) {
        if self.process.is_running() {
            self.process.signal(Signal::QUIT);
            self.process.wait(END_LIMIT).ok();
        }
    }
}

fn initialise(folder: &Path, user: Option<User>) -> Result<(), Error> {
    let launch = Launch::new("initdb", INITDB.find()?)
        .args([
            "--no-sync",
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "-D",
        ])
        .args([folder.join("data")])
        .user(user);
    let process = Process::start(launch, folder)?;
    let status = process.wait(START_LIMIT)?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Exited {
        name: "initdb".into(),
        status,
        output: process.output(),
    })
}

fn launch(folder: &Path, port: u16, settings: &[&str], user: Option<User>) -> Result<Launch, Error> {
    let launch = Launch::new("postgres", SERVER.find()?)
        .args([
            "-p",
            &port.to_string(),
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "max_connections=200",
        ])
        .args(["-c", &format!("unix_socket_directories={}", folder.display())])
        .args(settings.iter().flat_map(|setting| ["-c", setting]))
        .args(["-D".as_ref(), folder.join("data").as_os_str()])
        .user(user)
        // The server then ends its backends and frees its shared memory by itself.
        .death_signal(Signal::QUIT);
    Ok(launch)
}

fn wait_ready(process: &Process, port: u16) -> Result<(), Error> {
    process.wait_ready(START_LIMIT, || psql(&url(port, "postgres"), "select 1").map(drop))
}

fn url(port: u16, database: &str) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/{database}")
}

fn psql(url: &str, sql: &str) -> Result<String, String> {
    let program = PSQL.find().map_err(|error| error.to_string())?;
    let output = Command::new(program)
        .args([
            "--no-psqlrc",
            "--no-password",
            "--quiet",
            "--tuples-only",
            "--no-align",
        ])
        .args(["-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql])
        .env("PGCONNECT_TIMEOUT", "5")
        .output()
        .map_err(|error| format!("psql: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}
