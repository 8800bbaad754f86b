//! A hot tier with the front door that clients write through.

use std::time::Duration;

use nagaya_cluster::hot_tier::scripts::{self, Form};
use nagaya_cluster::hot_tier::{Limits, RedisHotTier};
use nagaya_redis_client::{Client, Error, Frame, Options, reply};
use nagaya_testkit::wait;
use nagaya_tiering::hot::HotTier;
use nagaya_tiering::protocol::{Token, Tokens, Touched};
use nagaya_tiering::tag::tag_of;
use tokio::runtime::Runtime;

const PATIENCE: Duration = Duration::from_secs(30);

/// Leases that end soon, so that tests need not wait long.
pub(crate) const LIMITS: Limits = Limits {
    lease: Duration::from_millis(100),
    allowance: Duration::from_millis(100),
    connect_limit: Duration::from_secs(2),
    reply_limit: Duration::from_secs(10),
};

pub(crate) struct Bench {
    pub(crate) tier: RedisHotTier,
    pub(crate) client: Client,
    pub(crate) runtime: Runtime,
    tokens: Tokens,
}

impl Bench {
    pub(crate) fn open(url: &str) -> Bench {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let tier = RedisHotTier::new(url.parse().unwrap(), "tier", LIMITS, runtime.handle().clone()).unwrap();
        let client = Client::new(url.parse().unwrap(), Options::default()).unwrap();
        Bench {
            tier,
            client,
            runtime,
            tokens: Tokens::default(),
        }
    }

    pub(crate) fn draw(&self) -> Token {
        self.tokens.draw()
    }

    /// Runs a command where its key is.
    pub(crate) fn try_call<A: AsRef<[u8]>>(&self, key: &[u8], args: &[A]) -> Result<Frame, Error> {
        self.runtime.block_on(self.client.call(key, args))
    }

    /// As [`try_call`](Bench::try_call), again and again while the servers change places.
    #[track_caller]
    pub(crate) fn call<A: AsRef<[u8]>>(&self, key: &[u8], args: &[A]) -> Frame {
        wait::value("a command is answered", PATIENCE, || {
            match self.try_call(key, args) {
                Ok(reply) => Some(reply),
                Err(error) if error.is_retryable() => None,
                Err(error) => panic!("{error}"),
            }
        })
    }

    pub(crate) fn register(&self, key: &[u8]) {
        let call = scripts::register(tag_of(key), self.draw(), [key]);
        let answer = self.call(call.key(), &call.words(Form::Source));
        assert_eq!(reply::bytes(&answer), Some(&b"registered"[..]));
    }

    /// Writes as a client does: touch, registration, command. The tag is hot.
    #[track_caller]
    pub(crate) fn write<A: AsRef<[u8]>>(&self, key: &[u8], args: &[A]) -> Frame {
        assert_eq!(self.tier.touch(&[tag_of(key)]).unwrap(), [Touched::Granted]);
        self.register(key);
        self.call(key, args)
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        reply::bytes(&self.call(key, &[b"GET", key])).map(<[u8]>::to_vec)
    }
}
