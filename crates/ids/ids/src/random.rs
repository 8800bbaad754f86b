//! Names that no other process draws.

/// Returns 32 random hexadecimal digits.
pub(crate) fn random_hex() -> String {
    let mut bytes = [0_u8; 16];
    // The kernel's generator does not fail once the system is up, and fills 16 bytes in one go.
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert_eq!(
        filled.ok(),
        Some(bytes.len()),
        "the system gives no random numbers"
    );
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
