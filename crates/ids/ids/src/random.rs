//! Random bytes of the system.

use rustix::rand::{GetRandomFlags, getrandom};

/// Returns 32 random hexadecimal digits: a name that no other process draws.
pub(crate) fn random_hex() -> String {
    let mut bytes = [0_u8; 16];
    fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Fills a buffer. The kernel's generator does not fail once the system is up.
pub(crate) fn fill(mut rest: &mut [u8]) {
    while !rest.is_empty() {
        // It fills 256 bytes in one go; a signal may cut longer requests short.
        let filled = getrandom(&mut *rest, GetRandomFlags::empty()).unwrap_or(0);
        assert!(filled > 0, "the system gives no random numbers");
        rest = &mut rest[filled..];
    }
}
