//! What a person sees when the house is up.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use crate::terminal::Paint;

/// What the banner tells.
pub(crate) struct Banner<'a> {
    pub(crate) room: SocketAddr,
    pub(crate) http: SocketAddr,
    /// Where memcached clients fetch ids, if they can.
    pub(crate) ids: Option<SocketAddr>,
    /// Where requests are fanned out, if they are.
    pub(crate) fanout: Option<SocketAddr>,
    /// Whether jobs are taken.
    pub(crate) jobs: bool,
    /// Whether `http` is where `nagaya status` looks by itself.
    pub(crate) http_is_default: bool,
    pub(crate) data: &'a Path,
    /// How this binary was called, for commands that can be pasted.
    pub(crate) program: &'a str,
}

impl Banner<'_> {
    pub(crate) fn render(&self, paint: Paint) -> String {
        let url = local_url(self.http);
        let there = match self.http_is_default {
            true => String::new(),
            false => format!(" --url {url}"),
        };
        let status = format!("{} status{there}", self.program);
        let mut text = String::new();
        let title = paint.bold(concat!("nagaya ", env!("CARGO_PKG_VERSION")));
        let room = reachable(self.room);
        let mut rows = vec![
            ("Redis", self.room.to_string()),
            ("HTTP", format!("http://{}", self.http)),
        ];
        if let Some(ids) = self.ids {
            rows.push(("ids", format!("{ids} (memcached)")));
        }
        if let Some(fanout) = self.fanout {
            rows.push(("fanout", format!("http://{fanout}")));
        }
        rows.push(("data", self.data.display().to_string()));
        let fetch = match self.ids {
            Some(_) => format!("  curl {url}/v1/ids\n"),
            None => String::new(),
        };
        let enqueue = match self.jobs {
            true => format!("  {} jobs enqueue{there} mail '{{\"to\": 7}}'\n", self.program),
            false => String::new(),
        };
        writeln!(text, "\n{title} is ready\n").expect("writing to a string cannot fail");
        let width = rows
            .iter()
            .map(|(name, _)| name.len() + 1)
            .max()
            .unwrap_or(0)
            .max(6);
        for (name, value) in rows {
            let name = paint.dim(&format!("{name:width$}"));
            writeln!(text, "  {name}{value}").expect("writing to a string cannot fail");
        }
        writeln!(
            text,
            "\nTry next, in another terminal:\n\n  redis-cli -h {} -p {} ping\n{fetch}{enqueue}  curl {url}/readyz\n  {status}\n",
            room.ip(),
            room.port(),
        )
        .expect("writing to a string cannot fail");
        writeln!(text, "Ctrl-C stops it.\n").expect("writing to a string cannot fail");
        text
    }
}

/// A URL by which this machine reaches a listener.
pub(crate) fn local_url(address: SocketAddr) -> String {
    format!("http://{}", reachable(address))
}

/// An address by which this machine reaches a listener.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_fit_the_address() {
        let banner = |http: &str, http_is_default| {
            let data = Path::new("/srv/data");
            let http = http.parse().unwrap();
            Banner {
                room: "127.0.0.1:6380".parse().unwrap(),
                http,
                http_is_default,
                ids: Some("127.0.0.1:11212".parse().unwrap()),
                fanout: None,
                jobs: true,
                data,
                program: "nagaya",
            }
            .render(Paint::plain())
        };
        let plain = banner("127.0.0.1:7400", true);
        assert!(
            plain.contains(
                "  curl http://127.0.0.1:7400/v1/ids\n  nagaya jobs enqueue mail '{\"to\": 7}'\n  curl http://127.0.0.1:7400/readyz\n  nagaya status\n"
            ),
            "{plain}"
        );
        assert!(
            plain.contains("  ids   127.0.0.1:11212 (memcached)\n  data  /srv/data\n"),
            "{plain}"
        );
        let moved = banner("0.0.0.0:80", false);
        assert!(
            moved.contains("  nagaya status --url http://127.0.0.1:80\n"),
            "{moved}"
        );
        assert_eq!(local_url("[::]:1".parse().unwrap()), "http://[::1]:1");
    }
}
