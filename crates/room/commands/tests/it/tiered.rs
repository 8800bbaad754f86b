//! An engine whose tags go cold and come back between any two requests, beside one that has all of them in
//! memory: same requests, same replies.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};

use nagaya_commands::testing::TestSession;
use nagaya_connections::client::Message;
use nagaya_keyspace::databases::split_name;
use nagaya_keyspace::residency::{ColdRequest, Flush, Taken, Tiering};
use nagaya_resp::{Frame, parse_frame};
use nagaya_store::rng::Rng;
use nagaya_tiering::cold::{ColdTier, Snapshot};
use nagaya_tiering::reference::MemoryCold;

use crate::diff_list;
use crate::harness::{seed, words};
use crate::replay::{Contents, FAMILIES, Request, compare, fresh, tag_of};

const CLIENTS: usize = 4;

/// How alike two replies must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alike {
    /// Byte for byte.
    Bytes,
    /// The inner order of sets and hashes may differ, for they were built anew.
    ColdRequest,
    /// Cursors, forms of values and how many have expired unnoticed are of one engine.
    Nothing,
}

fn alike(request: &Request) -> Alike {
    let name = request[0].to_ascii_uppercase();
    match name.as_slice() {
        // A part of what lies in no order.
        b"SORT" | b"SORT_RO" if request.iter().any(|arg| arg.eq_ignore_ascii_case(b"LIMIT")) => {
            Alike::Nothing
        }
        b"SMEMBERS" | b"SINTER" | b"SUNION" | b"SDIFF" | b"HGETALL" | b"HKEYS" | b"HVALS" | b"KEYS"
        | b"SORT" | b"SORT_RO" => Alike::ColdRequest,
        b"SCAN" | b"HSCAN" | b"SSCAN" | b"ZSCAN" | b"OBJECT" | b"DUMP" | b"RANDOMKEY" | b"SRANDMEMBER"
        | b"HRANDFIELD" | b"ZRANDMEMBER" | b"XINFO" | b"MEMORY" | b"DEBUG" | b"DBSIZE" => Alike::Nothing,
        _ => Alike::Bytes,
    }
}

/// Random picks would make two engines differ for good.
fn picks_at_random(request: &Request) -> bool {
    request.iter().any(|arg| {
        let arg = arg.to_ascii_uppercase();
        arg.windows(4).any(|window| window == b"SPOP")
    })
}

/// The engine with a cold tier.
struct Tiered {
    clients: Vec<TestSession>,
    cold: Arc<MemoryCold>,
    orders: Receiver<ColdRequest>,
    /// Snapshots on their way, by shard.
    on_the_way: Vec<(usize, Vec<Snapshot>)>,
    /// What the cold tier was told to forget.
    wiped: Vec<Flush>,
    evicted: usize,
}

impl Tiered {
    fn new() -> Tiered {
        let first = fresh();
        let cold = Arc::<MemoryCold>::default();
        let (loads, orders) = channel();
        let log = AtomicU64::new(1);
        let log_end = Box::new(move || log.fetch_add(1, Ordering::Relaxed));
        let tiering = Tiering::new(cold.clone(), log_end, loads, Default::default(), Box::new(|| {}));
        assert!(first.engine.server.keyspace.tiering.set(tiering).is_ok());
        let mut clients: Vec<TestSession> = (1..CLIENTS).map(|_| first.another()).collect();
        clients.push(first);
        Tiered {
            clients,
            cold,
            orders,
            on_the_way: Vec::new(),
            wiped: Vec::new(),
            evicted: 0,
        }
    }

    fn tiering(&self) -> &Tiering {
        self.clients[0].engine.server.keyspace.tiering.get().unwrap()
    }

    /// Takes what has changed in some shards, and settles some of what was taken.
    fn save_some(&mut self, rng: &mut Rng) {
        let shards = self.clients[0].engine.server.keyspace.shards.count();
        let spaces = self.clients[0].engine.server.keyspace.databases.spaces();
        for shard in 0..shards {
            // A shard's snapshots go one after the other.
            if rng.below(2) == 0 && !self.on_the_way.iter().any(|(other, _)| *other == shard) {
                let server = &self.clients[0].engine.server;
                let mut taken = Taken::default();
                for space in spaces.clone() {
                    let (names, _) = server.keyspace.take_changed(shard, space);
                    let part = (shard, space);
                    let is_all = server
                        .keyspace
                        .snapshot(part, &mut names.iter(), usize::MAX, &mut taken);
                    assert!(is_all);
                }
                self.on_the_way.push((shard, taken.snapshots));
            }
        }
        let (settled, waiting) = std::mem::take(&mut self.on_the_way)
            .into_iter()
            .partition(|_| rng.below(3) > 0);
        self.on_the_way = waiting;
        for (shard, snapshots) in settled {
            self.settle(shard, snapshots, rng.below(8) > 0);
        }
    }

