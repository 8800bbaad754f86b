//! Ids made under leases, on a clock and a store that the test moves: unique over restarts, freezes,
//! takeovers and steps of the wall clock.

use std::collections::HashSet;
use std::time::Duration;

use nagaya_clock::BootTime;
use nagaya_ids::IdClock;
use nagaya_ids::lease::{Held, LeaseAction, LeaseState, Opening, Renewal, Times, Timing};
use nagaya_ids::pool::Phase;
use proptest::prelude::*;

use crate::model::store::{Caller, Store};

const PROCESSES: usize = 3;
const NUMBERS: u8 = 1;
/// Short, so that times meet often.
const USE_MS: u64 = 12;

#[derive(Clone, Copy, Debug)]
enum Deed {
    /// A process does its next step, and the call takes this long each way.
    Act {
        process: usize,
        there_ms: u64,
        back_ms: u64,
    },
    /// It makes an id, and is frozen for this long between fixing the time and checking the window.
    Make {
        process: usize,
        frozen_ms: u64,
    },
    /// It dies and starts again with a wall clock this far from the truth.
    Restart {
        process: usize,
        wall_off_ms: i64,
    },
    Release {
        process: usize,
        wall_off_ms: i64,
    },
    Pass {
        ms: u64,
    },
    /// A stranger's number is free for any client.
    Offer {
        number: u8,
    },
}

fn deed() -> impl Strategy<Value = Deed> {
    let process = 0..PROCESSES;
    let off = -30_i64..30;
    prop_oneof![
        9 => (process.clone(), 0_u64..5, 0_u64..5)
            .prop_map(|(process, there_ms, back_ms)| Deed::Act { process, there_ms, back_ms }),
        8 => (process.clone(), prop_oneof![6 => Just(0), 1 => 0_u64..30])
            .prop_map(|(process, frozen_ms)| Deed::Make { process, frozen_ms }),
        1 => (process.clone(), off.clone()).prop_map(|(process, wall_off_ms)| Deed::Restart { process, wall_off_ms }),
        1 => (process, off).prop_map(|(process, wall_off_ms)| Deed::Release { process, wall_off_ms }),
        6 => (0_u64..4).prop_map(|ms| Deed::Pass { ms }),
        1 => (0..NUMBERS).prop_map(|number| Deed::Offer { number }),
    ]
}

struct Process {
    caller: Caller,
    lease_state: LeaseState<u8>,
    clock: IdClock,
    floor_ms: u64,
    ceil_ms: u64,
    last_ms: u64,
}

struct Stage {
    now: BootTime,
    store: Store,
    ceilings: Vec<u64>,
    processes: Vec<Process>,
    next_token: u8,
    offered: u8,
    made: HashSet<(u64, u64)>,
}

impl Stage {
    fn new() -> Stage {
        let mut stage = Stage {
            now: BootTime::from_nanos(1_000_000_000),
            store: Store::of(NUMBERS),
            ceilings: vec![0; NUMBERS.into()],
            processes: Vec::new(),
            next_token: 1,
            offered: 0,
            made: HashSet::new(),
        };
        for _ in 0..PROCESSES {
            let process = stage.started(0, 0, 0);
            stage.processes.push(process);
        }
        stage
    }

