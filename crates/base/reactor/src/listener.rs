//! Bound addresses that clients connect to.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{SocketFlags, acceptfrom_with, sockopt};
use rustls::{Connection, ServerConfig, ServerConnection};

use crate::address::Address;
use crate::transport::Transport;

/// A bound address. The file of a unix socket is removed with it.
pub struct Listener(Kind);

enum Kind {
    Tcp(TcpListener, Option<Arc<ServerConfig>>),
    Unix(UnixListener, PathBuf),
}

/// A connection that is silent for this long is probed, and after this many probes without an answer it is
/// closed: as Redis does by default.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(300);
const KEEPALIVE_PROBES: u32 = 3;

impl Listener {
    /// Binds an address without TLS.
    pub fn bind(address: &Address) -> io::Result<Listener> {
        match address {
            Address::Tcp(address) => Listener::tcp(address, None),
            Address::Unix(path) => Listener::unix(path),
        }
    }

    /// Binds a TCP address; with `tls`, its connections speak TLS.
    pub fn tcp(address: impl ToSocketAddrs, tls: Option<Arc<ServerConfig>>) -> io::Result<Listener> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        // The connections inherit all of these.
        sockopt::set_tcp_nodelay(&listener, true)?;
        sockopt::set_socket_keepalive(&listener, true)?;
        sockopt::set_tcp_keepidle(&listener, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&listener, KEEPALIVE_IDLE / KEEPALIVE_PROBES)?;
        sockopt::set_tcp_keepcnt(&listener, KEEPALIVE_PROBES)?;
        Ok(Listener(Kind::Tcp(listener, tls)))
    }

    /// Binds a path. A socket that an ended process has left there is replaced.
    pub fn unix(path: &Path) -> io::Result<Listener> {
        remove_stale(path)?;
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Listener(Kind::Unix(listener, path.to_owned())))
    }

    /// Returns the bound address with its real port, if this is TCP.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        match &self.0 {
            Kind::Tcp(listener, _) => listener.local_addr().ok(),
            Kind::Unix(..) => None,
        }
    }

    /// Returns a second handle to a TCP listener. A unix socket is removed with its listener, so it has but one.
    pub fn try_clone(&self) -> io::Result<Listener> {
        match &self.0 {
            Kind::Tcp(listener, tls) => Ok(Listener(Kind::Tcp(listener.try_clone()?, tls.clone()))),
            Kind::Unix(..) => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// Accepts a connection if one is waiting.
    pub fn accept(&self) -> io::Result<Transport> {
        let (fd, peer) = acceptfrom_with(self, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
        let Kind::Tcp(_, tls) = &self.0 else {
            return Ok(Transport::accepted(fd, None, None));
        };
        let tls = match tls {
            Some(config) => {
                let tls = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
                Some(Connection::Server(tls))
            }
            None => None,
        };
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        Ok(Transport::accepted(fd, tls, peer))
    }
}

/// Removes a socket without a listener. Anything else at `path` stays, and binding fails.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    if !is_socket {
        return Ok(());
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        _ => Ok(()),
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Kind::Tcp(listener, _) => listener.as_fd(),
            Kind::Unix(listener, _) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Kind::Unix(_, path) = &self.0 {
            std::fs::remove_file(path).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn accepted_sockets_do_not_block_do_not_delay_and_are_kept_alive() {
        let listener = Listener::tcp("127.0.0.1:0", None).unwrap();
        let blocked = listener.accept().err().unwrap();
        assert_eq!(blocked.kind(), ErrorKind::WouldBlock);
        let client = TcpStream::connect(listener.tcp_address().unwrap()).unwrap();
        let mut transport = listener.accept().unwrap();
        let blocked = transport.read(&mut [0; 8]).err().unwrap();
        assert_eq!(blocked.kind(), ErrorKind::WouldBlock);
        assert!(sockopt::tcp_nodelay(&transport).unwrap());
        assert!(sockopt::socket_keepalive(&transport).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&transport).unwrap(), KEEPALIVE_IDLE);
        assert_eq!(transport.peer_name(), client.local_addr().unwrap().to_string());
        assert_eq!(transport.local_name(), client.peer_addr().unwrap().to_string());
    }

    #[test]
    fn a_client_that_is_gone_already_is_accepted_with_its_name() {
        let listener = Listener::tcp("127.0.0.1:0", None).unwrap();
        let client = TcpStream::connect(listener.tcp_address().unwrap()).unwrap();
        let name = client.local_addr().unwrap().to_string();
        // A reset instead of an orderly end.
        sockopt::set_socket_linger(&client, Some(std::time::Duration::ZERO)).unwrap();
        drop(client);
        let transport = listener.accept().unwrap();
        assert_eq!(transport.peer_name(), name);
    }

    #[test]
    fn a_left_socket_is_replaced_and_removed_in_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let listener = Listener::unix(&path).unwrap();
        let in_use = Listener::unix(&path).err().unwrap();
        assert_eq!(in_use.kind(), ErrorKind::AddrInUse);
        let _client = UnixStream::connect(&path).unwrap();
        let transport = listener.accept().unwrap();
        let name = format!("{}:0", path.display());
        assert_eq!(
            (transport.peer_name(), transport.local_name()),
            (name.clone(), name)
        );
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "contents").unwrap();
        assert!(Listener::unix(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "contents");
    }
}
