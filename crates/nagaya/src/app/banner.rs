//! What a person sees when the server is up.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use crate::app::terminal::Paint;

/// What the banner shows.
pub(crate) struct Banner<'a> {
    pub(crate) room: SocketAddr,
    /// Whether the room asks for a password, and HTTP and the fan-out for a token.
    pub(crate) room_has_password: bool,
    pub(crate) http_has_token: bool,
    pub(crate) fanout_has_token: bool,
    /// The file that settings were read from.
    pub(crate) config: Option<&'a Path>,
    pub(crate) http: SocketAddr,
    pub(crate) http_scheme: &'static str,
    pub(crate) fanout_scheme: &'static str,
    /// What clients without credentials may do, a line for each listener.
    pub(crate) open: Vec<String>,
    /// Whether jobs are taken.
    pub(crate) jobs: bool,
    /// Where requests are fanned out, if they are, and to how many endpoints.
    pub(crate) fanout: Option<(SocketAddr, usize)>,
    /// Where memcached clients fetch ids, if they can.
    pub(crate) ids: Option<SocketAddr>,
    pub(crate) fleet: Fleet,
    /// Whether `http` is where `nagaya status` looks by itself.
    pub(crate) http_is_default: bool,
    /// Whether `data` is where commands look by themselves.
    pub(crate) data_is_default: bool,
    pub(crate) data: &'a Path,
    /// How this binary was called, for commands that can be pasted.
    pub(crate) program: &'a str,
}

/// Where the fleet is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fleet {
    Off,
    /// In the data folder, where commands find it.
    InData,
    /// In a Redis, whose URL commands need as a flag.
    Elsewhere,
}

impl Banner<'_> {
    pub(crate) fn render(&self, paint: Paint) -> String {
        let title = paint.bold(concat!("nagaya ", env!("CARGO_PKG_VERSION")));
        let mut text = format!("\n{title} is ready\n\n");
        let rows = self.places();
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in rows {
            let name = paint.dim(&format!("{name:width$}"));
            writeln!(text, "  {name}  {value}").expect("writing to a string cannot fail");
        }
        text.push_str("\nTry next, in another terminal in this folder:\n\n");
        for command in self.preparations().into_iter().chain(self.commands()) {
            writeln!(text, "  {command}").expect("writing to a string cannot fail");
        }
        text.push_str("\nCtrl-C stops it.\n\n");
        text
    }

    /// Where each service listens.
    fn places(&self) -> Vec<(&'static str, String)> {
        let url = local_url(self.http_scheme, self.http);
        let mut rows = vec![("room", format!("{} (Redis protocol)", self.room))];
        if self.jobs {
            rows.push(("jobs", format!("{url}/v1/jobs (REST and gRPC)")));
        }
        if let Some((fanout, _)) = self.fanout {
            rows.push(("fanout", format!("{}://{fanout}", self.fanout_scheme)));
        }
        if let Some(ids) = self.ids {
            rows.push(("ids", format!("{ids} (memcached) and {url}/v1/ids")));
        }
        if self.fleet != Fleet::Off {
            rows.push(("fleet", format!("{url}/v1/fleet")));
        }
        rows.push(("console", format!("{url}/")));
        if self.http.ip().is_unspecified() {
            rows.push(("http", format!("{}://{}", self.http_scheme, self.http)));
        }
        rows.push(("data", self.data.display().to_string()));
        rows.extend(self.open.iter().map(|line| ("open", line.clone())));
        rows
    }

    /// What lets the commands below find this server and its secrets. Secrets are asked for: printed, they would end
    /// up in logs, and typed into a command, in the shell's history.
    fn preparations(&self) -> Vec<String> {
        let config = self
            .config
            .map(|path| format!("export NAGAYA_CONFIG={}", quoted(path)));
        let ask = |is_needed: bool, variable: &str, setting: &str| {
            is_needed.then(|| format!("read -rs {variable} && export {variable}  # type {setting}"))
        };
        let calls_fanout = self.fanout.is_some_and(|(_, endpoints)| endpoints > 0);
        let lines = [
            config,
            ask(self.http_has_token, "NAGAYA_TOKEN", "http.token"),
            ask(self.room_has_password, "REDISCLI_AUTH", "room.password"),
            ask(
                self.fanout_has_token && calls_fanout,
                "FANOUT_TOKEN",
                "fanout.token",
            ),
        ];
        lines.into_iter().flatten().collect()
    }

    /// One command to try for each service, in the same order.
    fn commands(&self) -> Vec<String> {
        let url = local_url(self.http_scheme, self.http);
        let (room, program) = (reachable(self.room), self.program);
        let there = if self.http_is_default {
            String::new()
        } else {
            format!(" --url {url}")
        };
        let curl = curl(self.http_has_token.then_some("NAGAYA_TOKEN"));
        let mut commands = vec![format!("redis-cli -h {} -p {} ping", room.ip(), room.port())];
        if self.jobs {
            commands.push(format!("{program} jobs enqueue{there} mail '{{\"to\": 7}}'"));
        }
        match self.fanout {
            Some((_, 0)) => commands.push(format!("{curl} {url}/v1/fanout")),
            Some((fanout, _)) => {
                let curl = self::curl(self.fanout_has_token.then_some("FANOUT_TOKEN"));
                commands.push(format!("{curl} '{}/?q=1'", local_url(self.fanout_scheme, fanout)));
            }
            None => (),
        }
        if self.ids.is_some() {
            commands.push(format!("{curl} {url}/v1/ids"));
        }
        match self.fleet {
            Fleet::Off => (),
            Fleet::InData if self.data_is_default => commands.push(format!("{program} fleet list")),
            Fleet::InData => commands.push(format!(
                "NAGAYA_HOUSE__DATA={} {program} fleet list",
                quoted(self.data)
            )),
            Fleet::Elsewhere => commands.push(format!("{curl} {url}/v1/fleet")),
        }
        commands.push(format!("{program} status{there} --watch"));
        commands
    }
}

