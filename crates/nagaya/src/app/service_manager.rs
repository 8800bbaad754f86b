//! Tells the service manager that the server is ready: systemd's `Type=notify`.
//!
//! The protocol is a datagram to the socket that `NOTIFY_SOCKET` names. A name that begins with `@` is in the
//! abstract namespace. Without the variable nobody waits for the message.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracing::warn;

const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// Reports that every component is ready. A manager that cannot be told does not stop the server.
pub(crate) fn ready() {
    let Some(socket) = std::env::var_os(SOCKET_VARIABLE).filter(|socket| !socket.is_empty()) else {
        return;
    };
    if let Err(error) = send(&socket, "READY=1") {
        warn!(socket = %socket.display(), %error, "cannot tell the service manager");
    }
}

fn send(socket: &OsStr, message: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    // A manager that does not read must not stop the server.
    sender.set_nonblocking(true)?;
    sender.send_to_addr(message.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a message to the name of a receiver and returns what arrives there.
    fn received(receiver: &UnixDatagram, name: &OsStr) -> String {
        send(name, "READY=1").unwrap();
        let mut bytes = [0; 64];
        let length = receiver.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    #[test]
    fn the_manager_is_told_by_path_and_by_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let by_path = UnixDatagram::bind(&path).unwrap();
        assert_eq!(received(&by_path, path.as_os_str()), "READY=1");

        let name = format!("nagaya-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let by_name = UnixDatagram::bind_addr(&address).unwrap();
        assert_eq!(received(&by_name, OsStr::new(&format!("@{name}"))), "READY=1");
    }

    #[test]
    fn a_manager_that_is_gone_is_an_error_and_no_panic() {
        assert!(send(OsStr::new("/nowhere/at/all"), "READY=1").is_err());
    }
}
