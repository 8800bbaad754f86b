//! A bounded pool of connections.
//!
//! A caller waits for a free one up to a limit. A connection that was idle for a
//! while is probed before it is handed out; one whose call was abandoned is not
//! handed out again. While the server cannot be reached, all callers share one
//! backoff, so a server that comes up is not flooded with connections.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use nagaya_net::Backoff;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::task::TaskTracker;

use crate::connector::Connector;
use crate::error::{Error, Kind};
use crate::session::Session;
use crate::transaction::Transaction;
use crate::url::PostgresUrl;

const FIRST_WAIT: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(2);

/// How a pool behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The application name that the server's list of sessions shows, unless the URL has one.
    pub application_name: String,
    pub connections_max: usize,
    /// How long a caller waits for a connection, including while the server is down.
    pub acquire_timeout: Duration,
    /// How long connecting and authenticating may take per host.
    pub connect_timeout: Duration,
    /// How long one statement may take.
    pub call_timeout: Duration,
    /// A connection idle for longer is probed before it is used.
    pub check_after: Duration,
    /// How long the probe may take.
    pub check_timeout: Duration,
    /// Statements that every new connection runs first.
    pub setup: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            application_name: "nagaya".into(),
            connections_max: 8,
            acquire_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(30),
            check_after: Duration::from_secs(10),
            check_timeout: Duration::from_secs(2),
            setup: Vec::new(),
        }
    }
}

/// Connections in use and idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStatus {
    pub in_use: usize,
    pub idle: usize,
}

/// A bounded set of connections; cheap to clone.
#[derive(Clone, Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    connector: Connector,
    options: Options,
    permits: Arc<Semaphore>,
    /// The last one used is the next one handed out, so that the others can be closed.
    idle: Mutex<Vec<Idle>>,
    outage: Mutex<Outage>,
    /// The tasks that move the connections' bytes.
    wires: TaskTracker,
}

#[derive(Debug)]
struct Idle {
    session: Session,
    since: Instant,
}

/// The backoff after a failed attempt to connect.
#[derive(Debug)]
struct Outage {
    backoff: Backoff,
    not_before: Option<Instant>,
}

impl Pool {
    /// Makes an empty pool; connections are made on demand. Must be used inside one tokio runtime.
    pub fn new(url: &PostgresUrl, options: Options) -> Result<Pool, Error> {
        let connector = Connector::new(url, &options.application_name, options.connect_timeout)?;
        Ok(Pool {
            shared: Arc::new(Shared {
                connector,
                permits: Arc::new(Semaphore::new(options.connections_max.max(1))),
                options,
                idle: Mutex::default(),
                outage: Mutex::new(Outage {
                    backoff: Backoff::new(FIRST_WAIT, WAIT_MAX),
                    not_before: None,
                }),
                wires: TaskTracker::new(),
            }),
        })
    }

    /// Waits for a connection. Cancel safe.
    pub async fn get(&self) -> Result<Connection, Error> {
        let shared = &self.shared;
        let limit = shared.options.acquire_timeout;
        let deadline = Instant::now() + limit;
        let permit = timeout_at(deadline, shared.permits.clone().acquire_owned()).await;
        let permit = permit.map_err(|_| shared.busy())?.map_err(|_| shared.closed())?;
        while let Some(idle) = shared.pop_idle() {
            if shared.is_alive(&idle).await {
                return Ok(self.hand_out(idle.session, permit));
            }
        }
        let session = shared.connect_until(deadline).await?;
        Ok(self.hand_out(session, permit))
    }

    /// Returns the connector to the same server, for connections outside of the pool.
    pub fn connector(&self) -> &Connector {
        &self.shared.connector
    }

    pub fn status(&self) -> PoolStatus {
        PoolStatus {
            in_use: self.shared.options.connections_max.max(1) - self.shared.permits.available_permits(),
            idle: self.shared.idle().len(),
        }
    }

    /// Closes the pool: idle connections at once, those in use when they return, up to a limit; returns whether all
    /// were closed.
    pub async fn close(&self, limit: Duration) -> bool {
        self.shared.permits.close();
        self.shared.idle().clear();
        self.shared.wires.close();
        timeout(limit, self.shared.wires.wait()).await.is_ok()
    }

