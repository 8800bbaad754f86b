//! LISTEN that reconnects and reports when notifications may have been missed.
//!
//! A notification is a hint that something changed: PostgreSQL keeps none for a
//! listener that is disconnected, and the queue of a slow user is bounded. After
//! every reconnect, and when hints were dropped, the user gets [`Event::Gap`] and
//! must check everything. Users also poll at long intervals.

use std::future::poll_fn;
use std::time::Duration;

use nagaya_net::Backoff;
use nagaya_sql::block;
use nagaya_threads::vital;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep, timeout};
use tokio_postgres::{AsyncMessage, Client};

use crate::connector::{Connector, Wire};
use crate::error::Error;
use crate::scalar::scalar;

const LISTEN: &str = block(include_str!("queries/notify.sql"), "listen");

/// Hints queued for a slow user; further ones are dropped and reported as a gap.
const EVENTS_QUEUED_MAX: usize = 1024;
/// How often a connection is probed, and how long the reply may take.
const CHECK_EVERY: Duration = Duration::from_secs(5);
const CHECK_LIMIT: Duration = Duration::from_secs(5);
const FIRST_WAIT: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(2);

/// What a listener receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Listening for the first time.
    Ready,
    /// Reconnected, or hints were dropped: some may have been missed.
    Gap,
    Notified {
        channel: String,
        payload: String,
    },
}

/// A running subscription; dropping it ends it.
#[derive(Debug)]
pub struct Listener {
    events: mpsc::Receiver<Event>,
    task: JoinHandle<()>,
}

impl Listener {
    /// Starts to listen, and again after every lost connection, until dropped. Must run inside a tokio runtime.
    pub fn start(connector: Connector, channels: Vec<String>) -> Listener {
        let (sender, events) = mpsc::channel(EVENTS_QUEUED_MAX);
        let task = tokio::spawn(vital("postgres listener", listen(connector, channels, sender)));
        Listener { events, task }
    }

    /// Waits for the next event. Cancel safe.
    pub async fn next(&mut self) -> Event {
        match self.events.recv().await {
            Some(event) => event,
            // The task ends only when its user has dropped the receiver.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(connector: Connector, channels: Vec<String>, events: mpsc::Sender<Event>) {
    let mut backoff = Backoff::new(FIRST_WAIT, WAIT_MAX);
    let mut relay = Relay {
        events,
        first: true,
        missed: false,
    };
    while !relay.events.is_closed() {
        let Err(error) = listen_once(&connector, &channels, &mut relay, &mut backoff).await else {
            return;
        };
        tracing::debug!(
            error = error.chain(),
            "the listening connection to postgresql was lost"
        );
        sleep(backoff.next_wait()).await;
    }
}

/// Listens on one connection; returns when the user has dropped the receiver.
async fn listen_once(
    connector: &Connector,
    channels: &[String],
    relay: &mut Relay,
    backoff: &mut Backoff,
) -> Result<(), Error> {
    let (client, wire) = connector.connect().await?;
    // The connection is polled beside the calls, not by a task of its own, so it ends with this future.
    let (hints, mut heard) = mpsc::channel(EVENTS_QUEUED_MAX);
    let pump = pump(wire, hints);
    let talk = async {
        subscribe(&client, channels).await?;
        backoff.reset();
        relay.stands().await;
        let mut check = interval(CHECK_EVERY);
        loop {
            tokio::select! {
                hint = heard.recv() => match hint {
                    Some(event) => relay.pass(event),
                    None => return Ok(()),
                },
                _ = check.tick() => {
                    relay.tell_missed();
                    match timeout(CHECK_LIMIT, client.batch_execute("")).await {
                        Ok(done) => done?,
                        Err(_) => return Ok(()),
                    }
                }
                () = relay.gone() => return Ok(()),
            }
        }
    };
    let failed = |source| Error::of_call(source, connector.address());
    tokio::select! {
        ended = pump => ended.map_err(failed)?,
        ended = talk => ended.map_err(failed)?,
    }
    if relay.events.is_closed() {
        return Ok(());
    }
    Err(Error::TimedOut {
        address: connector.address().to_owned(),
        what: "answer",
        limit: CHECK_LIMIT,
    })
}

/// Moves the connection's bytes and passes notifications on.
async fn pump(mut wire: Wire, hints: mpsc::Sender<Event>) -> Result<(), tokio_postgres::Error> {
    while let Some(message) = poll_fn(|cx| wire.poll_message(cx)).await {
        if let AsyncMessage::Notification(note) = message? {
            let event = Event::Notified {
                channel: note.channel().to_owned(),
                payload: note.payload().to_owned(),
            };
            if hints.send(event).await.is_err() {
                break;
            }
        }
    }
    Ok(())
}

async fn subscribe(client: &Client, channels: &[String]) -> Result<(), tokio_postgres::Error> {
    let rows = client.query(LISTEN, &[&channels]).await?;
    for row in rows {
        client.batch_execute(scalar(&row)).await?;
    }
    Ok(())
}

/// The sending end of the user's queue.
struct Relay {
    events: mpsc::Sender<Event>,
    first: bool,
    /// Hints were dropped since the last gap was reported.
    missed: bool,
}

impl Relay {
    async fn stands(&mut self) {
        let event = if self.first { Event::Ready } else { Event::Gap };
        self.first = false;
        self.missed = false;
        // A user that is gone needs no event; the caller checks for that itself.
        self.events.send(event).await.ok();
    }

    fn pass(&mut self, event: Event) {
        self.tell_missed();
        self.missed = self.missed || self.events.try_send(event).is_err();
    }

    fn tell_missed(&mut self) {
        if self.missed {
            self.missed = self.events.try_send(Event::Gap).is_err();
        }
    }

    async fn gone(&self) {
        self.events.closed().await;
    }
}
