//! Which fleet a command talks to: the app and the Redis of the flags, of the settings, or the running server.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use nagaya_config::Loaded;
use nagaya_fleet::commands::{CommandError, StoreOptions};
use nagaya_fleet::name::AppName;
use nagaya_fleet::store::Error;
use nagaya_redis_client::{Endpoint, Error as RedisError, RedisUrl, Topology};

use super::FleetConfig;
use super::tools::args::StoreArgs;
use crate::app::settings::HouseConfig;
use crate::room::embedded::backroom_socket;

/// How long a command waits for Redis before it says that nothing answers.
const PATIENCE: Duration = Duration::from_secs(3);

/// A fleet, and how error messages name it.
pub(super) struct Target {
    url: RedisUrl,
    app: AppName,
    is_house: bool,
}

impl Target {
    /// Chooses the fleet; nothing is connected.
    pub(super) fn choose(loaded: &Loaded, args: &StoreArgs) -> anyhow::Result<Target> {
        let config: FleetConfig = loaded.section();
        let app = match &args.app {
            Some(app) => AppName::new(app).context("--app cannot be used")?,
            None => config.app_name()?,
        };
        if let Some(text) = &args.redis {
            let url: RedisUrl = text.parse().context("--redis cannot be used")?;
            return Ok(Target {
                url,
                app,
                is_house: false,
            });
        }
        if let Some(url) = config.redis_url()? {
            return Ok(Target {
                url,
                app,
                is_house: false,
            });
        }
        let house: HouseConfig = loaded.section();
        Ok(Target {
            url: house_url(&house.data),
            app,
            is_house: true,
        })
    }

    /// For commands that ask once.
    pub(super) fn store(&self) -> StoreOptions {
        self.store_within(PATIENCE)
    }

    /// For loops that call repeatedly: a call that takes longer has failed.
    pub(super) fn store_within(&self, reply_limit: Duration) -> StoreOptions {
        StoreOptions {
            reply_limit,
            ..StoreOptions::new(self.url.clone(), self.app.clone())
        }
    }

    /// Checks once that the server runs, because waiting for a server that was never started does not help. Any
    /// other Redis may come up later.
    pub(super) async fn expect_house(&self) -> anyhow::Result<()> {
        if !self.is_house {
            return Ok(());
        }
        let store = self.store().open().map_err(CommandError::from);
        match store {
            Ok(store) => match store.run().await {
                Err(error @ Error::Redis(RedisError::Connect { .. })) => Err(self.explain(error.into())),
                _ => Ok(()),
            },
            Err(error) => Err(self.explain(error)),
        }
    }

    /// The error with its remedy.
    pub(super) fn explain(&self, error: CommandError) -> anyhow::Error {
        match &error {
            CommandError::Store(Error::Redis(RedisError::Connect { address, .. })) if self.is_house => {
                anyhow!(
                    "nothing answers at {address}, where the server would have its fleet; start it with `nagaya \
                 up`, run this where its data folder is (or set house.data), or name a \
                 Redis with --redis"
                )
            }
            CommandError::Store(error) => anyhow!("{}", error.chain()),
            other => anyhow!("{other}"),
        }
    }
}

/// Returns the URL of the built-in engine.
pub(super) fn house_url(data: &Path) -> RedisUrl {
    let mut url = RedisUrl::single("", 0);
    url.topology = Topology::Single(Endpoint::Unix(backroom_socket(data)));
    url
}
