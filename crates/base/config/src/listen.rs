//! Addresses to listen on.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::value::{Raw, Value};

/// An address and port to listen on; port 0 lets the system choose.
///
/// Only addresses are taken, and the one name `localhost`: a listener must not depend on name resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen(pub SocketAddr);

impl Listen {
    /// Whether only this machine can reach the address.
    pub fn is_loopback(self) -> bool {
        self.0.ip().to_canonical().is_loopback()
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Value for Listen {
    const KIND: &'static str = "an address such as `\"127.0.0.1:7400\"`";

    fn read(raw: &Raw) -> Option<Listen> {
        let text = raw.text()?.trim();
        if let Some(port) = text.strip_prefix("localhost:") {
            let port = port.parse().ok()?;
            return Some(Listen(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
        }
        text.parse().ok().map(Listen)
    }

    fn write(&self) -> Raw {
        Raw::Text(self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_told_from_the_open_network() {
        let check = |text: &str, loopback: bool| {
            let listen = Listen::read(&Raw::from(text)).expect(text);
            assert_eq!(listen.is_loopback(), loopback, "{text}");
        };
        check("127.0.0.1:7400", true);
        check("127.8.8.8:0", true);
        check("localhost:7400", true);
        check("[::1]:7400", true);
        check("[::ffff:127.0.0.1]:7400", true);
        check("0.0.0.0:7400", false);
        check("[::]:7400", false);
        check("192.168.0.1:7400", false);
        assert_eq!(Listen::read(&Raw::from("7400")), None);
        assert_eq!(Listen::read(&Raw::from("example.com:80")), None);
    }
}
