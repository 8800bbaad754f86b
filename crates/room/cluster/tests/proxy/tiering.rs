//! Leases, loads and registrations on the way of commands.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use nagaya_cluster::hot_tier::keys;
use nagaya_cluster::hot_tier::run::RunDigest;
use nagaya_cluster::hot_tier::scripts::{self, Call, Form};
use nagaya_cluster::proxy::{
    Accesses, ColdKeys, Config, CountDone, Kinds, LoadDone, Loads, Outcome, Proxy, ScanDone, TagAdmin,
    TagCallback, TagCommand, Tiering,
};
use nagaya_redis_client::Run;
use nagaya_testkit::{Redis, RedisCluster, Reply, RespClient, wait};
use nagaya_tiering::access::Use;
use nagaya_tiering::cold::Kind;
use nagaya_tiering::hot::Chunk;
use nagaya_tiering::protocol::{Part, Tokens};

use crate::support::{LIMIT, cluster_url, config, connect, start};

/// Makes tags hot with the real scripts and no rows, on a thread of its own per load.
pub(crate) struct FakeLoads {
    nodes: Vec<std::net::SocketAddr>,
    tokens: Tokens,
    loads: AtomicUsize,
    /// What the next loads end with instead.
    failures: Mutex<Vec<String>>,
    pub(crate) hold: Mutex<()>,
    noted: Mutex<HashMap<Vec<u8>, Vec<Use>>>,
    /// The clients that wait for the cold tier without limit.
    waits: Mutex<Vec<Weak<()>>>,
}

impl FakeLoads {
    pub(crate) fn new(nodes: Vec<std::net::SocketAddr>) -> Arc<FakeLoads> {
        Arc::new(FakeLoads {
            nodes,
            tokens: Tokens::default(),
            loads: AtomicUsize::new(0),
            failures: Mutex::default(),
            hold: Mutex::default(),
            noted: Mutex::default(),
            waits: Mutex::default(),
        })
    }

    fn count(&self) -> usize {
        self.loads.load(Ordering::SeqCst)
    }

    fn make_hot(&self, tag: &[u8]) -> Result<(), String> {
        let _held = self.hold.lock().unwrap();
        let token = self.tokens.draw();
        for address in &self.nodes {
            let mut node = RespClient::connect(*address).unwrap();
            let run = run_of(&mut node);
            let begun = call(&mut node, &scripts::begin(&run, tag, token));
            if begun.error().is_some() {
                continue;
            }
            let part = Part {
                generation: 1,
                saved: Default::default(),
                is_last: true,
            };
            let chunk = Chunk {
                part,
                rows: Vec::new(),
                tombstones: Vec::new(),
            };
            let installed = call(&mut node, &scripts::install(&run, tag, token, &chunk));
            return match installed.error() {
                None => Ok(()),
                Some(error) => Err(error.to_owned()),
            };
        }
        Err("no node takes the tag".to_owned())
    }
}

pub(crate) fn call(node: &mut RespClient, call: &Call) -> Reply {
    node.cmd(&call.words(Form::Source)).unwrap()
}

pub(crate) fn run_of(node: &mut RespClient) -> RunDigest {
    let mut field = |section: &str, name: &str| {
        let info = node.cmd(&["INFO", section]).unwrap().text();
        let line = info
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap()
            .to_owned();
        line.split(':').nth(1).unwrap().trim().to_owned()
    };
    RunDigest::from(&Run {
        run_id: field("server", "run_id"),
        replication_id: field("replication", "master_replid:"),
    })
}

struct Shared(Arc<FakeLoads>);

impl Loads for Shared {
    fn load(&self, tag: &[u8], done: LoadDone) {
        self.0.loads.fetch_add(1, Ordering::SeqCst);
        let (loads, tag) = (Arc::clone(&self.0), tag.to_vec());
        std::thread::spawn(move || {
            let failure = loads.failures.lock().unwrap().pop();
            done(failure.map_or_else(|| loads.make_hot(&tag), Err));
        });
    }
}

