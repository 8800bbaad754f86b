use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::binaries::Binary;
use crate::{Error, Folder, Launch, Process, ports};

const SERVER: Binary = Binary {
    name: "nginx",
    package: "nginx",
};
const START_LIMIT: Duration = Duration::from_secs(20);
const END_LIMIT: Duration = Duration::from_secs(10);

/// An nginx in one process: workers of their own would outlive a killed master.
#[derive(Debug)]
pub struct Nginx {
    process: Process,
    port: u16,
    folder: Folder,
}

impl Nginx {
    /// Starts nginx. `http_block` gets the address to listen on and returns what
    /// stands between the braces of `http { }`.
    #[track_caller]
    pub fn start(http_block: impl Fn(SocketAddr) -> String) -> Nginx {
        match ports::retry(|| Nginx::try_start(&http_block)) {
            Ok(nginx) => nginx,
            Err(error) => panic!("{error}"),
        }
    }

    fn try_start(http_block: impl Fn(SocketAddr) -> String) -> Result<Nginx, Error> {
        let folder = Folder::new("nginx");
        let port = ports::free_port();
        let config = config(folder.path(), &http_block((Ipv4Addr::LOCALHOST, port).into()));
        let config = folder.write("nginx.conf", &config);
        let launch = Launch::new("nginx", SERVER.find()?).args([
            "-p".as_ref(),
            folder.path().as_os_str(),
            "-c".as_ref(),
            config.as_os_str(),
        ]);
        let process = Process::start(launch, folder.path())?;
        let nginx = Nginx {
            process,
            port,
            folder,
        };
        nginx.wait_ready()?;
        Ok(nginx)
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

    /// A folder for files to serve, removed with the server.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The process, for signals, output and exit status.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Starts the server again on the same port and config.
    #[track_caller]
    pub fn restart(&self) {
        self.process.end(END_LIMIT);
        if let Err(error) = self.process.start_again().and_then(|()| self.wait_ready()) {
            panic!("{error}");
        }
    }
}

fn config(folder: &Path, http_block: &str) -> String {
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("  {kind}_temp_path {}/{kind};\n", folder.display()))
        .collect();
    format!(
        "daemon off;\nmaster_process off;\npid {0}/nginx.pid;\nerror_log stderr;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n  access_log off;\n{temporary}{http_block}\n}}\n",
        folder.display()
    )
}
