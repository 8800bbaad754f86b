use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::binaries::Binary;
use crate::{Error, Folder, Launch, Process, ports, users};

const SERVER: Binary = Binary {
    name: "memcached",
    package: "memcached",
};
const START_LIMIT: Duration = Duration::from_secs(20);
const END_LIMIT: Duration = Duration::from_secs(10);

/// A memcached server.
#[derive(Debug)]
pub struct Memcached {
    process: Process,
    port: u16,
    _folder: Folder,
}

impl Memcached {
    #[track_caller]
    pub fn start() -> Memcached {
        match ports::retry(Memcached::try_start) {
            Ok(memcached) => memcached,
            Err(error) => panic!("{error}"),
        }
    }

    fn try_start() -> Result<Memcached, Error> {
        let folder = Folder::new("memcached");
        let port = ports::free_port();
        // It refuses to run as root, and its own change of user would clear the parent-death signal.
        let user = users::unprivileged(&["memcache", "nobody"]);
        users::hand_over(&folder, user)?;
        let launch = Launch::new("memcached", SERVER.find()?)
            .args(["-l", "127.0.0.1", "-U", "0", "-p", &port.to_string()])
            .user(user);
        let process = Process::start(launch, folder.path())?;
        let memcached = Memcached {
            process,
            port,
            _folder: folder,
        };
        memcached.wait_ready()?;
        Ok(memcached)
    }

    fn wait_ready(&self) -> Result<(), Error> {
        self.process.wait_ready(START_LIMIT, || {
            TcpStream::connect(self.address())
                .map(drop)
                .map_err(|error| error.to_string())
        })
    }

    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The process, for signals, output and exit status.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Starts the server again, empty, on the same port.
    #[track_caller]
    pub fn restart(&self) {
        self.process.end(END_LIMIT);
        if let Err(error) = self.process.start_again().and_then(|()| self.wait_ready()) {
            panic!("{error}");
        }
    }
}
