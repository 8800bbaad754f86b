//! All settings together: which sections there are, and how they are read.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use nagaya_config::{Flag, Loaded, Loader, Secret, Section, SectionMeta, Unset, settings};
use nagaya_engine::RoomConfig;
use nagaya_fanout::FanoutConfig;
use nagaya_telemetry::TelemetryConfig;

use crate::app::access;
use crate::cli::GlobalArgs;
use crate::fanout;
pub use crate::fleet::FleetConfig;
pub use crate::http::HttpConfig;
pub use crate::ids::IdsConfig;
pub use crate::jobs::{JobsConfig, NotifyConfig, WebhooksConfig};
pub use crate::room::distributed::TiersConfig;

settings! {
    /// The server as a whole: where its data is and how it stops.
    pub struct HouseConfig in "house" {
        /// The folder that holds all data. It is made with private permissions if it is
        /// missing, and used by one process at a time.
        data: PathBuf = "./nagaya-data", fixed, flag "--data";
        /// How long open work may take to finish after SIGINT or SIGTERM. What is still
        /// open then is cut off and reported.
        drain_timeout: Duration = "10s", fixed, range "0ms" to "1h";
        /// Let other machines connect to listeners that ask for no credentials. Without
        /// it such a listener is refused on any address but loopback.
        insecure: bool = false, fixed, flag "--insecure";
        /// A Redis for everything that is in use, as `redis://`, `rediss://`, `redis+sentinel://` or
        /// `redis+cluster://` with user and password. Not set, the server has engines of its own. The room needs
        /// `postgres` as well.
        redis: Option<Secret> = Unset, fixed, flag "--redis";
        /// A PostgreSQL for everything that rests, as `postgres://user:password@host/database`. Not set,
        /// files in the data folder.
        postgres: Option<Secret> = Unset, fixed, flag "--postgres";
    }
}

/// The checked settings of every component.
#[derive(Clone, Debug)]
pub struct Settings {
    pub house: HouseConfig,
    pub http: HttpConfig,
    pub room: RoomConfig,
    pub tiers: TiersConfig,
    pub ids: IdsConfig,
    pub fleet: FleetConfig,
    pub jobs: JobsConfig,
    pub webhooks: WebhooksConfig,
    pub notify: NotifyConfig,
    pub fanout: FanoutConfig,
    pub telemetry: TelemetryConfig,
    /// Variables of the environment that look like settings and are none.
    pub ignored_variables: Vec<String>,
}

/// The variable that names the settings file, for shells and units in which every command is to read it.
const CONFIG_VARIABLE: &str = "NAGAYA_CONFIG";

/// Variables with our prefix that are read elsewhere, or given to commands that we run. A `*` stands for any end.
const OTHER_VARIABLES: &[&str] = &[
    CONFIG_VARIABLE,
    "NAGAYA_URL",
    "NAGAYA_TOKEN",
    "NAGAYA_JOB_*",
    "NAGAYA_PUSH_SECRET",
    "NAGAYA_ID",
    "NAGAYA_FENCE",
    "NAGAYA_WORKER",
    "NAGAYA_INSTANCE",
    "NAGAYA_EPOCH",
    "NAGAYA_APP",
    "NAGAYA_SOURCE",
    "NAGAYA_BIN",
    "NAGAYA_SEED",
    "NAGAYA_SCREENSHOTS",
    "NAGAYA_TEST*",
];

/// Every section of the config file, in the order in which they are documented.
pub fn sections() -> Vec<&'static SectionMeta> {
    vec![
        HouseConfig::META,
        HttpConfig::META,
        RoomConfig::META,
        TiersConfig::META,
        IdsConfig::META,
        FleetConfig::META,
        JobsConfig::META,
        WebhooksConfig::META,
        NotifyConfig::META,
        FanoutConfig::META,
        TelemetryConfig::META,
    ]
}

impl Settings {
    /// Takes the settings apart by component and checks the rules that span several.
    pub fn new(loaded: &Loaded) -> anyhow::Result<Settings> {
        let settings = Settings {
            house: loaded.section(),
            http: loaded.section(),
            room: loaded.section(),
            tiers: loaded.section(),
            ids: loaded.section(),
            fleet: loaded.section(),
            jobs: loaded.section(),
            webhooks: loaded.section(),
            notify: loaded.section(),
            fanout: loaded.section(),
            telemetry: loaded.section(),
            ignored_variables: ignored_variables(loaded),
        };
        settings.refuse_open_listeners()?;
        settings.http.check()?;
        settings.ids.check()?;
        settings.fleet.check()?;
        settings.jobs.check()?;
        settings.webhooks.check()?;
        settings.notify.check()?;
        settings.jobs.postgres_url(&settings.house)?;
        fanout::check(&settings)?;
        Ok(settings)
    }

