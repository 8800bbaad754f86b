//! Accepts connections and deals them out to the I/O threads.

use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustls::{ServerConfig, ServerConnection};

use crate::engine::Shared;
use crate::inbox::{Inbox, Item};
use crate::transport::{Socket, Transport};

const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

/// One address the engine listens on.
pub(crate) enum Listener {
    Tcp(TcpListener, Option<Arc<ServerConfig>>),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    fn accept(&self) -> std::io::Result<Transport> {
        match self {
            Listener::Tcp(listener, tls) => {
                let (stream, _) = listener.accept()?;
                let tls = tls
                    .as_ref()
                    .map(|config| ServerConnection::new(Arc::clone(config)));
                let tls = tls.transpose().map_err(std::io::Error::other)?.map(Box::new);
                rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
                Transport::new(Socket::Tcp(stream), tls)
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                Transport::new(Socket::Unix(stream), None)
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
        let mut watched: Vec<PollFd<'_>> = listeners
            .iter()
            .map(|listener| PollFd::new(listener, PollFlags::IN))
            .collect();
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
    if shared.connections.load(Ordering::Relaxed) >= shared.max_clients() {
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
