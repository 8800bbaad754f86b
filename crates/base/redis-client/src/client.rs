//! Finds the right server, keeps one connection to it, and replaces the connection when it ends.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use nagaya_net::Backoff;
use nagaya_resp::Frame;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

use crate::connection::Connection;
use crate::discover::{Connector, SlotRange, redirect_target, seeds};
use crate::error::Error;
use crate::slot;
use crate::url::{Endpoint, RedisUrl, Topology};
use crate::wire::Wire;

/// How many redirects one command follows in a cluster.
const REDIRECTS_MAX: usize = 5;

/// Limits of a client.
#[derive(Clone, Debug)]
pub struct Options {
    /// For opening a socket, TLS included.
    pub connect_limit: Duration,
    /// For each reply.
    pub reply_limit: Duration,
    /// What `CLIENT LIST` shows; empty for none.
    pub client_name: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            connect_limit: Duration::from_secs(2),
            reply_limit: Duration::from_secs(2),
            client_name: String::new(),
        }
    }
}

/// A client of one Redis: a single server, a replicated one or a cluster. It opens connections on demand
/// and never sends a command twice by itself.
#[derive(Debug)]
pub struct Client {
    url: RedisUrl,
    options: Options,
    tls: Option<Tls>,
    /// Held over awaits on purpose: a caller that comes while a connection is being opened waits for it
    /// instead of opening another.
    state: Mutex<State>,
}

struct Tls(TlsConnector);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

#[derive(Debug, Default)]
struct State {
    connections: BTreeMap<Endpoint, Connection>,
    /// The primary that the sentinels named last.
    primary: Option<Endpoint>,
    slots: Vec<SlotRange>,
    /// Nodes to ask for the map. The one that answered last comes first, so that a node that is down
    /// does not cost a timeout each time.
    known: Vec<Endpoint>,
}

/// A primary and its slots; without a cluster, all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    pub server: Endpoint,
    pub slots: Vec<RangeInclusive<u16>>,
}

impl Client {
    /// Prepares a client; nothing is connected yet. Fails only for unusable TLS settings.
    pub fn new(url: RedisUrl, options: Options) -> Result<Client, Error> {
        let tls = if url.tls {
            let config = nagaya_net::tls::client_config(url.ca.as_deref());
            let config = config.map_err(|reason| Error::Tls {
                address: url.to_string(),
                reason,
            })?;
            Some(Tls(TlsConnector::from(Arc::new(config))))
        } else {
            None
        };
        Ok(Client {
            url,
            options,
            tls,
            state: Mutex::default(),
        })
    }