    /// Returns what is no error but should be known before the server is used.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let ignored = self.ignored_variables.iter().map(|name| {
            format!("the variable {name} sets nothing; settings are named NAGAYA_SECTION__KEY, with two underscores")
        });
        let descriptors = access::descriptor_warning(self, access::descriptor_limit());
        ignored.chain(descriptors).collect()
    }

    /// Refuses listeners that other machines can reach and that ask for nothing.
    fn refuse_open_listeners(&self) -> anyhow::Result<()> {
        let listeners = [
            (
                "http.listen",
                &self.http.listen,
                "http.token",
                self.http.token.is_some(),
            ),
            (
                "room.listen",
                &self.room.listen,
                "room.password",
                self.room.password.is_some(),
            ),
        ];
        // A certificate that we demand is a credential.
        let over_tls = self.room.tls_listen.as_ref().map(|listen| {
            let has_credential = self.room.password.is_some() || self.room.tls_client_ca.is_some();
            ("room.tls_listen", listen, "room.password", has_credential)
        });
        for (name, listen, credential, has_credential) in listeners.into_iter().chain(over_tls) {
            if !listen.is_loopback() && !has_credential && !self.house.insecure {
                bail!(
                    "`{name}` is {listen}, which other machines can reach, and `{credential}` is not set; \
                     set it, listen on 127.0.0.1, or pass --insecure"
                );
            }
        }
        let listen = self.ids.listen;
        if self.ids.enabled && !listen.is_loopback() && !self.house.insecure {
            bail!(
                "`ids.listen` is {listen}, which other machines can reach, and memcached's protocol knows no \
                 credentials; listen on 127.0.0.1 or pass --insecure"
            );
        }
        Ok(())
    }
}

fn ignored_variables(loaded: &Loaded) -> Vec<String> {
    let is_known = |name: &str| {
        OTHER_VARIABLES.iter().any(|known| match known.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *known,
        })
    };
    let ignored = loaded.ignored_variables().iter();
    ignored.filter(|name| !is_known(name)).cloned().collect()
}

/// Reads all sources and returns the effective settings with their origins.
pub(crate) fn load(global: &GlobalArgs, flags: Vec<Flag>) -> anyhow::Result<Loaded> {
    let mut loader = Loader::new(&sections());
    if let Some(path) = config_file(global) {
        match std::fs::read_to_string(&path) {
            Ok(text) => loader.file(&path.display().to_string(), &text),
            Err(error) => bail!("cannot read the config file {}: {error}", path.display()),
        }
    }
    let environment = std::env::vars_os();
    loader.env(environment.map(|(name, value)| (lossy(name), lossy(value))));
    loader.flags(flags);
    Ok(loader.finish()?)
}

/// Returns the file that settings are read from, if there is one. An empty variable names none.
pub(crate) fn config_file(global: &GlobalArgs) -> Option<PathBuf> {
    let variable = || std::env::var_os(CONFIG_VARIABLE).filter(|path| !path.is_empty());
    global.config.clone().or_else(|| variable().map(PathBuf::from))
}

fn lossy(text: std::ffi::OsString) -> String {
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(flags: &[(&str, &str)]) -> anyhow::Result<Settings> {
        let mut loader = Loader::new(&sections());
        loader.flags(flags.iter().map(|(key, value)| Flag {
            key: key.to_string(),
            value: value.to_string(),
            name: "--set".into(),
        }));
        Settings::new(&loader.finish()?)
    }

    #[test]
    fn an_open_address_needs_a_token_or_a_clear_word() {
        assert!(settings(&[]).is_ok());
        let open = ("http.listen", "0.0.0.0:7400");
        let refused = settings(&[open]).unwrap_err().to_string();
        assert!(
            refused.contains("0.0.0.0:7400") && refused.contains("--insecure"),
            "{refused}"
        );
        assert!(settings(&[open, ("http.token", "hunter2-hunter2-")]).is_ok());
        assert!(settings(&[open, ("house.insecure", "true")]).is_ok());
    }

    #[test]
    fn ids_on_an_open_address_need_a_clear_word() {
        let open = ("ids.listen", "0.0.0.0:11212");
        let refused = settings(&[open]).unwrap_err().to_string();
        assert!(
            refused.contains("0.0.0.0:11212") && refused.contains("--insecure"),
            "{refused}"
        );
        assert!(settings(&[open, ("house.insecure", "true")]).is_ok());
        assert!(settings(&[open, ("ids.enabled", "false")]).is_ok());
    }

    #[test]
    fn every_default_is_of_its_type_and_in_its_range() {
        for section in sections() {
            for field in section.fields {
                let default = (field.default)();
                assert!(
                    (field.check)(&default).is_ok(),
                    "{}: {default}",
                    field.full_name(section)
                );
            }
        }
    }
}