impl Accesses for Shared {
    fn note(&self, tag: &[u8], used: Use) {
        self.0
            .noted
            .lock()
            .unwrap()
            .entry(tag.to_vec())
            .or_default()
            .push(used);
    }
}

impl ColdKeys for Shared {
    fn scan(&self, cursor: u64, _count: usize, kinds: Kinds, done: ScanDone) {
        let is_wanted = matches!(kinds, Kinds::All | Kinds::Only(Kind::String));
        let names = |name: &str| {
            let names = is_wanted.then(|| name.as_bytes().to_vec());
            names.into_iter().collect::<Vec<_>>()
        };
        let page = match cursor {
            0 => (1, names("cold:a")),
            _ => (0, names("cold:b")),
        };
        done(Ok(page));
    }

    fn count(&self, done: CountDone) {
        done(Ok(3));
    }
}

impl TagAdmin for Shared {
    fn ask(&self, command: TagCommand, wanted: Weak<()>, done: TagCallback) {
        match command {
            TagCommand::Names { tag } if tag == b"odd" => {
                done(Ok(Outcome::Names(vec![b"{odd}k".to_vec(), b"x{odd}".to_vec()])));
            }
            TagCommand::Names { .. } => done(Ok(Outcome::Names(vec![b"{h}k".to_vec(), b"{h}none".to_vec()]))),
            TagCommand::WaitCold { limit: None } => {
                self.0.waits.lock().unwrap().push(wanted);
            }
            _ => done(Err("ERR not kept here".to_owned())),
        }
    }
}

const LEASE: Duration = Duration::from_millis(400);

pub(crate) fn tiered(url: &str, loads: &Arc<FakeLoads>) -> Config {
    let shared = Arc::new(Shared(Arc::clone(loads)));
    let mut config = config(url);
    config.tiering = Some(Tiering {
        lease: LEASE,
        margin: Duration::from_millis(50),
        allowance: Duration::from_millis(500),
        load_wait: Duration::from_secs(5),
        loads: shared.clone(),
        accesses: shared.clone(),
        cold_keys: shared.clone(),
        tag_admin: shared,
    });
    config
}

pub(crate) fn with_long_leases(mut config: Config) -> Config {
    if let Some(tiering) = &mut config.tiering {
        tiering.lease = Duration::from_secs(60);
        tiering.margin = Duration::from_secs(1);
    }
    config
}

pub(crate) struct One {
    pub(crate) redis: Redis,
    pub(crate) loads: Arc<FakeLoads>,
    pub(crate) proxy: Proxy,
}

pub(crate) fn one_server(change: impl FnOnce(Config) -> Config) -> One {
    let redis = Redis::start();
    let loads = FakeLoads::new(vec![redis.address()]);
    let proxy = start(change(tiered(&redis.url(), &loads)));
    One { redis, loads, proxy }
}

impl One {
    /// How often the server ran a command.
    fn calls(&self, command: &str) -> u64 {
        let stats = self.redis.cmd(&["INFO", "commandstats"]).text();
        let name = format!("cmdstat_{command}:calls=");
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix(&name).map(str::to_owned));
        line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
    }

    pub(crate) fn is_dirty(&self, tag: &str, key: &str) -> bool {
        let dirty = keys::dirty(tag.as_bytes());
        let indexed = self.redis.cmd(&[
            b"ZSCORE",
            &keys::index(keys::slot_of(tag.as_bytes()))[..],
            tag.as_bytes(),
        ]);
        let has = self.redis.cmd(&[b"HEXISTS", &dirty[..], key.as_bytes()]);
        has == Reply::Int(1) && indexed != Reply::Nil
    }
}

#[test]
fn a_resident_tag_costs_reads_and_repeated_writes_nothing() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    client.expect("SET {a}k 0", "+OK");
    let (scripts, infos) = (one.calls("evalsha"), one.calls("info"));
    for number in 0..200 {
        client.expect("GET {a}k", &format!("\"{number}\""));
        client.expect("INCR {a}k", &format!("{}", number + 1));
    }
    assert_eq!(
        one.calls("evalsha"),
        scripts,
        "no script beside the first touch and registration"
    );
    assert_eq!(one.calls("info"), infos + 2, "the test's own two looks aside");
    assert_eq!((one.calls("get"), one.calls("incr")), (200, 200));
    assert!(one.is_dirty("a", "{a}k"));
    assert_eq!(one.loads.count(), 1);
    let metrics = one.proxy.handle();
    assert_eq!(metrics.metrics().registrations.get(), 1);
}

