//! The server that the demo drives: its addresses and its clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use nagaya_client::{Client, Error};
use nagaya_config::{Loaded, Secret};
use nagaya_engine::RoomConfig;
use nagaya_redis_client::{Client as Redis, Options, RedisUrl};
use nagaya_resp::Frame;
use serde::Deserialize;
use serde_json::Value;

use crate::app::data_dir::{DataDir, Found};
use crate::app::readiness::State;
use crate::app::settings::HouseConfig;
use crate::http::Readyz;
use crate::jobs::tools::connect::{ConnectArgs, connect};

/// How long the room may take to answer: taking a tag out of memory waits for the disk, or for a lease.
const ROOM_PATIENCE: Duration = Duration::from_secs(30);

/// A server that is ready.
pub(super) struct Target {
    pub(super) url: String,
    pub(super) client: Client,
    pub(super) room: RedisUrl,
    redis: Arc<Redis>,
    /// Where the demo's fleet has its keys, with the password: not for showing.
    fleet: String,
    components: Vec<String>,
    /// Whether the room takes only keys with a tag.
    pub(super) needs_tags: bool,
}

impl Target {
    /// Finds the server of the flags and settings; the error names a remedy if it is not running.
    pub(super) async fn find(loaded: &Loaded, args: &ConnectArgs) -> anyhow::Result<Target> {
        let client = connect(loaded, args)?;
        let url = client.url();
        let readyz: Readyz = match client.get("/readyz").await {
            Ok(readyz) => readyz,
            Err(Error::Refused(problem)) if problem.status == 503 => {
                bail!("the server at {url} is not ready; `nagaya status` says why")
            }
            Err(Error::Answer { .. }) => bail!("what runs at {url} is not nagaya"),
            Err(error) => return Err(error.into()),
        };
        let ready = readyz.components.into_iter();
        let ready = ready.filter(|component| component.state == State::Ready);
        let config: RoomConfig = loaded.section();
        let (host, port) = room_address(loaded, &client).await?;
        let mut room = RedisUrl::single(host.clone(), port);
        room.password = config.password.clone();
        let house: HouseConfig = loaded.section();
        // A room on real engines has no place for a fleet, but then there is the server's own Redis.
        let fleet = house.redis.map(|redis| redis.reveal().to_owned());
        Ok(Target {
            url,
            client,
            redis: connect_to(room.clone())?,
            room,
            fleet: fleet.unwrap_or_else(|| with_password(&host, port, config.password.as_ref())),
            components: ready.map(|component| component.name).collect(),
            needs_tags: config.require_hash_tag,
        })
    }

    /// Whether the server has a service, ready.
    pub(super) fn has(&self, component: &str) -> bool {
        self.components.iter().any(|name| name == component)
    }

    /// A client of the room, shared by all parts.
    pub(super) fn redis(&self) -> Arc<Redis> {
        Arc::clone(&self.redis)
    }

    /// Sends the room a command.
    pub(super) async fn ask(&self, args: &[&str]) -> anyhow::Result<Frame> {
        ask(&self.redis, args).await
    }

    /// The Redis for the demo's fleet as a URL with its password.
    pub(super) fn fleet(&self) -> &str {
        &self.fleet
    }
}

/// A client; nothing is connected yet.
pub(super) fn connect_to(url: RedisUrl) -> anyhow::Result<Arc<Redis>> {
    let options = Options {
        reply_limit: ROOM_PATIENCE,
        client_name: "nagaya-demo".to_owned(),
        ..Options::default()
    };
    Ok(Arc::new(Redis::new(url, options)?))
}

fn with_password(host: &str, port: u16, password: Option<&Secret>) -> String {
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    let login = password.map(|password| {
        let bytes = password.reveal().bytes();
        let encoded: String = bytes.map(|byte| format!("%{byte:02X}")).collect();
        format!(":{encoded}@")
    });
    format!("redis://{}{host}:{port}", login.unwrap_or_default())
}

/// Sends a command about the key that is its second word.
pub(super) async fn ask(redis: &Redis, args: &[&str]) -> anyhow::Result<Frame> {
    let key = args.get(1).map_or(&b""[..], |key| key.as_bytes());
    redis.call(key, args).await.map_err(|error| {
        let words = error.chain();
        if words.contains("NOAUTH") || words.contains("WRONGPASS") {
            anyhow::anyhow!("the room wants another password; give it as room.password in the settings")
        } else {
            anyhow::anyhow!("the room answered {} with: {words}", args[0])
        }
    })
}

/// Takes all keys of a tag away. A room on real engines does that key by key.
pub(super) async fn erase(redis: &Redis, tag: &str, keys: &[String]) -> anyhow::Result<()> {
    if ask(redis, &["ROOM.ERASE", tag]).await.is_ok() {
        return Ok(());
    }
    for key in keys {
        ask(redis, &["DEL", key]).await?;
    }
    Ok(())
}

/// Where the room listens: as the server says, as its data folder says, or as the settings say.
async fn room_address(loaded: &Loaded, client: &Client) -> anyhow::Result<(String, u16)> {
    let told = match client.get::<Told>("/v1/house").await {
        Ok(told) => told.services.room.and_then(|room| room.address),
        Err(Error::Refused(problem)) if problem.status == 404 => None,
        Err(error) => return Err(error).context("the server does not say where its room is"),
    };
    let told = match told {
        Some(text) => Some(
            text.parse()
                .with_context(|| format!("the room cannot be at {text}"))?,
        ),
        None => announced(loaded),
    };
    let address: SocketAddr = told.unwrap_or_else(|| loaded.section::<RoomConfig>().listen.0);
    let host = if address.ip().is_unspecified() {
        host_of(&client.url())
    } else {
        address.ip().to_string()
    };
    Ok((host, address.port()))
}

fn announced(loaded: &Loaded) -> Option<SocketAddr> {
    let house: HouseConfig = loaded.section();
    match DataDir::find(&house.data) {
        Ok(Found::Used(holder)) => holder.room,
        Ok(Found::Free(_)) | Err(_) => None,
    }
}

/// The host of a URL, without brackets.
fn host_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host.to_owned(),
        None => authority.split(':').next().unwrap_or_default().to_owned(),
    }
}

#[derive(Deserialize)]
struct Told {
    services: Services,
}

#[derive(Deserialize)]
struct Services {
    room: Option<Room>,
}

#[derive(Deserialize)]
struct Room {
    address: Option<String>,
    #[serde(flatten)]
    _figures: serde_json::Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rooms_url_is_read_back_with_its_password() {
        let password = Secret::new("a:b@c/ä");
        let url: RedisUrl = with_password("::1", 6380, Some(&password)).parse().unwrap();
        assert_eq!(url.password, Some(password));
        assert_eq!(with_password("127.0.0.1", 1, None), "redis://127.0.0.1:1");
    }

    #[test]
    fn hosts_are_found_in_urls() {
        assert_eq!(host_of("http://house.example:7400/x"), "house.example");
        assert_eq!(host_of("http://[::1]:7400"), "::1");
        assert_eq!(host_of("https://house"), "house");
    }
}
