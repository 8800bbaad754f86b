//! The `[ids]` section.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use nagaya_config::{Listen, Secret, Unset, settings};
use nagaya_ids::layout::Layout;
use nagaya_ids::lease::{Timing, TimingOptions, TooLong};
use nagaya_ids::pool::DEFAULT_NAMESPACE;
use nagaya_redis_client::RedisUrl;

/// The pool in the built-in engine. The braces make its keys one hash tag.
pub(crate) const HOUSE_NAMESPACE: &str = "{ids}";

settings! {
    /// The number that this node holds and the ids made from it.
    pub struct IdsConfig in "ids" {
        /// Hold a number and serve ids.
        enabled: bool = true, fixed;
        /// Where memcached clients fetch ids. The protocol knows no credentials: any address but
        /// loopback needs `house.insecure`.
        listen: Listen = "127.0.0.1:11212", fixed, flag "--ids-listen";
        /// The Redis that has the pool of numbers, as `redis://`, `rediss://`, `redis+sentinel://` or
        /// `redis+cluster://` with user, password, database and `?ns=NAMESPACE`. All nodes that share
        /// a pool name the same one. Not set, it is an engine of the server's own.
        redis: Option<Secret> = Unset, fixed;
        /// The pool's name, which its keys begin with. Not set, it is what `redis` says with `ns`, else
        /// `yaraus`; in the server's own engine `{ids}`.
        namespace: Option<String> = Unset, fixed;
        /// The name by which this node gets its number back. No two nodes of a pool may have the same.
        /// Not set, it is made of the host's name and the data folder.
        name: Option<String> = Unset, fixed;
        /// The lowest number of a pool that the server makes for itself.
        min: u64 = 1, fixed, range 0 to 4194303;
        /// The highest number of that pool.
        max: u64 = 1023, fixed, range 0 to 4194303;
        /// Replicas of Redis that must confirm a grant or a renewal before it counts.
        min_replicas: u32 = 0, fixed, range 0 to 100, unit "replicas";
        /// How often the number is renewed.
        interval: Duration = "1s", fixed, range "100ms" to "10m";
        /// How long the number may be used after the last confirmed renewal was sent; at least three
        /// times `interval`, and at most `use_max`.
        use_for: Duration = "3s", fixed, range "300ms" to "60s";
        /// The longest `use_for` of any process that shares the pool, commands of `ids run` included. All of
        /// them must have the same setting, which the pool records: who has another one is refused. Others wait
        /// this long before they use a number that was not given back.
        use_max: Duration = "5s", fixed, range "5s" to "60s";
        /// How long to wait before the first use of a number that another process may still be using.
        /// Not set, it is the shortest safe time, a little more than `use_max`; a shorter one is
        /// lengthened to it.
        delay: Option<Duration> = Unset, fixed, range "0s" to "1h";
        /// How long the pool keeps the number from others after each renewal.
        expire: Duration = "30s", fixed, range "1s" to "7d";
        /// Bits of an id that hold its time, in milliseconds since `epoch_ms`.
        time_bits: u32 = 41, fixed, range 32 to 63, unit "bits";
        /// Bits of an id that hold the number of the node.
        worker_bits: u32 = 10, fixed, range 0 to 22, unit "bits";
        /// Bits of an id that count within a millisecond.
        sequence_bits: u32 = 12, fixed, range 1 to 22, unit "bits";
        /// The beginning of time for ids, in milliseconds since 1970. The default is 2015-01-01.
        epoch_ms: u64 = 1420070400000_i64, fixed, range 0_i64 to 9223372036854775807_i64, unit "milliseconds";
        /// How long a request for ids may wait when the clock is behind or a millisecond is used up;
        /// a longer wait is an error at once.
        wait_max: Duration = "250ms", fixed, range "2ms" to "1m";
        /// How many memcached connections may be open at once.
        connections_max: usize = 10000, fixed, range 1 to 1000000, unit "connections";
        /// How long a memcached connection may be idle before it is closed; 0 for ever.
        idle_timeout: Duration = "10m", fixed, range "0s" to "365d";
    }
}