#[test]
fn many_first_requests_share_one_load_and_keep_their_order() {
    let one = one_server(with_long_leases);
    let held = one.loads.hold.lock().unwrap();
    let mut clients: Vec<_> = (0..100).map(|_| connect(&one.proxy)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&format!("SET {{s}}{number} x"));
        client.send(&format!("APPEND {{s}}{number} y"));
        client.send(&format!("GET {{s}}{number}"));
    }
    wait::until("all wait", LIMIT, || {
        one.proxy.handle().metrics().waits.get() == 300
    });
    assert_eq!(
        one.redis.cmd(&["EXISTS", "{s}1"]),
        Reply::Int(0),
        "nothing runs on a tag that is not loaded"
    );
    drop(held);
    for client in &mut clients {
        assert_eq!(client.receive(), Reply::ok());
        assert_eq!(client.receive(), Reply::Int(2));
        assert_eq!(client.receive(), Reply::bulk("xy"));
    }
    assert_eq!(one.loads.count(), 1);
}

#[test]
fn a_tag_that_cannot_be_loaded_gives_an_error_and_can_be_tried_again() {
    let one = one_server(with_long_leases);
    one.loads
        .failures
        .lock()
        .unwrap()
        .push("the database is down".to_owned());
    let mut client = connect(&one.proxy);
    client.expect(
        "GET {f}k",
        "-TRYAGAIN the tag cannot be loaded now: the database is down",
    );
    client.expect("GET {f}k", "nil");
}

#[test]
fn a_load_that_does_not_end_is_waited_for_no_longer_than_allowed() {
    let one = one_server(|mut config| {
        config = with_long_leases(config);
        if let Some(tiering) = &mut config.tiering {
            tiering.load_wait = Duration::from_millis(300);
        }
        config
    });
    let held = one.loads.hold.lock().unwrap();
    let (mut client, mut other) = (connect(&one.proxy), connect(&one.proxy));
    let late =
        "-TRYAGAIN the tag is not in memory, and no tag was loaded for 300 ms: the cold tier may be away";
    client.expect("GET {hang}k", late);
    client.expect("SET {hang}k x", late);
    other.expect("GET {hang}k", late);
    assert_eq!(one.loads.count(), 1, "the load is still under way");
    drop(held);
    wait::until("the load has ended", LIMIT, || {
        client.say("GET {hang}k") == Reply::Nil
    });
    other.expect("SET {hang}k x", "+OK");
}

#[test]
fn a_lease_in_use_is_renewed_ahead_of_its_end() {
    let one = one_server(|mut config| {
        if let Some(tiering) = &mut config.tiering {
            tiering.lease = Duration::from_millis(1500);
        }
        config
    });
    let mut client = connect(&one.proxy);
    client.expect("SET {r}k 1", "+OK");
    let handle = one.proxy.handle();
    let waits = handle.metrics().waits.get();
    let granted = handle.metrics().leases_granted.get();
    wait::until("several leases later", LIMIT, || {
        client.expect("GET {r}k", "\"1\"");
        handle.metrics().leases_granted.get() >= granted + 3
    });
    let waited = handle.metrics().waits.get() - waits;
    // A machine that is busy elsewhere may miss one; without renewals every lease's end makes a command wait.
    assert!(waited < 2, "{waited} commands had to wait for renewals");
    assert_eq!(one.loads.count(), 1);
    let noted = one.loads.noted.lock().unwrap();
    assert!(noted[&b"r"[..]].contains(&Use::Read) && noted[&b"r"[..]].contains(&Use::Write));
}

