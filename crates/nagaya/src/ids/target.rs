//! Which pool a command talks to: the one of `--redis`, of the settings, or of the running server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use nagaya_config::Loaded;
use nagaya_ids::lease::{Timing, pool_options};
use nagaya_ids::pool::{Error, Pool};
use nagaya_redis_client::{Client, Endpoint, Error as RedisError, Options, RedisUrl, Topology};

use super::IdsConfig;
use crate::app::settings::HouseConfig;
use crate::room::embedded::backroom_socket;

/// How long a command waits for Redis before it says that nothing answers.
const PATIENCE: Duration = Duration::from_secs(3);

/// A pool, and how error messages name it.
pub(super) struct Target {
    pub(super) url: RedisUrl,
    is_house: bool,
}

impl Target {
    /// Chooses the pool; nothing is connected.
    pub(super) fn choose(loaded: &Loaded, redis: Option<&str>) -> anyhow::Result<Target> {
        let ids: IdsConfig = loaded.section();
        if let Some(text) = redis {
            let url: RedisUrl = text.parse().context("--redis cannot be used")?;
            return Ok(Target { url, is_house: false });
        }
        if let Some(url) = ids.redis_url()? {
            return Ok(Target { url, is_house: false });
        }
        let house: HouseConfig = loaded.section();
        Ok(Target {
            url: house_url(&ids, &house.data),
            is_house: true,
        })
    }

    /// The pool, for commands that ask once.
    pub(super) fn pool(&self) -> anyhow::Result<Pool> {
        self.pool_with(Options {
            connect_limit: PATIENCE,
            reply_limit: PATIENCE,
            client_name: "nagaya-ids".to_owned(),
        })
    }

    /// The pool, for holding a number of it.
    pub(super) fn holders_pool(&self, timing: &Timing) -> anyhow::Result<Pool> {
        self.pool_with(pool_options(timing))
    }

    fn pool_with(&self, options: Options) -> anyhow::Result<Pool> {
        let client = Client::new(self.url.clone(), options)?;
        Ok(Pool::new(Arc::new(client))?)
    }

    /// Checks once that the server runs, because waiting for a server that was never started does not help. Any
    /// other Redis may come up later.
    pub(super) async fn expect_house(&self, pool: &Pool) -> anyhow::Result<()> {
        match pool.range().await {
            Err(error @ Error::Redis(RedisError::Connect { .. })) if self.is_house => {
                Err(self.explain(error))
            }
            _ => Ok(()),
        }
    }

    /// The error with its remedy.
    pub(super) fn explain(&self, error: Error) -> anyhow::Error {
        match &error {
            Error::Redis(RedisError::Connect { address, .. }) if self.is_house => anyhow!(
                "nothing answers at {address}, where the server would have its pool; start it with \
                 `nagaya up`, run this where its data folder is (or set house.data), or name a Redis with \
                 --redis"
            ),
            Error::Redis(redis) => anyhow!("{}", redis.chain()),
            other => anyhow!("{other}"),
        }
    }
}

/// The pool in the built-in engine.
pub(super) fn house_url(ids: &IdsConfig, data: &Path) -> RedisUrl {
    let mut url = RedisUrl::single("", 0);
    url.topology = Topology::Single(Endpoint::Unix(backroom_socket(data)));
    url.namespace = Some(ids.house_namespace());
    url
}
