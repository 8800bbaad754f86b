//! Proxies for tests, and short ways to talk to them.

use std::net::SocketAddr;
use std::time::Duration;

use nagaya_cluster::proxy::{Config, Proxy, Service};
use nagaya_testkit::{Redis, RedisCluster, Reply, RespClient};

pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn config(url: &str) -> Config {
    Config::new("127.0.0.1:0".parse().unwrap(), url.parse().unwrap())
}

pub(crate) fn cluster_url(cluster: &RedisCluster) -> String {
    let addresses: Vec<String> = cluster.addresses().iter().map(SocketAddr::to_string).collect();
    format!("redis+cluster://{}", addresses.join(","))
}

pub(crate) fn start(config: Config) -> Proxy {
    Service::bind(config).unwrap().start().unwrap()
}

pub(crate) fn before_cluster(cluster: &RedisCluster) -> Proxy {
    start(config(&cluster_url(cluster)))
}

pub(crate) fn before_redis(redis: &Redis) -> Proxy {
    start(config(&redis.url()))
}

pub(crate) fn connect(proxy: &Proxy) -> Talk {
    let client = RespClient::connect(proxy.address()).unwrap();
    client.set_timeout(LIMIT).unwrap();
    Talk(client)
}

/// A client that speaks in lines.
pub(crate) struct Talk(pub(crate) RespClient);

impl Talk {
    /// Sends the words of a line and returns the reply.
    #[track_caller]
    pub(crate) fn say(&mut self, line: &str) -> Reply {
        self.send(line);
        self.receive()
    }

    #[track_caller]
    pub(crate) fn send(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        self.0.send(&words).unwrap();
    }

    #[track_caller]
    pub(crate) fn receive(&mut self) -> Reply {
        self.0.receive().unwrap()
    }

    /// Sends a line and checks the reply, shown as text.
    #[track_caller]
    pub(crate) fn expect(&mut self, line: &str, reply: &str) {
        assert_eq!(format!("{:?}", self.say(line)), reply, "{line}");
    }
}
