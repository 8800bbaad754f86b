//! The `[fanout]` section.

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use nagaya_config::{ByteSize, Listen, Secret, Unset, choices, settings};
use nagaya_redis_client::RedisUrl;

use crate::endpoints::{ENDPOINTS_MAX, Endpoints};
use crate::error::Error;
use crate::names::{self, Place};

choices! {
    /// Where answers are kept.
    pub enum StoreKind {
        /// In the room of this server, where every Redis client can read them. Only for `nagaya up`.
        Embedded = "embedded",
        /// In the Redis that `redis` names.
        Redis = "redis",
        /// In the memcached servers that `memcached` names.
        Memcached = "memcached",
        /// In this process, readable by its own HTTP interface alone; gone when it ends.
        Memory = "memory",
        /// Nowhere.
        Discard = "discard",
    }
}

choices! {
    /// Which memcached server has a key.
    pub enum NodeChoice {
        /// CRC-32 modulo the number of servers, as serinin's `memcache` store and its text client.
        Crc32 = "crc32",
        /// SipHash and jump hash, as serinin's `binmemcache` store and its binary client.
        Jump = "jump",
    }
}

choices! {
    /// What a request is called.
    pub enum RequestIdKind {
        /// A random UUID, as in serinin.
        Uuid = "uuid",
        /// A number that rises with time, made from the number of this node; see `[ids]`.
        Minted = "minted",
    }
}

choices! {
    /// Where redirects of an endpoint may lead.
    pub enum Redirects {
        /// To any server, as in serinin. Another server than the endpoint gets none of the client's headers.
        Any = "any",
        /// To the server of the endpoint alone.
        SameOrigin = "same-origin",
        /// Nowhere: the redirect is the answer.
        None = "none",
    }
}

