//! Answers clients' questions to the cold tier, apart from the threads that load.
//!
//! A question may need all of the tier (KEYS), and many may be asked at once: none of that may keep a tag from
//! being loaded. One thread, behind those that serve clients, answers them; the long ones share one walk (see
//! [`Walk`]), and between two of its pages the short ones are answered. The end of the engine does not wait for
//! answers: its clients are gone by then.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use nagaya_connections::client::Client;
use nagaya_connections::cold_query::{ColdAnswer, ColdQuery, NumberedQuery};
use nagaya_keyspace::residency::Walk;

use crate::engine::Shared;

/// The thread's nice value: threads that serve clients come first.
const NICE: i32 = 5;
/// Short questions answered between two pages of the walk.
const SHORT_PER_PAGE: usize = 64;
/// How often an idle thread looks whether the engine is about to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A query and the client that asks it.
pub(super) type ClientQuery = (NumberedQuery, Arc<Client>);

/// Starts the thread. It ends with the engine.
pub(super) fn start(shared: &Arc<Shared>) -> std::io::Result<(Sender<ClientQuery>, JoinHandle<()>)> {
    let (sender, questions) = channel();
    let shared = Arc::clone(shared);
    let thread = nagaya_threads::spawn("nagaya-walk", move || {
        // Without the permission for it, the thread runs as the others do.
        rustix::process::setpriority_process(None, NICE).ok();
        let mut walker = Walker {
            shared: &shared,
            walk: Walk::default(),
        };
        while !shared.is_stopping() && walker.turn(&questions) {}
    })?;
    Ok((sender, thread))
}

struct Walker<'s> {
    shared: &'s Shared,
    /// Each follower is the number of its question and the client.
    walk: Walk<(u64, Arc<Client>)>,
}

impl Walker<'_> {
    /// Answers what was asked and walks one page; false when nothing more can be asked.
    fn turn(&mut self, questions: &Receiver<ClientQuery>) -> bool {
        if self.walk.is_idle() {
            match questions.recv_timeout(LOOK_EVERY) {
                Ok(question) => self.take(question),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        for _ in 0..SHORT_PER_PAGE {
            match questions.try_recv() {
                Ok(question) => self.take(question),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        self.walk.keep(|(_, client)| !client.is_gone());
        if !self.walk.is_idle() {
            self.walk_on();
        }
        true
    }

    fn take(&mut self, (asked, client): ClientQuery) {
        if client.is_gone() {
            return;
        }
        match &asked.query {
            ColdQuery::Matching { space, pattern } => self.walk.join((asked.number, client), *space, pattern),
            _ => self.shared.server.keyspace.answer(&asked, &client),
        }
    }

    fn walk_on(&mut self) {
        let keyspace = &self.shared.server.keyspace;
        let Some(tiering) = keyspace.tiering.get() else {
            return;
        };
        match self
            .walk
            .step(|after, limit| tiering.cold.keys_after(after, limit))
        {
            Ok(done) => {
                for ((number, client), rows) in done {
                    keyspace.pass_answer(number, Ok(ColdAnswer::Keys(rows)), &client);
                }
            }
            Err(error) => {
                let reason = error.to_string();
                for (number, client) in self.walk.end() {
                    keyspace.pass_answer(number, Err(reason.clone()), &client);
                }
            }
        }
    }
}
