//! Users are read from a file.

use nagaya_connections::acl::file::parse;

#[test]
fn lines_become_users() {
    let text = b"user alice on (+get ~rw*)\r\n\n  user bob on nopass +set %W~w* (+get %R~r*)\n";
    let users = parse(&crate::table::registry().table, text, "f", false).unwrap();
    assert_eq!(users[b"alice".as_slice()].selectors.len(), 2);
    assert!(users[b"bob".as_slice()].nopass);
}

#[test]
fn every_wrong_line_is_named_and_nothing_is_kept() {
    let text = b"user a on\nuser a off\nsomething\nuser b +nosuch what ~* ~x\nuser c (+get";
    let errors = parse(&crate::table::registry().table, text, "f", false).unwrap_err();
    assert_eq!(
        errors,
        "WARNING: Duplicate user 'a' found on line 2. f:3 should start with user keyword followed by \
         the username. f:4: Error in applying operation '+nosuch': Unknown command or category name in \
         ACL. f:4: Syntax error. f:5: Unmatched parenthesis in selector definition.WARNING: ACL errors \
         detected, no change to the previously active ACL rules was performed"
    );
}
