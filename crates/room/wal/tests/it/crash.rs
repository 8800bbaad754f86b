//! Whatever is done and wherever it stops, a prefix comes back, with all that was promised.

use std::time::Duration;

use nagaya_wal::faults::FaultyFiles;
use nagaya_wal::{Log, Options, Position, SyncMode};
use proptest::prelude::*;

use crate::kit::{self, Records};

#[derive(Clone, Debug)]
enum Act {
    Append { bytes: usize, seed: u8 },
    Commit,
    Sync,
    Mode(SyncMode),
    Release { eighths: u64 },
    LimitSpace { more: u64 },
    LimitWrites { bytes: usize },
    FailSync { others: u64 },
    Relief,
    Crash,
    Restart,
    Close,
}

fn act() -> impl Strategy<Value = Act> {
    let mode = prop_oneof![
        Just(SyncMode::Always),
        Just(SyncMode::EverySecond),
        Just(SyncMode::No)
    ];
    prop_oneof![
        20 => (1usize..200, any::<u8>()).prop_map(|(bytes, seed)| Act::Append { bytes, seed }),
        1 => (900usize..1500, any::<u8>()).prop_map(|(bytes, seed)| Act::Append { bytes, seed }),
        8 => Just(Act::Commit),
        2 => Just(Act::Sync),
        2 => mode.prop_map(Act::Mode),
        2 => (0u64..9).prop_map(|eighths| Act::Release { eighths }),
        1 => (0u64..400).prop_map(|more| Act::LimitSpace { more }),
        1 => (1usize..100).prop_map(|bytes| Act::LimitWrites { bytes }),
        2 => (0u64..4).prop_map(|others| Act::FailSync { others }),
        4 => Just(Act::Relief),
        2 => Just(Act::Crash),
        1 => Just(Act::Restart),
        1 => Just(Act::Close),
    ]
}

/// A log, and what must be true of it.
struct World {
    disk: FaultyFiles,
    options: Options,
    log: Log,
    /// Every record taken, in order, after the released ones.
    taken: Records,
    /// Up to where the log has promised.
    promised: Position,
    released: Position,
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = FaultyFiles::new(seed);
        // A buffer so small that appends come to wait for the flusher.
        let mut options = kit::options(SyncMode::Always);
        options.buffer_bytes_max = 4000;
        options.write_bytes = 1500;
        options.write_every = Duration::from_millis(5);
        options.sync_every = Duration::from_millis(20);
        let (log, _) = kit::open(&disk, &options).unwrap();
        let (promised, released) = (Position::ZERO, Position::ZERO);
        Self {
            disk,
            options,
            log,
            taken: Vec::new(),
            promised,
            released,
        }
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Append { bytes, seed } => {
                let record: Vec<u8> = (0..*bytes).map(|n| seed.wrapping_mul(n as u8)).collect();
                if let Ok(position) = self.log.append(&record) {
                    self.taken.push((position, record));
                }
            }
            Act::Commit => {
                let end = self.log.end();
                if self.log.commit(end).is_ok() && self.log.mode() == SyncMode::Always {
                    self.promised = end;
                }
            }
            Act::Sync => {
                let end = self.log.end();
                if self.log.sync(end).is_ok() {
                    self.promised = end;
                }
            }
            Act::Mode(mode) => self.log.set_mode(*mode),
            Act::Release { eighths } => {
                let before = Position(self.promised.0 * eighths / 8);
                // Only a position that was given out may be released.
                let before = self.taken.iter().map(|(end, _)| *end).rfind(|end| *end <= before);
                if let Some(before) = before.filter(|before| *before > self.released) {
                    self.log.release(before).unwrap();
                    self.released = before;
                    self.taken.retain(|(end, _)| *end > before);
                }
            }
            Act::LimitSpace { more } => self.disk.limit_space(Some(*more)),
            Act::LimitWrites { bytes } => self.disk.limit_writes(Some(*bytes)),
            Act::FailSync { others } => self.disk.fail_sync_after(*others),
            Act::Relief => {
                self.disk.limit_space(None);
                let _still_failed_is_allowed = self.log.try_heal();
            }
            Act::Crash => {
                self.promised = self.promised.max(self.log.durable());
                self.disk.crash();
                self.reopen();
            }
            Act::Restart => {
                self.promised = self.promised.max(self.log.durable());
                self.disk.restart();
                self.reopen();
            }
            Act::Close => {
                if self.log.close().is_ok() {
                    self.promised = self.log.end();
                }
                self.disk.restart();
                self.reopen();
            }
        }
    }

    fn reopen(&mut self) {
        let (log, mut recovery) = kit::open(&self.disk, &self.options).unwrap();
        recovery.skip_to(self.released).unwrap();
        let found = kit::read(&mut recovery).unwrap();
        assert_eq!(
            found[..],
            self.taken[..found.len()],
            "what comes back is a prefix"
        );
        let lost = self.taken.get(found.len());
        assert!(
            lost.is_none_or(|(end, _)| *end > self.promised),
            "{:?} was promised up to {}",
            lost,
            self.promised
        );
        self.taken = found;
        self.promised = log.end();
        assert_eq!(log.durable(), log.end());
        self.log = log;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn exactly_a_prefix_with_everything_promised_survives(
        seed in any::<u64>(),
        acts in proptest::collection::vec(act(), 1..120),
    ) {
        let mut world = World::new(seed);
        for act in &acts {
            world.act(act);
        }
        world.act(&Act::Crash);
    }
}

fn cases() -> u32 {
    if std::env::var_os("NAGAYA_TEST_LONG").is_some() {
        20_000
    } else {
        600
    }
}

#[test]
fn a_power_cut_that_keeps_later_pages_only_is_not_taken_for_damage() {
    for seed in 0..300 {
        let disk = FaultyFiles::new(seed);
        let (log, _) = kit::open_always(&disk);
        let safe = kit::write(&log, 0..3);
        for n in 3..9 {
            log.append(&kit::record(n)).unwrap();
        }
        log.set_mode(SyncMode::No);
        disk.fail_sync_after(0);
        assert!(log.sync(log.end()).is_err());
        disk.crash();
        let found = kit::reopened(&disk);
        assert!(found.starts_with(&safe), "seed {seed}");
    }
}
