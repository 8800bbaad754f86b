//! Opens the configured store.

use std::sync::Arc;

use nagaya_clock::Clock;
use nagaya_redis_client::RedisUrl;

use super::{DiscardStore, MemcachedStore, MemoryStore, RedisStore, Store};
use crate::config::{FanoutConfig, StoreKind};
use crate::error::Error;

/// Opens the configured store, which connects on first use. `embedded` is the address of the embedded engine, if
/// this process has one.
pub fn open_store(
    config: &FanoutConfig,
    embedded: Option<RedisUrl>,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn Store>, Error> {
    let (expire_in, timeout) = (config.expire_in, config.store_timeout);
    Ok(match config.store {
        StoreKind::Embedded => {
            let url = embedded.ok_or_else(|| {
                Error::Config(
                    "`fanout.store` is \"embedded\", which only `nagaya up` has; name a Redis with \
                     `fanout.store = \"redis\"` and `fanout.redis`"
                        .to_owned(),
                )
            })?;
            Arc::new(RedisStore::embedded(url, expire_in, timeout)?)
        }
        StoreKind::Redis => Arc::new(RedisStore::new(config.redis_url()?, expire_in, timeout)?),
        StoreKind::Memcached => {
            let nodes = config.memcached_nodes;
            Arc::new(MemcachedStore::new(
                &config.memcached,
                nodes,
                expire_in,
                timeout,
                clock,
            ))
        }
        StoreKind::Memory => Arc::new(MemoryStore::new(expire_in)),
        StoreKind::Discard => Arc::new(DiscardStore),
    })
}
