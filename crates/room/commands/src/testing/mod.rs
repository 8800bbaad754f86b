//! An engine and a client in the test's own process: no socket, a clock moved by hand.

pub mod rights;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use nagaya_clock::Clock;
use nagaya_connections::client::{Mailbox, Message};
use nagaya_exec::config::Config;
use nagaya_exec::dispatch::Executed;
use nagaya_exec::entry::Registry;
use nagaya_exec::executor::Executor;
use nagaya_exec::replay::{EffectOn, ReplayError};
use nagaya_exec::server::Server;
use nagaya_exec::session::Session;
use nagaya_exec::stats::ThreadStats;
use nagaya_keyspace::databases::tag_name;
use nagaya_keyspace::effects::{Journal, JournalError, Reader};
use nagaya_keyspace::reclaim::ReclaimInline;
use nagaya_resp::{ArgVec, Out};
use nagaya_store::rdb::dump_value;
use nagaya_store::table::Keyed;
use parking_lot::Mutex;

use crate::table;

/// A clock that stands still until told otherwise.
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Starts at some plausible moment.
    pub fn new() -> Arc<ManualClock> {
        Arc::new(ManualClock(AtomicI64::new(1_700_000_000_000_000)))
    }

    /// Moves on.
    pub fn advance_ms(&self, ms: i64) {
        self.0.fetch_add(ms * 1000, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn unix_us(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn steady_us(&self) -> u64 {
        self.unix_us() as u64
    }
}

/// Keeps messages until they are asked for.
#[derive(Default)]
struct Inbox(Mutex<Vec<(u64, Message)>>);

impl Mailbox for Inbox {
    fn deliver(&self, client: u64, message: Message) {
        self.0.lock().push((client, message));
    }
}

/// A journal that keeps its records in memory, and fails when told to.
#[derive(Default)]
pub struct Records {
    records: Mutex<Vec<Vec<u8>>>,
    failure: Mutex<Option<JournalError>>,
}

impl Records {
    /// Takes what was recorded since the last time.
    pub fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.records.lock())
    }

    /// Takes what was recorded since the last time, as arguments of effects of records.
    pub fn take_effects(&self) -> Vec<Vec<Vec<Vec<u8>>>> {
        let read = |record: Vec<u8>| {
            Reader::new(&record)
                .map(|effect| {
                    let effect = effect.expect("a record that was just written");
                    effect.args().map(<[u8]>::to_vec).collect()
                })
                .collect()
        };
        self.take().into_iter().map(read).collect()
    }

    /// Makes every record from now on fail.
    pub fn fail(&self, reason: &str) {
        *self.failure.lock() = Some(JournalError {
            reason: reason.to_owned(),
        });
    }
}

impl Journal for Records {
    fn append(&self, record: &[u8]) -> Result<u64, JournalError> {
        if let Some(failure) = &*self.failure.lock() {
            return Err(failure.clone());
        }
        let mut records = self.records.lock();
        records.push(record.to_vec());
        Ok(records.len() as u64)
    }
}

/// An engine for tests, shared by any number of sessions.
pub struct Engine {
    pub server: Server,
    stats: Arc<ThreadStats>,
    inbox: Arc<Inbox>,
    ids: AtomicU64,
}

impl Engine {
    /// Makes an empty engine on a given clock.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Engine> {
        Engine::with_commands(table::registry(), clock)
    }

    /// Makes an empty engine with commands of its own.
    pub fn with_commands(registry: &'static Registry, clock: Arc<dyn Clock>) -> Arc<Engine> {
        let config = Config {
            enable_debug_command: "yes",
            enable_module_command: "yes",
            ..Config::default()
        };
        let server = Server::new(registry, 16, config, clock, Box::new(ReclaimInline));
        Arc::new(Engine {
            stats: Executor::new_stats(&server),
            server,
            inbox: Arc::default(),
            ids: AtomicU64::new(1),
        })
    }
}

/// One client of a test engine.
pub struct TestSession {
    pub engine: Arc<Engine>,
    clock: Option<Arc<ManualClock>>,
    pub client: Session,
}

impl Default for TestSession {
    fn default() -> Self {
        TestSession::new()
    }
}

impl TestSession {
    /// Makes an engine with a manual clock and its first client.
    pub fn new() -> TestSession {
        let clock = ManualClock::new();
        let engine = Engine::new(clock.clone());
        let mut session = TestSession::on(&engine);
        session.clock = Some(clock);
        session
    }

