//! A socket that never blocks, with or without TLS, from either end.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use rustls::{ClientConfig, ClientConnection, Connection};

use super::model::layout::Place;

/// Bytes encrypted ahead of the socket at most.
const TLS_AHEAD_BYTES: usize = 256 << 10;

pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connected or connecting socket.
pub(crate) struct Transport {
    socket: Socket,
    tls: Option<Box<Connection>>,
    pub(crate) peer: String,
    pub(crate) local: String,
}

impl Transport {
    /// Takes over a socket that was accepted.
    pub(crate) fn accepted(socket: Socket, tls: Option<Connection>) -> io::Result<Transport> {
        let (peer, local) = match &socket {
            Socket::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                (stream.peer_addr()?.to_string(), stream.local_addr()?.to_string())
            }
            Socket::Unix(stream) => {
                stream.set_nonblocking(true)?;
                let address = stream.local_addr()?;
                let path = address
                    .as_pathname()
                    .map_or_else(String::new, |path| path.display().to_string());
                (format!("{path}:0"), format!("{path}:0"))
            }
        };
        Ok(Transport::new(socket, tls, peer, local))
    }

    /// Begins to connect to a node. `unheard` is how long sent bytes may stay unacknowledged before the
    /// kernel gives the connection up.
    pub(crate) fn connecting(
        place: &Place,
        tls: Option<(&Arc<ClientConfig>, &str)>,
        unheard: Duration,
    ) -> io::Result<Transport> {
        let socket = match place {
            Place::Tcp(address) => {
                let family = if address.is_ipv4() {
                    AddressFamily::INET
                } else {
                    AddressFamily::INET6
                };
                let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
                let fd = socket_with(family, SocketType::STREAM, flags, None)?;
                rustix::net::sockopt::set_tcp_user_timeout(&fd, unheard.as_millis() as u32)?;
                rustix::net::sockopt::set_socket_keepalive(&fd, true)?;
                begun(connect(&fd, address))?;
                let stream = TcpStream::from(fd);
                stream.set_nodelay(true)?;
                Socket::Tcp(stream)
            }
            Place::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                Socket::Unix(stream)
            }
        };
        let tls = match tls {
            None => None,
            Some((config, host)) => {
                let name = nagaya_redis_client::tls::server_name(host).map_err(io::Error::other)?;
                let client = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
                Some(Connection::Client(client))
            }
        };
        Ok(Transport::new(socket, tls, String::new(), String::new()))
    }

    fn new(socket: Socket, tls: Option<Connection>, peer: String, local: String) -> Transport {
        let tls = tls.map(|mut tls| {
            // What waits is bounded by the limits of those who write.
            tls.set_buffer_limit(None);
            Box::new(tls)
        });
        Transport {
            socket,
            tls,
            peer,
            local,
        }
    }

    /// Reads what is there; 0 at the end of the stream.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Transport { socket, tls, .. } = self;
        let Some(tls) = tls else { return socket.read(into) };
        loop {
            match tls.reader().read(into) {
                Ok(read) => return Ok(read),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if tls.read_tls(socket)? == 0 {
                return Ok(0);
            }
            if let Err(error) = tls.process_new_packets() {
                // The alert that explains it, if the peer still listens.
                tls.write_tls(socket).ok();
                return Err(io::Error::new(ErrorKind::InvalidData, error));
            }
            while tls.wants_write() && tls.is_handshaking() {
                match tls.write_tls(socket) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Writes what fits; returns how much was taken.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Transport { socket, tls, .. } = self;
        let Some(tls) = tls else {
            return socket.write(bytes);
        };
        let taken = if tls.wants_write() {
            0
        } else {
            tls.writer().write(&bytes[..bytes.len().min(TLS_AHEAD_BYTES)])?
        };
        while tls.wants_write() {
            match tls.write_tls(socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && taken > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Tells whether encrypted bytes are left to write.
    pub(crate) fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }
}

/// A connection attempt that is under way is as good as one that succeeded.
fn begun(result: rustix::io::Result<()>) -> io::Result<()> {
    match result {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Drop for Transport {
    /// Says goodbye through TLS: without it, a peer takes the end for a cut line.
    fn drop(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            tls.write_tls(&mut self.socket).ok();
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(into),
            Socket::Unix(stream) => stream.read(into),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