    fn started(&mut self, name: u8, proof: u8, wall_off_ms: i64) -> Process {
        let truth_ms = self.now.as_nanos() / 1_000_000 + 1_000_000;
        let token = self.next_token;
        self.next_token = self.next_token.checked_add(1).unwrap_or(1);
        let name = if name == 0 { token } else { name };
        let timing = Timing {
            use_for: Duration::from_millis(USE_MS),
            interval: Duration::ZERO,
            ..Timing::default()
        };
        Process {
            caller: Caller { name, token, proof },
            lease_state: LeaseState::new(&timing),
            clock: IdClock::at(truth_ms.saturating_add_signed(wall_off_ms), self.now),
            floor_ms: 0,
            ceil_ms: 0,
            last_ms: 0,
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now + Duration::from_millis(ms);
    }

    fn act(&mut self, at: usize, there_ms: u64, back_ms: u64) {
        let sent = self.now;
        let process = &self.processes[at];
        let action = process.lease_state.next(sent);
        let ceil_ms = process.clock.unix_ms(sent) + USE_MS;
        let caller = process.caller;
        let held = process.lease_state.held().cloned();
        self.pass(there_ms);
        match (action, held) {
            (LeaseAction::Get, _) => {
                let given = self.store.get(caller, 1, 0, self.offered, false);
                let stored = &mut self.ceilings[usize::from(given.number)];
                let floor_ms = *stored;
                *stored = floor_ms.max(ceil_ms);
                self.pass(back_ms);
                let times = Times {
                    sent,
                    received: self.now,
                };
                let process = &mut self.processes[at];
                let held = Held {
                    number: given.number.into(),
                    fence: given.fence.into(),
                    at_once: given.at_once,
                    run: 1,
                };
                let opening = Opening {
                    delay: Duration::from_millis(USE_MS),
                    floor_passed: BootTime::ZERO,
                };
                process.lease_state.granted(held, opening, times);
                (process.floor_ms, process.last_ms) = (floor_ms, floor_ms);
                process.ceil_ms = floor_ms.max(ceil_ms);
            }
            (LeaseAction::Extend(phase), Some(held)) => {
                let number = u8::try_from(held.number).unwrap();
                let fence = u32::try_from(held.fence).unwrap();
                let answer = self.store.extend(caller, 1, 1, (number, fence), phase);
                if answer.is_ok() {
                    let stored = &mut self.ceilings[usize::from(number)];
                    *stored = (*stored).max(ceil_ms);
                }
                self.pass(back_ms);
                self.renewed(at, phase, answer, ceil_ms, sent);
            }
            _ => (),
        }
    }

    fn renewed(
        &mut self,
        at: usize,
        phase: Phase,
        answer: Result<bool, nagaya_ids::pool::Refusal>,
        ceil_ms: u64,
        sent: BootTime,
    ) {
        let times = Times {
            sent,
            received: self.now,
        };
        let process = &mut self.processes[at];
        let renewal = match answer {
            Ok(run_changed) => {
                process.ceil_ms = process.ceil_ms.max(ceil_ms);
                Renewal::Confirmed { run_changed, run: 1 }
            }
            Err(refusal) => Renewal::Refused(refusal),
        };
        process.lease_state.renewed(phase, renewal, times, times.received);
    }

    /// Clock first, window second, as the order is.
    fn make(&mut self, at: usize, frozen_ms: u64) -> Result<(), TestCaseError> {
        let time_ms = self.processes[at].clock.unix_ms(self.now);
        self.pass(frozen_ms);
        let process = &mut self.processes[at];
        let Some((held, until)) = process.lease_state.window() else {
            return Ok(());
        };
        let fits = time_ms > process.last_ms && time_ms > process.floor_ms && time_ms <= process.ceil_ms;
        if fits && self.now < until {
            let number = held.number;
            process.last_ms = time_ms;
            prop_assert!(self.made.insert((number, time_ms)), "{number} at {time_ms} twice");
        }
        Ok(())
    }

    fn restart(&mut self, at: usize, wall_off_ms: i64) {
        let before = self.processes[at].caller;
        self.processes[at] = self.started(before.name, before.token, wall_off_ms);
    }

    fn release(&mut self, at: usize) {
        let process = &self.processes[at];
        let Some(held) = process.lease_state.held() else {
            return;
        };
        let (number, fence) = (
            usize::try_from(held.number).unwrap(),
            u32::try_from(held.fence).unwrap(),
        );
        let before = self.store.records[number].token;
        self.store
            .release(process.caller, 1, (u8::try_from(number).unwrap(), fence), true);
        if self.store.records[number].token != before {
            self.ceilings[number] = process.last_ms.max(process.floor_ms);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ids_are_unique_while_redis_keeps_what_it_confirmed(deeds in prop::collection::vec(deed(), 1..400)) {
        let mut stage = Stage::new();
        for deed in deeds {
            match deed {
                Deed::Act { process, there_ms, back_ms } => stage.act(process, there_ms, back_ms),
                Deed::Make { process, frozen_ms } => stage.make(process, frozen_ms)?,
                Deed::Restart { process, wall_off_ms } => stage.restart(process, wall_off_ms),
                Deed::Release { process, wall_off_ms } => {
                    stage.release(process);
                    stage.restart(process, wall_off_ms);
                }
                Deed::Pass { ms } => stage.pass(ms),
                Deed::Offer { number } => stage.offered = number,
            }
            let mut users = Vec::new();
            for process in &stage.processes {
                if let Some((held, until)) = process.lease_state.window() && stage.now < until {
                    prop_assert!(!users.contains(&held.number), "number {} has two users", held.number);
                    users.push(held.number);
                }
            }
        }
    }
}
