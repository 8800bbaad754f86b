//! What clients without credentials may do, in a line for each listener, and what else an operator should know before
//! the server is used.

use nagaya_config::Listen;
use nagaya_fanout::FanoutConfig;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::app::settings::Settings;

/// Returns a line for each listener that asks for nothing; a line that says so when there is none.
pub(crate) fn lines(settings: &Settings) -> Vec<String> {
    let (http, room, fanout) = (&settings.http, &settings.room, &settings.fanout);
    let mut lines = Vec::new();
    if room.password.is_none() {
        lines.push(format!(
            "room: {} may read and change all keys; set `room.password`",
            who(room.listen)
        ));
    }
    if http.token.is_none() {
        let mut kept = Vec::new();
        if room.password.is_some() {
            kept.push("the room's data");
        }
        if fanout.enabled && fanout.token.is_some() {
            kept.push("the fan-out's requests");
        }
        let but = match kept.as_slice() {
            [] => String::new(),
            kept => format!(" but {}", kept.join(" and ")),
        };
        lines.push(format!(
            "http: {} may do everything{but}; set `http.token`",
            who(http.listen)
        ));
    }
    if fanout.enabled && fanout.token.is_none() {
        lines.push(format!(
            "fanout: {} may send requests and read their answers; set `fanout.token`",
            who(fanout.listen)
        ));
    }
    if settings.ids.enabled {
        lines.push(format!(
            "ids: {} may fetch ids; memcached knows no credentials",
            who(settings.ids.listen)
        ));
    }
    lines
}

fn who(listen: Listen) -> &'static str {
    if listen.is_loopback() {
        "everybody on this machine"
    } else {
        "everybody who reaches it"
    }
}

/// Files that the process has open besides connections: databases, logs, listeners, pipes.
const OTHER_FILES: u64 = 256;

/// Returns how many files the process may have open when all connections that the settings allow are in use.
fn descriptors_needed(settings: &Settings) -> u64 {
    let count = |connections: usize| u64::try_from(connections).unwrap_or(u64::MAX);
    let fanout = if settings.fanout.enabled {
        count(settings.fanout.connections_max)
    } else {
        0
    };
    count(settings.http.connections_max)
        .saturating_add(fanout)
        .saturating_add(u64::from(settings.room.max_clients))
        .saturating_add(OTHER_FILES)
}

/// Returns a warning when the process may not open as many files as the settings allow connections.
pub(crate) fn descriptor_warning(settings: &Settings, limit: Option<u64>) -> Option<String> {
    let (limit, needed) = (limit?, descriptors_needed(settings));
    (limit < needed).then(|| {
        format!(
            "the process may open {limit} files, but the settings allow connections that need {needed}; raise the limit \
             (`ulimit -n`, systemd's `LimitNOFILE=`) or lower `http.connections_max`, `fanout.connections_max` and `room.max_clients`"
        )
    })
}

/// Returns how many files this process may open at most; `None` for any number.
pub(crate) fn descriptor_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}

/// Raises the number of files that this process may open, as far as it may and needs to.
pub(crate) fn raise_descriptor_limit(settings: &Settings) {
    raise_descriptor_limit_to(descriptors_needed(settings));
}

/// As [`raise_descriptor_limit`], for a fan-out alone: a connection of each client, and of each job to its endpoint.
pub(crate) fn raise_descriptor_limit_for(fanout: &FanoutConfig) {
    let connections = fanout.connections_max.saturating_add(fanout.workers);
    let connections = u64::try_from(connections).unwrap_or(u64::MAX);
    raise_descriptor_limit_to(connections.saturating_add(OTHER_FILES));
}

fn raise_descriptor_limit_to(needed: u64) {
    let now = getrlimit(Resource::Nofile);
    let wanted = now.maximum.map_or(needed, |maximum| maximum.min(needed));
    if now.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit {
            current: Some(wanted),
            maximum: now.maximum,
        };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit of open files could not be raised");
        }
    }
}

#[cfg(test)]
mod tests {
    use nagaya_config::{Flag, Loader};

    use super::*;
    use crate::app::settings::sections;

    fn settings(flags: &[(&str, &str)]) -> Settings {
        let mut loader = Loader::new(&sections());
        loader.flags(flags.iter().map(|(key, value)| Flag {
            key: key.to_string(),
            value: value.to_string(),
            name: "--set".into(),
        }));
        Settings::new(&loader.finish().unwrap()).unwrap()
    }

    #[test]
    fn every_listener_without_credentials_has_a_line() {
        let names = |settings: &Settings| -> Vec<String> {
            let lines = lines(settings);
            lines
                .iter()
                .map(|line| line.split(':').next().unwrap().to_owned())
                .collect()
        };
        assert_eq!(names(&settings(&[])), ["room", "http", "fanout", "ids"]);
        let token = "sixteen-letters-";
        let closed = [
            ("http.token", token),
            ("fanout.token", token),
            ("room.password", "p"),
            ("ids.enabled", "false"),
        ];
        assert!(names(&settings(&closed)).is_empty());
        let half = settings(&[("room.password", "p"), ("fanout.token", token)]);
        assert_eq!(names(&half), ["http", "ids"]);
        assert!(lines(&half)[0].contains("everything but the room's data and the fan-out's requests"));
    }

    #[test]
    fn too_few_descriptors_are_told() {
        let settings = settings(&[("http.connections_max", "1000"), ("room.max_clients", "1000")]);
        let told = descriptor_warning(&settings, Some(1024)).unwrap();
        assert!(told.contains("1024") && told.contains("12256"), "{told}");
        assert_eq!(descriptor_warning(&settings, Some(12_256)), None);
        assert_eq!(descriptor_warning(&settings, None), None);
    }
}
