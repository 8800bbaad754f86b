//! Disks and cold tiers that fail, behind an engine with clients: nothing acknowledged is lost, and those who
//! cannot be told the truth are told nothing.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use nagaya_engine::{Bound, Engine, Error, Fsync, RoomConfig, Storage};
use nagaya_testkit::{Reply, RespClient, wait};
use nagaya_tiering::cold::{
    Access, Claimed, ColdError, ColdTier, Committed, Finding, KeyRow, Loaded, Snapshot, Status, TagRow,
    Totals, Version,
};
use nagaya_tiering::reference::MemoryCold;
use nagaya_wal::faults::FaultyFiles;

use crate::harness::{LIMIT, ask, client};

/// A disk and a cold tier that outlive engines.
pub(crate) struct Place {
    pub(crate) disk: FaultyFiles,
    pub(crate) cold: Arc<Moody>,
}

impl Place {
    pub(crate) fn new(seed: u64) -> Place {
        Place {
            disk: FaultyFiles::new(seed),
            cold: Arc::default(),
        }
    }

    pub(crate) fn start(&self) -> Engine {
        self.start_with(|_| ())
    }

    pub(crate) fn start_with(&self, change: impl FnOnce(&mut RoomConfig)) -> Engine {
        self.try_start(change).unwrap()
    }

    pub(crate) fn try_start(&self, change: impl FnOnce(&mut RoomConfig)) -> Result<Engine, Error> {
        let mut config = RoomConfig {
            fsync: Fsync::Always,
            max_staleness: Duration::from_millis(100),
            ..RoomConfig::default()
        };
        config.listen.0.set_port(0);
        change(&mut config);
        let storage = Storage {
            files: self.disk.process(),
            ..Storage::new(self.cold.clone(), Path::new("/log").to_owned())
        };
        Bound::bind(config).unwrap().start(Some(storage))
    }

    /// Cuts the power under an engine.
    fn cut(&self, engine: Engine) {
        // What it saves after this would be saved by a dead process.
        self.cold.refuses_commits(true);
        self.disk.crash();
        engine.stop();
        self.cold.refuses_commits(false);
    }

    /// Cuts the power under an engine and starts another one on what is left.
    pub(crate) fn crash(&self, engine: Engine) -> Engine {
        self.cut(engine);
        self.start()
    }
}

/// A cold tier in memory that refuses what it is told to.
#[derive(Default)]
pub(crate) struct Moody {
    inner: MemoryCold,
    /// Lists of keys that were asked for, and whether they are held back.
    pub(crate) lists: AtomicUsize,
    pub(crate) holds_lists: Mutex<bool>,
    pub(crate) lists_go_on: Condvar,
    no_commits: AtomicBool,
    no_wipes: AtomicBool,
    no_facts: AtomicBool,
}

impl Moody {
    fn refuses_commits(&self, refuses: bool) {
        self.no_commits.store(refuses, Ordering::SeqCst);
        self.no_facts.store(refuses, Ordering::SeqCst);
    }

    fn ask(&self, refuses: &AtomicBool) -> Result<(), ColdError> {
        if refuses.load(Ordering::SeqCst) {
            return Err(ColdError::Unavailable("told to".into()));
        }
        Ok(())
    }
}

impl ColdTier for Moody {
    fn generations(&self, tags: &[&[u8]]) -> Result<Vec<Option<u64>>, ColdError> {
        self.inner.generations(tags)
    }

    fn claim(&self, tag: &[u8], base: Option<u64>) -> Result<Claimed, ColdError> {
        self.inner.claim(tag, base)
    }

    fn read(&self, tags: &[&[u8]]) -> Result<Vec<Option<Loaded>>, ColdError> {
        self.inner.read(tags)
    }

    fn ensure(&self, tags: &[&[u8]]) -> Result<(), ColdError> {
        self.inner.ensure(tags)
    }

    fn commit(&self, snapshots: &[Snapshot], now_ms: i64) -> Result<Vec<Committed>, ColdError> {
        self.ask(&self.no_commits)?;
        self.inner.commit(snapshots, now_ms)
    }

