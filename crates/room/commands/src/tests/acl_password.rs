//! CONFIG SET requirepass: the password of the user `default`.

use crate::testing::TestSession;

const NOAUTH: &str = "-NOAUTH Authentication required.\r\n";
const WRONGPASS: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
const ONE: &str = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";

#[test]
fn a_password_set_by_config_is_asked_of_new_connections_and_not_of_those_before() {
    let mut old = TestSession::new();
    old.check("PING", "+PONG\r\n");
    old.check("CONFIG SET requirepass one", "+OK\r\n");
    old.check("PING", "+PONG\r\n");
    let mut new = old.another();
    new.check("PING", NOAUTH);
    new.check("GET k", NOAUTH);
    assert!(new.text("HELLO 3").starts_with("-NOAUTH"));
    new.check("AUTH wrong", WRONGPASS);
    new.check("PING", NOAUTH);
    new.check("AUTH one", "+OK\r\n");
    new.check("PING", "+PONG\r\n");
    assert!(new.another().text("HELLO 2 AUTH default one").starts_with("*14"));
    old.check(
        "CONFIG GET requirepass",
        "*2\r\n$11\r\nrequirepass\r\n$3\r\none\r\n",
    );
    let shown = old.text("ACL GETUSER default");
    assert!(shown.contains(ONE) && !shown.contains("nopass"), "{shown}");
}

#[test]
fn after_a_rotation_the_old_password_is_wrong_and_an_empty_one_asks_nobody() {
    let mut admin = TestSession::new();
    admin.check("CONFIG SET requirepass one", "+OK\r\n");
    admin.check("ACL SETUSER default >extra", "+OK\r\n");
    admin.check("CONFIG SET requirepass two", "+OK\r\n");
    let mut new = admin.another();
    new.check("AUTH one", WRONGPASS);
    new.check("AUTH extra", WRONGPASS);
    new.check("AUTH default two", "+OK\r\n");
    let empty: [&[u8]; 4] = [b"CONFIG", b"SET", b"requirepass", b""];
    assert_eq!(admin.run(&empty), b"+OK\r\n");
    admin.another().check("PING", "+PONG\r\n");
    let shown = admin.text("ACL GETUSER default");
    assert!(
        shown.contains("nopass") && shown.contains("passwords\r\n*0"),
        "{shown}"
    );
}

#[test]
fn the_same_password_again_undoes_what_acl_setuser_did_to_it() {
    let mut admin = TestSession::new();
    admin.check("CONFIG SET requirepass one", "+OK\r\n");
    admin.check("ACL SETUSER default nopass", "+OK\r\n");
    admin.another().check("PING", "+PONG\r\n");
    // Other settings leave the user alone.
    admin.check("CONFIG SET timeout 5", "+OK\r\n");
    admin.another().check("PING", "+PONG\r\n");
    admin.check("CONFIG SET requirepass one", "+OK\r\n");
    admin.another().check("PING", NOAUTH);
}

#[test]
fn a_password_beside_a_bad_parameter_is_not_set() {
    let mut admin = TestSession::new();
    for request in [
        "CONFIG SET requirepass one timeout x",
        "CONFIG SET timeout x requirepass one",
        "CONFIG SET requirepass one nosuch 1",
        "CONFIG SET requirepass one requirepass two",
        "CONFIG SET requirepass one daemonize yes",
    ] {
        assert!(admin.text(request).starts_with("-ERR"), "{request}");
        admin.another().check("PING", "+PONG\r\n");
        admin.check("CONFIG GET requirepass", "*2\r\n$11\r\nrequirepass\r\n$0\r\n\r\n");
    }
    let not_text: [&[u8]; 4] = [b"CONFIG", b"SET", b"requirepass", b"\xff\xfe"];
    assert!(admin.run(&not_text).starts_with(b"-ERR"));
    admin.another().check("PING", "+PONG\r\n");
}

#[test]
fn a_password_set_in_a_transaction_counts_from_exec_on() {
    let mut admin = TestSession::new();
    admin.check("MULTI", "+OK\r\n");
    admin.check("CONFIG SET requirepass one", "+QUEUED\r\n");
    admin.check("PING", "+QUEUED\r\n");
    admin.another().check("PING", "+PONG\r\n");
    admin.check("EXEC", "*2\r\n+OK\r\n+PONG\r\n");
    admin.another().check("PING", NOAUTH);
    admin.check("PING", "+PONG\r\n");
}