#[test]
fn registrations_do_not_outlive_their_lease() {
    let one = one_server(|config| config);
    let mut client = connect(&one.proxy);
    client.expect("SET {g}k 1", "+OK");
    let granted = one.proxy.handle().metrics().leases_granted.get();
    one.redis.cmd(&[b"DEL".to_vec(), keys::dirty(b"g")]);
    wait::until("the next lease", LIMIT, || {
        client.expect("GET {g}k", "\"1\"");
        one.proxy.handle().metrics().leases_granted.get() > granted
    });
    client.expect("SET {g}k 2", "+OK");
    let dirty = one
        .redis
        .cmd(&[b"HEXISTS".to_vec(), keys::dirty(b"g"), b"{g}k".to_vec()]);
    assert_eq!(dirty, Reply::Int(1));
}

#[test]
fn an_evicted_tag_is_loaded_again() {
    let one = one_server(|config| config);
    let mut client = connect(&one.proxy);
    client.expect("SET {e}k 1", "+OK");
    let touches = one.proxy.handle().metrics().touches.get();
    // As an evictor would have left it.
    one.redis.cmd(&[
        b"DEL".to_vec(),
        keys::meta(b"e"),
        keys::dirty(b"e"),
        b"{e}k".to_vec(),
    ]);
    wait::until("the tag is touched again", LIMIT, || {
        client.say("GET {e}k");
        one.proxy.handle().metrics().touches.get() > touches
    });
    wait::until("the tag is loaded again", LIMIT, || {
        client.expect("GET {e}k", "nil");
        one.loads.count() == 2
    });
}

#[test]
fn a_restarted_node_has_its_tags_loaded_again() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    client.expect("SET {n}k 1", "+OK");
    one.redis.restart();
    wait::until("the node is back", LIMIT, || {
        client.say("GET {n}k").error().is_none()
    });
    assert!(one.loads.count() >= 2);
}

#[test]
fn a_connection_that_breaks_takes_its_leases_with_it() {
    let redis = Redis::start();
    let loads = FakeLoads::new(vec![redis.address()]);
    let link = nagaya_testkit::TcpProxy::start(redis.address());
    let url = format!("redis://{}", link.address());
    let proxy = start(with_long_leases(tiered(&url, &loads)));
    let mut client = connect(&proxy);
    client.expect("SET {c}k 1", "+OK");
    let (touches, registrations) = {
        let handle = proxy.handle();
        (
            handle.metrics().touches.get(),
            handle.metrics().registrations.get(),
        )
    };
    link.reset();
    link.restore();
    wait::until("the link is back", LIMIT, || {
        client.say("SET {c}k 2") == Reply::ok()
    });
    assert!(proxy.handle().metrics().touches.get() > touches);
    assert!(proxy.handle().metrics().registrations.get() > registrations);
}

#[test]
fn transactions_and_scripts_register_all_they_may_write() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    client.expect("MULTI", "+OK");
    client.expect("SET {t}1 a", "+QUEUED");
    client.expect("COPY {t}1 {t}2", "+QUEUED");
    client.expect("GET {t}3", "+QUEUED");
    client.expect("EXEC", "[+OK, 1, nil]");
    assert!(one.is_dirty("t", "{t}1") && one.is_dirty("t", "{t}2"));
    assert!(!one.is_dirty("t", "{t}3"));
    client.expect("WATCH {t}1", "+OK");
    client.expect("MULTI", "+OK");
    client.expect("SET {t}4 a", "+QUEUED");
    client.expect("EXEC", "[+OK]");
    assert!(one.is_dirty("t", "{t}4"));
    let script = "return redis.call('SET', KEYS[2], 'x')";
    let reply = client.0.cmd(&["EVAL", script, "2", "{t}5", "{t}6"]).unwrap();
    assert_eq!(reply, Reply::ok());
    assert!(one.is_dirty("t", "{t}6"));
    assert!(!one.is_dirty("t", "{t}5"), "declared, and not written");
    client.say("HELLO 3");
    client.expect("SET {t}7 a", "+OK");
    assert!(one.is_dirty("t", "{t}7"));
}

