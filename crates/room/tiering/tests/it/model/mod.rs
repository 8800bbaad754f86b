//! A search through everything that can happen to one tag.
//!
//! One hot node, one cold tier, two keys; some servers, savers, evictors and loaders
//! that run the crate's own protocol functions, notes, waits and load steps; crashes,
//! cut connections, failovers to an older state and a node that comes back empty.
//! Time goes in ticks: a lease lives L ticks from the sending of its touch, a command
//! lands within M ticks of its sending and in the order of its connection, replies may
//! take for ever. `stateright` visits every state within the bounds of a scenario, the
//! nearest first, and reports the shortest way to a broken promise (see `world::Wrong`).
//!
//! `whole.rs` searches the protocol as it is and must find nothing. `guards.rs` takes
//! one guard away at a time and must find what that guard prevents: a guard whose
//! absence goes unnoticed would be decoration. A guard is taken away by telling the
//! protocol function what it wants to hear, so the code under search is always the
//! crate's own.
//!
//! Bounds are small so that the tests end within seconds. `NAGAYA_TEST_LONG=1` adds the
//! larger ones; run those with `--release`.

mod background;
mod guards;
mod node;
mod possible;
mod scenario;
mod search;
mod server;
mod whole;
mod world;
