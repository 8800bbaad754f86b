//! The byte stream of a connection: TCP or a unix socket, plain or through TLS, accepted or connecting.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, getsockname, recv,
    send, socket_with, sockopt,
};
use rustls::{ClientConnection, Connection};

use crate::address::Address;

/// Plain bytes encrypted ahead of the socket: about what a socket's own buffer takes.
const TLS_AHEAD_BYTES: usize = 256 << 10;

/// A connected or connecting socket. Its calls never block.
pub struct Transport {
    socket: Socket,
    tls: Option<Box<Connection>>,
    /// The client's address; none for a unix socket and for a connection that was opened from here.
    peer: Option<SocketAddr>,
}

struct Socket(OwnedFd);

impl Transport {
    /// Takes over an accepted socket that does not block.
    pub fn accepted(fd: OwnedFd, tls: Option<Connection>, peer: Option<SocketAddr>) -> Transport {
        let tls = tls.map(|mut tls| {
            // The users of a connection bound what they write.
            tls.set_buffer_limit(None);
            Box::new(tls)
        });
        Transport {
            socket: Socket(fd),
            tls,
            peer,
        }
    }

    /// Begins to connect. The socket becomes writable when it is connected, and a read or write returns
    /// the error when it cannot be. The kernel gives the connection up when sent bytes stay
    /// unacknowledged for `unacknowledged_max`.
    pub fn connecting(
        address: &Address,
        tls: Option<ClientConnection>,
        unacknowledged_max: Duration,
    ) -> io::Result<Transport> {
        let fd = match address {
            Address::Tcp(address) => {
                let family = if address.is_ipv4() {
                    AddressFamily::INET
                } else {
                    AddressFamily::INET6
                };
                let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
                let fd = socket_with(family, SocketType::STREAM, flags, None)?;
                sockopt::set_tcp_user_timeout(&fd, unacknowledged_max.as_millis() as u32)?;
                sockopt::set_socket_keepalive(&fd, true)?;
                sockopt::set_tcp_nodelay(&fd, true)?;
                match connect(&fd, address) {
                    Ok(()) | Err(Errno::INPROGRESS) => fd,
                    Err(error) => return Err(error.into()),
                }
            }
            Address::Unix(path) => {
                // It connects at once or not at all.
                let stream = UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                OwnedFd::from(stream)
            }
        };
        Ok(Transport::accepted(fd, tls.map(Connection::Client), None))
    }

    /// Reads available bytes; 0 at the end of the stream.
    #[inline]
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.read(into),
            Some(tls) => read_tls(tls, &mut self.socket, into),
        }
    }

    /// Writes what the socket takes; returns how much of `bytes` was accepted.
    ///
    /// Through TLS, 0 means that only bytes of earlier calls were written; call again then. Bytes that
    /// are accepted and not yet written are announced by [`Transport::wants_write`].
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.write(bytes),
            Some(tls) => write_tls(tls, &mut self.socket, bytes),
        }
    }

    #[inline]
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns whether encrypted bytes are left to write.
    #[inline]
    pub fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Returns the address of the other end as text. A client of a unix socket has none and is named by
    /// the path it has connected to, with port 0.
    pub fn peer_name(&self) -> String {
        self.peer
            .map_or_else(|| self.local_name(), |peer| peer.to_string())
    }

    /// Returns the address of this end as text.
    pub fn local_name(&self) -> String {
        let Ok(address) = getsockname(&self.socket.0) else {
            return String::new();
        };
        if let Ok(address) = SocketAddr::try_from(address.clone()) {
            return address.to_string();
        }
        let unix = SocketAddrUnix::try_from(address).ok();
        let path = unix.as_ref().and_then(SocketAddrUnix::path);
        format!("{}:0", path.unwrap_or_default().to_string_lossy())
    }
}

fn read_tls(tls: &mut Connection, socket: &mut Socket, into: &mut [u8]) -> io::Result<usize> {
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
            // The alert that explains it, if the peer still reads.
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

fn write_tls(tls: &mut Connection, socket: &mut Socket, bytes: &[u8]) -> io::Result<usize> {
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

impl Drop for Transport {
    /// Sends `close_notify`; without it the peer reports a truncated stream.
    fn drop(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            tls.write_tls(&mut self.socket).ok();
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.0.as_fd()
    }
}

impl Read for Socket {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (read, _) = recv(&self.0, into, RecvFlags::empty())?;
        Ok(read)
    }
}

impl Write for Socket {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(&self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