#[test]
fn a_blocking_command_outlives_its_lease_by_being_sent_again() {
    let one = one_server(|config| config);
    let mut waiting = connect(&one.proxy);
    waiting.send("BLPOP {b}l 0");
    let handle = one.proxy.handle();
    wait::until("it was sent under several leases", LIMIT, || {
        one.calls("blpop") >= 4
    });
    let mut other = connect(&one.proxy);
    other.expect("RPUSH {b}l x", "1");
    assert_eq!(format!("{:?}", waiting.receive()), r#"["{b}l", "x"]"#);
    assert!(one.is_dirty("b", "{b}l"));
    assert!(handle.metrics().leases_granted.get() >= 4);
    waiting.expect("BLPOP {b}l 1", "nil");
    waiting.expect("PING", "+PONG");
}

#[test]
fn a_stream_read_from_its_end_misses_nothing_between_two_leases() {
    let one = one_server(|config| config);
    let (mut reader, mut writer) = (connect(&one.proxy), connect(&one.proxy));
    writer.expect("XADD {xs}s 1-1 f old", "\"1-1\"");
    reader.send("XREAD BLOCK 0 STREAMS {xs}s $");
    wait::until("it was sent under several leases", LIMIT, || {
        one.calls("xread") >= 3
    });
    writer.expect("XADD {xs}s 2-1 f new", "\"2-1\"");
    assert_eq!(
        format!("{:?}", reader.receive()),
        r#"[["{xs}s", [["2-1", ["f", "new"]]]]]"#
    );
}

#[test]
fn a_reply_that_comes_too_late_is_an_error() {
    let one = one_server(|mut config| {
        config.reply_limit = Duration::from_secs(20);
        config
    });
    let mut client = connect(&one.proxy);
    client.expect("SET {l}k 1", "+OK");
    one.redis.stop();
    client.send("INCR {l}k");
    // The lease and the allowance pass while the server is stopped; a client without data tells the time.
    let mut other = connect(&one.proxy);
    let started = other.say("CLIENT INFO").text();
    assert!(started.contains("id="));
    std::thread::park_timeout(LEASE + Duration::from_millis(700));
    one.redis.cont();
    let late = client.receive();
    assert!(
        late.error().is_some_and(|text| text.contains("too late")),
        "{late:?}"
    );
    assert_eq!(one.proxy.handle().metrics().late.get(), 1);
    wait::until("the tag is used again", LIMIT, || {
        client.say("GET {l}k") == Reply::bulk("2")
    });
}

#[test]
fn writes_are_registered_though_the_scripts_were_flushed() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    client.expect("SET {x}1 a", "+OK");
    one.redis.cmd(&["SCRIPT", "FLUSH"]);
    client.expect("SET {x}2 a", "+OK");
    assert!(one.is_dirty("x", "{x}2"), "told of success, so a saver finds it");
    client.expect("SET {x}3 a", "+OK");
    assert!(one.is_dirty("x", "{x}3"));
}

#[test]
fn a_tag_follows_its_slot_to_another_node() {
    let cluster = RedisCluster::start();
    let loads = FakeLoads::new(cluster.addresses());
    let proxy = start(with_long_leases(tiered(&cluster_url(&cluster), &loads)));
    let mut client = connect(&proxy);
    client.expect("SET {m}k 1", "+OK");
    assert_eq!(loads.count(), 1);
    let slot = cluster.slot_of("m");
    cluster.move_slot(slot, (cluster.owner_of(slot) + 1) % 3);
    client.expect("INCR {m}k", "2");
    assert_eq!(
        loads.count(),
        2,
        "the tag is suspect in its new home until a load has looked at it"
    );
    client.expect("GET {m}k", "\"2\"");
}

#[test]
fn cold_names_are_listed_after_the_hot_ones() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    client.expect("SET {h}k 1", "+OK");
    let mut names: Vec<String> = client.say("KEYS *").items().iter().map(Reply::text).collect();
    names.sort();
    assert_eq!(names, ["cold:a", "cold:b", "{h}k"]);
    let mut scan = |options: &str| {
        let (mut cursor, mut names) = ("0".to_owned(), Vec::new());
        loop {
            let page = client.say(&format!("SCAN {cursor} COUNT 100 {options}"));
            cursor = page.items()[0].text();
            names.extend(page.items()[1].items().iter().map(Reply::text));
            if cursor == "0" {
                return names;
            }
        }
    };
    assert_eq!(scan("MATCH *k"), ["{h}k"]);
    assert_eq!(scan("TYPE String"), ["{h}k", "cold:a", "cold:b"]);
    assert!(scan("TYPE list").is_empty());
    assert!(scan("TYPE nosuch").is_empty());
    client.expect("DBSIZE", "3");
}

