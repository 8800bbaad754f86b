//! The tiers of an engine in the test's own process, driven step by step.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};

use nagaya_connections::client::Message;
use nagaya_keyspace::residency::{ColdRequest, EvictionBlocker, Taken, Tiering};
use nagaya_tiering::cold::{ColdError, ColdTier};
use nagaya_tiering::reference::MemoryCold;

use crate::testing::TestSession;

pub(super) struct House {
    pub(super) session: TestSession,
    pub(super) cold: Arc<MemoryCold>,
    pub(super) orders: Receiver<ColdRequest>,
}

impl House {
    pub(super) fn new() -> House {
        House::on(Arc::default())
    }

    /// An engine that starts on what another has saved.
    pub(super) fn on(cold: Arc<MemoryCold>) -> House {
        House::with(cold, |_| ())
    }

    fn with(cold: Arc<MemoryCold>, set: impl FnOnce(&mut Tiering)) -> House {
        let session = TestSession::new();
        let (loads, orders) = channel();
        let log = AtomicU64::new(cold.newest().unwrap().snap + 1);
        let log_end = Box::new(move || log.fetch_add(1, Ordering::Relaxed));
        let mut tiering = Tiering::new(
            cold.clone(),
            log_end,
            loads,
            cold.totals().unwrap(),
            Box::new(|| {}),
        );
        set(&mut tiering);
        assert!(session.engine.server.keyspace.tiering.set(tiering).is_ok());
        House {
            session,
            cold,
            orders,
        }
    }

    pub(super) fn tiering(&self) -> &Tiering {
        self.session.engine.server.keyspace.tiering.get().unwrap()
    }

    /// Takes and commits everything that has changed.
    pub(super) fn save(&self) -> usize {
        let server = &self.session.engine.server;
        let mut keys = 0;
        let shards = server.keyspace.shards.count();
        let spaces = server.keyspace.databases.spaces();
        for (shard, space) in spaces.flat_map(|space| (0..shards).map(move |shard| (shard, space))) {
            let taken = self.take_of(shard, space);
            let tags: Vec<&[u8]> = taken.snapshots.iter().map(|one| one.tag.as_slice()).collect();
            self.cold.ensure(&tags).unwrap();
            self.cold.commit(&taken.snapshots, 0).unwrap();
            server.keyspace.saved(shard, &taken.snapshots);
            keys += taken.keys;
        }
        keys
    }

    pub(super) fn take(&self, shard: usize) -> Taken {
        self.take_of(shard, 0)
    }

    fn take_of(&self, shard: usize, space: usize) -> Taken {
        let server = &self.session.engine.server;
        let (names, _) = server.keyspace.take_changed(shard, space);
        let mut taken = Taken::default();
        assert!(
            server
                .keyspace
                .snapshot((shard, space), &mut names.iter(), usize::MAX, &mut taken)
        );
        taken
    }

    pub(super) fn shard(&self, tag: &str) -> usize {
        self.session
            .engine
            .server
            .keyspace
            .shards
            .shard_of_tag(tag.as_bytes())
    }

    pub(super) fn evict(&self, tag: &str) -> Result<usize, EvictionBlocker> {
        self.session
            .engine
            .server
            .keyspace
            .evict(self.shard(tag), tag.as_bytes())
    }

    /// Does what was ordered; returns how many orders that were.
    pub(super) fn serve(&self) -> usize {
        let mut served = 0;
        while self.serve_one() {
            served += 1;
        }
        served
    }

    /// Does the next thing that was ordered, if there is one.
    fn serve_one(&self) -> bool {
        let server = &self.session.engine.server;
        let Ok(order) = self.orders.try_recv() else {
            return false;
        };
        match order {
            ColdRequest::Load(order) => {
                let read = self.cold.read(&[&order.tag]).map(|mut rows| rows.pop().flatten());
                server.keyspace.install(&order, read);
            }
            ColdRequest::Ask(asked, client) => server.keyspace.answer(&asked, &client),
            ColdRequest::End => panic!("nobody ends here"),
        }
        true
    }

    /// Runs a request, as often as it has to wait for something.
    pub(super) fn text(&mut self, request: &str) -> String {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        for _ in 0..10 {
            if let Some(reply) = self.session.try_run(&args) {
                return String::from_utf8_lossy(&reply).into_owned();
            }
            assert!(self.serve() > 0, "{request} waits for nothing");
            assert!(self.session.messages().contains(&Message::Resume(None)));
        }
        panic!("{request} waits for ever");
    }

