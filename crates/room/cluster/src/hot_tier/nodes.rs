//! The nodes of the hot tier: the owner of each slot, and one connection to each node.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use nagaya_redis_client::slot::SLOTS;
use nagaya_redis_client::{Client, Connection, Endpoint, Error, Frame, Run, reply};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::run::RunDigest;

/// Commands in one write. More of them only delay the first replies.
const TRIP_COMMANDS_MAX: usize = 512;
/// Bytes in one write, unless one command alone is longer.
const TRIP_BYTES_MAX: usize = 1 << 20;
/// How long no connection is tried to a server that could not be reached: short against a failover.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The words of a request.
pub(crate) type Words = Vec<Vec<u8>>;

/// Finds nodes and keeps connections to them. A node that cannot be reached delays only the calls that need
/// it.
#[derive(Debug)]
pub(crate) struct Nodes {
    client: Client,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    map: Option<Arc<SlotMap>>,
    links: HashMap<Endpoint, Place>,
}

/// The state of one server.
#[derive(Debug, Default)]
struct Place {
    link: Option<Link>,
    /// Set after a connection could not be opened: no task tries before, and only one at a time after it, so
    /// that not all of them wait for a server that is down.
    retry_at: Option<Instant>,
    is_tried: bool,
}

/// The owners of the slots, as last read.
#[derive(Debug)]
pub(crate) struct SlotMap {
    pub(crate) servers: Vec<Endpoint>,
    /// The index of each slot's server in the list.
    owners: Vec<Option<usize>>,
}

/// A connection and the run of the node that it began in.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) connection: Connection,
    pub(crate) run: RunDigest,
    whole_run: Run,
}

impl SlotMap {
    pub(crate) fn owner(&self, slot: u16) -> Option<usize> {
        self.owners[usize::from(slot)]
    }
}

impl Nodes {
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn new(client: Client) -> Nodes {
        Nodes {
            client,
            state: Mutex::default(),
        }
    }

    /// Returns the owners of the slots, read from the servers if they are not known.
    pub(crate) async fn map(&self) -> Result<Arc<SlotMap>, Error> {
        if let Some(map) = &self.state().map {
            return Ok(map.clone());
        }
        let primaries = self.client.primaries().await?;
        let mut owners = vec![None; usize::from(SLOTS)];
        for (at, primary) in primaries.iter().enumerate() {
            for slot in primary.slots.iter().cloned().flatten() {
                owners[usize::from(slot)] = Some(at);
            }
        }
        let servers = primaries.into_iter().map(|primary| primary.server).collect();
        let map = Arc::new(SlotMap { servers, owners });
        self.state().map = Some(map.clone());
        Ok(map)
    }

    /// Returns the open connection to a server, or opens one.
    pub(crate) async fn link(&self, server: &Endpoint) -> Result<Link, Error> {
        if let Some(link) = self.open_link(server)? {
            return Ok(link);
        }
        let opened = self.open(server).await;
        let mut state = self.state();
        let place = state.links.entry(server.clone()).or_default();
        place.is_tried = false;
        place.link = opened.as_ref().ok().cloned();
        place.retry_at = opened.is_err().then(|| Instant::now() + RETRY_AFTER);
        opened
    }

    /// Returns an open connection; none if the caller should open one.
    fn open_link(&self, server: &Endpoint) -> Result<Option<Link>, Error> {
        let mut state = self.state();
        let place = state.links.entry(server.clone()).or_default();
        let link = place.link.take_if(|link| !link.connection.is_open());
        drop(link);
        if place.link.is_some() {
            return Ok(place.link.clone());
        }
        let is_resting = |retry_at: Instant| place.is_tried || Instant::now() < retry_at;
        if place.retry_at.is_some_and(is_resting) {
            return Err(Error::NoPrimary {
                reason: format!("{server} could not be reached a moment ago"),
            });
        }
        place.is_tried = true;
        Ok(None)
    }

    async fn open(&self, server: &Endpoint) -> Result<Link, Error> {
        let connection = self.client.dedicated_to(server).await?;
        let whole_run = connection.run().await?;
        Ok(Link {
            run: RunDigest::from(&whole_run),
            connection,
            whole_run,
        })
    }

