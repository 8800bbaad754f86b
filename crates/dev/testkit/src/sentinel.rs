use std::net::SocketAddr;
use std::time::Duration;

use crate::resp_client::Reply;
use crate::{Redis, RedisReplicas, wait};

/// The name under which the sentinels watch the primary.
pub const SENTINEL_SERVICE: &str = "main";

const SENTINELS: usize = 3;
const REPLICAS: usize = 2;
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// Three sentinels watching a primary with two replicas.
///
/// A dead primary is noticed after 1 s.
#[derive(Debug)]
pub struct RedisSentinel {
    sentinels: Vec<Redis>,
    servers: RedisReplicas,
}

impl RedisSentinel {
    /// Starts all six servers and waits until the sentinels know each other.
    #[track_caller]
    pub fn start() -> RedisSentinel {
        let servers = RedisReplicas::start(REPLICAS);
        let config = format!(
            "bind 127.0.0.1\n\
             sentinel monitor {SENTINEL_SERVICE} 127.0.0.1 {} 2\n\
             sentinel down-after-milliseconds {SENTINEL_SERVICE} 1000\n\
             sentinel failover-timeout {SENTINEL_SERVICE} 5000\n",
            servers.primary().port()
        );
        let sentinels = (0..SENTINELS).map(|_| Redis::sentinel(&config)).collect();
        let trio = RedisSentinel { sentinels, servers };
        trio.wait_settled();
        trio
    }

    pub fn sentinels(&self) -> &[Redis] {
        &self.sentinels
    }

    /// The watched servers: node 0 was the primary at the start.
    pub fn servers(&self) -> &[Redis] {
        self.servers.nodes()
    }

    /// Where the sentinels say that the primary is.
    #[track_caller]
    pub fn primary_address(&self) -> SocketAddr {
        let reply = self.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SENTINEL_SERVICE]);
        let [host, port] = reply.items() else {
            panic!("not an address: {reply:?}")
        };
        match format!("{}:{}", host.text(), port.text()).parse() {
            Ok(address) => address,
            Err(error) => panic!("{reply:?}: {error}"),
        }
    }

    /// Which of the servers the sentinels call the primary.
    #[track_caller]
    pub fn primary(&self) -> &Redis {
        let address = self.primary_address();
        match self.servers().iter().find(|server| server.address() == address) {
            Some(server) => server,
            None => panic!("the sentinels name a stranger: {address}"),
        }
    }

    /// Lets the sentinels replace a living primary, and waits until they have.
    #[track_caller]
    pub fn failover(&self) {
        let before = self.primary_address();
        wait::until("the sentinels accept a failover", SETTLE_LIMIT, || {
            self.ask(&["SENTINEL", "FAILOVER", SENTINEL_SERVICE]) == Reply::ok()
        });
        self.wait_for_new_primary(before);
    }

    /// Waits until the sentinels name another primary than `before` and that
    /// server takes writes.
    #[track_caller]
    pub fn wait_for_new_primary(&self, before: SocketAddr) {
        wait::until("the sentinels name another primary", SETTLE_LIMIT, || {
            self.primary_address() != before && self.primary().info("role").as_deref() == Some("master")
        });
    }

    #[track_caller]
    fn wait_settled(&self) {
        for sentinel in &self.sentinels {
            wait::until(
                "a sentinel knows its peers and the replicas",
                SETTLE_LIMIT,
                || {
                    let others = (SENTINELS - 1).to_string();
                    let replicas = REPLICAS.to_string();
                    let reply = sentinel.cmd(&["SENTINEL", "MASTER", SENTINEL_SERVICE]);
                    let fields: Vec<String> = reply.items().iter().map(Reply::text).collect();
                    let has = |name: &str, value: &str| fields.chunks(2).any(|pair| pair == [name, value]);
                    has("num-other-sentinels", &others)
                        && has("num-slaves", &replicas)
                        && has("flags", "master")
                },
            );
        }
    }

    /// Asks the first sentinel that runs.
    #[track_caller]
    fn ask(&self, args: &[&str]) -> Reply {
        match self.sentinels.iter().find(|sentinel| sentinel.is_running()) {
            Some(sentinel) => sentinel.cmd(args),
            None => panic!("no sentinel runs"),
        }
    }
}