    fn hand_out(&self, session: Session, permit: OwnedSemaphorePermit) -> Connection {
        Connection {
            session: Some(session),
            shared: self.shared.clone(),
            _permit: permit,
        }
    }
}

impl Shared {
    async fn connect_until(&self, deadline: Instant) -> Result<Session, Error> {
        loop {
            let not_before = self.outage().not_before;
            if let Some(at) = not_before {
                sleep_until(at.min(deadline)).await;
            }
            let attempt = timeout_at(deadline, self.connect()).await;
            let error = match attempt {
                Ok(Ok(session)) => {
                    self.note_success();
                    return Ok(session);
                }
                Ok(Err(error)) => error,
                Err(_) => return Err(self.unreachable()),
            };
            if error.kind() != Kind::Unavailable {
                return Err(error);
            }
            let next = self.note_failure(not_before);
            if next >= deadline {
                return Err(error);
            }
        }
    }

    async fn connect(&self) -> Result<Session, Error> {
        let (client, wire) = self.connector.connect().await?;
        let address = self.connector.address();
        self.wires.spawn(async move {
            if let Err(error) = wire.await {
                tracing::debug!(%error, "connection to postgresql ended");
            }
        });
        let session = Session::new(client, address, self.options.call_timeout);
        for statement in &self.options.setup {
            session.batch(statement).await?;
        }
        Ok(session)
    }

    async fn is_alive(&self, idle: &Idle) -> bool {
        if !idle.session.is_usable() {
            return false;
        }
        if idle.since.elapsed() < self.options.check_after {
            return true;
        }
        let limit = self.options.check_timeout;
        idle.session.batch_within("", limit).await.is_ok()
    }

    fn note_success(&self) {
        let mut outage = self.outage();
        outage.backoff.reset();
        if outage.not_before.take().is_some() {
            drop(outage);
            tracing::info!(
                address = self.connector.address(),
                "postgresql can be reached again"
            );
        }
    }

    /// Returns when to try again. Callers that failed together move the time once.
    fn note_failure(&self, seen: Option<Instant>) -> Instant {
        let mut outage = self.outage();
        match outage.not_before {
            Some(at) if outage.not_before != seen => at,
            _ => {
                let at = Instant::now() + outage.backoff.next_wait();
                outage.not_before = Some(at);
                drop(outage);
                if seen.is_none() {
                    tracing::warn!(address = self.connector.address(), "postgresql cannot be reached");
                }
                at
            }
        }
    }

    fn take_back(&self, session: Session) {
        if session.is_usable() && !self.permits.is_closed() {
            let since = Instant::now();
            self.idle().push(Idle { session, since });
        }
    }

    fn pop_idle(&self) -> Option<Idle> {
        self.idle().pop()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().expect("no holder of this lock can panic")
    }

    fn outage(&self) -> MutexGuard<'_, Outage> {
        self.outage.lock().expect("no holder of this lock can panic")
    }

    fn busy(&self) -> Error {
        Error::Busy {
            address: self.connector.address().to_owned(),
            limit: self.options.acquire_timeout,
        }
    }

    fn unreachable(&self) -> Error {
        Error::Unreachable {
            address: self.connector.address().to_owned(),
            limit: self.options.acquire_timeout,
        }
    }

    fn closed(&self) -> Error {
        Error::PoolClosed {
            address: self.connector.address().to_owned(),
        }
    }
}

/// A borrowed connection; dropping it returns it to its pool.
#[derive(Debug)]
pub struct Connection {
    /// `Some` until dropped.
    session: Option<Session>,
    shared: Arc<Shared>,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    /// Begins a transaction.
    pub async fn transaction(&mut self) -> Result<Transaction<'_>, Error> {
        Transaction::begin(self).await
    }
}

impl Deref for Connection {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session
            .as_ref()
            .expect("a connection has a session until it is dropped")
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut Session {
        self.session
            .as_mut()
            .expect("a connection has a session until it is dropped")
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.shared.take_back(session);
        }
    }
}
