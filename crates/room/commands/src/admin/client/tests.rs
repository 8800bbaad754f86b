use nagaya_connections::client::Message;

use crate::testing::TestSession;

#[test]
fn a_name_is_kept_shown_and_taken_away() {
    let mut session = TestSession::new();
    session.check("CLIENT GETNAME", "$-1\r\n");
    session.check("CLIENT SETNAME worker-1", "+OK\r\n");
    session.check("CLIENT GETNAME", "$8\r\nworker-1\r\n");
    assert!(session.text("CLIENT LIST").contains(" name=worker-1 "));
    let refused = b"-ERR Client names cannot contain spaces, newlines or special characters.\r\n";
    assert_eq!(session.run(&[b"CLIENT", b"SETNAME", b"a b"]), refused);
    assert_eq!(session.run(&[b"CLIENT", b"SETNAME", b""]), b"+OK\r\n");
    session.check("CLIENT GETNAME", "$-1\r\n");
}

#[test]
fn list_has_every_field_in_order() {
    let mut session = TestSession::new();
    session.advance_ms(3000);
    let mut other = session.another();
    other.text("MULTI");
    other.text("SET k v");
    let line = session.text("CLIENT LIST");
    let first = line.lines().nth(1).unwrap();
    let names: Vec<&str> = first
        .split(' ')
        .map(|field| field.split('=').next().unwrap())
        .collect();
    let expected = "id addr laddr fd name age idle flags db sub psub ssub multi qbuf qbuf-free argv-mem multi-mem \
                    rbs rbp obl oll omem tot-mem events cmd user redir resp lib-name lib-ver";
    assert_eq!(names.join(" "), expected);
    assert!(
        first.starts_with("id=1 addr=127.0.0.1:40001 laddr=127.0.0.1:6380 "),
        "{first}"
    );
    assert!(
        first.contains(" age=3 idle=0 flags=N ") && first.contains(" multi=-1 qbuf=26 "),
        "{first}"
    );
    assert!(
        first.contains(" cmd=client|list user=default redir=-1 resp=2"),
        "{first}"
    );
    let second = line.lines().nth(2).unwrap();
    assert!(
        second.contains(" flags=x ") && second.contains(" multi=1 "),
        "{second}"
    );
    assert!(second.contains(" cmd=set "), "{second}");
    assert!(session.text("CLIENT LIST ID 2 7").contains("id=2 "));
    session.check("CLIENT LIST TYPE pubsub", "$0\r\n\r\n");
    session.check("CLIENT LIST TYPE x", "-ERR Unknown client type 'x'\r\n");
    session.check("CLIENT LIST ID x", "-ERR Invalid client ID\r\n");
    session.check("CLIENT LIST BY id", "-ERR syntax error\r\n");
    other.disconnect();
    assert!(!session.text("CLIENT LIST").contains("id=2 "));
}

#[test]
fn kill_ends_those_that_fit() {
    let mut session = TestSession::new();
    let (mut second, mut third) = (session.another(), session.another());
    session.check("CLIENT KILL 127.0.0.1:40002", "+OK\r\n");
    assert_eq!(second.messages(), [Message::Close]);
    session.check("CLIENT KILL 127.0.0.1:40002", "-ERR No such client\r\n");
    session.check("CLIENT KILL ID 3 ADDR 127.0.0.1:1", ":0\r\n");
    session.check("CLIENT KILL ID 3 USER default TYPE normal", ":1\r\n");
    assert_eq!(third.messages(), [Message::Close]);
    session.check("CLIENT KILL SKIPME yes", ":0\r\n");
    session.check("CLIENT KILL SKIPME no LADDR 127.0.0.1:6380", ":1\r\n");
    assert!(session.client.close_after_reply);
}

