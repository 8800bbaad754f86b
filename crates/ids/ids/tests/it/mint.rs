//! Ids stay unique whatever happens to clocks and processes, as long as the store remembers
//! the ceilings it confirmed.
//!
//! Several processes use one worker number, one after the other and even at the same time
//! (an old one may never have heard that it was replaced). Each has its own idea of the wall
//! time. Any reading of the clock may be followed by a freeze.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nagaya_clock::{BootClock, BootTime};
use nagaya_ids::id_clock::RunningClock;
use nagaya_ids::layout::{DEFAULT_EPOCH_MS, Layout};
use nagaya_ids::mint::{Mint, Step};
use nagaya_ids::{Ceiling, IdClock, Permit, Stop};
use proptest::prelude::*;

const START_MS: u64 = 1_794_700_800_000;
const WINDOW: Duration = Duration::from_millis(50);
/// How far ahead of its clock a holder asks to be allowed, in milliseconds.
const CEILING_AHEAD_MS: u64 = 50;

#[derive(Clone, Debug)]
enum Event {
    /// One of the processes asks for ids.
    Make {
        process: usize,
        want: u64,
    },
    /// One of the processes renews; the store refuses all but the last.
    Renew {
        process: usize,
    },
    Pass {
        micros: u64,
    },
    /// The machine freezes after some more readings of the clock.
    Freeze {
        after_readings: usize,
        ms: u64,
    },
    /// The wall clock is set, which later processes see.
    StepWall {
        by_ms: i64,
    },
    /// A new process takes the number over; the old one may go on.
    TakeOver,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (0usize..8, 1u64..6).prop_map(|(process, want)| Event::Make { process, want }),
        4 => (0usize..8).prop_map(|process| Event::Renew { process }),
        4 => (0u64..3000).prop_map(|micros| Event::Pass { micros }),
        1 => (0usize..6, 0u64..200).prop_map(|(after_readings, ms)| Event::Freeze { after_readings, ms }),
        2 => (-200i64..200).prop_map(|by_ms| Event::StepWall { by_ms }),
        1 => Just(Event::TakeOver),
    ]
}

/// The machine's boot clock; freezes happen between two readings.
#[derive(Default)]
struct Machine {
    nanos: AtomicU64,
    freezes: Mutex<VecDeque<u64>>,
}

