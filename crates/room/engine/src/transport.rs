//! The bytes of a connection: TCP or a unix socket, plain or through TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustls::ServerConnection;

pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// One connection's byte stream. Never blocks.
pub(crate) struct Transport {
    socket: Socket,
    tls: Option<Box<ServerConnection>>,
    pub(crate) peer: String,
    pub(crate) local: String,
}

impl Transport {
    /// Takes over an accepted connection.
    pub(crate) fn new(socket: Socket, tls: Option<Box<ServerConnection>>) -> io::Result<Transport> {
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
        let mut tls = tls;
        if let Some(tls) = &mut tls {
            // What we write is bounded by the connection's output limits.
            tls.set_buffer_limit(None);
        }
        Ok(Transport {
            socket,
            tls,
            peer,
            local,
        })
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
        // At most one socket buffer's worth is encrypted ahead of the socket.
        let taken = if tls.wants_write() {
            0
        } else {
            tls.writer().write(&bytes[..bytes.len().min(256 * 1024)])?
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