    #[track_caller]
    pub(super) fn check(&mut self, request: &str, reply: &str) {
        assert_eq!(self.text(request), reply, "{request}");
    }
}

#[test]
fn a_cold_tag_comes_back_when_it_is_asked_for() {
    let mut house = House::new();
    house.check("SET {u}name bob", "+OK\r\n");
    house.check("RPUSH {u}list a b", ":2\r\n");
    house.check("SET u own EX 100", "+OK\r\n");
    assert_eq!(house.evict("u"), Err(EvictionBlocker::Unsaved));
    assert_eq!(house.save(), 3);
    assert_eq!(house.evict("u"), Ok(3));
    assert_eq!(house.tiering().cold_keys(), 3);
    assert!(house.session.try_run(&[b"GET", b"{u}name"]).is_none());
    house.check("GET {u}name", "$3\r\nbob\r\n");
    house.check("LRANGE {u}list 0 -1", "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
    house.check("TTL u", ":100\r\n");
    assert_eq!(house.tiering().cold_keys(), 0);
    assert_eq!(house.save(), 0, "loading changes nothing");
}

#[test]
fn many_clients_share_one_load() {
    let mut house = House::new();
    house.check("SET k v", "+OK\r\n");
    house.save();
    house.evict("k").unwrap();
    let mut others: Vec<TestSession> = (0..5).map(|_| house.session.another()).collect();
    for other in &mut others {
        assert!(other.try_run(&[b"GET", b"k"]).is_none());
    }
    assert_eq!(house.serve(), 1);
    for other in &mut others {
        assert_eq!(other.messages(), [Message::Resume(None)]);
        other.check("GET k", "$1\r\nv\r\n");
    }
}

#[test]
fn a_request_that_runs_again_before_its_answer_is_there_asks_once() {
    let mut house = House::new();
    house.check("SET a 1", "+OK\r\n");
    house.check("SET b 22", "+OK\r\n");
    house.save();
    // The second time it is woken for another reason.
    assert!(house.session.try_run(&[b"ROOM.STATUS", b"a"]).is_none());
    assert!(house.session.try_run(&[b"ROOM.STATUS", b"a"]).is_none());
    assert!(house.serve_one());
    assert!(!house.serve_one());
    let first = house.session.try_run(&[b"ROOM.STATUS", b"a"]).unwrap();
    // Its answer is not taken for that of the next one.
    let second = house.text("ROOM.STATUS b");
    assert_ne!(String::from_utf8_lossy(&first), second);
    assert_eq!(second, house.text("ROOM.STATUS b"));
    // Which of the two shards comes first depends on the hash seed of the process.
    let both =
        ["a\r\n$1\r\nb", "b\r\n$1\r\na"].map(|keys| format!("*2\r\n$1\r\n0\r\n*2\r\n$1\r\n{keys}\r\n"));
    let scanned = house.text("SCAN 0");
    assert!(both.contains(&scanned), "{scanned}");
}

#[test]
fn a_change_during_a_save_is_saved_again() {
    let mut house = House::new();
    house.check("SET k 1", "+OK\r\n");
    let shard = house.shard("k");
    let taken = house.take(shard);
    house.check("SET k 2", "+OK\r\n");
    house.cold.ensure(&[b"k"]).unwrap();
    house.cold.commit(&taken.snapshots, 0).unwrap();
    house
        .session
        .engine
        .server
        .keyspace
        .saved(shard, &taken.snapshots);
    assert_eq!(house.evict("k"), Err(EvictionBlocker::Unsaved));
    assert_eq!(house.save(), 1);
    house.evict("k").unwrap();
    house.check("GET k", "$1\r\n2\r\n");
}

#[test]
fn nothing_leaves_memory_while_its_snapshot_is_on_the_way() {
    let mut house = House::new();
    house.check("SET k 1", "+OK\r\n");
    house.check("SET {u}k 1", "+OK\r\n");
    for tag in ["k", "u"] {
        let taken = house.take(house.shard(tag));
        assert_eq!(house.evict(tag), Err(EvictionBlocker::Unsaved));
        house
            .session
            .engine
            .server
            .keyspace
            .not_saved(house.shard(tag), &taken.snapshots);
        assert_eq!(house.evict(tag), Err(EvictionBlocker::Unsaved));
    }
    assert_eq!(house.save(), 2, "what was not saved is saved the next time");
    assert_eq!(house.evict("k"), Ok(1));
    assert_eq!(house.evict("u"), Ok(1));
}

#[test]
fn a_deleted_key_does_not_come_back_from_the_cold_tier() {
    let mut house = House::new();
    for key in ["k", "{u}a", "{u}b"] {
        house.check(&format!("SET {key} v"), "+OK\r\n");
    }
    house.save();
    house.check("DEL k {u}a", ":2\r\n");
    house.check("GET k", "$-1\r\n");
    assert_eq!(house.evict("u"), Err(EvictionBlocker::Unsaved));
    assert_eq!(house.evict("k"), Err(EvictionBlocker::Unsaved));
    house.save();
    assert_eq!(house.evict("u"), Ok(1));
    house.evict("k").unwrap();
    house.check("EXISTS k {u}a {u}b", ":1\r\n");
}

#[test]
fn a_key_deleted_and_made_again_during_a_save_keeps_its_new_value() {
    let mut house = House::new();
    house.check("SET k 1", "+OK\r\n");
    house.save();
    house.check("DEL k", ":1\r\n");
    let shard = house.shard("k");
    let taken = house.take(shard);
    house.check("SET k 2", "+OK\r\n");
    house.cold.commit(&taken.snapshots, 0).unwrap();
    house
        .session
        .engine
        .server
        .keyspace
        .saved(shard, &taken.snapshots);
    house.save();
    house.evict("k").unwrap();
    house.check("GET k", "$1\r\n2\r\n");
}

#[test]
fn keys_that_come_and_go_between_saves_never_reach_the_cold_tier() {
    let mut house = House::new();
    for _ in 0..10 {
        house.check("SET k v", "+OK\r\n");
        house.check("DEL k", ":1\r\n");
    }
    assert_eq!(house.save(), 0);
    assert_eq!(house.cold.totals().unwrap().tags, 0);
}

#[test]
fn what_expires_in_the_cold_tier_is_gone_when_it_is_loaded() {
    let mut house = House::new();
    house.check("SET {u}a v PX 50", "+OK\r\n");
    house.check("SET {u}b v", "+OK\r\n");
    house.save();
    house.evict("u").unwrap();
    house.session.advance_ms(51);
    house.check("EXISTS {u}a {u}b", ":1\r\n");
    assert_eq!(house.save(), 1, "the expired row goes too");
}

#[test]
fn a_watched_key_that_expires_in_the_cold_tier_ends_the_transaction() {
    let mut house = House::new();
    house.check("SET {u}a v PX 50", "+OK\r\n");
    house.check("WATCH {u}a", "+OK\r\n");
    house.save();
    house.evict("u").unwrap();
    house.session.advance_ms(51);
    house.check("MULTI", "+OK\r\n");
    house.check("SET {u}b 1", "+QUEUED\r\n");
    house.check("EXEC", "*-1\r\n");
}

#[test]
fn a_transaction_waits_for_all_its_tags() {
    let mut house = House::new();
    house.check("MSET a 1 b 2 {u}c 3", "+OK\r\n");
    house.save();
    for tag in ["a", "b", "u"] {
        house.evict(tag).unwrap();
    }
    house.check("MULTI", "+OK\r\n");
    house.check("INCR a", "+QUEUED\r\n");
    house.check("INCR b", "+QUEUED\r\n");
    house.check("INCR {u}c", "+QUEUED\r\n");
    house.check("EXEC", "*3\r\n:2\r\n:3\r\n:4\r\n");
}

#[test]
fn a_script_reads_undeclared_cold_keys_in_place() {
    let mut house = House::new();
    house.check("SET k v", "+OK\r\n");
    house.save();
    house.evict("k").unwrap();
    let script = "return redis.call('GET','k')";
    let reply = house.session.run(&[b"EVAL", script.as_bytes(), b"0"]);
    assert_eq!(reply, b"$1\r\nv\r\n");
}

#[test]
fn sort_follows_patterns_into_the_cold_tier() {
    let mut house = House::new();
    house.check("RPUSH ids 1 2", ":2\r\n");
    house.check("MSET w1 9 w2 3", "+OK\r\n");
    house.save();
    for tag in ["ids", "w1", "w2"] {
        house.evict(tag).unwrap();
    }
    house.check("SORT ids BY w*", "*2\r\n$1\r\n2\r\n$1\r\n1\r\n");
}

#[test]
fn scan_keys_and_dbsize_cover_both_tiers() {
    let mut house = House::new();
    for number in 0..30 {
        house.check(&format!("SET key:{number} v"), "+OK\r\n");
    }
    house.save();
    for number in 0..20 {
        house.evict(&format!("key:{number}")).unwrap();
    }
    // One in both tiers, one deleted in memory and not yet in the cold tier.
    house.check("GET key:0", "$1\r\nv\r\n");
    house.check("DEL key:1", ":1\r\n");
    house.check("DBSIZE", ":29\r\n");
    let keys = house.text("KEYS *");
    assert!(keys.starts_with("*29\r\n"), "{keys}");
    let mut seen = std::collections::BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = house.text(&format!("SCAN {cursor} COUNT 7"));
        let mut lines = reply.lines();
        cursor = lines.nth(2).unwrap().to_owned();
        seen.extend(lines.filter(|line| line.starts_with("key:")).map(str::to_owned));
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 29);
    assert!(!seen.contains("key:1"));
    let unknown = house.text(&format!("SCAN {}", (1u64 << 62) | 999));
    assert_eq!(unknown, "-ERR invalid cursor\r\n");
}

