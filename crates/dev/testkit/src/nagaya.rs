use std::ffi::{OsStr, OsString};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use crate::http::{self, Answer};
use crate::{Error, Folder, Launch, Process, ports};

const START_LIMIT: Duration = Duration::from_secs(30);
const END_LIMIT: Duration = Duration::from_secs(30);

/// The listeners that every `nagaya up` binds; each gets a free port by its flag
/// `--NAME-listen`.
const LISTENERS: &[&str] = &["http", "room"];

/// Services with a port of their own, which only tests get that ask for it.
const ON_DEMAND: &[&str] = &["ids", "fanout"];

/// The manager of a fleet keeps an engine of the server busy, so only tests get it that set something of it.
const FLEET: &str = "fleet.";

/// Our own binary, running `nagaya up` on free ports in a temporary data folder.
///
/// The binary's path comes from the test: `env!("CARGO_BIN_EXE_nagaya")`.
#[derive(Debug)]
pub struct Nagaya {
    process: Process,
    listeners: Vec<(String, SocketAddr)>,
    data: PathBuf,
    _folder: Folder,
}

/// What `nagaya up` is started with besides its data folder and ports.
#[derive(Clone, Debug)]
pub struct NagayaBuilder {
    binary: PathBuf,
    data: Option<PathBuf>,
    listeners: Vec<String>,
    args: Vec<OsString>,
    envs: Vec<(OsString, OsString)>,
}

impl NagayaBuilder {
    /// Uses this data folder instead of a temporary one.
    pub fn data(mut self, folder: impl Into<PathBuf>) -> NagayaBuilder {
        self.data = Some(folder.into());
        self
    }

    /// Gives `--NAME-listen` a free port, for example `room` or `ids`.
    pub fn listener(mut self, name: &str) -> NagayaBuilder {
        self.listeners.push(name.to_owned());
        self
    }

    /// Appends flags after those of the kit.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> NagayaBuilder {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> NagayaBuilder {
        self.envs
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Starts `nagaya up` and waits until `/readyz` answers 200.
    #[track_caller]
    pub fn start(self) -> Nagaya {
        match self.try_start() {
            Ok(nagaya) => nagaya,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`start`](NagayaBuilder::start), for tests that expect it to fail.
    pub fn try_start(self) -> Result<Nagaya, Error> {
        ports::retry(|| {
            let nagaya = self.clone().launch()?;
            nagaya.wait_ready()?;
            Ok(nagaya)
        })
    }

    /// Starts `nagaya up` and does not wait for it to be ready.
    pub fn launch(self) -> Result<Nagaya, Error> {
        let folder = Folder::new("nagaya");
        let data = self.data.unwrap_or_else(|| folder.path().join("data"));
        let mut launch = Launch::new("nagaya", self.binary)
            .args(["up", "--data"])
            .args([&data]);
        let mut listeners = Vec::new();
        for name in self.listeners {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free_port()));
            launch = launch.args([format!("--{name}-listen"), address.to_string()]);
            listeners.push((name, address));
        }
        for service in ON_DEMAND {
            if !listeners.iter().any(|(name, _)| name == service) {
                launch = launch.args(["--set", &format!("{service}.enabled=false")]);
            }
        }
        if !self
            .args
            .iter()
            .any(|arg| arg.to_string_lossy().starts_with(FLEET))
        {
            launch = launch.args(["--set", "fleet.enabled=false"]);
        }
        launch = launch.args(self.args);
        for (name, value) in self.envs {
            launch = launch.env(name, value);
        }
        let process = Process::start(launch, folder.path())?;
        Ok(Nagaya {
            process,
            listeners,
            data,
            _folder: folder,
        })
    }
}

impl Nagaya {
    pub fn builder(binary: impl Into<PathBuf>) -> NagayaBuilder {
        NagayaBuilder {
            binary: binary.into(),
            data: None,
            listeners: LISTENERS.iter().map(|&name| name.to_owned()).collect(),
            args: Vec::new(),
            envs: Vec::new(),
        }
    }

    /// Starts `nagaya up` with nothing but a data folder and ports.
    #[track_caller]
    pub fn start(binary: impl Into<PathBuf>) -> Nagaya {
        Nagaya::builder(binary).start()
    }

    /// Waits until `/readyz` answers 200.
    pub fn wait_ready(&self) -> Result<(), Error> {
        self.process
            .wait_ready(START_LIMIT, || match self.get("/readyz") {
                Ok(answer) if answer.status == 200 => Ok(()),
                Ok(answer) => Err(format!("/readyz answered {}: {}", answer.status, answer.body)),
                Err(error) => Err(format!("/readyz: {error}")),
            })
    }

    /// Where `--NAME-listen` was put.
    #[track_caller]
    pub fn address(&self, listener: &str) -> SocketAddr {
        match self.listeners.iter().find(|(name, _)| name == listener) {
            Some((_, address)) => *address,
            None => panic!("no listener `{listener}` was asked for"),
        }
    }

    /// The folder given to `--data`.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Sends `GET path` to the HTTP listener.
    pub fn get(&self, path: &str) -> io::Result<Answer> {
        http::get(self.address("http"), path)
    }

    /// The process, for signals, output and exit status.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Sends SIGTERM and waits for the end.
    #[track_caller]
    pub fn shut_down(&self) -> ExitStatus {
        self.process.terminate();
        match self.process.wait(END_LIMIT) {
            Ok(status) => status,
            Err(error) => panic!("{error}; its output:\n{}", self.process.output()),
        }
    }

    /// Starts it again on the same data and ports, after `kill9` or `shut_down`;
    /// a running one is shut down first.
    #[track_caller]
    pub fn restart(&self) {
        if self.process.pid().is_some() {
            self.shut_down();
        }
        if let Err(error) = self.process.start_again().and_then(|()| self.wait_ready()) {
            panic!("{error}");
        }
    }
}