    pub fn url(&self) -> &RedisUrl {
        &self.url
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the open connection to the primary that has `key`, or opens one. It tries
    /// once: only the caller knows how long retries may take.
    pub async fn connection(&self, key: &[u8]) -> Result<Connection, Error> {
        let mut state = self.state.lock().await;
        let server = self.locate(&mut state, key).await?;
        let opened = self.open_shared(&mut state, &server).await;
        if opened.is_err() {
            state.forget_map();
        }
        opened
    }

    /// As [`connection`](Client::connection), but retries until it succeeds or fails permanently. Cancel
    /// safe.
    pub async fn connection_retrying(&self, key: &[u8], backoff: &mut Backoff) -> Result<Connection, Error> {
        loop {
            match self.connection(key).await {
                Ok(connection) => {
                    backoff.reset();
                    return Ok(connection);
                }
                Err(error) if !error.is_retryable() => return Err(error),
                Err(error) => {
                    let wait = backoff.next_wait();
                    tracing::debug!(error = error.chain(), ?wait, "no connection yet");
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    /// Opens a connection to the primary that has `key`, for the caller alone.
    pub async fn dedicated(&self, key: &[u8]) -> Result<Connection, Error> {
        let server = self.locate(&mut *self.state.lock().await, key).await?;
        let opened = self.connector().open_primary(&server).await;
        if opened.is_err() {
            self.state.lock().await.forget_map();
        }
        Ok(Connection::new(opened?, self.options.reply_limit))
    }

    /// Lists the primaries with their slots, for callers that use many at once. The answer may be cached;
    /// see [`note`](Client::note).
    pub async fn primaries(&self) -> Result<Vec<Primary>, Error> {
        let mut state = self.state.lock().await;
        if !matches!(self.url.topology, Topology::Cluster { .. }) {
            let server = self.locate(&mut state, b"").await?;
            let slots = vec![0..=slot::SLOTS - 1];
            return Ok(vec![Primary { server, slots }]);
        }
        self.find_slots(&mut state).await?;
        let mut primaries: Vec<Primary> = Vec::new();
        for range in &state.slots {
            let slots = range.first..=range.last;
            match primaries.iter_mut().find(|primary| primary.server == range.owner) {
                Some(primary) => primary.slots.push(slots),
                None => primaries.push(Primary {
                    server: range.owner.clone(),
                    slots: vec![slots],
                }),
            }
        }
        Ok(primaries)
    }

    /// Opens a connection to a server, which must be a primary, for the caller alone.
    pub async fn dedicated_to(&self, server: &Endpoint) -> Result<Connection, Error> {
        let wire = self.connector().open_primary(server).await?;
        Ok(Connection::new(wire, self.options.reply_limit))
    }

    /// Runs one command on the server that has `key`, following a cluster's redirects.
    pub async fn call<A: AsRef<[u8]>>(&self, key: &[u8], args: &[A]) -> Result<Frame, Error> {
        let mut connection = self.connection(key).await?;
        let mut redirects = 0;
        loop {
            let error = match connection.call(args).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            self.note(&error).await;
            redirects += 1;
            let redirect = error.server_error().and_then(|error| error.redirect());
            let Some((asking, target)) = redirect.filter(|_| redirects <= REDIRECTS_MAX) else {
                return Err(error);
            };
            let from = crate::url::endpoint(connection.address(), crate::url::DEFAULT_PORT);
            let from = from.map_err(|reason| Error::NoPrimary { reason })?;
            let target = redirect_target(target, &from)?;
            connection = self.open_shared(&mut *self.state.lock().await, &target).await?;
            if asking {
                return self.call_asking(&connection, args).await;
            }
        }
    }

    async fn call_asking<A: AsRef<[u8]>>(&self, connection: &Connection, args: &[A]) -> Result<Frame, Error> {
        let args: Vec<&[u8]> = args.iter().map(AsRef::as_ref).collect();
        let limit = self.options.reply_limit;
        let replies = connection.pipeline_within(&[&[b"ASKING"], &args], limit).await?;
        let reply = replies.into_iter().nth(1).expect("two requests have two replies");
        connection.checked(&args, reply)
    }

    /// Learns from an error that the cached servers are out of date. Users of a [`Connection`] have to
    /// call it.
    pub async fn note(&self, error: &Error) {
        let moved = error
            .server_error()
            .is_some_and(|error| matches!(error.code(), "MOVED" | "READONLY" | "CLUSTERDOWN" | "MASTERDOWN"));
        if moved
            || matches!(
                error,
                Error::NotPrimary { .. } | Error::Closed { .. } | Error::TimedOut { .. }
            )
        {
            self.state.lock().await.forget_map();
        }
    }

    /// Asks again for the primaries and their slots. A single primary has all slots.
    pub async fn layout(&self) -> Result<Vec<SlotRange>, Error> {
        let everything = |owner| {
            vec![SlotRange {
                first: 0,
                last: slot::SLOTS - 1,
                owner,
            }]
        };
        match &self.url.topology {
            Topology::Single(server) => Ok(everything(server.clone())),
            Topology::Sentinel { sentinels, service } => {
                let primary = self.connector().ask_sentinels(sentinels, service).await?;
                Ok(everything(primary))
            }
            Topology::Cluster { .. } => {
                let mut state = self.state.lock().await;
                state.slots.clear();
                self.find_slots(&mut state).await?;
                Ok(state.slots.clone())
            }
        }
    }

    /// Opens a socket for a subscriber, to any server that can deliver messages.
    pub(crate) async fn subscriber_wire(&self) -> Result<Wire, Error> {
        let server = self.locate(&mut *self.state.lock().await, b"").await?;
        let opened = match self.url.topology {
            // Messages reach every node of a cluster.
            Topology::Cluster { .. } | Topology::Single(_) => self.connector().open(&server).await,
            Topology::Sentinel { .. } => self.connector().open_primary(&server).await,
        };
        if opened.is_err() {
            self.state.lock().await.forget_map();
        }
        opened
    }

    async fn locate(&self, state: &mut State, key: &[u8]) -> Result<Endpoint, Error> {
        match &self.url.topology {
            Topology::Single(server) => Ok(server.clone()),
            Topology::Sentinel { sentinels, service } => {
                if let Some(primary) = &state.primary {
                    return Ok(primary.clone());
                }
                let primary = self.connector().ask_sentinels(sentinels, service).await?;
                Ok(state.primary.insert(primary).clone())
            }
            Topology::Cluster { .. } => {
                self.find_slots(state).await?;
                let slot = slot::of_key(key);
                let range = state
                    .slots
                    .iter()
                    .find(|range| (range.first..=range.last).contains(&slot));
                let owner = range.map(|range| range.owner.clone());
                if owner.is_none() {
                    state.forget_map();
                }
                owner.ok_or_else(|| Error::NoPrimary {
                    reason: format!("no node of the cluster serves slot {slot}"),
                })
            }
        }
    }

    /// Asks for a cluster's map unless it is cached.
    async fn find_slots(&self, state: &mut State) -> Result<(), Error> {
        if !state.slots.is_empty() {
            return Ok(());
        }
        let mut nodes = state.known.clone();
        nodes.extend(seeds(&self.url.topology).iter().cloned());
        let (slots, answered) = self.connector().ask_cluster(&nodes).await?;
        state.known = vec![answered];
        for range in &slots {
            if !state.known.contains(&range.owner) {
                state.known.push(range.owner.clone());
            }
        }
        state.slots = slots;
        Ok(())
    }

    async fn open_shared(&self, state: &mut State, server: &Endpoint) -> Result<Connection, Error> {
        if let Some(connection) = state
            .connections
            .get(server)
            .filter(|connection| connection.is_open())
        {
            return Ok(connection.clone());
        }
        state.connections.retain(|_, connection| connection.is_open());
        let wire = self.connector().open_primary(server).await?;
        let connection = Connection::new(wire, self.options.reply_limit);
        state.connections.insert(server.clone(), connection.clone());
        Ok(connection)
    }

    fn connector(&self) -> Connector<'_> {
        Connector {
            url: &self.url,
            tls: self.tls.as_ref().map(|tls| &tls.0),
            connect_limit: self.options.connect_limit,
            reply_limit: self.options.reply_limit,
            client_name: &self.options.client_name,
        }
    }
}

impl State {
    fn forget_map(&mut self) {
        self.primary = None;
        self.slots.clear();
    }
}