    fn set_status(&self, tags: &[&[u8]], status: Status) -> Result<(), ColdError> {
        self.inner.set_status(tags, status)
    }

    fn note_access(&self, accesses: &[Access]) -> Result<(), ColdError> {
        self.inner.note_access(accesses)
    }

    fn tag(&self, tag: &[u8]) -> Result<Option<TagRow>, ColdError> {
        self.inner.tag(tag)
    }

    fn tags_after(&self, tag: Option<&[u8]>, limit: usize) -> Result<Vec<TagRow>, ColdError> {
        self.inner.tags_after(tag, limit)
    }

    fn keys_after(&self, after: Option<(&[u8], &[u8])>, limit: usize) -> Result<Vec<KeyRow>, ColdError> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        let holds = self.holds_lists.lock().unwrap();
        drop(self.lists_go_on.wait_while(holds, |holds| *holds).unwrap());
        self.inner.keys_after(after, limit)
    }

    fn erase(&self, tag: &[u8]) -> Result<u64, ColdError> {
        self.inner.erase(tag)
    }

    fn wipe(&self, up_to: Version) -> Result<(), ColdError> {
        self.ask(&self.no_wipes)?;
        self.inner.wipe(up_to)
    }

    fn purge(&self, expired_before_ms: i64, buried_before_ms: i64, limit: usize) -> Result<usize, ColdError> {
        self.inner.purge(expired_before_ms, buried_before_ms, limit)
    }

    fn forget_empty(&self, up_to: Version, from: u64, limit: usize) -> Result<(usize, u64), ColdError> {
        self.inner.forget_empty(up_to, from, limit)
    }

    fn newest(&self) -> Result<Version, ColdError> {
        self.inner.newest()
    }

    fn totals(&self) -> Result<Totals, ColdError> {
        self.inner.totals()
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, ColdError> {
        self.inner.fact(name)
    }

    fn set_fact(&self, name: &str, value: &[u8]) -> Result<(), ColdError> {
        self.ask(&self.no_facts)?;
        self.inner.set_fact(name, value)
    }

    fn check(&self) -> Result<Vec<Finding>, ColdError> {
        self.inner.check()
    }
}

/// Runs a request given as words.
#[track_caller]
fn say(client: &mut RespClient, request: &str) -> Reply {
    ask(client, &request.split(' ').collect::<Vec<_>>())
}

#[track_caller]
fn is_refused(client: &mut RespClient, request: &str) {
    let reply = say(client, request);
    assert!(
        reply.error().is_some_and(|error| error.starts_with("MISCONF")),
        "{request}: {reply:?}"
    );
}

#[test]
fn the_engine_is_well_again_as_soon_as_the_cold_tier_is_though_nothing_is_due() {
    let place = Place::new(19);
    let engine = place.start_with(|config| config.max_staleness = Duration::from_secs(3600));
    let mut client = client(&engine);
    assert_eq!(ask(&mut client, &["SET", "k", "v"]), Reply::ok());
    place.cold.refuses_commits(true);
    ask(&mut client, &["BGSAVE"]);
    let stats = engine.stats();
    wait::until("saving fails", LIMIT, || stats.failure().is_some());
    place.cold.refuses_commits(false);
    wait::until("saving works", LIMIT, || stats.failure().is_none());
}

