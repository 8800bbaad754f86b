//! What the senders of accesses and the collector agree on.

/// The command that carries accesses: `ROOM.NOTE tag read_at_ms written_at_ms ...`, 0 for an unknown time.
pub(super) const NOTE: &str = "ROOM.NOTE";
