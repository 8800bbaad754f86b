//! Loads tags from the cold tier for the requests that wait for them.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;

use nagaya_keyspace::residency::{ColdRequest, LoadOrder};
use parking_lot::Mutex;

use super::walker::ClientQuery;
use crate::engine::Shared;

/// The number of loading threads. Loads wait for the disk more than for a processor.
const THREADS: usize = 4;
/// Loads that one thread takes at a time.
const LOADS_MAX: usize = 64;

/// Starts the threads. They end when the last sender of loads is dropped.
pub(crate) fn start(
    shared: &Arc<Shared>,
    orders: Receiver<ColdRequest>,
    questions: &Sender<ClientQuery>,
) -> std::io::Result<Vec<JoinHandle<()>>> {
    let orders = Arc::new(Mutex::new(orders));
    let threads = (0..THREADS).map(|number| {
        let (shared, orders, questions) = (Arc::clone(shared), Arc::clone(&orders), questions.clone());
        let work = move || while serve(&shared, &orders, &questions) {};
        nagaya_threads::spawn(format!("nagaya-load-{number}"), work)
    });
    threads.collect()
}

/// Executes the queued loads. Returns false when no more can come.
fn serve(shared: &Shared, orders: &Mutex<Receiver<ColdRequest>>, questions: &Sender<ClientQuery>) -> bool {
    let mut loads = Vec::new();
    {
        let orders = orders.lock();
        let Ok(first) = orders.recv() else { return false };
        let mut next = Some(first);
        while let Some(order) = next {
            match order {
                ColdRequest::Load(load) => loads.push(load),
                ColdRequest::Ask(asked, client) => {
                    // When the receiver is gone, the engine is ending and so are its clients.
                    questions.send((asked, client)).ok();
                }
                ColdRequest::End => return false,
            }
            // Another thread takes the rest.
            let full = loads.len() >= LOADS_MAX;
            next = if full { None } else { orders.try_recv().ok() };
        }
    }
    load(shared, &loads);
    true
}

fn load(shared: &Shared, orders: &[LoadOrder]) {
    let Some(tiering) = shared.server.keyspace.tiering.get() else {
        return;
    };
    if orders.is_empty() {
        return;
    }
    let started_us = shared.server.clock.steady_us();
    let tags: Vec<&[u8]> = orders.iter().map(|order| &*order.tag).collect();
    match tiering.cold.read(&tags) {
        Ok(read) => {
            for (order, loaded) in orders.iter().zip(read) {
                make_room(shared);
                shared.server.keyspace.install(order, Ok(loaded));
            }
        }
        // One bad row must not block the other tags.
        Err(_) => {
            for order in orders {
                let read = tiering.cold.read(&[&order.tag]);
                shared
                    .server
                    .keyspace
                    .install(order, read.map(|mut rows| rows.pop().flatten()));
            }
        }
    }
    let spent_us = shared.server.clock.steady_us() - started_us;
    tiering.note_load_time(orders.len(), spent_us);
}

/// Evicts colder tags if the loaded ones need memory.
fn make_room(shared: &Shared) {
    shared
        .server
        .keyspace
        .evict_until_enough(shared.server.config().maxmemory);
}