    /// Makes a client of an engine.
    pub fn on(engine: &Arc<Engine>) -> TestSession {
        let id = engine.ids.fetch_add(1, Ordering::Relaxed);
        let mailbox = Arc::clone(&engine.inbox) as Arc<dyn Mailbox>;
        let client = Session::new(
            id,
            mailbox,
            format!("127.0.0.1:{}", 40_000 + id),
            "127.0.0.1:6380",
        );
        Executor::new(&engine.server, &engine.stats).connect(&client);
        TestSession {
            engine: Arc::clone(engine),
            clock: None,
            client,
        }
    }

    /// Makes another client of the same engine and clock.
    pub fn another(&self) -> TestSession {
        let mut session = TestSession::on(&self.engine);
        session.clock = self.clock.clone();
        session
    }

    /// Moves the engine's clock.
    pub fn advance_ms(&self, ms: i64) {
        self.clock
            .as_ref()
            .expect("a session with a manual clock")
            .advance_ms(ms);
    }

    /// Runs a request and returns the bytes of its reply; none while the client is blocked.
    pub fn run(&mut self, args: &[&[u8]]) -> Vec<u8> {
        self.try_run(args).expect("clients are paused")
    }

    /// Runs a request as [`TestSession::run`] does; nothing when it is postponed.
    pub fn try_run(&mut self, args: &[&[u8]]) -> Option<Vec<u8>> {
        let owned: ArgVec = args.iter().copied().collect();
        let engine = Arc::clone(&self.engine);
        let mut executor = Executor::new(&engine.server, &engine.stats);
        let mut out = Out::new(self.client.proto());
        let executed = executor.execute(&mut self.client, owned.as_args(), &mut out);
        (executed == Executed::Done).then_some(out.buf)
    }

    /// Runs a request given as words parted by single spaces and returns its reply as text.
    pub fn text(&mut self, request: &str) -> String {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        String::from_utf8_lossy(&self.run(&args)).into_owned()
    }

    /// Records what happens on the engine from now on.
    pub fn record(&self) -> Arc<Records> {
        let records = Arc::<Records>::default();
        assert!(
            self.engine
                .server
                .set_journal(Arc::clone(&records) as Arc<dyn Journal>),
            "an engine is recorded once"
        );
        records
    }

    /// Replays a record as far as it is wanted; returns how many effects were applied.
    pub fn replay(
        &mut self,
        record: &[u8],
        mut wanted: impl FnMut(EffectOn<'_>) -> bool,
    ) -> Result<usize, ReplayError> {
        let engine = Arc::clone(&self.engine);
        Executor::new(&engine.server, &engine.stats).apply_effects(record, &mut wanted)
    }

    /// Returns every key with its expiry and its value as DUMP gives it, those past their time included. Keys of
    /// other spaces than 0 have its number in braces before them.
    pub fn contents(&self) -> BTreeMap<Vec<u8>, (Option<i64>, Vec<u8>)> {
        let keyspace = &self.engine.server.keyspace;
        let mut contents = BTreeMap::new();
        for space in keyspace.databases.spaces() {
            for shard in 0..keyspace.shards.count() {
                let shard = keyspace.shards.lock_one(shard, space);
                for entry in shard.expect("no script is slow in a test").keys.iter() {
                    let value = (entry.expiry(), dump_value(entry.value()));
                    contents.insert(tag_name(space, entry.key()).into_owned(), value);
                }
            }
        }
        contents
    }

    /// Removes the keys whose time has come.
    pub fn expire(&mut self) {
        let engine = Arc::clone(&self.engine);
        let mut executor = Executor::new(&engine.server, &engine.stats);
        for shard in 0..engine.server.keyspace.shards.count() {
            while executor.expire_shard(shard, 16) {}
        }
    }

    /// Ends the connection.
    pub fn disconnect(&mut self) {
        let engine = Arc::clone(&self.engine);
        Executor::new(&engine.server, &engine.stats).disconnect(&mut self.client);
    }

    /// Takes the messages that arrived for this client; a reply of an ended wait unblocks it.
    pub fn messages(&mut self) -> Vec<Message> {
        let mut inbox = self.engine.inbox.0.lock();
        let id = self.client.id();
        let (mine, others) = inbox.drain(..).partition(|(client, _)| *client == id);
        *inbox = others;
        drop(inbox);
        let mine: Vec<(u64, Message)> = mine;
        if mine
            .iter()
            .any(|(_, message)| matches!(message, Message::Unblocked(_)))
        {
            self.client.unblocked();
        }
        mine.into_iter().map(|(_, message)| message).collect()
    }

    /// Runs a request given as words parted by single spaces and compares its reply.
    #[track_caller]
    pub fn check(&mut self, request: &str, expected: &str) {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let reply = self.run(&args);
        assert_eq!(String::from_utf8_lossy(&reply), expected, "{request}");
    }
}
