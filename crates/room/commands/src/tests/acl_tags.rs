//! ROOM.* under key patterns: a tag is reached by who may use all keys in its braces.

use crate::testing::TestSession;

const NO_KEY: &str = "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n";
const NO_COLD_TIER: &str = "-ERR this engine has no cold tier\r\n";

fn user(rules: &str) -> TestSession {
    let mut admin = TestSession::new();
    admin.check("SET {user:1}a 1", "+OK\r\n");
    admin.check("SET {admin}a 1", "+OK\r\n");
    admin.check(&format!("ACL SETUSER u on nopass +@all {rules}"), "+OK\r\n");
    let mut user = admin.another();
    user.check("AUTH u x", "+OK\r\n");
    user
}

#[test]
fn a_tag_is_out_of_reach_unless_all_its_keys_are_in_it() {
    for (rules, tag, reaches) in [
        ("~{user:*", "user:1", true),
        ("~{user:*", "{user:1}a", true),
        ("~{user:*", "x{user:1}", true),
        ("~{user:*", "admin", false),
        ("~{user:*", "{admin}user:1", false),
        ("~{user:1}*", "user:1", true),
        ("~{user:1}*", "user:12", false),
        ("~{user:1}:profile", "user:1", false),
        ("~user:*", "user:1", false),
        ("~*:1}", "user:1", false),
        ("~*", "admin", true),
        ("%R~{user:*", "user:1", false),
        ("%W~{user:*", "user:1", false),
        ("~only}this", "only}this", true),
        ("~only*", "only}this", true),
    ] {
        let mut user = user(rules);
        let expected = if reaches { NO_COLD_TIER } else { NO_KEY };
        user.check(&format!("ROOM.EVICT {tag}"), expected);
    }
}

#[test]
fn looking_needs_reading_erasing_needs_writing_and_evicting_both() {
    for (rules, looks, erases) in [("%R~{user:*", true, false), ("%W~{user:*", false, true)] {
        let mut user = user(rules);
        let reply = |allowed: bool| if allowed { NO_COLD_TIER } else { NO_KEY };
        user.check("ROOM.STATUS user:1", reply(looks));
        user.check("ROOM.WARM user:1", if looks { ":0\r\n" } else { NO_KEY });
        user.check("ROOM.ERASE user:1", reply(erases));
    }
    user("~{user:*").check("ROOM.WARM user:1 admin", NO_KEY);
}

#[test]
fn tags_are_listed_by_a_beginning_that_is_all_in_reach() {
    let mut limited = user("~{user:*");
    assert!(limited.text("ROOM.TAGS PREFIX user:").starts_with("*2"));
    assert!(limited.text("ROOM.TAGS PREFIX user:1 LIMIT 5").contains("user:1"));
    for request in [
        "ROOM.TAGS PREFIX use",
        "ROOM.TAGS PREFIX admin",
        "ROOM.TAGS PREFIX user:}",
        "ROOM.TAGS HOTTEST",
        "ROOM.TAGS BIGGEST",
        "ROOM.TAGS PREFIX",
    ] {
        limited.check(request, NO_KEY);
    }
    let mut free = user("%R~*");
    assert!(free.text("ROOM.TAGS HOTTEST").contains("admin"));
    assert!(user("%W~*").text("ROOM.TAGS HOTTEST").starts_with("-NOPERM"));
}

#[test]
fn selectors_do_not_lend_each_other_tags() {
    let mut user = user("resetkeys -@all (+room.status ~{user:*) (+room.evict ~{admin}*)");
    user.check("ROOM.STATUS user:1", NO_COLD_TIER);
    user.check("ROOM.STATUS admin", NO_KEY);
    user.check("ROOM.EVICT admin", NO_COLD_TIER);
    user.check("ROOM.EVICT user:1", NO_KEY);
    assert!(user.text("ROOM.ERASE user:1").starts_with("-NOPERM"));
}
