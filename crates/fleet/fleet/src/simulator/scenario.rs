//! The faults, and when they occur.

use super::Settings;

/// A small generator whose numbers depend only on the seed.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    pub(super) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// A fault. Durations are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process and its workers end; a new process starts later. With `proven`, that one can prove the
    /// end.
    Crash {
        agent: usize,
        down: u64,
        proven: bool,
    },
    /// The machine freezes, workers included.
    Freeze {
        agent: usize,
        length: u64,
    },
    /// Requests, replies or both are lost.
    Cut {
        agent: usize,
        to_store: bool,
        from_store: bool,
        length: u64,
    },
    Leave {
        agent: usize,
        down: u64,
    },
    /// A second process with the same name starts elsewhere.
    Twin {
        agent: usize,
    },
    ManagerRestart {
        manager: usize,
    },
    /// A replica takes over that lacks the last `lost` milliseconds.
    Failover {
        lost: u64,
    },
    /// All data is lost, and the server keeps running.
    Flush,
    /// The server's clock steps; nothing may depend on it.
    ClockStep {
        back: u64,
    },
    /// A worker is uninstalled, and installed again by the next list.
    Reinstall {
        worker: usize,
    },
    /// An operator drains an instance for a while.
    Drain {
        agent: usize,
        length: u64,
    },
}

/// The inputs of one simulated world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Determines delays and losses of messages.
    pub seed: u64,
    /// How far each process's clock rate is off, in millionths.
    pub rates_ppm: Vec<i64>,
    /// Times are in milliseconds.
    pub faults: Vec<(u64, Fault)>,
}

impl Scenario {
    pub fn from_seed(settings: &Settings, seed: u64) -> Scenario {
        let mut random = Random::new(seed.wrapping_mul(31).wrapping_add(7));
        let drift = i64::try_from(settings.timing.drift_ppm).unwrap_or(0);
        let rates_ppm = (0..settings.agents + settings.managers)
            .map(|_| match random.below(3) {
                0 => -drift,
                1 => drift,
                _ => 0,
            })
            .collect();
        let count = random.below(settings.faults as u64 + 1);
        let mut faults: Vec<(u64, Fault)> = (0..count)
            .map(|_| {
                let at = 2000 + random.below(settings.trouble_s * 1000);
                (at, random_fault(&mut random, settings))
            })
            .collect();
        faults.sort_by_key(|(at, _)| *at);
        Scenario {
            seed,
            rates_ppm,
            faults,
        }
    }
}

fn random_fault(random: &mut Random, settings: &Settings) -> Fault {
    let lease_ms = u64::try_from(settings.timing.lease.as_millis()).unwrap_or(u64::MAX);
    let agent = random.below(settings.agents as u64) as usize;
    let length = random.below(lease_ms * 3);
    match random.below(13) {
        0 | 1 => Fault::Crash {
            agent,
            down: length,
            proven: random.one_in(2),
        },
        2 => Fault::Freeze { agent, length },
        3 | 4 => {
            let both = random.one_in(2);
            let one = random.one_in(2);
            Fault::Cut {
                agent,
                to_store: both || one,
                from_store: both || !one,
                length,
            }
        }
        5 => Fault::Leave { agent, down: length },
        6 => Fault::Twin { agent },
        7 => Fault::ManagerRestart {
            manager: random.below(settings.managers as u64) as usize,
        },
        8 | 9 => Fault::Failover {
            lost: random.below(lease_ms),
        },
        10 => {
            if random.one_in(3) {
                Fault::Flush
            } else {
                Fault::ClockStep {
                    back: random.below(lease_ms * 100),
                }
            }
        }
        11 => Fault::Reinstall {
            worker: random.below(settings.workers as u64) as usize,
        },
        _ => Fault::Drain { agent, length },
    }
}
