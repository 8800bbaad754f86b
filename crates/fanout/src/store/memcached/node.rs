//! One memcached server: its connection, replaced when it ends, and the keys whose state is uncertain.

use std::time::Duration;

use parking_lot::Mutex as SyncMutex;
use tokio::sync::Mutex;

use super::super::StoreError;
use super::wire::{Connection, Expect, Reply};

/// Keys of uncertain state that are tracked per server. Beyond that the oldest are dropped and left to their
/// expiry.
const UNCONFIRMED_MAX: usize = 10_000;

pub(super) struct Node {
    address: String,
    timeout: Duration,
    /// Held across awaits on purpose: a caller that arrives while a connection is being opened waits for it.
    connection: Mutex<Option<Connection>>,
    /// Keys sent over a connection that then ended: the server may have them or may still read them. They
    /// were reported as failed, so they are deleted before anything else is sent.
    unconfirmed: SyncMutex<Vec<String>>,
}

/// Commands for one server, and the keys they would leave there.
#[derive(Default)]
pub(super) struct Commands {
    pub(super) bytes: Vec<u8>,
    pub(super) expected: Vec<Expect>,
    pub(super) keys: Vec<String>,
}

impl Commands {
    pub(super) fn set(&mut self, key: &str, expires: u64, value: &[u8]) {
        let head = format!("set {key} 0 {expires} {}\r\n", value.len());
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
        self.expected.push(Expect::Line);
        self.keys.push(key.to_owned());
    }

    pub(super) fn delete(&mut self, key: &str) {
        self.bytes
            .extend_from_slice(format!("delete {key}\r\n").as_bytes());
        self.expected.push(Expect::Line);
    }

    pub(super) fn get(&mut self, keys: &[String]) {
        self.bytes
            .extend_from_slice(format!("get {}\r\n", keys.join(" ")).as_bytes());
        self.expected.push(Expect::Values);
    }
}

impl Node {
    pub(super) fn new(address: String, timeout: Duration) -> Node {
        Node {
            address,
            timeout,
            connection: Mutex::default(),
            unconfirmed: SyncMutex::default(),
        }
    }

    /// Runs commands in one pipeline.
    pub(super) async fn run(&self, commands: Commands) -> Result<Vec<Reply>, StoreError> {
        let connection = self.connection().await?;
        let Commands {
            bytes,
            expected,
            keys,
        } = commands;
        match connection.exchange(bytes, expected, self.timeout).await {
            Ok(replies) => Ok(replies),
            Err(reason) => {
                self.remember(keys);
                Err(self.error(reason))
            }
        }
    }

    async fn connection(&self) -> Result<Connection, StoreError> {
        let mut slot = self.connection.lock().await;
        if let Some(connection) = slot.as_ref().filter(|connection| connection.is_open()) {
            return Ok(connection.clone());
        }
        *slot = None;
        let opened = Connection::open(&self.address, self.timeout).await;
        let connection = opened.map_err(|error| self.error(&error.to_string()))?;
        self.forget_unconfirmed(&connection).await?;
        Ok(slot.insert(connection).clone())
    }

    /// Deletes what earlier connections may have left behind.
    async fn forget_unconfirmed(&self, connection: &Connection) -> Result<(), StoreError> {
        let keys = std::mem::take(&mut *self.unconfirmed.lock());
        let mut commands = Commands::default();
        keys.iter().for_each(|key| commands.delete(key));
        if keys.is_empty() {
            return Ok(());
        }
        let removed = connection
            .exchange(commands.bytes, commands.expected, self.timeout)
            .await;
        if let Err(reason) = removed {
            self.remember(keys);
            return Err(self.error(reason));
        }
        Ok(())
    }

    fn remember(&self, keys: Vec<String>) {
        let mut unconfirmed = self.unconfirmed.lock();
        unconfirmed.extend(keys);
        let excess = unconfirmed.len().saturating_sub(UNCONFIRMED_MAX);
        unconfirmed.drain(..excess);
    }

    fn error(&self, reason: &str) -> StoreError {
        StoreError::Memcached {
            address: self.address.clone(),
            reason: reason.to_owned(),
        }
    }
}
