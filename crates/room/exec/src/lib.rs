//! Sessions, ACL checks, dispatch, transactions and scripts.
