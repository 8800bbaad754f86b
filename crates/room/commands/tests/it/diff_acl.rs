//! Users, logins and rights beside a real server.
//!
//! The server is not that of the other tests, because users belong to all its databases.

use nagaya_resp::Proto;
use nagaya_testkit::Redis;

use crate::harness::{Compare, Pair};

fn run(pair: &mut Pair, requests: &[&str]) {
    for request in requests {
        pair.same(request);
    }
}

#[test]
fn rules_are_taken_and_refused_alike() {
    let server = Redis::with_config(&["databases 1024"]);
    for proto in [Proto::Resp2, Proto::Resp3] {
        let mut pair = Pair::with(&server, proto);
        run(
            &mut pair,
            &[
                "ACL SETUSER diff-a reset",
                "ACL GETUSER diff-a",
                "ACL SETUSER diff-a on nopass %R~read* %W~write* ~both &chan* +get",
                "ACL GETUSER diff-a",
                "ACL SETUSER diff-a (+mget ~a) ( %RW~b +copy )",
                "ACL GETUSER diff-a",
                "ACL SETUSER diff-a clearselectors resetkeys resetchannels resetpass off nocommands",
                "ACL GETUSER diff-a",
                "ACL SETUSER diff-a >secret >secret #34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4e6",
                "ACL GETUSER diff-a",
                "ACL SETUSER diff-a <secret skip-sanitize-payload",
                "ACL GETUSER diff-a",
                "ACL SETUSER diff-a <secret",
                "ACL SETUSER diff-a !34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4e6",
                "ACL SETUSER diff-a #short",
                "ACL SETUSER diff-a +nosuch",
                "ACL SETUSER diff-a -nosuch",
                "ACL SETUSER diff-a +@nosuch",
                "ACL SETUSER diff-a +acl|nosuch",
                "ACL SETUSER diff-a +acl|list|x",
                "ACL SETUSER diff-a +get|a|b",
                "ACL SETUSER diff-a -select|0",
                "ACL SETUSER diff-a +select|",
                "ACL SETUSER diff-a +select|0 +select|0 +select|1",
                "ACL GETUSER diff-a",
                "ACL SETUSER diff-a %X~a",
                "ACL SETUSER diff-a nonsense",
                "ACL SETUSER diff-a ~* ~a",
                "ACL SETUSER diff-a &* &a",
                "ACL SETUSER diff-a (~a",
                "ACL SETUSER diff-a )",
                "ACL SETUSER diff-a (nonsense)",
                "ACL SETUSER diff-a (~* ~a)",
                "ACL SETUSER diff-a +@all",
                "ACL GETUSER diff-a",
                "ACL SETUSER diff-a -acl|setuser",
                "ACL GETUSER diff-a",
                "ACL SETUSER diff-a -@all +object|encoding +object",
                "ACL GETUSER diff-a",
                "ACL GETUSER default",
                "ACL GETUSER nobody",
                "ACL DELUSER diff-a nobody",
                "ACL DELUSER default",
            ],
        );
    }
}

