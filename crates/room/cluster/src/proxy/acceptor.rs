//! Accepts clients and deals them out to the workers.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustls::{Connection, ServerConfig, ServerConnection};

use super::error::Error;
use super::inbox::{Inbox, Item};
use super::service::Shared;
use super::transport::{Socket, Transport};

const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

/// One address that clients connect to.
pub(crate) enum Listener {
    Tcp(TcpListener, Option<Arc<ServerConfig>>),
    /// The file goes with the listener.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    pub(crate) fn tcp(address: SocketAddr, tls: Option<Arc<ServerConfig>>) -> Result<Listener, Error> {
        let failed = |source| Error::Bind { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Listener::Tcp(listener, tls))
    }

    pub(crate) fn unix(path: &Path) -> Result<Listener, Error> {
        let failed = |source| Error::BindUnix {
            path: path.to_owned(),
            source,
        };
        // A socket file that nobody listens on is left from a crash; one that answers is somebody's.
        if path.exists() && UnixStream::connect(path).is_err() {
            std::fs::remove_file(path).map_err(failed)?;
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Listener::Unix(listener, path.to_owned()))
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener, _) => listener.local_addr().ok(),
            Listener::Unix(..) => None,
        }
    }

    fn accept(&self) -> std::io::Result<Transport> {
        match self {
            Listener::Tcp(listener, tls) => {
                let (stream, _) = listener.accept()?;
                rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
                let tls = tls
                    .as_ref()
                    .map(|config| ServerConnection::new(Arc::clone(config)));
                let tls = tls.transpose().map_err(std::io::Error::other)?;
                Transport::accepted(Socket::Tcp(stream), tls.map(Connection::Server))
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                Transport::accepted(Socket::Unix(stream), None)
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener, _) => listener.as_fd(),
            Listener::Unix(listener, _) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            std::fs::remove_file(path).ok();
        }
    }
}

/// Accepts until told to stop. `wake` ends the wait then.
pub(crate) fn run(
    shared: &Shared,
    listeners: &[Listener],
    inboxes: &[Arc<Inbox>],
    wake: &Inbox,
    stop: &AtomicBool,
) {
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        let watch = |listener| PollFd::new(listener, PollFlags::IN);
        let mut watched: Vec<PollFd<'_>> = listeners.iter().map(watch).collect();
        watched.push(PollFd::new(wake.wake_fd(), PollFlags::IN));
        if poll(&mut watched, None).is_err() {
            continue;
        }
        let ready: Vec<bool> = watched.iter().map(|fd| !fd.revents().is_empty()).collect();
        for (listener, _) in listeners.iter().zip(ready).filter(|(_, ready)| *ready) {
            match listener.accept() {
                Ok(transport) => admit(shared, transport, inboxes, &mut next),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    // Out of descriptors, mostly: the listener stays readable, so do not spin.
                    tracing::warn!(%error, "could not accept a connection");
                    std::thread::park_timeout(std::time::Duration::from_millis(50));
                }
            }
        }
    }
}

fn admit(shared: &Shared, mut transport: Transport, inboxes: &[Arc<Inbox>], next: &mut usize) {
    let clients_max = shared.server.config().maxclients as usize;
    if shared.connections.load(Ordering::Relaxed) >= clients_max {
        shared
            .server
            .subscribers
            .clients
            .rejected
            .fetch_add(1, Ordering::Relaxed);
        transport.write(TOO_MANY).ok();
        return;
    }
    shared.connections.fetch_add(1, Ordering::Relaxed);
    let id = shared.next_client_id.fetch_add(1, Ordering::Relaxed);
    inboxes[*next % inboxes.len()].push(Item::Connection(id, Box::new(transport)));
    *next += 1;
}