    fn settle(&mut self, shard: usize, mut snapshots: Vec<Snapshot>, works: bool) {
        let server = &self.clients[0].engine.server;
        while let Some(flush) = self.tiering().flush_pending() {
            self.tiering().wipe(&flush).unwrap();
            self.wiped.push(flush);
        }
        let is_gone = |flush: &Flush, one: &Snapshot| flush.covers(split_name(&one.tag).0, one.version);
        snapshots.retain(|one| !self.wiped.iter().any(|flush| is_gone(flush, one)));
        if !works {
            return server.keyspace.not_saved(shard, &snapshots);
        }
        let tags: Vec<&[u8]> = snapshots.iter().map(|snapshot| snapshot.tag.as_slice()).collect();
        self.cold.ensure(&tags).unwrap();
        self.cold.commit(&snapshots, 0).unwrap();
        server.keyspace.saved(shard, &snapshots);
    }

    fn evict_some(&mut self, rng: &mut Rng) {
        let keys = self.clients[0].contents();
        let tags: BTreeSet<Vec<u8>> = keys.keys().map(|key| tag_of(key)).collect();
        let server = &self.clients[0].engine.server;
        for tag in tags {
            if rng.below(3) > 0 {
                // In all shards but one there is nothing of it.
                let shards = 0..server.keyspace.shards.count();
                self.evicted += shards
                    .filter_map(|shard| server.keyspace.evict(shard, &tag).ok())
                    .sum::<usize>();
            }
        }
    }

    fn serve(&self) {
        let server = &self.clients[0].engine.server;
        while let Ok(order) = self.orders.try_recv() {
            match order {
                ColdRequest::Load(order) => {
                    let read = self.cold.read(&[&order.tag]);
                    server
                        .keyspace
                        .install(&order, read.map(|mut rows| rows.pop().flatten()));
                }
                ColdRequest::Ask(query, client) => server.keyspace.answer(&query, &client),
                ColdRequest::End => unreachable!("nobody ends here"),
            }
        }
    }

    /// Runs a request, as often as it waits for tags; some leave again meanwhile.
    fn run(&mut self, sender: usize, args: &[&[u8]], rng: &mut Rng) -> Vec<u8> {
        for attempt in 0..100 {
            if let Some(reply) = self.clients[sender].try_run(args) {
                return reply;
            }
            self.go_on(sender);
            if attempt < 3 && rng.below(4) == 0 {
                self.evict_some(rng);
            }
        }
        panic!("a request waits for ever");
    }

    /// Serves what a client waits for.
    fn go_on(&mut self, client: usize) {
        self.serve();
        assert_eq!(self.clients[client].messages(), [Message::Resume(None)]);
    }

    /// Brings everything into memory and returns it.
    fn contents(&mut self) -> Contents {
        let mut last: Option<(Vec<u8>, Vec<u8>)> = None;
        let mut names = Vec::new();
        loop {
            let after = last.as_ref().map(|(tag, key)| (tag.as_slice(), key.as_slice()));
            let page = self.cold.keys_after(after, 100).unwrap();
            let Some(end) = page.last() else { break };
            last = Some((end.tag.clone(), end.key.clone()));
            names.extend(page.into_iter().map(|row| (split_name(&row.tag).0, row.key)));
        }
        // One that neither is blocked nor has a transaction open.
        self.clients[0] = self.clients[0].another();
        for (space, key) in names {
            let databases = &self.clients[0].engine.server.keyspace.databases;
            let database = databases.database_of(space).to_string();
            self.clients[0].run(&[b"SELECT", database.as_bytes()]);
            while self.clients[0].try_run(&[b"EXISTS", &key]).is_none() {
                self.go_on(0);
            }
        }
        self.clients[0].contents()
    }
}

/// Shows a reply without the order of what is inside its arrays.
fn unordered(frame: &Frame) -> String {
    match frame {
        Frame::Array(items) => {
            let mut shown: Vec<String> = items.iter().map(unordered).collect();
            shown.sort_unstable();
            format!("[{}]", shown.join(", "))
        }
        other => format!("{other:?}"),
    }
}

fn same(tiered: &[u8], plain: &[u8], alike: Alike) -> bool {
    if tiered == plain || alike == Alike::Nothing {
        return true;
    }
    let (Ok(Some((tiered, _))), Ok(Some((plain, _)))) = (parse_frame(tiered), parse_frame(plain)) else {
        return false;
    };
    alike == Alike::ColdRequest && unordered(&tiered) == unordered(&plain)
}

/// Both engines under the same load.
struct Twins {
    tiered: Tiered,
    plain: Vec<TestSession>,
    /// Per client: how alike the replies of its transaction must be, should one be open.
    transactions: Vec<Alike>,
    focus: usize,
    log: Vec<String>,
}

