//! One tracking client, as all threads see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::client::Client;

/// A client that tracks, with what whoever changes a key must know about it.
///
/// The key table keeps it alive for as long as it remembers a key for the client, switched off.
pub struct Tracker {
    pub client: Arc<Client>,
    /// Takes invalidations of the keys it has read.
    keys: AtomicBool,
    broadcast: AtomicBool,
    noloop: AtomicBool,
    /// Who gets the messages instead; 0 for the client itself.
    redirect: AtomicU64,
    /// A message found nobody at the other end of the redirection.
    broken: AtomicBool,
}

/// How a client tracks, as CLIENT LIST shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackerInfo {
    /// The client that gets the invalidations instead; 0 when none does.
    pub redirect: u64,
    pub broadcast: bool,
    /// The client redirected to is gone.
    pub broken_redirect: bool,
}

impl Tracker {
    pub fn new(client: Arc<Client>) -> Tracker {
        Tracker {
            client,
            keys: AtomicBool::new(false),
            broadcast: AtomicBool::new(false),
            noloop: AtomicBool::new(false),
            redirect: AtomicU64::new(0),
            broken: AtomicBool::new(false),
        }
    }

    /// Sets how the client tracks from now on.
    pub fn switch_on(&self, broadcast: bool, noloop: bool, redirect: u64) {
        self.broken.store(false, Ordering::Relaxed);
        self.redirect.store(redirect, Ordering::Relaxed);
        self.noloop.store(noloop, Ordering::Relaxed);
        self.broadcast.store(broadcast, Ordering::Relaxed);
        self.keys.store(!broadcast, Ordering::Relaxed);
    }

    pub fn switch_off(&self) {
        self.keys.store(false, Ordering::Relaxed);
    }

    pub fn wants_keys(&self) -> bool {
        self.keys.load(Ordering::Relaxed)
    }

    pub fn is_noloop(&self) -> bool {
        self.noloop.load(Ordering::Relaxed)
    }

    pub fn redirect(&self) -> u64 {
        self.redirect.load(Ordering::Relaxed)
    }

    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    pub fn mark_broken(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    pub fn info(&self) -> TrackerInfo {
        TrackerInfo {
            redirect: self.redirect(),
            broadcast: self.broadcast.load(Ordering::Relaxed),
            broken_redirect: self.is_broken(),
        }
    }
}
