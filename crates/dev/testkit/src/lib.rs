//! Real servers for tests: started on free ports in temporary folders, ended
//! whatever happens to the test, and broken on purpose by one-line calls.
//!
//! Everything here is synchronous and panics with an explanation when a server
//! cannot be started: a missing server is a failed test, never a skipped one.

mod cluster;
mod memcached;
mod nagaya;
mod nginx;
mod postgres;
mod redis;
mod replicas;
mod sentinel;
pub mod shared;
mod tcp_proxy;

pub mod http;
pub mod resp_client;
pub mod wait;

mod binaries;
mod error;
mod folder;
mod keyspace;
mod ports;
mod process;
mod spawner;
mod users;

pub use cluster::{Failover, RedisCluster, SlotMove};
pub use error::Error;
pub use folder::Folder;
pub use keyspace::Keyspace;
pub use memcached::Memcached;
pub use nagaya::{Nagaya, NagayaBuilder};
pub use nagaya_process::is_alive;
pub use nginx::Nginx;
pub use ports::free_port;
pub use postgres::Postgres;
pub use process::{Launch, Process, User};
pub use redis::Redis;
pub use replicas::RedisReplicas;
pub use resp_client::{Reply, RespClient};
pub use rustix::process::Signal;
pub use sentinel::{RedisSentinel, SENTINEL_SERVICE};
pub use tcp_proxy::{Direction, TcpProxy};
