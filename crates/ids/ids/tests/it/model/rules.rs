//! What may happen in a search, and how often.

use nagaya_ids::lease::LeaseAction;

/// What is modelled, and how much of it may happen. Lengths are ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Rules {
    pub(super) processes: u8,
    pub(super) numbers: u8,
    pub(super) replicas: u8,
    /// Replicas that must have a write before it counts.
    pub(super) confirmations: u8,
    pub(super) use_for: u8,
    /// How much longer than `use_for` the first process may use its number.
    pub(super) longer: u8,
    /// What a taker waits: the longest use in the pool.
    pub(super) delay: u8,
    pub(super) failovers: u8,
    /// The old primary still answers clients that reach it.
    pub(super) split: bool,
    pub(super) flushes: u8,
    /// Process starts in all, the first one's included.
    pub(super) starts: u8,
    pub(super) grants: u8,
    /// Calls that end without an answer; the request may still arrive later.
    pub(super) lost_calls: u8,
    pub(super) releases: u8,
    /// Ticks that one process may miss, and that another may count twice.
    pub(super) drift: u8,
    /// Guards taken out.
    pub(super) trust_any_run: bool,
    pub(super) trust_record_run: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            processes: 2,
            numbers: 1,
            replicas: 0,
            confirmations: 0,
            use_for: 1,
            longer: 0,
            delay: 1,
            failovers: 0,
            split: false,
            flushes: 0,
            starts: 2,
            grants: 3,
            lost_calls: 1,
            releases: 0,
            drift: 0,
            trust_any_run: false,
            trust_record_run: false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Tick,
    TickWithout(u8),
    TickTwice(u8),
    Start(u8),
    Crash(u8),
    Release(u8),
    Send(u8, LeaseAction),
    GiveUp(u8),
    Run { process: u8, node: u8, pick: u8 },
    RunLate { node: u8, pick: u8 },
    Answer(u8),
    Sync(u8),
    Promote(u8),
    Follow { replica: u8, primary: u8 },
    Flush(u8),
}