settings! {
    /// One request to many endpoints, every answer kept.
    pub struct FanoutConfig in "fanout" {
        /// Serve the fan-out. Until there are endpoints it answers every request with 503.
        enabled: bool = true, fixed;
        /// Where requests are taken.
        listen: Listen = "127.0.0.1:7401", fixed, flag "--fanout-listen";
        /// The token that clients send as `Authorization: Bearer TOKEN`. Without one, any address but
        /// loopback needs `house.insecure`.
        token: Option<Secret> = Unset, fixed;
        /// The endpoints that get a copy of every request, by name. A name is a field in the store. Each may
        /// have its own `timeout`, `concurrency`, `method`, `headers` (never shown), `redirects`, `rate` (requests
        /// a second), `retries` and `hedge`. SIGHUP reads them again.
        endpoints: Endpoints = Unset, reloadable;
        /// How long an answer may take from the request's arrival until it is stored.
        timeout: Duration = "200ms", reloadable, range "1ms" to "10m";
        /// What part of that time is kept for the write to the store; a quarter of it at most.
        store_reserve: Duration = "5ms", reloadable, range "0ms" to "10s";
        /// How many requests may be between arrival and reply; those beyond it are answered 503. When replies
        /// take long, fewer are let in, so that these are quick.
        handlers: usize = 1024, fixed, range 1 to 1000000, unit "requests";
        /// How many endpoints may be asked at once, over all requests, storing included.
        workers: usize = 1024, fixed, range 1 to 1000000, unit "jobs";
        /// How many more may wait for that; those beyond it, and those whose turn would come too late to be
        /// answered in time, are shed and named in the reply.
        queue: usize = 4096, fixed, range 0 to 1000000, unit "jobs";
        /// How many of the workers one endpoint may have; 0 shares them out equally, at least 8 each.
        /// So an endpoint that hangs does not take them all.
        endpoint_concurrency: usize = 0, reloadable, range 0 to 1000000, unit "jobs";
        /// Longest body of a request.
        request_max: ByteSize = "1mb", fixed, range "0b" to "1gb";
        /// Longest body of an answer as it comes over the network.
        body_max: ByteSize = "1mb", fixed, range "1kb" to "1gb";
        /// Longest body of an answer once unpacked.
        unpacked_max: ByteSize = "4mb", fixed, range "1kb" to "1gb";
        /// All bodies of answers in memory together; those that come when it is used up are shed.
        buffers_max: ByteSize = "256mb", fixed, range "1mb" to "1tb";
        /// Headers of a request that endpoints get besides `Content-Type`.
        forward_headers: Vec<String> = [], fixed;
        /// Where redirects of an endpoint may lead.
        redirects: Redirects = "any", fixed;
        /// How many redirects of an endpoint are followed.
        redirects_max: u32 = 10, fixed, range 0 to 20, unit "redirects";
        /// Whether the body of an answer with a status from 400 up is stored, as serinin does.
        keep_error_bodies: bool = true, fixed;
        /// When so many of an endpoint's requests of the last seconds, and most of them, got no answer of any
        /// kind, it is left alone for a while; 0 for never. What it was asked too late to answer does not count.
        breaker_failures: u32 = 20, reloadable, range 0 to 1000000, unit "failures";
        /// How long it is left alone at first; twice as long after each probe that fails, 30 s at most.
        breaker_pause: Duration = "250ms", reloadable, range "10ms" to "30s";
        /// A file of certificates to trust for endpoints with `https`; not set, those of the system.
        ca: Option<PathBuf> = Unset, fixed;
        /// Where answers are kept.
        store: StoreKind = "embedded", fixed;
        /// The Redis for `store = "redis"`, as `redis://`, `rediss://`, `redis+sentinel://` or
        /// `redis+cluster://` with user, password and database.
        redis: Option<Secret> = Unset, fixed;
        /// The servers for `store = "memcached"`, each `HOST:PORT`. Their order counts.
        memcached: Vec<String> = [], fixed;
        /// Which of them has a key. Readers must choose alike.
        memcached_nodes: NodeChoice = "crc32", fixed;
        /// How long a request and its answers are kept. memcached counts whole seconds.
        expire_in: Duration = "1m", fixed, range "1ms" to "3650d";
        /// Answers of one request that come within this time of each other are written together; 0
        /// writes each by itself.
        join_window: Duration = "2ms", fixed, range "0ms" to "100ms";
        /// How long one write to the store may go unanswered before its connection is given up.
        store_timeout: Duration = "1s", fixed, range "10ms" to "1m";
        /// What requests are called.
        request_id: RequestIdKind = "uuid", fixed;
        /// The longest wait of `GET /requests/ID?wait=`, and of a call for its answers.
        read_wait_max: Duration = "30s", fixed, range "0ms" to "1h";
        /// Longest reply of a call. The bodies of answers beyond it are left out, and can be read back.
        reply_max: ByteSize = "4mb", fixed, range "1kb" to "1gb";
        /// The answers for all calls in memory together, until their clients have taken them. Bodies beyond it
        /// are left out, and a reply beyond it is answered 503.
        replies_max: ByteSize = "64mb", fixed, range "1kb" to "1tb";
        /// The Pub/Sub channel that is told of each request once it is complete, where answers are kept in the
        /// room or in Redis; `{id}` in it stands for the request's id.
        publish: Option<String> = Unset, fixed;
        /// How many connections may be open at once. One more gets the place of the one that has waited
        /// longest for its client; when all are in use it is answered 503.
        connections_max: usize = 10000, fixed, range 1 to 1000000, unit "connections";
        /// How many of them one address may have, unless it is one of `http.trusted_proxies`; 0 is half
        /// of all.
        connections_per_address: usize = 0, fixed, range 0 to 1000000, unit "connections";
        /// How long a client may take to send the head of a request.
        head_timeout: Duration = "10s", fixed, range "100ms" to "10m";
        /// How long a client may take to send the body of a request, and a second more for each 10 kB; how
        /// long it may pause; and, six times as long, what the body may take in all of a client whose token
        /// was not checked yet. A slower one is answered 408.
        body_timeout: Duration = "10s", fixed, range "100ms" to "10m";
        /// The bodies of all requests in progress together, until no endpoint needs them any more. A request
        /// beyond it is answered 503. Of those without the token so far, a quarter is held at most.
        bodies_max: ByteSize = "64mb", fixed, range "1kb" to "1tb";
        /// A PEM file with the certificate chain for TLS; needs `tls_key`. Not set, plain HTTP is spoken.
        /// SIGHUP reads it again.
        tls_cert: Option<PathBuf> = Unset, fixed;
        /// The PEM file with its private key.
        tls_key: Option<PathBuf> = Unset, fixed;
        /// A PEM file of authorities; only clients with a certificate of one of them are let in.
        tls_client_ca: Option<PathBuf> = Unset, fixed;
    }
}