#[test]
fn kill_and_list_choose_by_the_filters_of_later_versions() {
    let mut session = TestSession::new();
    let (mut second, mut third) = (session.another(), session.another());
    session.advance_ms(10_000);
    let mut young = session.another();
    young.check("CLIENT SETNAME young", "+OK\r\n");
    let ids = |reply: String| -> String {
        let ids = reply.lines().filter_map(|line| line.strip_prefix("id="));
        let ids: Vec<&str> = ids.filter_map(|line| line.split(' ').next()).collect();
        ids.join(" ")
    };
    for (options, chosen) in [
        ("MAXAGE 10", "1 2 3"),
        ("MAXAGE 11", ""),
        ("SKIPME yes", "2 3 4"),
        ("ADDR 127.0.0.1:40002", "2"),
        ("NOT-ADDR 127.0.0.1:40002 SKIPME yes", "3 4"),
        ("LADDR 127.0.0.1:6380 USER default NAME young", "4"),
        ("NOT-ID 1 2 NOT-NAME young", "3"),
        ("ID 2 3 SKIPME yes", "2 3"),
        ("IP 127.0.0.1 NOT-TYPE pubsub ID 1", "1"),
        ("IDLE 5 NOT-USER default", ""),
        ("FLAGS N DB 0 NOT-DB 1 ID 2", "2"),
    ] {
        assert_eq!(
            ids(session.text(&format!("CLIENT LIST {options}"))),
            chosen,
            "{options}"
        );
    }
    session.check("CLIENT KILL MAXAGE 5", ":2\r\n");
    assert_eq!(second.messages(), [Message::Close]);
    assert_eq!(third.messages(), [Message::Close]);
    session.check("CLIENT KILL ID 1 4 99", ":1\r\n");
    assert_eq!(young.messages(), [Message::Close]);
}

#[test]
fn a_connection_that_does_not_touch_leaves_keys_idle() {
    let mut session = TestSession::new();
    session.check("SET k v", "+OK\r\n");
    session.check("HSET h f v", ":1\r\n");
    session.check("CLIENT NO-TOUCH ON", "+OK\r\n");
    assert!(session.text("CLIENT INFO").contains(" flags=T "));
    session.advance_ms(9000);
    session.text("GET k");
    session.text("APPEND k w");
    session.text("HSET h f w");
    session.check("OBJECT IDLETIME k", ":9\r\n");
    session.check("OBJECT IDLETIME h", ":9\r\n");
    session.check("TOUCH k", ":1\r\n");
    session.check("OBJECT IDLETIME k", ":0\r\n");
    session.check("RESET", "+RESET\r\n");
    session.text("HGET h f");
    session.check("OBJECT IDLETIME h", ":0\r\n");
    session.check("CLIENT NO-TOUCH maybe", "-ERR syntax error\r\n");
    session.check("CLIENT CAPA redirect", "+OK\r\n");
}

#[test]
fn a_connection_that_has_ended_is_found_nowhere() {
    let mut session = TestSession::new();
    let mut other = session.another();
    other.check("CLIENT TRACKING ON BCAST", "+OK\r\n");
    other.text("SUBSCRIBE news");
    other.disconnect();
    let server = &session.engine.server;
    assert_eq!(server.subscribers.clients.count(), 1);
    assert!(server.subscribers.clients.find(other.client.id()).is_none());
    assert_eq!(server.subscribers.tracking.stats().clients, 0);
    session.check("PUBLISH news hello", ":0\r\n");
    session.check("CLIENT KILL ID 2", ":0\r\n");
}

#[test]
fn kill_by_user_takes_any_user_there_is() {
    let mut session = TestSession::new();
    let mut alice = session.another();
    session.check("ACL SETUSER alice on nopass +@all", "+OK\r\n");
    session.check("CLIENT KILL USER alice", ":0\r\n");
    alice.check("AUTH alice any", "+OK\r\n");
    session.check("CLIENT KILL USER alice", ":1\r\n");
    assert_eq!(alice.messages(), [Message::Close]);
    session.check("ACL DELUSER alice", ":1\r\n");
    session.check("CLIENT KILL USER alice", "-ERR No such user 'alice'\r\n");
}

#[test]
fn kill_refuses_bad_filters() {
    let mut session = TestSession::new();
    for (request, error) in [
        ("ID 0", "ERR client-id should be greater than 0"),
        ("ID x", "ERR client-id should be greater than 0"),
        ("ID 10 wrong", "ERR syntax error"),
        ("TYPE x", "ERR Unknown client type 'x'"),
        ("USER nobody", "ERR No such user 'nobody'"),
        ("SKIPME maybe", "ERR syntax error"),
        ("MAXAGE x", "ERR maxage is not an integer or out of range"),
        ("MAXAGE 0", "ERR maxage should be greater than 0"),
        ("NOT-SKIPME yes", "ERR syntax error"),
        ("ID 1 0", "ERR client-id should be greater than 0"),
    ] {
        session.check(&format!("CLIENT KILL {request}"), &format!("-{error}\r\n"));
    }
    session.check(
        "CLIENT KILL",
        "-ERR wrong number of arguments for 'client|kill' command\r\n",
    );
}

