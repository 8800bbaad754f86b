//! A `nagaya` server with jobs on either store.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use nagaya_process::spawn_child;

use super::postgres::Postgres;
use crate::servers::free_address;
use crate::subject::Nagaya;

const START_ATTEMPTS: usize = 600;
const START_PAUSE: Duration = Duration::from_millis(50);

/// Where jobs are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Sqlite,
    Postgres,
}

impl Store {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Store::Sqlite => "SQLite",
            Store::Postgres => "PostgreSQL",
        }
    }
}

/// A running server. Dropping it kills it.
pub(crate) struct NagayaServer {
    address: SocketAddr,
    child: Child,
}

impl NagayaServer {
    pub(crate) fn start(
        nagaya: &Nagaya,
        store: Store,
        folder: &Path,
        postgres: Option<&Postgres>,
    ) -> anyhow::Result<NagayaServer> {
        NagayaServer::start_with(nagaya, store, folder, postgres, &[])
    }

    /// Starts a server with additional settings, as `key=value`.
    pub(crate) fn start_with(
        nagaya: &Nagaya,
        store: Store,
        folder: &Path,
        postgres: Option<&Postgres>,
        settings: &[String],
    ) -> anyhow::Result<NagayaServer> {
        fs::create_dir_all(folder)?;
        let address = free_address()?;
        let mut command = Command::new(&nagaya.path);
        command.arg("up").arg("--data").arg(folder.join("data"));
        command.args([
            "--http-listen",
            &address.to_string(),
            "--room-listen",
            "127.0.0.1:0",
        ]);
        command.args(["--log-level", "warn"]);
        // Connections of the part before may not be closed yet when the next one begins.
        command.args(["--set", "http.connections_max=20000"]);
        for service in ["ids", "fanout", "fleet"] {
            command.args(["--set", &format!("{service}.enabled=false")]);
        }
        if store == Store::Postgres {
            let postgres = postgres.context("PostgreSQL is not running")?;
            command
                .arg("--set")
                .arg(format!("jobs.postgres={}", postgres.database()?));
        }
        for setting in settings {
            command.args(["--set", setting]);
        }
        let log = folder.join("nagaya.log");
        let output = File::create(&log)?;
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let mut server = NagayaServer {
            address,
            child: spawn_child(command).context("our house cannot be started")?,
        };
        server.wait_until_it_answers(&log)?;
        Ok(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn wait_until_it_answers(&mut self, log: &Path) -> anyhow::Result<()> {
        let said = || fs::read_to_string(log).unwrap_or_default();
        for _ in 0..START_ATTEMPTS {
            if let Some(status) = self.child.try_wait()? {
                bail!("our house ended at its start ({status}); it said:\n{}", said());
            }
            if self.is_ready() {
                return Ok(());
            }
            std::thread::sleep(START_PAUSE);
        }
        bail!("our house is not ready; it said:\n{}", said())
    }

    fn is_ready(&self) -> bool {
        use std::io::{Read, Write};
        let ask = || {
            let mut stream = TcpStream::connect_timeout(&self.address, START_PAUSE)?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n")?;
            let mut head = [0; 12];
            stream.read_exact(&mut head)?;
            std::io::Result::Ok(head.ends_with(b" 200"))
        };
        ask().unwrap_or(false)
    }
}

impl Drop for NagayaServer {
    fn drop(&mut self) {
        // Its data is not needed, so it need not shut down cleanly.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
