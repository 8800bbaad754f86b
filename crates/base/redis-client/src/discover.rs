//! Finds the server that takes the writes.

use std::time::Duration;

use tokio_rustls::TlsConnector;

use crate::error::Error;
use crate::reply;
use crate::url::{Endpoint, RedisUrl, Topology, endpoint};
use crate::wire::Wire;

/// Opens sockets to servers and logs in.
pub(crate) struct Connector<'a> {
    pub(crate) url: &'a RedisUrl,
    pub(crate) tls: Option<&'a TlsConnector>,
    pub(crate) connect_limit: Duration,
    pub(crate) reply_limit: Duration,
    pub(crate) client_name: &'a str,
}

/// A contiguous part of a cluster's slots and the primary that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRange {
    pub first: u16,
    pub last: u16,
    pub owner: Endpoint,
}

impl Connector<'_> {
    /// Opens a socket to a data server and logs in.
    pub(crate) async fn open(&self, server: &Endpoint) -> Result<Wire, Error> {
        let mut wire = Wire::open(server, self.tls, self.connect_limit).await?;
        if let Some(password) = &self.url.password {
            let password = password.reveal().as_bytes();
            let user = self.url.user.as_deref().map(str::as_bytes);
            self.log_in(&mut wire, user, password).await?;
        }
        if self.url.db != 0 {
            let db = self.url.db.to_string();
            wire.call(&[b"SELECT", db.as_bytes()], self.reply_limit).await?;
        }
        if !self.client_name.is_empty() {
            let name: [&[u8]; 3] = [b"CLIENT", b"SETNAME", self.client_name.as_bytes()];
            // For readers of CLIENT LIST; a server that refuses the name is still usable.
            match wire.call(&name, self.reply_limit).await {
                Ok(_) | Err(Error::Refused { .. }) => (),
                Err(error) => return Err(error),
            }
        }
        Ok(wire)
    }

    /// Opens a socket to a data server and makes sure that it is a primary.
    pub(crate) async fn open_primary(&self, server: &Endpoint) -> Result<Wire, Error> {
        let mut wire = self.open(server).await?;
        let reply = wire.call(&[b"ROLE"], self.reply_limit).await?;
        let role = reply::items(&reply).first().and_then(reply::text);
        match role.as_deref() {
            Some("master") => Ok(wire),
            Some(role) => Err(Error::NotPrimary {
                address: wire.address,
                role: role.to_owned(),
            }),
            None => Err(reply::unexpected("ROLE", &reply)),
        }
    }

    async fn log_in(&self, wire: &mut Wire, user: Option<&[u8]>, password: &[u8]) -> Result<(), Error> {
        let with_user = [b"AUTH", user.unwrap_or_default(), password];
        let without = [b"AUTH".as_slice(), password];
        let args: &[&[u8]] = if user.is_some() { &with_user } else { &without };
        wire.call(args, self.reply_limit).await.map(drop)
    }

    /// Returns where the primary of a sentinel's service is, as the first sentinel that knows says.
    pub(crate) async fn ask_sentinels(
        &self,
        sentinels: &[Endpoint],
        service: &str,
    ) -> Result<Endpoint, Error> {
        let mut reasons = Vec::new();
        for sentinel in sentinels {
            match self.ask_sentinel(sentinel, service).await {
                Ok(Some(primary)) => return Ok(primary),
                Ok(None) => reasons.push(format!("{sentinel} does not know {service}")),
                Err(error) => reasons.push(error.chain()),
            }
        }
        let reason = reasons.join("; ");
        Err(Error::NoPrimary { reason })
    }

    async fn ask_sentinel(&self, sentinel: &Endpoint, service: &str) -> Result<Option<Endpoint>, Error> {
        let mut wire = Wire::open(sentinel, self.tls, self.connect_limit).await?;
        if let Some(password) = &self.url.sentinel_password {
            let user = self.url.sentinel_user.as_deref().map(str::as_bytes);
            self.log_in(&mut wire, user, password.reveal().as_bytes()).await?;
        }
        let question: [&[u8]; 3] = [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", service.as_bytes()];
        let reply = wire.call(&question, self.reply_limit).await?;
        let [host, port] = reply::items(&reply) else {
            return Ok(None);
        };
        let (Some(host), Some(port)) = (reply::text(host), reply::unsigned(port)) else {
            return Err(reply::unexpected("SENTINEL", &reply));
        };
        let port = u16::try_from(port).map_err(|_| reply::unexpected("SENTINEL", &reply))?;
        Ok(Some(Endpoint::Tcp { host, port }))
    }

    /// Returns a cluster's map of slots, as the first node that answers tells it, and that node.
    pub(crate) async fn ask_cluster(&self, nodes: &[Endpoint]) -> Result<(Vec<SlotRange>, Endpoint), Error> {
        let mut reasons = Vec::new();
        for node in nodes {
            match self.ask_node(node).await {
                Ok(ranges) if ranges.is_empty() => reasons.push(format!("{node} serves no slots")),
                Ok(ranges) => return Ok((ranges, node.clone())),
                // A wrong password is wrong everywhere and worth its own message.
                Err(error) if !error.is_retryable() => return Err(error),
                Err(error) => reasons.push(error.chain()),
            }
        }
        let reason = reasons.join("; ");
        Err(Error::NoPrimary { reason })
    }

    async fn ask_node(&self, node: &Endpoint) -> Result<Vec<SlotRange>, Error> {
        let mut wire = self.open(node).await?;
        let reply = wire.call(&[b"CLUSTER", b"SLOTS"], self.reply_limit).await?;
        let mut ranges = Vec::new();
        for item in reply::items(&reply) {
            let range = slot_range(item, node);
            ranges.push(range.ok_or_else(|| reply::unexpected("CLUSTER SLOTS", &reply))?);
        }
        Ok(ranges)
    }
}

fn slot_range(item: &nagaya_resp::Frame, asked: &Endpoint) -> Option<SlotRange> {
    let [first, last, owner, ..] = reply::items(item) else {
        return None;
    };
    let slot = |frame| reply::unsigned(frame).and_then(|slot| u16::try_from(slot).ok());
    let [host, port, ..] = reply::items(owner) else {
        return None;
    };
    let port = slot(port)?;
    // A node that does not know its own address sends none: it has the address that was asked.
    let host = match (reply::text(host), asked) {
        (Some(host), _) if !host.is_empty() && host != "?" => host,
        (_, Endpoint::Tcp { host, .. }) => host.clone(),
        (_, Endpoint::Unix(_)) => return None,
    };
    Some(SlotRange {
        first: slot(first)?,
        last: slot(last)?,
        owner: Endpoint::Tcp { host, port },
    })
}

/// Returns the address in a redirect, which may leave out the host.
pub(crate) fn redirect_target(text: &str, from: &Endpoint) -> Result<Endpoint, Error> {
    let parsed = endpoint(text, crate::url::DEFAULT_PORT).map_err(|reason| Error::NoPrimary { reason })?;
    match (text.starts_with(':'), parsed, from) {
        (true, Endpoint::Tcp { port, .. }, Endpoint::Tcp { host, .. }) => {
            let host = host.clone();
            Ok(Endpoint::Tcp { host, port })
        }
        (_, parsed, _) => Ok(parsed),
    }
}

/// Returns the servers of a URL that can be asked where the others are.
pub(crate) fn seeds(topology: &Topology) -> &[Endpoint] {
    match topology {
        Topology::Single(server) => std::slice::from_ref(server),
        Topology::Sentinel { sentinels, .. } => sentinels,
        Topology::Cluster { seeds } => seeds,
    }
}