impl Twins {
    fn new() -> Twins {
        let first = fresh();
        let mut plain: Vec<TestSession> = (1..CLIENTS).map(|_| first.another()).collect();
        plain.push(first);
        Twins {
            tiered: Tiered::new(),
            plain,
            transactions: vec![Alike::Bytes; CLIENTS],
            focus: 0,
            log: Vec::new(),
        }
    }

    fn step(&mut self, rng: &mut Rng, context: &str) {
        if rng.below(3) == 0 {
            let ms = rng.below(40) as i64;
            self.tiered.clients[CLIENTS - 1].advance_ms(ms);
            self.plain[CLIENTS - 1].advance_ms(ms);
        }
        if rng.below(3) == 0 {
            self.tiered.save_some(rng);
        }
        if rng.below(3) == 0 {
            self.tiered.evict_some(rng);
        }
        if rng.below(200) == 0 {
            self.focus = rng.below(FAMILIES.len());
        }
        let free: Vec<usize> = (0..CLIENTS)
            .filter(|&at| !self.plain[at].client.is_blocked())
            .collect();
        let request = match rng.below(20) {
            0 => diff_list::crowd_request(rng, free.len() > 1),
            1 => words("EXEC"),
            at if at < 12 => FAMILIES[self.focus](rng),
            _ => FAMILIES[rng.below(FAMILIES.len())](rng),
        };
        if picks_at_random(&request) {
            return;
        }
        let sender = free[rng.below(free.len())];
        self.compare_replies(sender, &request, rng, context);
        if self.plain.iter().all(|client| client.client.is_blocked()) {
            let other = (sender + 1) % CLIENTS;
            self.plain[sender].disconnect();
            self.plain[sender] = self.plain[other].another();
            self.tiered.clients[sender].disconnect();
            self.tiered.clients[sender] = self.tiered.clients[other].another();
            self.transactions[sender] = Alike::Bytes;
        }
    }

    fn compare_replies(&mut self, sender: usize, request: &Request, rng: &mut Rng, context: &str) {
        let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        let shown: Vec<String> = args.iter().map(|arg| arg.escape_ascii().to_string()).collect();
        self.log.push(format!("{sender}: {}", shown.join(" ")));
        let transaction = &mut self.transactions[sender];
        *transaction = (*transaction).max(alike(request));
        let plain = self.plain[sender].run(&args);
        let tiered = self.tiered.run(sender, &args, rng);
        let alike = match request[0].to_ascii_uppercase().as_slice() {
            b"EXEC" => std::mem::replace(transaction, Alike::Bytes),
            b"MULTI" | b"DISCARD" if plain == b"+OK\r\n" => std::mem::replace(transaction, Alike::Bytes),
            _ => alike(request),
        };
        self.check(&tiered, &plain, alike, context);
        // Those who waited.
        for at in 0..CLIENTS {
            let unblocked = |messages: Vec<Message>| -> Vec<u8> {
                let replies = messages.into_iter().map(|message| match message {
                    Message::Unblocked(bytes) => bytes,
                    _ => Vec::new(),
                });
                replies.flatten().collect()
            };
            let tiered = unblocked(self.tiered.clients[at].messages());
            let plain = unblocked(self.plain[at].messages());
            self.check(&tiered, &plain, Alike::Bytes, context);
        }
    }

    #[track_caller]
    fn check(&self, tiered: &[u8], plain: &[u8], alike: Alike, context: &str) {
        if !same(tiered, plain, alike) {
            let from = self.log.len().saturating_sub(60);
            panic!(
                "{context}: replies differ ({alike:?})\n tiered: {}\n plain:  {}\nlatest requests:\n  {}",
                tiered.escape_ascii(),
                plain.escape_ascii(),
                self.log[from..].join("\n  ")
            );
        }
    }
}

fn steps() -> usize {
    match std::env::var_os("NAGAYA_TEST_LONG") {
        Some(_) => 100_000,
        None => 4_000,
    }
}

#[test]
fn an_engine_with_a_cold_tier_replies_as_one_without() {
    let seed = seed();
    let mut rng = Rng::seeded(seed);
    let mut twins = Twins::new();
    for step in 0..steps() {
        twins.step(&mut rng, &format!("NAGAYA_SEED={seed} step {step}"));
    }
    assert!(twins.tiered.evicted > steps() / 10, "tags do go cold");
    // What nobody has asked for is right as well; what has expired may be there or gone already.
    let now_ms = nagaya_clock::Clock::unix_us(&*twins.plain[0].engine.server.clock) / 1000;
    let live = |contents: Contents| -> Contents {
        let mut contents = contents;
        contents.retain(|_, (expiry, _)| expiry.is_none_or(|at_ms| at_ms >= now_ms));
        contents
    };
    let (plain, tiered) = (live(twins.plain[0].contents()), live(twins.tiered.contents()));
    compare(&plain, &tiered, |_| true, &[], &format!("NAGAYA_SEED={seed}: "));
}