#[test]
fn flushall_empties_the_cold_tier_for_everybody() {
    let mut house = House::new();
    house.check("MSET a 1 b 2", "+OK\r\n");
    house.save();
    house.evict("a").unwrap();
    assert!(
        house.session.try_run(&[b"GET", b"a"]).is_none(),
        "a load is under way"
    );
    let mut other = house.session.another();
    other.check("FLUSHALL", "+OK\r\n");
    house.serve();
    house.check("GET a", "$-1\r\n");
    house.check("DBSIZE", ":0\r\n");
    house.check("SET c 3", "+OK\r\n");
    let pending = house.tiering().flush_pending().unwrap();
    house.save();
    house.evict("c").unwrap();
    house.check("EXISTS a b c", ":1\r\n");
    house.tiering().wipe(&pending).unwrap();
    assert_eq!(house.tiering().flush_pending(), None);
    assert_eq!(house.cold.totals().unwrap().tags, 1);
}

#[test]
fn a_load_that_fails_is_told_and_can_be_tried_again() {
    let mut house = House::new();
    house.check("SET k v", "+OK\r\n");
    house.save();
    house.evict("k").unwrap();
    assert!(house.session.try_run(&[b"GET", b"k"]).is_none());
    let Ok(ColdRequest::Load(order)) = house.orders.try_recv() else {
        panic!("a load was ordered");
    };
    let failure = ColdError::Unavailable("no answer".into());
    house.session.engine.server.keyspace.install(&order, Err(failure));
    let messages = house.session.messages();
    let [Message::Resume(Some(refusal))] = messages.as_slice() else {
        panic!("{messages:?}");
    };
    house.session.client.refusal = Some(refusal.clone());
    house.check("GET k", "-TRYAGAIN the cold tier does not answer\r\n");
    house.check("GET k", "$1\r\nv\r\n");
}

