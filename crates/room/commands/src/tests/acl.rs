use nagaya_connections::client::Message;
use nagaya_resp::Frame;

use crate::testing::TestSession;

fn text(session: &mut TestSession, request: &str) -> String {
    let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
    String::from_utf8(session.run(&args)).unwrap()
}

/// Returns a field of the newest entry of ACL LOG.
fn logged(session: &mut TestSession, field: &str) -> String {
    let reply = session.run(&[b"ACL", b"LOG", b"1"]);
    let (frame, _) = nagaya_resp::parse_frame(&reply).unwrap().unwrap();
    let Frame::Array(entries) = frame else {
        panic!("{frame:?}")
    };
    let Some(Frame::Array(entry)) = entries.first() else {
        return String::new();
    };
    let at = entry
        .iter()
        .position(|name| *name == Frame::Bulk(field.into()))
        .unwrap();
    match &entry[at + 1] {
        Frame::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        Frame::Int(number) => number.to_string(),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_new_user_may_nothing_until_told_otherwise() {
    let mut admin = TestSession::new();
    let mut user = admin.another();
    admin.check("ACL SETUSER u on >pw", "+OK\r\n");
    user.check("ACL WHOAMI", "$7\r\ndefault\r\n");
    user.check(
        "AUTH u wrong",
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
    );
    user.check(
        "AUTH nobody pw",
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
    );
    user.check("AUTH u pw", "+OK\r\n");
    user.check(
        "GET k",
        "-NOPERM this user has no permissions to run the 'get' command\r\n",
    );
    user.check(
        "ACL WHOAMI",
        "-NOPERM this user has no permissions to run the 'acl|whoami' command\r\n",
    );
    admin.check("ACL SETUSER u +get +acl|whoami", "+OK\r\n");
    user.check("ACL WHOAMI", "$1\r\nu\r\n");
    user.check(
        "GET k",
        "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n",
    );
    admin.check("ACL SETUSER u ~k", "+OK\r\n");
    user.check("GET k", "$-1\r\n");
    admin.check("ACL SETUSER u -get", "+OK\r\n");
    user.check(
        "GET k",
        "-NOPERM this user has no permissions to run the 'get' command\r\n",
    );
    admin.check("ACL SETUSER u allcommands allkeys allchannels", "+OK\r\n");
    user.check("SET k v", "+OK\r\n");
    admin.check("ACL SETUSER u -set", "+OK\r\n");
    user.check(
        "SET k v",
        "-NOPERM this user has no permissions to run the 'set' command\r\n",
    );
}

#[test]
fn a_password_of_the_default_user_is_asked_of_new_connections_only() {
    let mut old = TestSession::new();
    old.check("PING", "+PONG\r\n");
    old.check(
        "AUTH pw",
        "-ERR AUTH <password> called without any password configured for the default user. Are you sure \
         your configuration is correct?\r\n",
    );
    old.check("AUTH a b c", "-ERR syntax error\r\n");
    old.engine
        .server
        .update_config(|config| config.requirepass = "pw".to_owned());
    old.check("PING", "+PONG\r\n");
    let mut new = old.another();
    new.check("PING", "-NOAUTH Authentication required.\r\n");
    new.check(
        "NOSUCH",
        "-ERR unknown command 'NOSUCH', with args beginning with: \r\n",
    );
    assert!(text(&mut new, "HELLO 3").starts_with("-NOAUTH HELLO must be called with the client already"));
    new.check(
        "AUTH wrong",
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
    );
    new.check("RESET", "+RESET\r\n");
    new.check("AUTH pw", "+OK\r\n");
    new.check("PING", "+PONG\r\n");
    new.check("RESET", "+RESET\r\n");
    new.check("PING", "-NOAUTH Authentication required.\r\n");
    new.check("QUIT", "+OK\r\n");
    assert!(new.client.close_after_reply);
    old.engine
        .server
        .update_config(|config| config.requirepass.clear());
    old.another().check("PING", "+PONG\r\n");
}

#[test]
fn a_default_user_that_is_off_lets_nobody_in() {
    let mut admin = TestSession::new();
    admin.check("ACL SETUSER default off", "+OK\r\n");
    let mut late = admin.another();
    late.check("PING", "-NOAUTH Authentication required.\r\n");
    admin.check("ACL SETUSER default on", "+OK\r\n");
    late.check("PING", "+PONG\r\n");
}

#[test]
fn hello_switches_the_protocol_and_tells_who_serves() {
    let mut client = TestSession::new();
    let id = client.client.id();
    let greeting = |proto: u8, kind: &str| {
        format!(
            "{kind}\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.4.0\r\n$5\r\nproto\r\n:{proto}\r\n\
             $2\r\nid\r\n:{id}\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n\
             $7\r\nmodules\r\n*0\r\n"
        )
    };
    client.check("HELLO", &greeting(2, "*14"));
    client.check("HELLO 3", &greeting(3, "%7"));
    client.check("HELLO", &greeting(3, "%7"));
    client.check("GET missing", "_\r\n");
    client.check("HELLO 4", "-NOPROTO unsupported protocol version\r\n");
    client.check(
        "HELLO x",
        "-ERR Protocol version is not an integer or out of range\r\n",
    );
    client.check("HELLO 3 WHAT", "-ERR Syntax error in HELLO option 'WHAT'\r\n");
    client.check("HELLO 2 SETNAME me", &greeting(2, "*14"));
    assert_eq!(client.client.shared.name().as_deref(), Some(b"me".as_slice()));
    client.check(
        "HELLO 2 SETNAME \u{7}",
        "-ERR Client names cannot contain spaces, newlines or special characters.\r\n",
    );
    client.check("ACL SETUSER u on >pw +@all", "+OK\r\n");
    client.check("HELLO 3 AUTH u pw", &greeting(3, "%7"));
    client.check("ACL WHOAMI", "$1\r\nu\r\n");
    client.check("RESET", "+RESET\r\n");
    client.check("ACL WHOAMI", "$7\r\ndefault\r\n");
    assert_eq!(client.client.shared.name(), None);
}

#[test]
fn hello_works_for_others_when_the_default_user_may_nothing() {
    let mut client = TestSession::new();
    client.check("ACL SETUSER u on >pw +@all", "+OK\r\n");
    client.check("ACL SETUSER default -@all", "+OK\r\n");
    client.check(
        "PING",
        "-NOPERM this user has no permissions to run the 'ping' command\r\n",
    );
    assert!(text(&mut client, "HELLO 2 AUTH u pw").starts_with("*14"));
    client.check("PING", "+PONG\r\n");
}

#[test]
fn removing_a_user_ends_its_connections() {
    let mut admin = TestSession::new();
    admin.check("ACL SETUSER u on nopass +@all", "+OK\r\n");
    let (mut one, mut two) = (admin.another(), admin.another());
    one.check("AUTH u x", "+OK\r\n");
    two.check("AUTH u x", "+OK\r\n");
    two.check("AUTH default x", "+OK\r\n");
    admin.check(
        "ACL DELUSER default",
        "-ERR The 'default' user cannot be removed\r\n",
    );
    admin.check("ACL DELUSER u nobody", ":1\r\n");
    assert_eq!(one.messages(), [Message::Close]);
    assert_eq!(two.messages(), []);
    one.check("PING", "-NOAUTH Authentication required.\r\n");
    assert!(one.client.close_after_reply);

    admin.check("ACL SETUSER self on nopass +@all", "+OK\r\n");
    admin.check("AUTH self x", "+OK\r\n");
    admin.check("ACL DELUSER self", ":1\r\n");
    assert!(admin.client.close_after_reply);
    assert_eq!(admin.messages(), []);
}

#[test]
fn exec_checks_its_commands_again() {
    let mut admin = TestSession::new();
    let mut user = admin.another();
    admin.check("ACL SETUSER u on nopass +@all ~*", "+OK\r\n");
    user.check("AUTH u x", "+OK\r\n");
    user.check("MULTI", "+OK\r\n");
    user.check("INCR n", "+QUEUED\r\n");
    user.check("GET n", "+QUEUED\r\n");
    admin.check("ACL SETUSER u -incr", "+OK\r\n");
    user.check(
        "EXEC",
        "*2\r\n-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC \
         call. This command is no longer allowed for the following reason: no permission to execute the \
         command or subcommand\r\n$-1\r\n",
    );
    assert_eq!(logged(&mut admin, "context"), "multi");
    assert_eq!(logged(&mut admin, "object"), "incr");
    user.check("MULTI", "+OK\r\n");
    user.check(
        "INCR n",
        "-NOPERM this user has no permissions to run the 'incr' command\r\n",
    );
    user.check(
        "EXEC",
        "-EXECABORT Transaction discarded because of previous errors.\r\n",
    );
    assert_eq!(logged(&mut admin, "count"), "2");
}

#[test]
fn the_log_tells_what_was_refused_and_groups_it() {
    let mut admin = TestSession::new();
    let mut user = admin.another();
    admin.check("ACL SETUSER u on >pw +set ~object:1", "+OK\r\n");
    user.check("AUTH u pw", "+OK\r\n");
    text(&mut user, "GET foo");
    text(&mut user, "GET foo");
    assert_eq!(logged(&mut admin, "count"), "2");
    for (field, value) in [
        ("reason", "command"),
        ("context", "toplevel"),
        ("object", "get"),
        ("username", "u"),
        ("age-seconds", "0"),
    ] {
        assert_eq!(logged(&mut admin, field), value, "{field}");
    }
    assert!(logged(&mut admin, "client-info").contains(" cmd=get user=u "));
    text(&mut user, "SET other 1");
    assert_eq!(logged(&mut admin, "reason"), "key");
    assert_eq!(logged(&mut admin, "object"), "other");
    user.check(
        "AUTH u no",
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
    );
    assert_eq!(logged(&mut admin, "reason"), "auth");
    assert_eq!(logged(&mut admin, "object"), "AUTH");
    admin.advance_ms(1500);
    assert_eq!(logged(&mut admin, "age-seconds"), "1.5");
    admin.check("ACL LOG RESET", "+OK\r\n");
    admin.check("ACL LOG", "*0\r\n");
    admin
        .engine
        .server
        .update_config(|config| config.acllog_max_len = 5);
    for at in 0..10 {
        text(&mut user, &format!("SET obj:{at} 1"));
    }
    assert!(text(&mut admin, "ACL LOG").starts_with("*5\r\n"));
    assert!(text(&mut admin, "ACL LOG 2").starts_with("*2\r\n"));
}

#[test]
fn sort_follows_patterns_only_for_those_who_may_read_every_key() {
    let mut admin = TestSession::new();
    let mut user = admin.another();
    admin.check("RPUSH mylist 1", ":1\r\n");
    admin.check("ACL SETUSER u on nopass (+sort ~mylist ~v*)", "+OK\r\n");
    user.check("AUTH u x", "+OK\r\n");
    user.check(
        "SORT mylist BY v*",
        "-ERR BY option of SORT denied due to insufficient ACL permissions.\r\n",
    );
    user.check(
        "SORT mylist GET v*",
        "-ERR GET option of SORT denied due to insufficient ACL permissions.\r\n",
    );
    user.check("SORT mylist BY nosort", "*1\r\n$1\r\n1\r\n");
    admin.check("ACL SETUSER u (+sort ~mylist %R~*)", "+OK\r\n");
    user.check("SORT mylist BY v*", "*1\r\n$1\r\n1\r\n");
}

#[test]
fn wrong_rules_change_nothing_and_say_why() {
    let mut admin = TestSession::new();
    for (rules, error) in [
        (
            "on (this-is-invalid)",
            "Error in ACL SETUSER modifier '(this-is-invalid)': Syntax error",
        ),
        ("on (", "Unmatched parenthesis in acl selector starting at '('."),
        (
            "on +nosuch",
            "Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL",
        ),
        (
            "#12",
            "Error in ACL SETUSER modifier '#12': The password hash must be exactly 64 characters and \
             contain only lowercase hexadecimal characters",
        ),
        (
            "<x",
            "Error in ACL SETUSER modifier '<x': The password you are trying to remove from the user does \
             not exist",
        ),
    ] {
        admin.check(&format!("ACL SETUSER u {rules}"), &format!("-ERR {error}\r\n"));
    }
    admin.check("ACL GETUSER u", "$-1\r\n");
    let reply = admin.run(&[b"ACL", b"SETUSER", b"a b"]);
    assert_eq!(
        reply,
        b"-ERR Usernames can't contain spaces or null characters\r\n"
    );
}

#[test]
fn the_users_file_is_written_and_read_back() {
    let folder = nagaya_testkit::Folder::new("acl");
    let path = folder.path().join("users.acl");
    let mut admin = TestSession::new();
    assert!(text(&mut admin, "ACL LOAD").starts_with("-ERR This Redis instance is not configured to use"));
    admin
        .engine
        .server
        .update_config(|config| config.acl_file = Some(path.clone()));
    admin.check("ACL SETUSER u on nopass +get ~a (+set ~b)", "+OK\r\n");
    admin.check("ACL SAVE", "+OK\r\n");
    let saved = "user default on nopass ~* &* +@all\n\
                 user u on nopass ~a resetchannels -@all +get (~b resetchannels -@all +set)\n";
    assert_eq!(std::fs::read_to_string(&path).unwrap(), saved);
    let mut user = admin.another();
    user.check("AUTH u x", "+OK\r\n");
    admin.check("ACL SETUSER v on", "+OK\r\n");
    admin.check("ACL LOAD", "+OK\r\n");
    admin.check("ACL USERS", "*2\r\n$7\r\ndefault\r\n$1\r\nu\r\n");
    assert_eq!(user.messages(), []);
    user.check("GET a", "$-1\r\n");
    std::fs::write(&path, format!("{saved}user u off\n")).unwrap();
    assert!(text(&mut admin, "ACL LOAD").contains("Duplicate user 'u' found on line 3."));
    admin.check("ACL USERS", "*2\r\n$7\r\ndefault\r\n$1\r\nu\r\n");
}

#[test]
fn channels_need_rights_too() {
    const DENIED: &str =
        "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n";
    let mut admin = TestSession::new();
    let mut user = admin.another();
    admin.check("ACL SETUSER u on nopass +@all &foo:1 &bar:*", "+OK\r\n");
    user.check("AUTH u x", "+OK\r\n");
    user.check("PUBLISH foo:1 bar:x", ":0\r\n");
    user.check("SPUBLISH bar:2 zap:x", ":0\r\n");
    for request in [
        "PUBLISH zap:3 foo:1",
        "SPUBLISH zap:3 foo:1",
        "SUBSCRIBE foo:1 zap:3",
        "SSUBSCRIBE zap:3",
        "PSUBSCRIBE bar:1",
    ] {
        user.check(request, DENIED);
    }
    assert_eq!(logged(&mut admin, "reason"), "channel");
    assert_eq!(logged(&mut admin, "object"), "bar:1");
    assert!(text(&mut user, "PSUBSCRIBE bar:*").starts_with("*3\r\n$10\r\npsubscribe"));
    assert!(text(&mut user, "UNSUBSCRIBE zap:3").starts_with("*3\r\n$11\r\nunsubscribe"));
}

#[test]
fn listeners_are_closed_when_they_lose_the_right_to_listen() {
    let mut admin = TestSession::new();
    for subscribe in ["SUBSCRIBE foo:1", "SSUBSCRIBE foo:1", "PSUBSCRIBE foo:1"] {
        let (mut user, mut other) = (admin.another(), admin.another());
        admin.check(
            "ACL SETUSER u on nopass +@all resetchannels &foo:1 &bar",
            "+OK\r\n",
        );
        user.check("AUTH u x", "+OK\r\n");
        text(&mut user, subscribe);
        text(&mut other, subscribe);
        admin.check("ACL SETUSER u &baz", "+OK\r\n");
        admin.check("ACL SETUSER u allchannels", "+OK\r\n");
        admin.check("ACL SETUSER u resetchannels &foo:1", "+OK\r\n");
        assert_eq!(user.messages(), []);
        admin.check("ACL SETUSER u resetchannels &bar", "+OK\r\n");
        assert_eq!(user.messages(), [Message::Close]);
        assert_eq!(other.messages(), []);
    }
    let mut anybody = admin.another();
    text(&mut anybody, "SUBSCRIBE foo");
    admin.check("ACL SETUSER default resetchannels", "+OK\r\n");
    assert_eq!(anybody.messages(), [Message::Close]);
}

#[test]
fn reset_ends_all_listening() {
    let mut client = TestSession::new();
    text(&mut client, "SUBSCRIBE a");
    client.check("PING", "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    client.check("PING hi", "*2\r\n$4\r\npong\r\n$2\r\nhi\r\n");
    client.check("RESET", "+RESET\r\n");
    client.check("PING", "+PONG\r\n");
    client.check("PUBLISH a x", ":0\r\n");
}