/// Headers that are never forwarded: they belong to one connection, or we set them.
pub(crate) const NOT_FORWARDED: [&str; 15] = [
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

impl FanoutConfig {
    /// Checks the settings against each other.
    pub fn check(&self) -> Result<(), Error> {
        self.check_endpoints(&self.endpoints)?;
        self.forwarded()?;
        if self.publish.is_some() && !matches!(self.store, StoreKind::Embedded | StoreKind::Redis) {
            return Err(Error::Config(format!(
                "`fanout.publish` names a channel, but `fanout.store` is {:?}, which has none",
                self.store.word()
            )));
        }
        match self.store {
            StoreKind::Redis => drop(self.redis_url()?),
            StoreKind::Memcached if self.memcached.is_empty() => {
                return Err(Error::Config(
                    "`fanout.store` is \"memcached\", but `fanout.memcached` names no server".to_owned(),
                ));
            }
            StoreKind::Memcached | StoreKind::Embedded | StoreKind::Memory | StoreKind::Discard => (),
        }
        Ok(())
    }

    /// Checks endpoints that are about to be used with these settings.
    pub fn check_endpoints(&self, endpoints: &Endpoints) -> Result<(), Error> {
        let count = endpoints.0.len();
        if count > ENDPOINTS_MAX {
            return Err(Error::Config(format!(
                "there are {count} endpoints, {ENDPOINTS_MAX} are allowed"
            )));
        }
        let place = match self.store {
            StoreKind::Memcached => Place::MemcachedKeys,
            StoreKind::Embedded | StoreKind::Redis | StoreKind::Memory | StoreKind::Discard => {
                Place::Anything
            }
        };
        match endpoints
            .0
            .keys()
            .find_map(|name| names::problem_with(name, place))
        {
            Some(problem) => Err(Error::Config(problem)),
            None => Ok(()),
        }
    }

    /// Returns the Redis that `redis` names.
    pub fn redis_url(&self) -> Result<RedisUrl, Error> {
        let Some(text) = &self.redis else {
            return Err(Error::Config(
                "`fanout.store` is \"redis\", but `fanout.redis` names none".to_owned(),
            ));
        };
        let url = text.reveal().parse();
        url.map_err(|error| Error::Config(format!("`fanout.redis` cannot be used: {error}")))
    }

    /// Returns the names of the headers to forward.
    pub(crate) fn forwarded(&self) -> Result<Vec<HeaderName>, Error> {
        let read = |text: &String| {
            let name = HeaderName::from_bytes(text.trim().as_bytes()).map_err(|_| {
                Error::Config(format!(
                    "`fanout.forward_headers` has `{text}`, which is no header"
                ))
            })?;
            if NOT_FORWARDED.contains(&name.as_str()) || name.as_str().starts_with("nagaya-") {
                return Err(Error::Config(format!(
                    "`fanout.forward_headers` has `{name}`, which cannot be handed on"
                )));
            }
            Ok(name)
        };
        self.forward_headers.iter().map(read).collect()
    }

    /// Returns how many workers each of `endpoints` endpoints may use.
    pub(crate) fn share(&self, endpoints: usize) -> usize {
        const SHARE_MIN: usize = 8;
        match self.endpoint_concurrency {
            0 => (self.workers / endpoints.max(1)).max(SHARE_MIN).min(self.workers),
            given => given,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::EndpointConfig;

    fn refused(config: &FanoutConfig) -> String {
        config.check().unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_are_usable_and_wait_200_ms() {
        let config = FanoutConfig::default();
        config.check().unwrap();
        assert_eq!(config.timeout, Duration::from_millis(200));
        assert!(config.endpoints.0.is_empty());
    }

    #[test]
    fn stores_need_their_addresses() {
        let mut config = FanoutConfig {
            store: StoreKind::Redis,
            ..FanoutConfig::default()
        };
        assert!(refused(&config).contains("fanout.redis"));
        config.redis = Some(Secret::new("http://u:hunter2@h"));
        let error = refused(&config);
        assert!(
            error.contains("fanout.redis") && !error.contains("hunter2"),
            "{error}"
        );
        config.redis = Some(Secret::new("redis://h"));
        config.check().unwrap();
        config.store = StoreKind::Memcached;
        assert!(refused(&config).contains("fanout.memcached"));
    }

    #[test]
    fn names_are_checked_for_the_store_that_gets_them() {
        let mut config = FanoutConfig {
            memcached: vec!["127.0.0.1:1".to_owned()],
            ..FanoutConfig::default()
        };
        config
            .endpoints
            .0
            .insert("a b".into(), EndpointConfig::at("http://h"));
        config.check().unwrap();
        config.store = StoreKind::Memcached;
        assert!(refused(&config).contains("space"));
    }

    #[test]
    fn headers_of_the_connection_are_not_handed_on() {
        let forwarded = |name: &str| {
            FanoutConfig {
                forward_headers: vec![name.to_owned()],
                ..FanoutConfig::default()
            }
            .forwarded()
        };
        assert_eq!(forwarded("X-Trace").unwrap()[0].as_str(), "x-trace");
        for bad in ["Host", "connection", "Nagaya-Request-Id", "a b", ""] {
            assert!(forwarded(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn workers_are_shared_out_equally() {
        let config = FanoutConfig {
            workers: 96,
            ..FanoutConfig::default()
        };
        assert_eq!(config.share(6), 16);
        assert_eq!(config.share(1), 96);
        assert_eq!(config.share(1000), 8);
        let given = FanoutConfig {
            endpoint_concurrency: 3,
            ..config
        };
        assert_eq!(given.share(6), 3);
    }
}