#[test]
fn rights_decide_alike() {
    let server = Redis::with_config(&["databases 1024"]);
    let mut pair = Pair::with(&server, Proto::Resp2);
    pair.same("ACL SETUSER diff-d on nopass resetchannels &chan +@all %R~read* %W~write* %RW~rw*");
    for request in [
        "GET read",
        "GET write",
        "GET nothing",
        "SET write v",
        "SET write v GET",
        "SET rw v get",
        "COPY read write",
        "COPY write read",
        "SORT read STORE write",
        "SORT read STORE read",
        "SORT write STORE write",
        "HEXISTS read f",
        "HEXISTS write f",
        "HEXISTS nothing f",
        "SINTERCARD 2 read read",
        "SINTERCARD 2 write read",
        "LMOVE rw write LEFT RIGHT",
        "LMOVE read write LEFT RIGHT",
        "TOUCH write",
        "EXISTS nothing",
        "TYPE nothing",
        "STRLEN write",
        "XREAD STREAMS read nothing 0 0",
        "XADD write * f v",
        "RENAME rw write",
        "RENAME rw read",
        "LMPOP 1 rw LEFT",
        "BLPOP rw read 0",
        "DEL read",
        "OBJECT ENCODING read",
        "EXPIRE write 10",
        "RESTORE write 0 x",
        "DUMP read",
        "GEORADIUS read 1 2 3 m STOREDIST write",
        "GEORADIUS read1 1 2 3 m STORE read2",
        "GEORADIUS write1 1 2 3 m STORE write2",
        "ZINTERCARD 2 write read",
        "ZUNIONSTORE write 2 read rw",
        "PFCOUNT read write",
        "BITFIELD read GET u4 0",
        "BITFIELD read SET u4 0 1",
        "BITFIELD read nonsense",
        "BITFIELD write INCRBY u4 0 1",
        "PUBLISH chan x",
        "PUBLISH other x",
        "SUBSCRIBE chan other",
        "SUNSUBSCRIBE other",
        "PSUBSCRIBE chan",
        "PSUBSCRIBE ch*",
        "GET",
        "NOSUCH x",
        "ACL NOSUCH",
        "ACL WHOAMI",
    ] {
        pair.same(&format!("ACL DRYRUN diff-d {request}"));
    }
    pair.same("ACL SETUSER diff-d -@all");
    pair.same("ACL DRYRUN diff-d GET read");
    pair.same("ACL DRYRUN diff-d AUTH x y");
    pair.same("ACL DRYRUN diff-d ACL WHOAMI");
    pair.same("ACL DRYRUN nobody GET read");
    pair.same("ACL DELUSER diff-d");
}

#[test]
fn logins_and_refusals_read_alike() {
    let server = Redis::with_config(&["databases 1024"]);
    let mut pair = Pair::with(&server, Proto::Resp2);
    run(
        &mut pair,
        &[
            "AUTH secret",
            "AUTH a b c",
            "AUTH nobody secret",
            "ACL SETUSER diff-l >secret",
            "AUTH diff-l secret",
            "ACL SETUSER diff-l on",
            "AUTH diff-l wrong",
            "AUTH diff-l secret",
            "ACL WHOAMI",
            "AUTH default x",
            "ACL SETUSER diff-l +acl|whoami +get +select|0 +multi +exec ~a",
            "AUTH diff-l secret",
            "ACL WHOAMI",
            "GET a",
            "GET b",
            "SET a 1",
            "SELECT 0",
            "SELECT 1",
            "MULTI",
            "GET b",
            "EXEC",
            "HELLO 2 AUTH diff-l wrong",
            "HELLO 4",
            "HELLO x",
            "HELLO 2 WHAT",
            "HELLO 2 AUTH diff-l",
            "HELLO 2 SETNAME",
            "RESET",
            "ACL WHOAMI",
            "PING",
            "PING hello",
            "PING a b",
            "ECHO hi",
            "ASKING",
            "READONLY",
            "READWRITE",
            "SELECT x",
            "SELECT 99999999999",
            "SELECT 1024",
            "ACL DELUSER diff-l",
        ],
    );
    for proto in ["2", "3"] {
        // The connection's number is our own.
        pair.check(&[b"HELLO", proto.as_bytes()], Compare::Shape);
    }
}

#[test]
fn the_other_subcommands_reply_alike() {
    let server = Redis::with_config(&["databases 1024"]);
    let mut pair = Pair::with(&server, Proto::Resp2);
    run(
        &mut pair,
        &[
            "ACL CAT",
            "ACL CAT nosuch",
            "ACL CAT a b",
            "ACL GENPASS 0",
            "ACL GENPASS 5000",
            "ACL GENPASS x",
            "ACL GENPASS 1 2",
            "ACL LOG x",
            "ACL LOG 1 2",
            "ACL LOAD",
            "ACL SAVE",
            "ACL HELP x",
            "ACL",
            "ACL NOSUCH",
            "ACL GETUSER",
        ],
    );
    pair.check(&[b"ACL", b"GENPASS"], Compare::Shape);
    pair.check(&[b"ACL", b"CAT", b"TRANSACTION"], Compare::Unordered);
    let (ours, _) = pair.run(&[b"ACL", b"GENPASS", b"5"]);
    assert_eq!(ours.len(), b"$2\r\nff\r\n".len());
}
