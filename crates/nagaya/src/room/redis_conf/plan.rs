//! What the directives of a `redis.conf` mean here.
//!
//! What the start decides becomes a setting of our own, checked like one; what CONFIG SET can change is set
//! once the engine runs; the rest is refused or ignored, as the table of Redis's settings says, with its place.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anyhow::bail;
use nagaya_config::Flag;
use nagaya_exec::config::Config;
use nagaya_exec::settings::{Effect, Setting, parse_bytes};

use super::directives::Directive;

/// Where Redis listens unless told otherwise.
const PORT: &str = "6379";
const HOST: &str = "127.0.0.1";

/// Directives that are settings of ours under another name: directive, setting.
const SAME: &[(&str, &str)] = &[
    ("unixsocket", "room.unix_socket"),
    ("requirepass", "room.password"),
    ("aclfile", "room.acl_file"),
    ("maxclients", "room.max_clients"),
    ("databases", "room.databases"),
    ("appendfsync", "room.fsync"),
    ("io-threads", "room.io_threads"),
    ("tls-cert-file", "room.tls_cert"),
    ("tls-key-file", "room.tls_key"),
    ("tls-ca-cert-file", "room.tls_client_ca"),
    ("enable-debug-command", "room.enable_debug_command"),
];

/// Directives whose promise cannot be kept, with the reason; some have a value that promises nothing.
const REFUSED: &[(&str, &str, &str)] = &[
    ("daemonize", "no", "run it under a service manager, or with `&`"),
    ("cluster-enabled", "no", "there is no cluster mode"),
    ("replicaof", "no one", "there are no replicas of Redis's kind"),
    ("slaveof", "no one", "there are no replicas of Redis's kind"),
    ("loadmodule", "", "modules are not loaded"),
    ("rename-command", "", "use ACL rules to withhold commands"),
    ("user", "", "put users into a file and name it with `aclfile`"),
    ("tls-replication", "no", "there are no replicas of Redis's kind"),
    ("tls-cluster", "no", "there is no cluster mode"),
];

/// How an engine is to start.
#[derive(Default)]
pub(super) struct Plan {
    /// Settings of our own.
    pub(super) flags: Vec<Flag>,
    /// What is set once the engine runs.
    pub(super) later: Vec<(&'static Setting, String)>,
    /// What has no effect, and why.
    pub(super) ignored: Vec<String>,
}

impl Plan {
    /// Makes a plan, or refuses with every place that is wrong.
    pub(super) fn of(directives: &[Directive]) -> anyhow::Result<Plan> {
        let mut plan = Plan::default();
        let (mut start, mut config) = (Start::default(), Config::default());
        let mut problems = Vec::new();
        for directive in directives {
            if let Err(problem) = plan.take(directive, &mut start, &mut config) {
                problems.push(format!("{}: `{}`: {problem}", directive.origin, directive.name));
            }
        }
        if !problems.is_empty() {
            bail!("{}", problems.join("\n"));
        }
        plan.flags.extend(start.flags());
        Ok(plan)
    }

    fn take(&mut self, directive: &Directive, start: &mut Start, config: &mut Config) -> Result<(), String> {
        let Directive { origin, name, values } = directive;
        let text = values.join(" ");
        let only = || match values.as_slice() {
            [value] => Ok(value.clone()),
            _ => Err("takes one value".to_owned()),
        };
        if let Some((_, key)) = SAME.iter().find(|(known, _)| known == name) {
            let value = only()?;
            // Nothing is the same as not being set.
            if !value.is_empty() {
                self.flags.push(flag(origin, key, value));
            }
            return Ok(());
        }
        if let Some((_, harmless, why)) = REFUSED.iter().find(|(known, ..)| known == name) {
            let is_harmless = !harmless.is_empty() && text.eq_ignore_ascii_case(harmless);
            return if is_harmless {
                Ok(())
            } else {
                Err((*why).to_owned())
            };
        }
        match name.as_str() {
            "port" if only()? == "0" => return Err("a port is needed; 0 is none".to_owned()),
            "port" => start.port = Some(only()?),
            "tls-port" if only()? != "0" => start.tls_port = Some(only()?),
            "tls-port" => {}
            "bind" => start.take_hosts(values, &mut self.ignored, origin)?,
            "protected-mode" => start.is_open = !yes_or_no(&only()?)?,
            "timeout" => self
                .flags
                .push(flag(origin, "room.idle_timeout", format!("{}s", only()?))),
            "maxmemory" => {
                let bytes = parse_bytes(&only()?).ok_or("is not a number of bytes")?;
                self.flags
                    .push(flag(origin, "room.max_memory", format!("{bytes}b")));
            }
            "loglevel" => start.log_level = Some(log_level(&only()?)?),
            "dir" => start.folder = Some(only()?),
            "appendonly" => start.append_only = yes_or_no(&only()?)?,
            "save" => start.saves = Some(!text.is_empty()),
            _ => return self.take_setting(directive, &text, config),
        }
        Ok(())
    }