#[test]
fn replies_can_be_switched_off_and_skipped() {
    let mut session = TestSession::new();
    session.check("CLIENT REPLY OFF", "");
    session.check("GET k", "");
    session.check("NOSUCH", "");
    session.check("CLIENT REPLY SKIP", "");
    session.check("GET k", "");
    session.check("CLIENT REPLY ON", "+OK\r\n");
    session.check("CLIENT REPLY SKIP", "");
    session.check("GET k", "");
    session.check("GET k", "$-1\r\n");
    session.check("CLIENT REPLY SKIP", "");
    session.check("CLIENT REPLY ON", "+OK\r\n");
    session.check("GET k", "$-1\r\n");
    session.check("CLIENT REPLY x", "-ERR syntax error\r\n");
}

#[test]
fn a_pause_of_writes_holds_up_what_changes_data() {
    let mut session = TestSession::new();
    let mut other = session.another();
    session.check("SET k v PX 10", "+OK\r\n");
    session.check("CLIENT PAUSE 1000 WRITE", "+OK\r\n");
    other.check("GET k", "$1\r\nv\r\n");
    assert_eq!(other.try_run(&[b"SET", b"k", b"w"]), None);
    assert!(session.text("CLIENT LIST").contains(" flags=b "));
    other.check("SET k", "-ERR wrong number of arguments for 'set' command\r\n");
    // The key is gone for readers and yet not removed.
    session.advance_ms(20);
    session.check("GET k", "$-1\r\n");
    assert!(session.text("INFO stats").contains("expired_keys:0\r\n"));
    session.advance_ms(990);
    other.check("SET other w", "+OK\r\n");
    session.check("GET k", "$-1\r\n");
    assert!(!session.text("CLIENT LIST").contains(" flags=b "));
    assert!(session.text("INFO stats").contains("expired_keys:1\r\n"));
}

#[test]
fn exec_waits_when_its_commands_write() {
    let mut session = TestSession::new();
    let (mut reader, mut writer) = (session.another(), session.another());
    reader.check("MULTI", "+OK\r\n");
    reader.check("GET k", "+QUEUED\r\n");
    writer.check("MULTI", "+OK\r\n");
    writer.check("SET k v", "+QUEUED\r\n");
    session.check("CLIENT PAUSE 1000 WRITE", "+OK\r\n");
    reader.check("EXEC", "*1\r\n$-1\r\n");
    assert_eq!(writer.try_run(&[b"EXEC"]), None);
    session.check("CLIENT UNPAUSE", "+OK\r\n");
    writer.check("EXEC", "*1\r\n+OK\r\n");
}

#[test]
fn a_pause_of_all_leaves_only_client() {
    let mut session = TestSession::new();
    session.check("CLIENT PAUSE 1000", "+OK\r\n");
    assert_eq!(session.try_run(&[b"GET", b"k"]), None);
    session.check(
        "CLIENT PAUSE x",
        "-ERR timeout is not an integer or out of range\r\n",
    );
    session.check("CLIENT PAUSE -1", "-ERR timeout is negative\r\n");
    session.check(
        "CLIENT PAUSE 1 x",
        "-ERR CLIENT PAUSE mode must be WRITE or ALL\r\n",
    );
    session.check("CLIENT UNPAUSE", "+OK\r\n");
    session.check("GET k", "$-1\r\n");
}

#[test]
fn unblock_ends_a_wait_in_either_way() {
    let mut session = TestSession::new();
    let mut other = session.another();
    for (reason, reply) in [
        ("", "*-1\r\n"),
        (" TIMEOUT", "*-1\r\n"),
        (" ERROR", "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"),
    ] {
        other.check("XREAD BLOCK 0 STREAMS s $", "");
        session.check(&format!("CLIENT UNBLOCK 2{reason}"), ":1\r\n");
        assert_eq!(other.messages(), [Message::Unblocked(reply.as_bytes().to_vec())]);
        session.check("CLIENT UNBLOCK 2", ":0\r\n");
    }
    session.check("CLIENT UNBLOCK 99", ":0\r\n");
    session.check(
        "CLIENT UNBLOCK x",
        "-ERR value is not an integer or out of range\r\n",
    );
    session.check(
        "CLIENT UNBLOCK 2 x",
        "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR\r\n",
    );
    assert!(
        session
            .text("INFO errorstats")
            .contains("errorstat_UNBLOCKED:count=1\r\n")
    );
}