#[test]
fn a_failed_sync_withholds_replies_refuses_writes_and_serves_reads() {
    for seed in 0..8 {
        let place = Place::new(seed);
        let engine = place.start();
        let mut writer = client(&engine);
        assert_eq!(say(&mut writer, "SET safe 1"), Reply::ok());
        // The next record fits and cannot be synced; then there is no space to heal in.
        place.disk.limit_space(Some(100));
        place.disk.fail_sync_after(0);
        assert!(
            writer.cmd(&["SET", "unsure", "1"]).is_err(),
            "nobody knows, so nobody is told"
        );
        let mut reader = client(&engine);
        assert_eq!(say(&mut reader, "GET safe"), Reply::bulk("1"));
        is_refused(&mut reader, "SET refused 1");
        is_refused(&mut reader, "INCR safe");
        assert_eq!(say(&mut reader, "EXISTS refused"), Reply::Int(0));
        assert!(engine.stats().failure().is_some(), "readiness is told");
        // A crash now: what was acknowledged is there.
        let engine = place.crash(engine);
        let mut after = client(&engine);
        assert_eq!(say(&mut after, "GET safe"), Reply::bulk("1"), "seed {seed}");
        assert_eq!(say(&mut after, "EXISTS refused"), Reply::Int(0), "seed {seed}");
        assert_eq!(say(&mut after, "SET unsure 2"), Reply::ok(), "seed {seed}");
        let engine = place.crash(engine);
        let mut again = client(&engine);
        assert_eq!(
            say(&mut again, "MGET safe unsure").items(),
            [Reply::bulk("1"), Reply::bulk("2")]
        );
    }
}

