//! Requests are held against rights.

use nagaya_connections::acl::check::Reason;
use nagaya_connections::acl::rules::Rules;
use nagaya_resp::ArgVec;

use crate::table;

#[track_caller]
fn check(rules: &[&str], request: &str, expected: Result<(), (Reason, usize)>) {
    let table = &table::registry().table;
    let mut user = Rules::new(table, false);
    for rule in rules {
        user.apply(table, rule.as_bytes(), false).unwrap();
    }
    let owned: ArgVec = request.split(' ').map(str::as_bytes).collect();
    let args = owned.as_args();
    let found = user.check(table.find_request(&args).unwrap(), &args);
    assert_eq!(
        found.map_err(|denied| (denied.reason, denied.at)),
        expected,
        "{request}"
    );
}

#[test]
fn the_command_counts_before_its_keys() {
    check(&["~*"], "get a", Err((Reason::Command, 0)));
    check(&["+get"], "get a", Err((Reason::Key, 1)));
    check(&["+get", "~a"], "get a", Ok(()));
    check(&[], "auth x", Ok(()));
}

#[test]
fn a_first_argument_alone_can_be_allowed() {
    check(&["+select|0"], "select 0", Ok(()));
    check(&["+select|0"], "select 1", Err((Reason::Command, 0)));
}

#[test]
fn the_selector_that_came_closest_gives_the_reason() {
    let rules = ["+mget", "~key", "(+mget ~key ~otherkey)"];
    check(&rules, "get key", Err((Reason::Command, 0)));
    check(&rules, "mget otherkey someotherkey", Err((Reason::Key, 2)));
    check(&rules, "mget key otherkey someotherkey", Err((Reason::Key, 3)));
}

#[test]
fn rights_of_two_selectors_do_not_add_up() {
    let rules = ["(%R~read* +@all)", "(%W~write* +@all)"];
    check(&rules, "copy read write", Err((Reason::Key, 2)));
    check(&rules, "get read", Ok(()));
    check(&["%R~read*", "%W~write*", "+@all"], "copy read write", Ok(()));
}

#[test]
fn what_set_and_sort_do_with_a_key_depends_on_their_arguments() {
    let rules = ["+@all", "%R~read*", "%W~write*"];
    check(&rules, "set write v", Ok(()));
    check(&rules, "set write v GET", Err((Reason::Key, 1)));
    check(&rules, "set read v", Err((Reason::Key, 1)));
    check(&rules, "sort read store write", Ok(()));
    check(&rules, "sort read store read", Err((Reason::Key, 3)));
    check(&rules, "sort write store write", Err((Reason::Key, 1)));
    check(&rules, "bitfield read get u4 0 overflow sat get u4 0", Ok(()));
    check(&rules, "bitfield read get u4 0 set u4 0 1", Err((Reason::Key, 1)));
    check(&rules, "bitfield write get u4 0", Err((Reason::Key, 1)));
}