#[test]
fn unblock_works_from_a_transaction_that_holds_the_same_shard() {
    let mut session = TestSession::new();
    let mut other = session.another();
    other.check("XREAD BLOCK 0 STREAMS s $", "");
    session.check("MULTI", "+OK\r\n");
    session.check("XLEN s", "+QUEUED\r\n");
    session.check("CLIENT UNBLOCK 2", "+QUEUED\r\n");
    session.check("EXEC", "*2\r\n:0\r\n:1\r\n");
    assert_eq!(other.messages().len(), 1);
}

#[test]
fn list_shows_subscribers_and_trackers() {
    let mut session = TestSession::new();
    let (mut subscriber, mut tracker) = (session.another(), session.another());
    subscriber.text("SUBSCRIBE a b");
    subscriber.text("PSUBSCRIBE p*");
    tracker.text("CLIENT TRACKING ON BCAST REDIRECT 1");
    let lines = session.text("CLIENT LIST TYPE pubsub");
    assert!(
        lines.contains("id=2 ") && lines.contains(" sub=2 psub=1 ssub=0 "),
        "{lines}"
    );
    assert!(lines.contains(" flags=P ") && !lines.contains("id=1 "), "{lines}");
    let lines = session.text("CLIENT LIST ID 3");
    assert!(
        lines.contains(" flags=tB ") && lines.contains(" redir=1 "),
        "{lines}"
    );
    let info = session.text("INFO all");
    for line in [
        "pubsub_channels:2",
        "pubsub_patterns:1",
        "tracking_clients:1",
        "tracking_total_prefixes:1",
    ] {
        assert!(info.contains(&format!("\r\n{line}\r\n")), "{line}");
    }
    session.check("CLIENT KILL TYPE pubsub", ":1\r\n");
    assert_eq!(subscriber.messages(), [Message::Close]);
}

#[test]
fn clients_are_ended_by_the_name_of_their_user() {
    let mut admin = TestSession::new();
    admin.check("ACL SETUSER alice on nopass +@all", "+OK\r\n");
    let (mut alice, mut other) = (admin.another(), admin.another());
    alice.check("AUTH alice x", "+OK\r\n");
    other.check("PING", "+PONG\r\n");
    admin.check("CLIENT KILL USER nobody", "-ERR No such user 'nobody'\r\n");
    admin.check("CLIENT KILL USER alice", ":1\r\n");
    assert_eq!(alice.messages(), [Message::Close]);
    assert_eq!(other.messages(), []);
    admin.check("CLIENT KILL USER alice", ":0\r\n");
    admin.check("CLIENT KILL USER default", ":1\r\n");
    assert_eq!(other.messages(), [Message::Close]);
}

#[test]
fn the_library_of_a_connection_is_told_kept_and_shown() {
    let mut session = TestSession::new();
    assert!(session.text("CLIENT INFO").contains(" lib-name= lib-ver=\n"));
    session.check("CLIENT SETINFO lib-name redis-py", "+OK\r\n");
    session.check("CLIENT SETINFO LIB-VER 5.0.1", "+OK\r\n");
    session.check("RESET", "+RESET\r\n");
    assert!(
        session
            .text("CLIENT LIST")
            .contains(" lib-name=redis-py lib-ver=5.0.1\n")
    );
    session.check("CLIENT SETINFO lib-os x", "-ERR Unrecognized option 'lib-os'\r\n");
    let bad: [&[u8]; 4] = [b"CLIENT", b"SETINFO", b"lib-name", b"redis py"];
    let refused = b"-ERR lib-name cannot contain spaces, newlines or special characters.\r\n";
    assert_eq!(session.run(&bad), refused);
    assert!(session.text("CLIENT INFO").contains(" lib-name=redis-py "));
    assert_eq!(
        session.run(&[b"CLIENT", b"SETINFO", b"lib-name", b""]),
        b"+OK\r\n"
    );
    assert!(session.text("CLIENT INFO").contains(" lib-name= lib-ver=5.0.1\n"));
}
