use crate::testing::TestSession;

fn run(session: &mut TestSession, request: &str) -> String {
    let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
    String::from_utf8_lossy(&session.run(&args)).into_owned()
}

#[test]
fn a_key_expires_after_its_time_and_not_before() {
    let mut session = TestSession::new();
    session.check("SET k v", "+OK\r\n");
    session.check("PEXPIRE k 1000", ":1\r\n");
    session.advance_ms(999);
    session.check("PTTL k", ":1\r\n");
    session.check("TTL k", ":0\r\n");
    session.advance_ms(2);
    session.check("TTL k", ":-2\r\n");
    session.check("EXISTS k", ":0\r\n");
    session.check("PERSIST k", ":0\r\n");
}

#[test]
fn expire_conditions_look_at_the_expiry_that_is_there() {
    let mut session = TestSession::new();
    session.check("SET k v", "+OK\r\n");
    session.check("EXPIRE k 100 XX", ":0\r\n");
    session.check("EXPIRE k 100 GT", ":0\r\n");
    session.check("EXPIRE k 100 LT", ":1\r\n");
    session.check("EXPIRE k 200 NX", ":0\r\n");
    session.check("EXPIRE k 200 GT XX", ":1\r\n");
    session.check("EXPIRE k 300 LT", ":0\r\n");
    session.check("TTL k", ":200\r\n");
}

#[test]
fn a_renamed_key_keeps_its_expiry_and_a_replaced_one_loses_its_own() {
    let mut session = TestSession::new();
    session.check("SET a 1 EX 100", "+OK\r\n");
    session.check("SET b 2 EX 500", "+OK\r\n");
    session.check("RENAME a b", "+OK\r\n");
    session.check("TTL b", ":100\r\n");
    session.check("SET c 3", "+OK\r\n");
    session.check("COPY c b REPLACE", ":1\r\n");
    session.check("TTL b", ":-1\r\n");
}

#[test]
fn a_scan_returns_every_key_once_the_cursor_is_back() {
    let mut session = TestSession::new();
    for index in 0..1000 {
        session.run(&[b"SET", format!("key:{index}").as_bytes(), b"v"]);
    }
    let (mut cursor, mut seen) = ("0".to_owned(), std::collections::HashSet::new());
    loop {
        let reply = run(&mut session, &format!("SCAN {cursor} COUNT 17 MATCH key:*"));
        let mut lines = reply.split("\r\n");
        cursor = lines.nth(2).unwrap().to_owned();
        seen.extend(lines.filter(|line| line.starts_with("key:")).map(str::to_owned));
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 1000);
    session.check("DBSIZE", ":1000\r\n");
}

#[test]
fn idle_time_starts_with_the_last_use() {
    let mut session = TestSession::new();
    session.check("SET k v", "+OK\r\n");
    session.advance_ms(5000);
    session.check("OBJECT IDLETIME k", ":5\r\n");
    session.check("EXISTS k", ":1\r\n");
    session.check("OBJECT IDLETIME k", ":5\r\n");
    session.check("TOUCH k missing", ":1\r\n");
    session.check("OBJECT IDLETIME k", ":0\r\n");
}

#[test]
fn a_restored_key_can_be_made_to_look_idle() {
    let mut session = TestSession::new();
    session.check("SET k v", "+OK\r\n");
    let dump = session.run(&[b"DUMP", b"k"]);
    let payload = &dump[dump.iter().position(|&byte| byte == b'\n').unwrap() + 1..dump.len() - 2];
    let reply = session.run(&[b"RESTORE", b"copy", b"0", payload, b"IDLETIME", b"1000"]);
    assert_eq!(reply, b"+OK\r\n");
    session.check("OBJECT IDLETIME copy", ":1000\r\n");
    let reply = session.run(&[b"RESTORE", b"copy", b"0", payload]);
    assert_eq!(reply, b"-BUSYKEY Target key name already exists.\r\n");
    let reply = session.run(&[b"RESTORE", b"copy", b"1", payload, b"ABSTTL", b"REPLACE"]);
    assert_eq!(reply, b"+OK\r\n");
    session.check("EXISTS copy", ":0\r\n");
}

#[test]
fn removed_keys_break_watched_transactions() {
    for removal in ["DEL k", "FLUSHALL", "EXPIRE k 0", "RENAME k other", "PERSIST k"] {
        let mut session = TestSession::new();
        session.check("SET k v EX 100", "+OK\r\n");
        session.check("WATCH k", "+OK\r\n");
        run(&mut TestSession::on(&session.engine), removal);
        session.check("MULTI", "+OK\r\n");
        session.check("DBSIZE", "+QUEUED\r\n");
        session.check("EXEC", "*-1\r\n");
    }
}

#[test]
fn sort_finds_its_destination_among_look_alikes() {
    let find = |request: &str| {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        super::sort::store_keys(&nagaya_resp::Args::from_slices(&args))
    };
    assert_eq!(find("SORT k STORE dst"), [3]);
    assert_eq!(find("SORT k BY STORE GET STORE LIMIT 0 STORE"), []);
    assert_eq!(find("SORT k STORE one ALPHA store two"), [6]);
    assert_eq!(find("SORT k STORE"), []);
}

#[test]
fn the_last_moment_there_is_rounds_up_to_a_second() {
    let mut session = TestSession::new();
    session.check("SET k v", "+OK\r\n");
    session.check("PEXPIREAT k 9223372036854775807", ":1\r\n");
    session.check("EXPIRETIME k", ":9223372036854776\r\n");
}
