//! Rules change a user.

use nagaya_connections::acl::rules::{Rules, Unmatched, join_selectors};
use nagaya_connections::acl::selector::RuleError;

use crate::table;

fn with(rules: &[&str]) -> Result<Rules, RuleError> {
    let table = &table::registry().table;
    let mut user = Rules::new(table, false);
    for rule in rules {
        user.apply(table, rule.as_bytes(), false)?;
    }
    Ok(user)
}

#[test]
fn only_an_enabled_user_with_the_right_password_is_accepted() {
    let user = with(&[">one", "on", ">two"]).unwrap();
    assert!(user.accept(b"one") && user.accept(b"two") && !user.accept(b"three"));
    assert!(!with(&[">one"]).unwrap().accept(b"one"));
    assert!(!with(&["nopass"]).unwrap().accept(b"any"));
    assert!(with(&["on", "nopass"]).unwrap().accept(b"any"));
    assert!(!with(&["on"]).unwrap().accept(b""));
}

#[test]
fn passwords_are_kept_as_hashes_and_removed_by_either_form() {
    let digits = "34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4e6";
    let user = with(&["on", &format!("#{digits}")]).unwrap();
    assert!(user.accept(b"passwd4"));
    assert!(
        with(&[">passwd4", &format!("!{digits}")])
            .unwrap()
            .passwords
            .is_empty()
    );
    assert_eq!(with(&["<passwd4"]), Err(RuleError::NoSuchPassword));
    assert_eq!(with(&["#1234"]), Err(RuleError::BadHash));
}

#[test]
fn selectors_may_be_spread_over_arguments() {
    let join = |rules: &[&str]| {
        let rules: Vec<&[u8]> = rules.iter().map(|rule| rule.as_bytes()).collect();
        join_selectors(&rules)
    };
    let joined = join(&["on", "(~a", "+get", ")", "( ~b)"]).unwrap();
    assert_eq!(
        joined,
        [b"on".to_vec(), b"(~a +get )".to_vec(), b"( ~b)".to_vec()]
    );
    assert_eq!(join(&["on", "(~a", "+get"]), Err(Unmatched(1)));
}

#[test]
fn reset_leaves_nothing_of_the_old_rules() {
    let user = with(&["on", ">a", "+@all", "~*", "&*", "(+get ~x)", "reset"]).unwrap();
    assert_eq!(
        user,
        Rules {
            sanitize: Some(true),
            ..Rules::new(&table::registry().table, false)
        }
    );
}