#[test]
fn absent_keys_cost_no_load() {
    let mut house = House::new();
    house.check("SET k v", "+OK\r\n");
    house.save();
    house.evict("k").unwrap();
    for number in 0..100 {
        house.session.check(&format!("GET absent:{number}"), "$-1\r\n");
    }
}

#[test]
fn room_commands_tell_warm_and_evict() {
    let mut house = House::new();
    house.check("SET {u}a v", "+OK\r\n");
    assert!(house.text("ROOM.STATUS u").contains("need_synced"));
    house.save();
    assert!(house.text("ROOM.STATUS {u}a").contains("\r\nsynced"));
    house.check("ROOM.EVICT u", ":1\r\n");
    house.check("ROOM.EVICT u", ":0\r\n");
    assert!(house.evict("u").is_err());
    assert!(house.text("ROOM.STATUS u").contains("cleaned"));
    house.check("ROOM.WARM u absent", ":1\r\n");
    assert!(house.evict("u").is_ok());
    assert!(house.text("ROOM.STATUS nowhere").contains("absent"));
}

#[test]
fn somebody_blocked_is_served_with_tags_that_went_cold_meanwhile() {
    let mut house = House::new();
    house.check("RPUSH {d}list old", ":1\r\n");
    let mut blocked = house.session.another();
    assert_eq!(
        blocked.run(&[b"BLMOVE", b"{s}list", b"{d}list", b"LEFT", b"RIGHT", b"0"]),
        b""
    );
    house.save();
    assert_eq!(house.evict("d"), Ok(1));
    house.check("RPUSH {s}list new", ":1\r\n");
    assert_eq!(
        blocked.messages(),
        [Message::Unblocked(b"$3\r\nnew\r\n".to_vec())]
    );
    house.check("LRANGE {d}list 0 -1", "*2\r\n$3\r\nold\r\n$3\r\nnew\r\n");
}