#[test]
fn a_failed_sync_is_healed_without_a_restart() {
    for seed in 0..8 {
        let place = Place::new(seed);
        let engine = place.start();
        let mut writer = client(&engine);
        assert_eq!(say(&mut writer, "SET safe 1"), Reply::ok());
        place.disk.fail_sync_after(0);
        assert!(writer.cmd(&["RPUSH", "unsure", "1"]).is_err());
        let mut writer = client(&engine);
        wait::until("writes are taken again", LIMIT, || {
            say(&mut writer, "SET after 1") == Reply::ok()
        });
        wait::until("all is well", LIMIT, || engine.stats().failure().is_none());
        // It was not acknowledged, but those who look find it, so it must stay.
        assert_eq!(say(&mut writer, "LLEN unsure"), Reply::Int(1));
        let engine = place.crash(engine);
        let mut after = client(&engine);
        assert_eq!(
            say(&mut after, "EXISTS safe after unsure"),
            Reply::Int(3),
            "seed {seed}"
        );
        assert_eq!(say(&mut after, "LLEN unsure"), Reply::Int(1), "seed {seed}");
    }
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_space() {
    for room in [0, 10, 50, 300, 1000] {
        let place = Place::new(room);
        let engine = place.start();
        let mut writer = client(&engine);
        assert_eq!(say(&mut writer, "SET safe 1"), Reply::ok());
        place.disk.limit_space(Some(room));
        let mut acknowledged = Vec::new();
        loop {
            let key = format!("k{}", acknowledged.len());
            match writer.cmd(&["SET", &key, "v"]) {
                Ok(reply) if reply == Reply::ok() => acknowledged.push(key),
                Ok(reply) => panic!("{reply:?}"),
                Err(_) => break,
            }
        }
        let mut other = client(&engine);
        is_refused(&mut other, "SET refused 1");
        assert_eq!(say(&mut other, "GET safe"), Reply::bulk("1"));
        place.disk.limit_space(None);
        wait::until("writes are taken again", LIMIT, || {
            say(&mut other, "SET after 1") == Reply::ok()
        });
        let engine = place.crash(engine);
        let mut after = client(&engine);
        acknowledged.extend(["safe".to_owned(), "after".to_owned()]);
        for key in acknowledged {
            assert_eq!(
                say(&mut after, &format!("EXISTS {key}")),
                Reply::Int(1),
                "{key} with room for {room}"
            );
        }
    }
}

#[test]
fn a_cold_tier_that_fails_keeps_tags_in_memory_and_the_log() {
    let place = Place::new(1);
    let engine = place.start();
    let mut client_one = client(&engine);
    place.cold.refuses_commits(true);
    assert_eq!(say(&mut client_one, "SET k v"), Reply::ok());
    wait::until("readiness is told", LIMIT, || engine.stats().failure().is_some());
    assert_eq!(say(&mut client_one, "GET k"), Reply::bulk("v"));
    assert_eq!(say(&mut client_one, "ROOM.WAITCOLD 300"), Reply::Int(0));
    let engine = place.crash(engine);
    let mut after = client(&engine);
    assert_eq!(say(&mut after, "GET k"), Reply::bulk("v"));
    assert_eq!(say(&mut after, "ROOM.WAITCOLD 0"), Reply::Int(1));
    assert_eq!(say(&mut after, "ROOM.EVICT k"), Reply::Int(1));
    assert_eq!(say(&mut after, "GET k"), Reply::bulk("v"));
}

#[test]
fn what_was_written_after_flushall_is_found_when_the_log_is_replayed_over_its_copy() {
    let place = Place::new(1);
    let engine = place.start();
    let mut before = client(&engine);
    assert_eq!(say(&mut before, "SET old 1"), Reply::ok());
    assert_eq!(say(&mut before, "ROOM.WAITCOLD 0"), Reply::Int(1));
    // The tags are saved, the mark that says so is not: the log is replayed from before the FLUSHALL.
    place.cold.no_facts.store(true, Ordering::SeqCst);
    assert_eq!(say(&mut before, "FLUSHALL"), Reply::ok());
    assert_eq!(say(&mut before, "MSET k 1 {u}a 2 {u}b 3"), Reply::ok());
    wait::until("everything is saved", LIMIT, || {
        place
            .cold
            .inner
            .read(&[b"k", b"u"])
            .unwrap()
            .iter()
            .all(Option::is_some)
    });
    let engine = place.crash(engine);
    let mut after = client(&engine);
    assert_eq!(
        say(&mut after, "MGET k {u}a {u}b old").items(),
        [Reply::bulk("1"), Reply::bulk("2"), Reply::bulk("3"), Reply::Nil]
    );
    assert_eq!(say(&mut after, "DBSIZE"), Reply::Int(3));
}

#[test]
fn a_wipe_that_fails_loses_no_snapshot() {
    let place = Place::new(1);
    let engine = place.start();
    let mut one = client(&engine);
    place.cold.no_wipes.store(true, Ordering::SeqCst);
    assert_eq!(say(&mut one, "FLUSHALL"), Reply::ok());
    assert_eq!(say(&mut one, "SET k v"), Reply::ok());
    wait::until("a round fails", LIMIT, || engine.stats().failure().is_some());
    place.cold.no_wipes.store(false, Ordering::SeqCst);
    assert_eq!(say(&mut one, "ROOM.WAITCOLD 0"), Reply::Int(1));
    assert_eq!(say(&mut one, "ROOM.EVICT k"), Reply::Int(1));
    assert_eq!(say(&mut one, "GET k"), Reply::bulk("v"));
    let engine = place.crash(engine);
    assert_eq!(say(&mut client(&engine), "GET k"), Reply::bulk("v"));
}

#[test]
fn a_log_of_more_than_fits_is_replayed_and_every_key_counted_once() {
    const ROUNDS: usize = 160;
    let place = Place::new(1);
    let engine = place.start();
    let mut one = client(&engine);
    place.cold.refuses_commits(true);
    for round in 0..ROUNDS {
        for tag in 0..10 {
            assert_eq!(
                say(&mut one, &format!("SET {{stays{tag}}}k {round}")),
                Reply::ok()
            );
            assert_eq!(
                say(&mut one, &format!("RPUSH {{goes{tag}}}k {round}")),
                Reply::Int(round as i64 + 1)
            );
        }
    }
    place.cut(engine);
    let engine = place.start_with(|config| {
        config.max_memory.0 = 1;
        config.pinned = vec!["{stays".to_owned()];
    });
    let mut after = client(&engine);
    assert_eq!(say(&mut after, "DBSIZE"), Reply::Int(20));
    for tag in 0..10 {
        let last = (ROUNDS - 1).to_string();
        assert_eq!(
            say(&mut after, &format!("GET {{stays{tag}}}k")),
            Reply::bulk(last)
        );
        assert_eq!(
            say(&mut after, &format!("LLEN {{goes{tag}}}k")),
            Reply::Int(ROUNDS as i64)
        );
    }
    assert_eq!(say(&mut after, "DBSIZE"), Reply::Int(20));
}
