//! ACL users of a server: kept over restarts, read from a named file, and never half.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;

use nagaya_testkit::RespClient;

use super::*;

struct Talk(RespClient);

impl Talk {
    fn to(address: SocketAddr) -> Talk {
        let client = RespClient::connect(address).unwrap();
        client.set_timeout(LIMIT).unwrap();
        Talk(client)
    }

    #[track_caller]
    fn expect(&mut self, line: &str, reply: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let found = format!("{:?}", self.0.cmd(&words).unwrap());
        assert!(found.starts_with(reply), "{line}: {found}");
    }
}

#[test]
fn users_and_the_password_of_default_are_there_after_a_restart() {
    let house = house().start();
    let address = house.address("room");
    let mut admin = Talk::to(address);
    admin.expect("DEBUG SLEEP 0", "-ERR DEBUG command not allowed");
    admin.expect("ACL SETUSER shop on >pw ~{user:* +@all -@dangerous", "+OK");
    admin.expect("CONFIG SET requirepass secret appendfsync always", "+OK");
    Talk::to(address).expect("PING", "-NOAUTH");
    let file = house.data().join("room/users.acl");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(house.shut_down().code(), Some(0));
    house.restart();
    let mut shop = Talk::to(address);
    shop.expect("PING", "-NOAUTH");
    shop.expect("AUTH shop pw", "+OK");
    shop.expect("SET {user:7}name Aiko", "+OK");
    shop.expect("SET other 1", "-NOPERM");
    shop.expect("ROOM.STATUS user:7", "[\"tag\"");
    shop.expect("ROOM.STATUS other", "-NOPERM");
    shop.expect("ROOM.EVICT other", "-NOPERM");
    shop.expect("ROOM.TAGS HOTTEST", "-NOPERM");
    let mut admin = Talk::to(address);
    admin.expect("AUTH secret", "+OK");
    admin.expect("CONFIG GET aclfile", "[\"aclfile\", \"/");
    let reported = run(["room", "doctor", "--data", house.data().to_str().unwrap()]);
    assert!(
        !reported.stdout.contains("users.acl belongs to nothing"),
        "{}",
        reported.stdout
    );
}

#[test]
fn a_password_of_the_settings_is_the_only_one_after_a_restart() {
    let first = house().env("NAGAYA_ROOM__PASSWORD", "from-the-settings").start();
    let address = first.address("room");
    let mut admin = Talk::to(address);
    admin.expect("AUTH from-the-settings", "+OK");
    admin.expect("CONFIG SET requirepass another", "+OK");
    Talk::to(address).expect("AUTH from-the-settings", "-WRONGPASS");
    assert_eq!(first.shut_down().code(), Some(0));
    first.restart();
    Talk::to(address).expect("AUTH another", "-WRONGPASS");
    Talk::to(address).expect("AUTH from-the-settings", "+OK");
}

#[test]
fn a_named_users_file_is_read_at_the_start_which_fails_on_a_bad_line() {
    let folder = Folder::new("users");
    let file = folder.path().join("users.acl");
    let data = folder.path().join("data");
    let start = || {
        let set = [("NAGAYA_ROOM__ACL_FILE", file.to_str().unwrap())];
        let free = "127.0.0.1:0";
        let args = [
            "up",
            "--room-listen",
            free,
            "--http-listen",
            free,
            "--fanout-listen",
            free,
            "--data",
        ];
        run_with([&args[..], &[data.to_str().unwrap()]].concat(), &set)
    };
    let missing = start();
    assert_eq!(missing.code, Some(1));
    assert!(
        missing.stderr.contains("users.acl': No such file"),
        "{}",
        missing.stderr
    );
    std::fs::write(
        &file,
        "user default on nopass ~* &* +@all\nuser shop on +nosuch\n",
    )
    .unwrap();
    let wrong = start();
    assert_eq!(wrong.code, Some(1));
    assert!(
        wrong
            .stderr
            .contains("users.acl:2: Error in applying operation '+nosuch'"),
        "{}",
        wrong.stderr
    );

    std::fs::write(&file, "user default off\nuser shop on >pw ~* +@all\n").unwrap();
    let house = house().env("NAGAYA_ROOM__ACL_FILE", &file).start();
    let mut shop = Talk::to(house.address("room"));
    shop.expect("PING", "-NOAUTH");
    shop.expect("AUTH shop pw", "+OK");
    shop.expect("ACL SETUSER later on", "+OK");
    assert!(
        !std::fs::read_to_string(&file).unwrap().contains("later"),
        "only ACL SAVE writes it"
    );
    shop.expect("ACL SAVE", "+OK");
    assert!(std::fs::read_to_string(&file).unwrap().contains("user later on"));
}