#[test]
fn a_request_runs_though_its_tags_leave_memory_again_and_again() {
    let mut house = House::new();
    house.check("MSET a 1 b 2 c 3", "+OK\r\n");
    house.save();
    let evict_all = |house: &House| {
        for tag in ["a", "b", "c"] {
            house.evict(tag).ok();
        }
    };
    evict_all(&house);
    for attempt in 0.. {
        assert!(attempt < 50, "it never runs");
        if let Some(reply) = house.session.try_run(&[b"MGET", b"a", b"b", b"c"]) {
            assert_eq!(reply, b"*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
            break;
        }
        house.serve();
        house.session.messages();
        evict_all(&house);
    }
}

#[test]
fn erase_removes_a_tag_from_memory_and_from_the_cold_tier() {
    let mut house = House::new();
    for request in ["SET {u}a 1", "SET u own", "SET other 1"] {
        house.check(request, "+OK\r\n");
    }
    house.check("RPUSH {u}b 1 2", ":2\r\n");
    house.save();
    house.evict("u").unwrap();
    house.check("SET {u}c unsaved", "+OK\r\n");
    house.check("ROOM.ERASE u", ":4\r\n");
    house.check("ROOM.ERASE {u}", ":0\r\n");
    house.save();
    assert_eq!(house.cold.tag(b"u").unwrap().unwrap().keys, 0);
    house.evict("u").ok();
    house.check("EXISTS u {u}a {u}b {u}c other", ":1\r\n");
}

#[test]
fn an_erased_tag_is_told_as_its_keys() {
    let mut house = House::new();
    let records = house.session.record();
    house.check("MSET {u}a 1 u own", "+OK\r\n");
    records.take();
    house.check("ROOM.ERASE u", ":2\r\n");
    let mut effects = records.take_effects().concat();
    effects.sort();
    let del = |key: &[u8]| vec![b"DEL".to_vec(), key.to_vec()];
    assert_eq!(effects, [del(b"u"), del(b"{u}a")]);
}

#[test]
fn keys_without_braces_are_refused_where_the_settings_say_so() {
    let mut house = House::with(Arc::default(), |tiering| tiering.require_hash_tag = true);
    let refusal = "-ERR key 'k' has no hash tag in braces, and room.require_hash_tag is on\r\n";
    house.check("SET {u}k v", "+OK\r\n");
    house.check("SET k v", refusal);
    house.check("MULTI", "+OK\r\n");
    house.check("SET k v", "+QUEUED\r\n");
    house.check("EXEC", &format!("*1\r\n{refusal}"));
    let script = b"return redis.pcall('SET','k','v')";
    let reply = house.session.run(&[b"EVAL", script, b"0"]);
    assert_eq!(String::from_utf8_lossy(&reply), refusal);
    house.check("DBSIZE", ":1\r\n");
}

#[test]
fn a_tag_with_keys_out_of_reach_is_not_erased() {
    let mut house = House::new();
    house.check("SET {user:1}a 1", "+OK\r\n");
    house.check("SET x{user:1}b 1", "+OK\r\n");
    house.check("SET {user:2}a 1", "+OK\r\n");
    house.save();
    house.evict("user:1").unwrap();
    house.check("ACL SETUSER u on nopass +@all ~{user:*", "+OK\r\n");
    house.check("AUTH u x", "+OK\r\n");
    let denied = "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n";
    house.check("ROOM.ERASE user:1", denied);
    house.check("GET {user:1}a", "$1\r\n1\r\n");
    house.check("ROOM.ERASE user:2", ":1\r\n");
}