/// curl with the token of a variable, if one is needed.
fn curl(token: Option<&str>) -> String {
    match token {
        Some(variable) => format!("curl -H \"Authorization: Bearer ${variable}\""),
        None => "curl".to_owned(),
    }
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// A URL by which this machine reaches a listener.
pub(crate) fn local_url(scheme: &str, address: SocketAddr) -> String {
    format!("{scheme}://{}", reachable(address))
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

    fn banner(http: &str, is_default: bool) -> Banner<'static> {
        Banner {
            room: "127.0.0.1:6380".parse().unwrap(),
            room_has_password: false,
            http_has_token: false,
            fanout_has_token: false,
            config: None,
            http: http.parse().unwrap(),
            http_scheme: "http",
            fanout_scheme: "http",
            open: vec!["http: anybody on this machine".into()],
            jobs: true,
            fanout: Some(("127.0.0.1:7401".parse().unwrap(), 0)),
            ids: Some("127.0.0.1:11212".parse().unwrap()),
            fleet: Fleet::InData,
            http_is_default: is_default,
            data_is_default: is_default,
            data: Path::new("/srv/data"),
            program: "nagaya",
        }
    }

    #[test]
    fn every_service_has_its_place_and_a_command() {
        let plain = banner("127.0.0.1:7400", true).render(Paint::plain());
        let places = "\n\n  room     127.0.0.1:6380 (Redis protocol)\n  \
             jobs     http://127.0.0.1:7400/v1/jobs (REST and gRPC)\n  \
             fanout   http://127.0.0.1:7401\n  \
             ids      127.0.0.1:11212 (memcached) and http://127.0.0.1:7400/v1/ids\n  \
             fleet    http://127.0.0.1:7400/v1/fleet\n  \
             console  http://127.0.0.1:7400/\n  \
             data     /srv/data\n  \
             open     http: anybody on this machine\n\n";
        assert!(plain.contains(places), "{plain}");
        let commands = "\n\n  redis-cli -h 127.0.0.1 -p 6380 ping\n  \
             nagaya jobs enqueue mail '{\"to\": 7}'\n  \
             curl http://127.0.0.1:7400/v1/fanout\n  \
             curl http://127.0.0.1:7400/v1/ids\n  \
             nagaya fleet list\n  \
             nagaya status --watch\n\n";
        assert!(plain.contains(commands), "{plain}");
    }

    #[test]
    fn the_commands_fit_addresses_and_credentials() {
        let moved = Banner {
            room_has_password: true,
            http_has_token: true,
            fanout_has_token: true,
            config: Some(Path::new("/etc/it's mine.toml")),
            fanout: Some(("127.0.0.1:7401".parse().unwrap(), 2)),
            ..banner("0.0.0.0:80", false)
        };
        let moved = moved.render(Paint::plain());
        for line in [
            "  export NAGAYA_CONFIG='/etc/it'\\''s mine.toml'\n",
            "  read -rs NAGAYA_TOKEN && export NAGAYA_TOKEN  # type http.token\n",
            "  read -rs REDISCLI_AUTH && export REDISCLI_AUTH  # type room.password\n",
            "  redis-cli -h 127.0.0.1 -p 6380 ping\n",
            "  curl -H \"Authorization: Bearer $FANOUT_TOKEN\" 'http://127.0.0.1:7401/?q=1'\n",
            "  curl -H \"Authorization: Bearer $NAGAYA_TOKEN\" http://127.0.0.1:80/v1/ids\n",
            "  NAGAYA_HOUSE__DATA='/srv/data' nagaya fleet list\n",
            "  nagaya status --url http://127.0.0.1:80 --watch\n",
        ] {
            assert!(moved.contains(line), "{line} is missing in\n{moved}");
        }
        let off = Banner {
            jobs: false,
            fanout: None,
            ids: None,
            fleet: Fleet::Off,
            ..banner("127.0.0.1:7400", true)
        };
        assert_eq!(off.commands().len(), 2);
        assert_eq!(local_url("https", "[::]:1".parse().unwrap()), "https://[::1]:1");
    }
}
