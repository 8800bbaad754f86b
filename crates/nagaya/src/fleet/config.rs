//! The `[fleet]` section.

use std::time::Duration;

use anyhow::Context;
use nagaya_config::{Secret, Unset, settings};
use nagaya_fleet::manager::{ManagerOptions, MassStopGuard, Source};
use nagaya_fleet::name::{AppName, InstanceName};
use nagaya_fleet::protocol::Rebalance;
use nagaya_fleet::timing::{Timing, TimingOptions};
use nagaya_redis_client::RedisUrl;

settings! {
    /// The workers that this server keeps running, each on exactly one instance.
    pub struct FleetConfig in "fleet" {
        /// Run a manager and serve `/v1/fleet`.
        enabled: bool = true, fixed;
        /// The app whose workers the server manages, and what commands take for `--app`.
        app: String = "main", fixed;
        /// Where the list of workers comes from: `https://...`, `http://...`, `file:PATH` or
        /// `exec:COMMAND`. Not set, the manager has nothing to place until another one reads a list.
        source: Option<Secret> = Unset, fixed;
        /// What is sent as `Authorization` when the list is read over HTTP.
        source_authorization: Option<Secret> = Unset, fixed;
        /// A file with the certificates to trust for an `https` list, PEM. Not set, the system's.
        source_ca: Option<std::path::PathBuf> = Unset, fixed;
        /// How often the list is read.
        source_interval: Duration = "1m", fixed, range "100ms" to "1d";
        /// The Redis that holds the fleet, as `redis://`, `rediss://`, `redis+sentinel://` or
        /// `redis+cluster://`. All managers and agents of an app name the same one. Not set, it is an
        /// engine of the server's own, which agents on the same machine find by themselves.
        redis: Option<Secret> = Unset, fixed;
        /// The name of the manager. No two managers of an app may have the same. Not set, it is made of
        /// the host's name and the process id.
        name: Option<String> = Unset, fixed;
        /// What callers of `POST /v1/fleet/webhook` prove that they know, as a bearer token or as the key
        /// of an HMAC-SHA256 of the body. Not set, only `http.token` lets them in.
        webhook_secret: Option<Secret> = Unset, fixed;
        /// What an agent with `--http` sends to the application as a bearer token. Not set, none.
        callback_token: Option<Secret> = Unset, fixed;
        /// How long an agent's workers may run after its last confirmed heartbeat was sent. The same on
        /// all agents of an app.
        lease: Duration = "5s", fixed, range "200ms" to "1h";
        /// How often an agent renews its lease. Not set, a fifth of `lease`.
        heartbeat: Option<Duration> = Unset, fixed, range "10ms" to "10m";
        /// How long a worker may take to end by itself when it has to. Not set, a fifth of `lease`.
        grace: Option<Duration> = Unset, fixed, range "0s" to "30m";
        /// How long a manager sees no sign of life before it declares an instance dead. Not set, the
        /// shortest safe time, a little more than `lease`.
        death: Option<Duration> = Unset, fixed, range "200ms" to "1d";
        /// How often a manager looks. Not set, a tenth of `lease`.
        poll: Option<Duration> = Unset, fixed, range "10ms" to "10m";
        /// How far the rate of a clock may be off, in millionths.
        drift_ppm: u64 = 500, fixed, range 0 to 100000, unit "ppm";
        /// Move running workers so that instances have equal shares.
        rebalance: bool = true, fixed;
        /// How many workers may be between two instances at once because of that.
        moves_at_once: usize = 50, fixed, range 1 to 1000000, unit "workers";
        /// How many workers of one group may be in one zone. Not set, any number.
        per_zone_max: Option<u32> = Unset, fixed, range 1 to 1000000, unit "workers";
        /// A list that would stop a larger share of the workers is held until it is confirmed.
        brake_percent: u32 = 30, fixed, range 0 to 100, unit "percent";
        /// So few workers may always be stopped by a list.
        brake_always: usize = 3, fixed, range 0 to 1000000, unit "workers";
    }
}

