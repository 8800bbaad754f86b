//! The two tiers that the roles share.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use nagaya_clock::{Sleep, SystemClock};
use nagaya_cluster::hot_tier::{Limits, RedisHotTier};
use nagaya_cold::PostgresCold;
use nagaya_config::Secret;
use nagaya_engine::RoomConfig;
use nagaya_redis_client::RedisUrl;
use nagaya_tiering::cold::ColdTier;
use tokio::runtime::Handle;

use super::TiersConfig;
use crate::app::settings::Settings;

/// Addresses and settings of both tiers.
#[derive(Clone)]
pub(crate) struct Backends {
    pub(super) redis: RedisUrl,
    postgres: Secret,
    pub(super) tiers: TiersConfig,
    pub(super) room: RoomConfig,
    /// What names of the server's other services on the same Redis begin with.
    pub(super) hidden: Vec<Vec<u8>>,
}

/// The kinds of keys that a fleet keeps beside each other.
const FLEET_KEYS: [&str; 5] = ["fleet", "workers", "slave", "master", "gate"];

fn hidden(settings: &Settings) -> Vec<Vec<u8>> {
    let ids = format!("{}:", settings.ids.house_namespace());
    let app = &settings.fleet.app;
    let fleet = FLEET_KEYS.map(|kind| format!("{{{app}}}:{kind}:"));
    std::iter::once(ids)
        .chain(fleet)
        .map(String::into_bytes)
        .collect()
}

impl Backends {
    /// Returns the backends of the settings; `None` when the room is embedded.
    pub(crate) fn of(settings: &Settings) -> anyhow::Result<Option<Backends>> {
        let house = &settings.house;
        let (redis, postgres) = match (&house.redis, &house.postgres) {
            (Some(redis), Some(postgres)) => (redis, postgres.clone()),
            (Some(_), None) => {
                return Err(anyhow!(
                    "`house.redis` is set and `house.postgres` is not: the room needs both, one for what is in \
                     use and one for what rests; pass --postgres as well"
                ));
            }
            (None, _) => return Ok(None),
        };
        Ok(Some(Backends {
            redis: redis.reveal().parse().context("`house.redis` cannot be used")?,
            postgres,
            tiers: settings.tiers.clone(),
            room: settings.room.clone(),
            hidden: hidden(settings),
        }))
    }

    fn limits(&self) -> Limits {
        Limits {
            lease: self.tiers.lease,
            allowance: self.tiers.allowance,
            ..Limits::default()
        }
    }

    /// Opens the tiers: PostgreSQL must answer, Redis may come later. Blocks.
    pub(super) fn open(&self, name: &str, runtime: Handle) -> anyhow::Result<Tiers> {
        let hot = self.open_hot(name, runtime)?;
        Ok(Tiers {
            hot,
            cold: Arc::new(self.open_cold()?),
            clock: Arc::new(SystemClock),
        })
    }

    /// Prepares the hot tier; nothing is connected yet.
    pub(super) fn open_hot(&self, name: &str, runtime: Handle) -> anyhow::Result<RedisHotTier> {
        RedisHotTier::new(self.redis.clone(), name, self.limits(), runtime)
            .context("the hot tier cannot be used")
    }

    /// Opens the cold tier. Blocks.
    pub(super) fn open_cold(&self) -> anyhow::Result<PostgresCold> {
        let options = nagaya_cold::postgres::Options {
            decode: self.room.decode,
            connections_max: self.tiers.connections,
            ..Default::default()
        };
        PostgresCold::open(self.postgres.reveal(), options).context("`house.postgres` cannot be used")
    }

    /// How old an unsaved change may become; idle tags leave after at least a lease.
    pub(super) fn idle_after(&self) -> Duration {
        match self.room.idle_after {
            Duration::ZERO => Duration::MAX,
            idle => idle,
        }
    }
}

/// The tiers, opened.
#[derive(Clone)]
pub(super) struct Tiers {
    pub(super) hot: RedisHotTier,
    pub(super) cold: Arc<dyn ColdTier>,
    pub(super) clock: Arc<dyn Sleep>,
}