    /// Takes a directive that CONFIG knows as a setting.
    fn take_setting(&mut self, directive: &Directive, text: &str, config: &mut Config) -> Result<(), String> {
        let found = Setting::find(directive.name.as_bytes());
        let setting = found.ok_or("is no setting of Redis that is known here")?;
        setting.set(config, text.as_bytes())?;
        match setting.effect(false) {
            Effect::InForce if !setting.is_fixed() => self.later.push((setting, text.to_owned())),
            Effect::InForce | Effect::Refused(_) => {}
            Effect::Harmless(why) => {
                let Directive { origin, name, .. } = directive;
                self.ignored
                    .push(format!("{origin}: `{name}` has no effect: {why}"));
            }
        }
        Ok(())
    }
}

fn flag(origin: &str, key: &str, value: String) -> Flag {
    Flag {
        name: origin.to_owned(),
        key: key.to_owned(),
        value,
    }
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("argument must be 'yes' or 'no'".to_owned()),
    }
}

fn log_level(text: &str) -> Result<&'static str, String> {
    match text.to_ascii_lowercase().as_str() {
        "debug" | "verbose" => Ok("debug"),
        "notice" => Ok("info"),
        "warning" => Ok("warn"),
        _ => Err("argument(s) must be one of the following: debug, verbose, notice, warning".to_owned()),
    }
}

/// What several directives decide together.
#[derive(Default)]
struct Start {
    host: Option<IpAddr>,
    port: Option<String>,
    tls_port: Option<String>,
    /// Other machines may connect without a password.
    is_open: bool,
    log_level: Option<&'static str>,
    folder: Option<String>,
    append_only: bool,
    /// Whether the last `save` named moments; nothing before the first, when Redis saves too.
    saves: Option<bool>,
}

impl Start {
    /// Takes the first address that can be listened on; Redis lets those with a dash before them be missing.
    fn take_hosts(
        &mut self,
        hosts: &[String],
        ignored: &mut Vec<String>,
        origin: &str,
    ) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        self.host = None;
        for host in hosts.iter().filter(|host| seen.insert(host.as_str())) {
            let address = match host.trim_start_matches('-') {
                "*" => "0.0.0.0",
                "::*" => "::",
                "localhost" => HOST,
                address => address,
            };
            let address: IpAddr = address
                .parse()
                .map_err(|_| format!("`{host}` is not an address"))?;
            if self.host.is_none() {
                self.host = Some(address);
            } else {
                ignored.push(format!(
                    "{origin}: `bind` takes one address; {host} is not listened on"
                ));
            }
        }
        Ok(())
    }

    fn flags(&self) -> impl Iterator<Item = Flag> {
        let host = self.host.map_or_else(|| HOST.to_owned(), in_brackets);
        let port = self.port.as_deref().unwrap_or(PORT);
        let persists = self.append_only || self.saves.unwrap_or(true);
        let folder = std::path::Path::new(self.folder.as_deref().unwrap_or(".")).join("nagaya-data");
        let settings = [
            ("port", "room.listen", Some(format!("{host}:{port}"))),
            (
                "tls-port",
                "room.tls_listen",
                self.tls_port.as_ref().map(|port| format!("{host}:{port}")),
            ),
            (
                "protected-mode",
                "house.insecure",
                self.is_open.then(|| "true".to_owned()),
            ),
            (
                "loglevel",
                "telemetry.log_level",
                self.log_level.map(str::to_owned),
            ),
            ("dir", "house.data", Some(folder.display().to_string())),
            ("save", "room.persist", Some(persists.to_string())),
        ];
        let given = settings
            .into_iter()
            .filter_map(|(name, key, value)| Some(flag(name, key, value?)));
        given.collect::<Vec<_>>().into_iter()
    }
}