#[test]
fn a_tag_is_erased_by_the_names_that_the_tag_admin_knows() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    client.expect("SET {h}k 1", "+OK");
    client.send("ROOM.ERASE h");
    client.send("EXISTS {h}k");
    assert_eq!(client.receive(), Reply::Int(1), "the other name had no key");
    assert_eq!(client.receive(), Reply::Int(0));
    client.expect("ROOM.STATUS h", "-ERR not kept here");
    client.expect("ROOM.WAITCOLD x", "-ERR value is not an integer or out of range");
}

#[test]
fn a_tag_with_keys_out_of_reach_is_not_erased() {
    let one = one_server(with_long_leases);
    let mut admin = connect(&one.proxy);
    admin.expect("SET {odd}k 1", "+OK");
    admin.expect("SET {h}k 1", "+OK");
    admin.expect("ACL SETUSER u on nopass +@all ~{odd}* ~{h}*", "+OK");
    let mut user = connect(&one.proxy);
    user.expect("AUTH u x", "+OK");
    let denied = "-NOPERM this user has no permissions to access one of the keys used as arguments";
    user.expect("ROOM.ERASE odd", denied);
    user.expect("ROOM.ERASE other", denied);
    user.expect("ROOM.STATUS other", denied);
    user.expect("ROOM.TAGS HOTTEST", denied);
    user.expect("EXISTS {odd}k", "1");
    user.expect("ROOM.ERASE h", "1");
    user.expect("ROOM.STATUS odd", "-ERR not kept here");
    admin.expect("ROOM.TAGS HOTTEST", "-ERR not kept here");
}

#[test]
fn a_wait_for_the_cold_tier_ends_with_its_client() {
    let one = one_server(with_long_leases);
    let mut client = connect(&one.proxy);
    client.send("ROOM.WAITCOLD 0");
    let waits = || one.loads.waits.lock().unwrap().clone();
    wait::until("the client waits", LIMIT, || waits().len() == 1);
    assert_eq!(waits()[0].strong_count(), 1);
    drop(client);
    wait::until("nobody waits", LIMIT, || waits()[0].strong_count() == 0);
}

#[test]
fn clients_that_wait_are_counted() {
    let one = one_server(|config| config);
    let (mut client, mut waiter) = (connect(&one.proxy), connect(&one.proxy));
    let mut counts = || {
        let info = client.say("INFO clients").text();
        let count = |name: &str| {
            let line = info.lines().find(|line| line.starts_with(name)).unwrap();
            line.split(':').nth(1).unwrap().trim().parse::<u32>().unwrap()
        };
        (count("connected_clients"), count("blocked_clients"))
    };
    assert_eq!(counts(), (2, 0));
    waiter.send("BLPOP {b}list 0");
    wait::until("it waits", LIMIT, || counts() == (2, 1));
    connect(&one.proxy).say("RPUSH {b}list x");
    waiter.receive();
    wait::until("it waits no more", LIMIT, || counts() == (2, 0));
    waiter.send("XREAD BLOCK 0 STREAMS {b}stream $");
    wait::until("it waits again", LIMIT, || counts() == (2, 1));
    drop(waiter);
    wait::until("it is gone", LIMIT, || counts() == (1, 0));
}

#[test]
fn names_of_the_house_are_not_listed() {
    let one = one_server(|config| Config {
        hidden: vec![b"{ids}:".to_vec()],
        ..with_long_leases(config)
    });
    one.redis.cmd(&["SET", "{ids}:stats", "x"]);
    let mut client = connect(&one.proxy);
    client.expect("SET {h}k 1", "+OK");
    client.expect("KEYS {*", r#"["{h}k"]"#);
    for _ in 0..20 {
        client.expect("RANDOMKEY", r#""{h}k""#);
    }
}