impl Machine {
    fn pass(&self, nanos: u64) {
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl BootClock for Machine {
    fn now(&self) -> BootTime {
        let freeze = self.freezes.lock().unwrap().pop_front().unwrap_or(0);
        BootTime::from_nanos(self.nanos.fetch_add(freeze, Ordering::Relaxed) + freeze)
    }
}

/// What the store remembers of the number.
#[derive(Default)]
struct Store {
    fence: u64,
    ceiling_ms: u64,
}

/// What a process was told by the store.
struct Grant {
    fence: u64,
    floor_ms: u64,
    confirmed: Mutex<(BootTime, u64)>,
    noted_ms: AtomicU64,
}

impl Permit for Grant {
    fn worker(&self) -> u64 {
        3
    }

    fn fence(&self) -> u64 {
        self.fence
    }

    fn floor_ms(&self) -> u64 {
        self.floor_ms
    }

    fn check(&self, now: BootTime) -> Result<Ceiling, Stop> {
        let (until, unix_ms) = *self.confirmed.lock().unwrap();
        if now > until {
            return Err(Stop::Late {
                late: now.since(until),
            });
        }
        Ok(Ceiling { unix_ms })
    }

    fn note_issued(&self, last_ms: u64) -> Result<(), Stop> {
        self.noted_ms.fetch_max(last_ms, Ordering::Relaxed);
        Ok(())
    }
}

struct Process {
    mint: Mint,
    grant: Arc<Grant>,
    last_id: u64,
    /// The wall time and the boot time of its start.
    started: (u64, BootTime),
}

impl Process {
    fn start(machine: &Arc<Machine>, store: &mut Store, wall_ms: u64) -> Process {
        let started = (wall_ms, machine.now());
        let clock = RunningClock::new(Arc::clone(machine) as _, IdClock::at(wall_ms, started.1));
        store.fence += 1;
        let grant = Arc::new(Grant {
            fence: store.fence,
            floor_ms: store.ceiling_ms,
            confirmed: Mutex::new((BootTime::ZERO, 0)),
            noted_ms: AtomicU64::new(0),
        });
        // Three bits of sequence, so that milliseconds fill up.
        let layout = Layout::new(41, 10, 3, DEFAULT_EPOCH_MS).unwrap();
        let mint = Mint::new(layout, clock);
        mint.set_permit(Some(Arc::clone(&grant) as _));
        Process {
            mint,
            grant,
            last_id: 0,
            started,
        }
    }

    fn renew(&self, store: &mut Store) {
        let sent = self.mint.clock().boot();
        let wanted_ms = self.mint.clock().unix_ms() + CEILING_AHEAD_MS;
        if store.fence == self.grant.fence {
            store.ceiling_ms = store.ceiling_ms.max(wanted_ms);
            *self.grant.confirmed.lock().unwrap() = (sent + WINDOW, store.ceiling_ms);
        }
    }

    /// Makes ids and checks each against everything this process was told.
    fn make(&mut self, want: u64, all: &mut HashSet<u64>) {
        let Ok(Step::Ready(block)) = self.mint.step(want) else {
            return;
        };
        let (until, ceiling_ms) = *self.grant.confirmed.lock().unwrap();
        let (started_ms, started) = self.started;
        let window_end_ms = started_ms + until.since(started).as_millis() as u64;
        assert!((1..=want).contains(&block.count()));
        for id in block.ids() {
            let parts = self.mint.layout().decode(id).unwrap();
            assert!(id > self.last_id, "not rising");
            assert!(parts.unix_ms > self.grant.floor_ms, "not above the floor");
            assert!(parts.unix_ms <= ceiling_ms, "above the ceiling");
            assert!(parts.unix_ms <= window_end_ms, "stamped after the window");
            assert!(
                parts.unix_ms <= self.grant.noted_ms.load(Ordering::Relaxed),
                "not noted"
            );
            assert!(all.insert(id), "{parts:?} was made twice");
            self.last_id = id;
        }
    }
}

/// Plays the events and returns how many ids were made.
fn play(events: &[Event]) -> usize {
    let machine = Arc::new(Machine::default());
    machine.pass(1_000_000_000);
    let mut store = Store::default();
    let mut wall_ahead_ms: i64 = 0;
    let mut all = HashSet::new();
    let mut processes = vec![Process::start(&machine, &mut store, START_MS)];
    for event in events {
        let newest = processes.len() - 1;
        match event {
            // The newest process is the busiest.
            Event::Make { process, want } => processes[(*process).min(newest)].make(*want, &mut all),
            Event::Renew { process } => processes[(*process).min(newest)].renew(&mut store),
            Event::Pass { micros } => machine.pass(micros * 1000),
            Event::Freeze { after_readings, ms } => {
                let mut freezes = machine.freezes.lock().unwrap();
                freezes.extend(std::iter::repeat_n(0, *after_readings));
                freezes.push_back(ms * 1_000_000);
            }
            Event::StepWall { by_ms } => wall_ahead_ms += by_ms,
            Event::TakeOver => {
                let passed_ms = machine.nanos.load(Ordering::Relaxed) / 1_000_000;
                let wall_ms = (START_MS + passed_ms).saturating_add_signed(wall_ahead_ms);
                processes.push(Process::start(&machine, &mut store, wall_ms));
            }
        }
    }
    all.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if long() { 20_000 } else { 1_000 }))]

    #[test]
    fn ids_are_unique_over_restarts_freezes_and_clock_steps(
        events in prop::collection::vec(event(), 0..300)
    ) {
        play(&events);
    }
}

fn long() -> bool {
    std::env::var_os("NAGAYA_TEST_LONG").is_some()
}

#[test]
fn the_played_processes_do_make_ids() {
    let make = Event::Make { process: 9, want: 3 };
    let renew = Event::Renew { process: 9 };
    let pass = Event::Pass { micros: 100_000 };
    let back = Event::StepWall { by_ms: -60 };
    let round = [
        renew.clone(),
        make.clone(),
        pass.clone(),
        Event::TakeOver,
        renew,
        make,
        pass,
        back,
    ];
    let rounds: Vec<Event> = round.iter().cycle().take(8 * 10).cloned().collect();
    assert!(play(&rounds) > 30);
}