fn in_brackets(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directives(text: &str) -> Vec<Directive> {
        let lines = text.split(';').enumerate();
        lines
            .map(|(index, line)| {
                let mut words = line.split_whitespace().map(str::to_owned);
                Directive {
                    origin: format!("redis.conf:{}", index + 1),
                    name: words.next().expect("a name"),
                    values: words.map(|word| word.replace("\"\"", "")).collect(),
                }
            })
            .collect()
    }

    fn flags(text: &str) -> Vec<String> {
        let plan = Plan::of(&directives(text)).expect(text);
        let shown = plan.flags.iter();
        shown.map(|flag| format!("{}={}", flag.key, flag.value)).collect()
    }

    #[track_caller]
    fn has(text: &str, wanted: &str) {
        let found = flags(text);
        assert!(found.iter().any(|flag| flag == wanted), "{text}: {found:?}");
    }

    #[test]
    fn directives_become_settings() {
        has("maxclients 5", "room.listen=127.0.0.1:6379");
        has("port 6390", "room.listen=127.0.0.1:6390");
        has("port 6390;bind * -::*", "room.listen=0.0.0.0:6390");
        has("bind ::1", "room.listen=[::1]:6379");
        has("protected-mode no", "house.insecure=true");
        has("maxmemory 10mb", "room.max_memory=10485760b");
        has("timeout 30", "room.idle_timeout=30s");
        has("requirepass secret", "room.password=secret");
        has("dir /var/lib/redis", "house.data=/var/lib/redis/nagaya-data");
        has("loglevel notice", "telemetry.log_level=info");
        has("appendfsync always", "room.fsync=always");
        has("databases 40", "room.databases=40");
        has("tls-port 6391", "room.tls_listen=127.0.0.1:6391");
    }

    #[test]
    fn data_is_kept_unless_both_ways_of_keeping_it_are_off() {
        has("port 1", "room.persist=true");
        has("save \"\"", "room.persist=false");
        has("save \"\";appendonly yes", "room.persist=true");
        has("save \"\";save 900 1", "room.persist=true");
        has("save 900 1;appendonly no", "room.persist=true");
    }

    #[test]
    fn what_config_can_set_is_set_later_and_the_rest_is_listed() {
        let text = "hash-max-listpack-entries 7;maxmemory-policy allkeys-lru;tcp-backlog 511;hz 10";
        let plan = Plan::of(&directives(text)).expect("directives that are taken");
        let later: Vec<&str> = plan.later.iter().map(|(setting, _)| setting.name).collect();
        assert_eq!(later, ["hash-max-listpack-entries", "maxmemory-policy"]);
        assert_eq!(plan.ignored.len(), 2, "{:?}", plan.ignored);
        assert!(plan.ignored[0].starts_with("redis.conf:3: `tcp-backlog` has no effect: "));
    }

    #[test]
    fn what_cannot_be_kept_is_refused_with_every_place() {
        let text = "daemonize yes;port 6390;replicaof 10.0.0.1 6379;nonsense 1;loadmodule x.so;maxmemory-policy loud;\
                    daemonize no;replicaof no one;timeout 1 2";
        let refused = match Plan::of(&directives(text)) {
            Ok(_) => panic!("none of this can be kept"),
            Err(error) => error.to_string(),
        };
        let places: Vec<&str> = refused
            .lines()
            .filter_map(|line| line.split(": ").next())
            .collect();
        let expected = [1, 3, 4, 5, 6, 9].map(|line| format!("redis.conf:{line}"));
        assert_eq!(places, expected, "{refused}");
    }
}
