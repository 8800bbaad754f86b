//! Exhaustive search over small worlds: every order of messages, ticks and faults, starting from one running
//! worker, breadth first, with the real cores of agents and manager and the model of the store.
//!
//! Random worlds are long and many; these are short but complete, down to the depth that the bound on states
//! allows. A lease is two ticks. Stops take no time, and no clock drifts.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::Guard;
use super::exhaustive::SmallWorld;

/// The faults that may occur, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    pub(super) ticks: u8,
    /// An agent's process ends, and one with the same name starts.
    pub(super) crashes: u8,
    /// A second process with the first agent's name.
    pub(super) twins: u8,
    /// A copy of the store is kept, and takes over later.
    pub(super) failovers: u8,
    /// An operator asks for the worker to be moved.
    pub(super) moves: u8,
    /// The first agent leaves.
    pub(super) leaves: u8,
}

/// The result of a search.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) states: usize,
    pub(super) depth: usize,
    /// The steps to the first violation, and its description.
    pub(super) trace: Option<(Vec<Step>, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Tick,
    /// An agent sends the call that is due; the store executes it; the agent receives the reply, or the reply
    /// is lost.
    Send(usize),
    Serve(usize),
    Receive(usize),
    Lose(usize),
    ReadSnapshot,
    ServeSnapshot,
    ReceiveSnapshot,
    /// The manager's oldest command reaches the store.
    Command,
    Crash(usize),
    Twin,
    Keep,
    FailOver,
    Move,
    Leave,
}

/// Visits all worlds within a budget, up to `states_max`.
pub(super) fn search(without: Option<Guard>, budget: Budget, states_max: usize) -> Found {
    let begin = SmallWorld::running(without, budget);
    let mut seen = HashSet::from([fingerprint(&begin)]);
    let mut queue = VecDeque::from([(begin, Vec::new())]);
    let mut depth = 0;
    while let Some((world, steps)) = queue.pop_front() {
        depth = steps.len();
        for step in world.steps() {
            let mut next = world.clone();
            next.take(step);
            let mut steps: Vec<Step> = steps.clone();
            steps.push(step);
            if let Some(wrong) = next.wrong.take() {
                let trace = Some((steps, wrong));
                return Found {
                    states: seen.len(),
                    depth,
                    trace,
                };
            }
            if seen.insert(fingerprint(&next)) && seen.len() <= states_max {
                queue.push_back((next, steps));
            }
        }
    }
    Found {
        states: seen.len(),
        depth,
        trace: None,
    }
}

fn fingerprint(world: &SmallWorld) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
