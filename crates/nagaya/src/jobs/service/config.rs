//! The `[jobs]` section.

use std::time::Duration;

use anyhow::Context;
use nagaya_config::{ByteSize, Secret, Unset, settings};
use nagaya_jobs::limits::Limits;
use nagaya_jobs::service::Config;
use nagaya_jobs_api::{ApiConfig, PushConfig};
use nagaya_postgres_client::PostgresUrl;

use crate::app::settings::HouseConfig;

settings! {
    /// Long work, done at least once: where jobs rest, and how much of what.
    pub struct JobsConfig in "jobs" {
        /// Serve jobs.
        enabled: bool = true, fixed;
        /// The PostgreSQL that has the jobs, as `postgres://user:password@host/database`; any number of servers
        /// may share it. Not set, it is `house.postgres`; without that, a SQLite file in the data folder.
        postgres: Option<Secret> = Unset, fixed;
        /// Connections to PostgreSQL for registration, claims and reports; as many again for readers.
        connections: usize = 6, fixed, range 2 to 256;
        /// How large a payload may be.
        payload_max: ByteSize = "1mb", fixed, range "1kb" to "64mb";
        /// How large a result may be.
        result_max: ByteSize = "1mb", fixed, range "1kb" to "64mb";
        /// How large the body of a request may be. A larger one is answered 413.
        body_max: ByteSize = "8mb", fixed, range "1kb" to "1gb";
        /// How many jobs or reports one request may have.
        batch_max: usize = 10000, fixed, range 1 to 1000000, unit "jobs";
        /// How long a claim or a read may wait; one that asks for more waits so long.
        wait_max: Duration = "60s", fixed, range "1s" to "10m";
        /// How many workers may wait for jobs at once. One more is answered 429.
        waiting_max: usize = 10000, fixed, range 1 to 1000000, unit "workers";
        /// How often an idle stream of events shows that it is alive.
        heartbeat: Duration = "15s", fixed, range "1s" to "5m";
        /// How long a reader of events may take nothing before it loses its connection.
        stall_max: Duration = "30s", fixed, range "1s" to "10m";
        /// Signs the calls to endpoints that queues push their jobs to: `whsec_` and 24 to 64 bytes in base64. Not
        /// set, they are not signed.
        push_secret: Option<Secret> = Unset, fixed;
        /// How long events are kept. A reader that was away for longer is told that there is a gap.
        events_retention: Duration = "7d", fixed, range "1m" to "365d";
        /// Whether this server takes back lost leases, starts what is due and removes what is old. One server of
        /// a store must.
        upkeep: bool = true, fixed;
    }
}

impl JobsConfig {
    /// Returns the PostgreSQL URL of the jobs; `None` when they are in the data folder.
    pub(crate) fn postgres_url(&self, house: &HouseConfig) -> anyhow::Result<Option<PostgresUrl>> {
        let (name, url) = match (&self.postgres, &house.postgres) {
            (Some(url), _) => ("jobs.postgres", url),
            (None, Some(url)) => ("house.postgres", url),
            (None, None) => return Ok(None),
        };
        let url = url
            .reveal()
            .parse()
            .with_context(|| format!("`{name}` cannot be used"))?;
        Ok(Some(url))
    }

    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.push().map(drop)
    }

    /// How jobs are pushed. Whom to is said by the queues' settings, which only administrators change.
    pub(super) fn push(&self) -> anyhow::Result<PushConfig> {
        let secret = self.push_secret.as_ref();
        let secret = secret.map(|secret| nagaya_client::Secret::parse(secret.reveal()));
        Ok(PushConfig {
            secrets: secret
                .transpose()
                .context("`jobs.push_secret` cannot be used")?
                .into_iter()
                .collect(),
            ..PushConfig::default()
        })
    }

    pub(super) fn service(&self) -> Config {
        Config {
            limits: Limits {
                payload_bytes_max: self.payload_max.as_usize(),
                result_bytes_max: self.result_max.as_usize(),
            },
            waiting_claims_max: self.waiting_max,
            events_retention: self.events_retention,
            upkeep: self.upkeep,
            ..Config::default()
        }
    }

    pub(super) fn api(&self) -> ApiConfig {
        ApiConfig {
            body_bytes_max: self.body_max.as_usize(),
            batch_max: self.batch_max,
            wait_max: self.wait_max,
            heartbeat: self.heartbeat,
            stall_max: self.stall_max,
            ..ApiConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_secret_that_is_none_is_refused_without_being_shown() {
        let with = |text: &str| JobsConfig {
            push_secret: Some(Secret::new(text)),
            ..JobsConfig::default()
        };
        with("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").check().unwrap();
        let error = format!("{:#}", with("hunter2").check().unwrap_err());
        assert!(
            error.contains("`jobs.push_secret`") && !error.contains("hunter2"),
            "{error}"
        );
    }

    #[test]
    fn jobs_rest_where_the_section_says_then_where_the_house_does() {
        let place = |jobs: Option<&str>, house: Option<&str>| {
            let config = JobsConfig {
                postgres: jobs.map(Secret::new),
                ..JobsConfig::default()
            };
            let house = HouseConfig {
                postgres: house.map(Secret::new),
                ..HouseConfig::default()
            };
            config.postgres_url(&house)
        };
        assert!(place(None, None).unwrap().is_none());
        assert!(place(None, Some("postgres://u@h/d")).unwrap().is_some());
        let error = format!("{:#}", place(Some("http://u:hunter2@h"), None).unwrap_err());
        assert!(
            error.contains("`jobs.postgres`") && !error.contains("hunter2"),
            "{error}"
        );
    }
}
