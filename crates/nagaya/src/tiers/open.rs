//! The two tiers that the roles share.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use nagaya_cluster::clock::WaitClock;
use nagaya_cluster::tier::{Limits, RedisHotTier};
use nagaya_cold::PostgresCold;
use nagaya_config::Secret;
use nagaya_engine::RoomConfig;
use nagaya_redis_kit::RedisUrl;
use nagaya_room::clock::Clock;
use nagaya_room::cold::ColdTier;
use tokio::runtime::Handle;

use super::TiersConfig;
use crate::settings::HouseConfig;

/// Where the tiers are, and how they are used.
#[derive(Clone)]
pub(crate) struct Places {
    pub(super) redis: RedisUrl,
    postgres: Secret,
    pub(super) tiers: TiersConfig,
    pub(super) room: RoomConfig,
}

impl Places {
    /// The places that the settings name; none when the room is in this process.
    pub(crate) fn of(
        house: &HouseConfig,
        tiers: &TiersConfig,
        room: &RoomConfig,
    ) -> anyhow::Result<Option<Places>> {
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
        Ok(Some(Places {
            redis: redis.reveal().parse().context("`house.redis` cannot be used")?,
            postgres,
            tiers: tiers.clone(),
            room: room.clone(),
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
        let hot = RedisHotTier::new(self.redis.clone(), name, self.limits(), runtime)
            .context("the hot tier cannot be used")?;
        let options = nagaya_cold::postgres::Options {
            decode: self.room.decode,
            connections_max: self.tiers.connections,
            ..Default::default()
        };
        let cold =
            PostgresCold::open(self.postgres.reveal(), options).context("`house.postgres` cannot be used")?;
        Ok(Tiers {
            hot,
            cold: Arc::new(cold),
            clock: Arc::new(WaitClock::default()),
        })
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
    pub(super) clock: Arc<dyn Clock>,
}