    /// Forgets the map if an error says that it is out of date.
    pub(crate) async fn note(&self, error: &Error) {
        let is_placed_wrong = match error {
            Error::Refused { error, .. } => {
                matches!(error.code(), "MOVED" | "READONLY" | "CLUSTERDOWN" | "MASTERDOWN")
            }
            Error::Connect { .. } | Error::TimedOut { .. } | Error::Closed { .. } => true,
            Error::NotPrimary { .. } | Error::NoPrimary { .. } | Error::RunChanged { .. } => true,
            Error::Url(_) | Error::Tls { .. } | Error::Protocol { .. } => false,
            Error::Unexpected { .. } | Error::TooFewReplicas { .. } => false,
        };
        if is_placed_wrong {
            self.forget_map().await;
        }
    }

    /// Has the map read again before its next use.
    pub(crate) async fn forget_map(&self) {
        self.state().map = None;
        // The client has its own map, which it drops at this error.
        let moved = Error::NotPrimary {
            address: String::new(),
            role: String::new(),
        };
        self.client.note(&moved).await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Link {
    /// Runs commands in order and returns their replies, error replies as frames. Fails if the node's run is
    /// not the one that the connection began in: then no reply counts.
    pub(crate) async fn run_all(&self, commands: &[Words]) -> Result<Vec<Frame>, Error> {
        let mut frames = Vec::with_capacity(commands.len());
        let mut rest = commands;
        while !rest.is_empty() {
            let trip;
            (trip, rest) = rest.split_at(trip_length(rest));
            frames.extend(self.trip(trip).await?);
        }
        Ok(frames)
    }

    async fn trip(&self, commands: &[Words]) -> Result<Vec<Frame>, Error> {
        let words: Vec<Vec<&[u8]>> = commands
            .iter()
            .map(|command| command.iter().map(Vec::as_slice).collect())
            .collect();
        let info: [&[u8]; 2] = [b"INFO", b"replication"];
        let mut trip: Vec<&[&[u8]]> = words.iter().map(Vec::as_slice).collect();
        trip.push(&info);
        let limit = self.connection.reply_limit();
        let mut frames = self.connection.pipeline_within(&trip, limit).await?;
        let last = frames.pop().expect("every request has a reply");
        self.check_run(&info, &last)?;
        Ok(frames)
    }

    /// A node can be demoted and promoted again without closing its connections.
    fn check_run(&self, asked: &[&[u8]], answer: &Frame) -> Result<(), Error> {
        self.connection.check(asked, answer)?;
        let info = reply::text(answer).ok_or_else(|| reply::unexpected("INFO", answer))?;
        let now = reply::info_field(&info, "master_replid").unwrap_or_default();
        let is_primary = reply::info_field(&info, "role") == Some("master");
        if now == self.whole_run.replication_id && is_primary {
            return Ok(());
        }
        self.connection.close("the server's run changed");
        Err(Error::RunChanged {
            address: self.connection.address().to_owned(),
            before: self.whole_run.replication_id.clone(),
            after: now.to_owned(),
        })
    }
}

/// Returns how many of the commands fit one write; at least one.
fn trip_length(commands: &[Words]) -> usize {
    let mut bytes = 0;
    let fits = |command: &&Words| {
        bytes += command.iter().map(Vec::len).sum::<usize>();
        bytes <= TRIP_BYTES_MAX
    };
    commands
        .iter()
        .take(TRIP_COMMANDS_MAX)
        .take_while(fits)
        .count()
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trip_is_bounded_in_commands_and_bytes_and_never_empty() {
        let small = vec![vec![b"PING".to_vec()]; 1000];
        assert_eq!(trip_length(&small), TRIP_COMMANDS_MAX);
        let big = vec![vec![vec![0; 700_000]]; 3];
        assert_eq!(trip_length(&big), 1);
        assert_eq!(trip_length(&[vec![vec![0; 2_000_000]]]), 1);
    }
}