impl FleetConfig {
    /// Checks what the fields say together.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.timing()?;
        self.redis_url()?;
        self.app_name()?;
        self.source()?;
        Ok(())
    }

    pub(super) fn app_name(&self) -> anyhow::Result<AppName> {
        AppName::new(&self.app).context("`fleet.app` cannot be used")
    }

    pub(super) fn redis_url(&self) -> anyhow::Result<Option<RedisUrl>> {
        let parse = |text: &Secret| text.reveal().parse().context("`fleet.redis` cannot be used");
        self.redis.as_ref().map(parse).transpose()
    }

    /// The configured list, with what reading it takes.
    pub(super) fn source(&self) -> anyhow::Result<Option<Source>> {
        let parse = |text: &Secret| {
            let source = self.prepare_source(text.reveal());
            source.context("`fleet.source` cannot be used")
        };
        self.source.as_ref().map(parse).transpose()
    }

    /// Any list, with the credentials of the settings.
    pub(super) fn prepare_source(&self, text: &str) -> anyhow::Result<Source> {
        let mut source: Source = text.parse()?;
        if let Source::Http(http) = &mut source {
            http.authorization = self
                .source_authorization
                .as_ref()
                .map(|secret| secret.reveal().to_owned());
            http.ca.clone_from(&self.source_ca);
        }
        Ok(source)
    }

    pub(super) fn timing_options(&self) -> TimingOptions {
        TimingOptions {
            lease: Some(self.lease),
            heartbeat: self.heartbeat,
            grace: self.grace,
            death: self.death,
            poll: self.poll,
            drift_ppm: Some(self.drift_ppm),
        }
    }

    pub(super) fn timing(&self) -> anyhow::Result<Timing> {
        Timing::from_options(self.timing_options())
            .context("the lengths of time in [fleet] do not fit each other")
    }

    pub(super) fn rebalance(&self) -> Rebalance {
        Rebalance {
            on: self.rebalance,
            moves_at_once: self.moves_at_once,
            per_zone_max: self.per_zone_max,
        }
    }

    /// A manager as the section describes it.
    pub(super) fn manager(&self, name: Option<String>) -> anyhow::Result<ManagerOptions> {
        let name = name.or_else(|| self.name.clone()).unwrap_or_else(own_name);
        let name = InstanceName::new(&name).context("the manager's name cannot be used")?;
        Ok(ManagerOptions {
            source: self.source()?,
            source_interval: self.source_interval,
            timing: self.timing()?,
            rebalance: self.rebalance(),
            mass_stop_guard: MassStopGuard {
                share_max: f64::from(self.brake_percent) / 100.0,
                always_allowed: self.brake_always,
            },
            ..ManagerOptions::new(name)
        })
    }
}

/// A name that no other process on any host has.
fn own_name() -> String {
    format!("{}-{}", host_name(), std::process::id())
}

pub(super) fn host_name() -> String {
    hostname::get().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_fit_each_other_and_list_nothing() {
        let config = FleetConfig::default();
        config.check().unwrap();
        assert_eq!(config.timing().unwrap(), Timing::default());
        assert_eq!(config.rebalance(), Rebalance::default());
        assert_eq!(
            config.manager(None).unwrap().mass_stop_guard,
            MassStopGuard::default()
        );
        assert!(config.source().unwrap().is_none());
    }

    #[test]
    fn what_does_not_fit_is_named_without_its_secrets() {
        let error = |config: FleetConfig| format!("{:#}", config.check().unwrap_err());
        let source = Some(Secret::new("ftp://u:hunter2@h"));
        let bad_source = error(FleetConfig {
            source,
            ..FleetConfig::default()
        });
        assert!(
            bad_source.contains("`fleet.source`") && !bad_source.contains("hunter2"),
            "{bad_source}"
        );
        let bad_app = error(FleetConfig {
            app: "a b".to_owned(),
            ..FleetConfig::default()
        });
        assert!(bad_app.contains("`fleet.app`"), "{bad_app}");
        let short = error(FleetConfig {
            heartbeat: Some(Duration::from_secs(4)),
            ..FleetConfig::default()
        });
        assert!(short.contains("three heartbeats"), "{short}");
    }
}