impl IdsConfig {
    /// Checks what the fields say together.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let layout = self.layout()?;
        self.redis_url()?;
        let (min, max) = (self.min, self.max);
        ensure!(min <= max, "`ids.min` is {min}, above `ids.max`, which is {max}");
        ensure!(
            self.use_for <= self.use_max,
            "`ids.use_for` is {:?}, above `ids.use_max`, which is {:?}",
            self.use_for,
            self.use_max
        );
        ensure!(
            max <= layout.worker_max(),
            "`ids.max` is {max}, but {} `ids.worker_bits` hold numbers up to {}",
            self.worker_bits,
            layout.worker_max()
        );
        Ok(())
    }

    pub(crate) fn layout(&self) -> anyhow::Result<Layout> {
        let IdsConfig {
            time_bits,
            worker_bits,
            sequence_bits,
            epoch_ms,
            ..
        } = *self;
        Layout::new(time_bits, worker_bits, sequence_bits, epoch_ms).context("[ids] has no usable id layout")
    }

    /// The configured Redis with the pool's name in it; none means the built-in engine.
    pub(crate) fn redis_url(&self) -> anyhow::Result<Option<RedisUrl>> {
        let Some(text) = &self.redis else {
            return Ok(None);
        };
        let mut url: RedisUrl = text.reveal().parse().context("`ids.redis` cannot be used")?;
        let namespace = self.namespace.clone().or(url.namespace.take());
        url.namespace = Some(namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()));
        Ok(Some(url))
    }

    /// The pool's name in the built-in engine.
    pub(crate) fn house_namespace(&self) -> String {
        self.namespace
            .clone()
            .unwrap_or_else(|| HOUSE_NAMESPACE.to_owned())
    }

    /// The lengths that fit each other, and a sentence for each that had to be changed.
    pub(crate) fn timing(&self) -> Result<(Timing, Vec<String>), TooLong> {
        let timing_options = TimingOptions {
            interval: Some(self.interval),
            delay: self.delay,
            reserve: Some(self.expire),
            use_for: Some(self.use_for),
            use_max: Some(self.use_max),
            without_guards: true,
        };
        Timing::from_options(timing_options, Timing::default())
    }

    /// The configured name, else one that no other folder on no other host has.
    pub(crate) fn node_name(&self, data: &Path) -> String {
        self.name.clone().unwrap_or_else(|| {
            let host = hostname::get().unwrap_or_default();
            format!("{}:{}", host.to_string_lossy(), data.display())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_fit_each_other() {
        let config = IdsConfig::default();
        config.check().unwrap();
        assert_eq!(config.layout().unwrap(), Layout::default());
        let (timing, changes) = config.timing().unwrap();
        assert_eq!((timing, changes), (Timing::default(), Vec::new()));
    }

    #[test]
    fn a_use_time_above_the_pools_is_refused() {
        let config = IdsConfig {
            use_for: Duration::from_secs(6),
            ..IdsConfig::default()
        };
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains("`ids.use_for` is 6s"), "{error}");
    }

    #[test]
    fn numbers_that_do_not_fit_the_layout_are_refused() {
        let config = IdsConfig {
            max: 1024,
            ..IdsConfig::default()
        };
        let error = config.check().unwrap_err().to_string();
        assert!(
            error.contains("`ids.max` is 1024") && error.contains("up to 1023"),
            "{error}"
        );
        let config = IdsConfig {
            time_bits: 50,
            ..IdsConfig::default()
        };
        assert!(config.check().is_err());
    }

    #[test]
    fn the_pools_name_comes_from_the_section_then_the_url_then_yaraus() {
        let namespace = |url: &str, namespace: Option<&str>| {
            let config = IdsConfig {
                redis: Some(Secret::new(url)),
                namespace: namespace.map(str::to_owned),
                ..IdsConfig::default()
            };
            config.redis_url().unwrap().unwrap().namespace.unwrap()
        };
        assert_eq!(namespace("redis://h", None), "yaraus");
        assert_eq!(namespace("redis://h/0?ns=a", None), "a");
        assert_eq!(namespace("redis://h/0?ns=a", Some("b")), "b");
        assert_eq!(IdsConfig::default().house_namespace(), "{ids}");
    }

    #[test]
    fn a_bad_url_is_named_without_its_password() {
        let config = IdsConfig {
            redis: Some(Secret::new("http://u:hunter2@h")),
            ..IdsConfig::default()
        };
        let error = format!("{:#}", config.check().unwrap_err());
        assert!(
            error.contains("`ids.redis`") && !error.contains("hunter2"),
            "{error}"
        );
    }
}
