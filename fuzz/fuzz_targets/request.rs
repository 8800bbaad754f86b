//! Any bytes, cut into reads in several ways, must parse into the same requests.

#![no_main]
#![allow(dead_code, reason = "the checks of the other target come along")]

#[path = "../../crates/base/resp/tests/it/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::check_request(bytes));
