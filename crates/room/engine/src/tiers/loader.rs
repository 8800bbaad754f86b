//! Reads tags from the cold tier for those who wait for them.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use nagaya_commands::tiering::{LoadOrder, Order};

use crate::engine::Shared;

/// Threads that read. Reads wait for a disk more than for a processor.
const THREADS: usize = 4;
/// Loads that one thread takes on at a time.
const LOADS_MAX: usize = 64;

/// Starts the threads. They end when nobody can order any more.
pub(crate) fn start(shared: &Arc<Shared>, orders: Receiver<Order>) -> std::io::Result<Vec<JoinHandle<()>>> {
    let orders = Arc::new(Mutex::new(orders));
    let threads = (0..THREADS).map(|number| {
        let (shared, orders) = (Arc::clone(shared), Arc::clone(&orders));
        std::thread::Builder::new()
            .name(format!("nagaya-load-{number}"))
            .spawn(move || while serve(&shared, &orders) {})
    });
    threads.collect()
}

/// Does what has been ordered; false when nothing more can come.
fn serve(shared: &Shared, orders: &Mutex<Receiver<Order>>) -> bool {
    let mut loads = Vec::new();
    let mut question = None;
    {
        let orders = orders.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(first) = orders.recv() else { return false };
        let mut next = Some(first);
        while let Some(order) = next {
            match order {
                Order::Load(load) => loads.push(load),
                Order::Ask(asked, client) => question = Some((asked, client)),
                Order::End => return false,
            }
            // Whoever is free takes the rest.
            let full = question.is_some() || loads.len() >= LOADS_MAX;
            next = if full { None } else { orders.try_recv().ok() };
        }
    }
    load(shared, &loads);
    if let Some((asked, client)) = question {
        shared.server.keyspace.answer(&asked, &client);
    }
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
        // One bad row must not keep the other tags out.
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

/// Lets colder tags make room for those that come.
fn make_room(shared: &Shared) {
    shared
        .server
        .keyspace
        .evict_until_enough(shared.server.config().maxmemory);
}
