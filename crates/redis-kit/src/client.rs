//! Finds the right server, keeps one connection to it, and replaces it when it ends.

use std::collections::BTreeMap;
use std::time::Duration;

use nagaya_resp::Frame;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

use crate::backoff::Backoff;
use crate::connection::Connection;
use crate::discover::{Dialer, SlotRange, redirect_target, seeds};
use crate::error::Error;
use crate::slot;
use crate::url::{Endpoint, RedisUrl, Topology};
use crate::wire::Wire;

/// How often one command follows a cluster's redirects.
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

/// A client of one Redis, whatever it consists of. It opens connections when they are asked for and
/// never sends a command twice by itself.
#[derive(Debug)]
pub struct Client {
    url: RedisUrl,
    options: Options,
    tls: Option<Tls>,
    /// Held over awaits on purpose: whoever comes while a connection is being opened waits for that
    /// one instead of opening another.
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
}

impl Client {
    /// Prepares a client; nothing is connected yet. Fails only for unusable TLS settings.
    pub fn new(url: RedisUrl, options: Options) -> Result<Client, Error> {
        let tls = match url.tls {
            false => None,
            true => Some(Tls(crate::tls::connector(url.ca.as_deref()).map_err(
                |reason| {
                    let address = url.to_string();
                    Error::Tls { address, reason }
                },
            )?)),
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

    /// Returns the open connection to the primary that has `key`, or opens one. One try: waiting
    /// and trying again is the caller's, who knows how long it may take.
    pub async fn connection(&self, key: &[u8]) -> Result<Connection, Error> {
        let mut state = self.state.lock().await;
        let server = self.locate(&mut state, key).await?;
        let opened = self.open_shared(&mut state, &server).await;
        if opened.is_err() {
            state.forget_map();
        }
        opened
    }

    /// As [`connection`](Client::connection), but tries again until it succeeds or until trying is of
    /// no use. Cancel safe.
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

    /// Opens a connection of the caller's own to the primary that has `key`.
    pub async fn dedicated(&self, key: &[u8]) -> Result<Connection, Error> {
        let server = self.locate(&mut *self.state.lock().await, key).await?;
        let opened = self.dialer().open_primary(&server).await;
        if opened.is_err() {
            self.state.lock().await.forget_map();
        }
        Ok(Connection::new(opened?, self.options.reply_limit))
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

    /// Learns from an error that what is known of the servers is out of date. To be called by those
    /// who use a [`Connection`] directly.
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

    /// Opens a socket for a subscriber, to any server that can deliver messages.
    pub(crate) async fn subscriber_wire(&self) -> Result<Wire, Error> {
        let server = self.locate(&mut *self.state.lock().await, b"").await?;
        let opened = match self.url.topology {
            // Messages reach every node of a cluster.
            Topology::Cluster { .. } | Topology::Single(_) => self.dialer().open(&server).await,
            Topology::Sentinel { .. } => self.dialer().open_primary(&server).await,
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
                let primary = self.dialer().ask_sentinels(sentinels, service).await?;
                Ok(state.primary.insert(primary).clone())
            }
            Topology::Cluster { .. } => {
                if state.slots.is_empty() {
                    state.slots = self.dialer().ask_cluster(&self.cluster_nodes(state)).await?;
                }
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

    /// The nodes to ask for the map: those we talk to, then those of the URL.
    fn cluster_nodes(&self, state: &State) -> Vec<Endpoint> {
        let known = state
            .connections
            .iter()
            .filter(|(_, connection)| connection.is_open());
        let mut nodes: Vec<Endpoint> = known.map(|(node, _)| node.clone()).collect();
        nodes.extend(seeds(&self.url.topology).iter().cloned());
        nodes
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
        let wire = self.dialer().open_primary(server).await?;
        let connection = Connection::new(wire, self.options.reply_limit);
        state.connections.insert(server.clone(), connection.clone());
        Ok(connection)
    }

    fn dialer(&self) -> Dialer<'_> {
        Dialer {
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
