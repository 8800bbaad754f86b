//! A PostgreSQL for the length of a run, with its own durability and nothing else on it.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use nagaya_process::spawn_child;

use crate::progress;
use crate::servers::free_address;

const START_ATTEMPTS: usize = 300;
const START_PAUSE: Duration = Duration::from_millis(100);

/// A running server. Dropping it ends it, unless it was there before us.
pub(crate) struct Postgres {
    /// Without the name of a database.
    url: String,
    programs: PathBuf,
    child: Option<Child>,
    databases: AtomicU32,
}

/// A transaction that stays open until this is dropped.
pub(crate) struct Snapshot(Child);

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Postgres {
    /// Starts a server in the folder, or takes the one of the URL.
    pub(crate) fn start(url: Option<&str>, folder: &Path) -> anyhow::Result<Postgres> {
        let programs = programs()?;
        let mut postgres = Postgres {
            url: url.unwrap_or_default().trim_end_matches('/').to_owned(),
            programs,
            child: None,
            databases: AtomicU32::new(0),
        };
        if url.is_none() {
            let address = free_address()?;
            postgres.url = format!("postgres://postgres@{address}");
            postgres.child = Some(postgres.launch(folder, address)?);
            postgres.wait_until_it_answers()?;
            progress(&format!("PostgreSQL runs on {address}"));
        }
        Ok(postgres)
    }

    fn launch(&self, folder: &Path, address: SocketAddr) -> anyhow::Result<Child> {
        let folder = folder.join("postgres");
        fs::create_dir_all(&folder)?;
        let user = unprivileged();
        if let Some((uid, gid)) = user {
            std::os::unix::fs::chown(&folder, Some(uid), Some(gid))?;
            // The server's user must be able to pass through.
            let parent = folder.parent().unwrap_or(&folder);
            fs::set_permissions(parent, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        }
        let command = |program: &str| {
            let mut command = Command::new(self.programs.join(program));
            command
                .current_dir(&folder)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            if let Some((uid, gid)) = user {
                command.uid(uid).gid(gid);
            }
            command
        };
        let made = command("initdb")
            .args([
                "--username=postgres",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "-D",
            ])
            .arg(folder.join("data"))
            .status()
            .context("initdb cannot be run")?;
        if !made.success() {
            bail!("initdb failed with {made}");
        }
        let mut server = command("postgres");
        server.arg("-D").arg(folder.join("data"));
        server.args([
            "-p",
            &address.port().to_string(),
            "-c",
            "listen_addresses=127.0.0.1",
        ]);
        server.args(["-c", "max_connections=400", "-c", "unix_socket_directories="]);
        spawn_child(server).context("PostgreSQL cannot be started")
    }

    fn wait_until_it_answers(&self) -> anyhow::Result<()> {
        for _ in 0..START_ATTEMPTS {
            if self.sql("postgres", "select 1").is_ok() {
                return Ok(());
            }
            std::thread::sleep(START_PAUSE);
        }
        bail!("PostgreSQL does not answer at {}", self.url)
    }

    /// Makes an empty database and returns its URL.
    pub(crate) fn database(&self) -> anyhow::Result<String> {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("bench_{}_{number}", std::process::id());
        self.sql("postgres", &format!("create database {name}"))?;
        Ok(format!("{}/{name}", self.url))
    }

    /// Opens a transaction that sees everything as it is now, and leaves it open.
    pub(crate) fn hold_snapshot(&self) -> anyhow::Result<Snapshot> {
        let mut command = self.psql("postgres");
        command.args([
            "-c",
            "begin isolation level repeatable read; select pg_sleep(86400)",
        ]);
        Ok(Snapshot(spawn_child(command).context("psql cannot be started")?))
    }

    /// How many bytes of log were ever written.
    pub(crate) fn log_position(&self) -> anyhow::Result<f64> {
        let position = self.sql("postgres", "select pg_current_wal_insert_lsn() - '0/0'")?;
        position.parse().context("the log's position is no number")
    }

    pub(crate) fn version(&self) -> String {
        self.sql("postgres", "show server_version")
            .unwrap_or_else(|_| "unknown".to_owned())
    }

    fn sql(&self, database: &str, sql: &str) -> anyhow::Result<String> {
        let output = self
            .psql(database)
            .args(["-c", sql])
            .stdout(Stdio::piped())
            .output()?;
        if !output.status.success() {
            bail!("`{sql}` failed");
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn psql(&self, database: &str) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command.args([
            "--no-psqlrc",
            "--no-password",
            "-qtA",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
        ]);
        command.arg(format!("{}/{database}", self.url));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else {
            return;
        };
        // QUIT lets the server end its own children and give its shared memory back.
        if let Some(pid) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
            rustix::process::kill_process(pid, rustix::process::Signal::QUIT).ok();
        }
        child.wait().ok();
    }
}

/// The folder of the newest version's programs.
fn programs() -> anyhow::Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let newest = versions.max_by_key(|entry| entry.file_name().to_string_lossy().parse::<u32>().unwrap_or(0));
    match newest {
        Some(entry) => Ok(entry.path().join("bin")),
        None => bail!("PostgreSQL was not found; install it with: apt-get install postgresql"),
    }
}

/// The user that a server of root's runs as: PostgreSQL refuses to be root.
fn unprivileged() -> Option<(u32, u32)> {
    if !rustix::process::getuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    find("postgres").or_else(|| find("nobody"))
}
