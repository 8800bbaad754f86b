//! Rules change a set of rights.

use nagaya_command_spec::spec::{ACCESS, KeyFlags, UPDATE};
use nagaya_connections::acl::selector::{Access, RuleError, Selector};

use crate::table;

fn with(rules: &str) -> Result<Selector, RuleError> {
    Selector::parse(&table::registry().table, format!("({rules})").as_bytes(), false)
}

fn allows(selector: &Selector, name: &str) -> bool {
    selector
        .commands
        .has(table::find_full(name.as_bytes()).unwrap().number)
}

#[test]
fn a_container_carries_its_subcommands() {
    let selector = with("+acl -acl|setuser").unwrap();
    assert!(allows(&selector, "acl|whoami") && !allows(&selector, "acl|setuser"));
    let selector = with("+acl|whoami").unwrap();
    assert!(!allows(&selector, "acl") && allows(&selector, "acl|whoami"));
}

#[test]
fn categories_are_added_and_taken_away() {
    let selector = with("+@all -@string +incr").unwrap();
    assert!(allows(&selector, "incr") && !allows(&selector, "get") && allows(&selector, "ping"));
    assert!(!selector.all_commands && selector.began_with_all);
}

#[test]
fn rules_that_make_no_sense_are_refused() {
    use RuleError::*;
    for (rules, error) in [
        ("+nosuch", UnknownName),
        ("-get|x", UnknownName),
        ("+@nosuch", UnknownName),
        ("+acl|nosuch", UnknownName),
        ("+get|a|b", UnknownName),
        ("+acl|whoami|x", FirstArgOfSubcommand),
        ("+select|", Syntax),
        ("%X~a", Syntax),
        ("%~a", Syntax),
        ("%RR~a", Syntax),
        ("%R", Syntax),
        ("what", Syntax),
        ("~* ~a", PatternAfterAllKeys),
        ("&* &a", PatternAfterAllChannels),
    ] {
        assert_eq!(with(rules), Err(error), "{rules}");
    }
}

#[test]
fn key_patterns_know_reading_from_writing() {
    let selector = with("%R~read* %W~write* %RW~both").unwrap();
    let (read, write) = (Access::needed(ACCESS), Access::needed(UPDATE));
    assert!(selector.allows_key(b"read1", read) && !selector.allows_key(b"read1", write));
    assert!(selector.allows_key(b"write1", write) && !selector.allows_key(b"write1", read));
    assert!(selector.allows_key(b"both", Access::needed(ACCESS.and(UPDATE))));
    // A command that neither reads nor writes content asks for any right at all.
    assert!(selector.allows_key(b"write1", Access::needed(KeyFlags(0))));
    assert!(!selector.allows_key(b"other", Access::needed(KeyFlags(0))));
}

#[test]
fn a_pattern_to_listen_to_must_be_in_the_rules_literally() {
    let selector = with("&news:*").unwrap();
    assert!(selector.allows_channel(b"news:1", false));
    assert!(selector.allows_channel(b"news:*", true));
    assert!(!selector.allows_channel(b"news:1", true));
}
